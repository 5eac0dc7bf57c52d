"""Stored elements: decode and encode against torch, over every bit pattern or a dense sample."""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest
import torch
from llvmlite import ir

from numjit import dtypes
from numjit.codegen.machine import HOST
from numjit.codegen.storage import convert, decode, encode, lane_type, value_type

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
_engines = []


def build(emit, arg, ret):
    """Compile ``void f(arg*, ret*, n)`` looping `emit` over elements."""
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    i64 = ir.IntType(64)
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [arg.as_pointer(), ret.as_pointer(), i64]), "f")
    entry, loop, done = (fn.append_basic_block(n) for n in ("entry", "loop", "done"))
    b = ir.IRBuilder(entry)
    b.branch(loop)
    b.position_at_end(loop)
    i = b.phi(i64)
    i.add_incoming(i64(0), entry)
    b.store(emit(b, b.load(b.gep(fn.args[0], [i]))), b.gep(fn.args[1], [i]))
    nxt = b.add(i, i64(1))
    i.add_incoming(nxt, loop)
    b.cbranch(b.icmp_unsigned("<", nxt, fn.args[2]), loop, done)
    b.position_at_end(done)
    b.ret_void()
    target, features = llvm.Target.from_default_triple(), llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(opt=3, cpu=llvm.get_host_cpu_name(), features=features)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    _engines.append(engine)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        engine.get_function_address("f")
    )

    def run(x, dtype):
        out = np.empty(x.size, dtype)
        call(x.ctypes.data, out.ctypes.data, x.size)
        return out

    return run


SMALL = [dtypes.float16, dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.float8_e5m2]


@pytest.fixture(params=[True, False], ids=["hardware", "bits"])
def half(request, monkeypatch):
    """With and without the host's own float16 conversions."""
    from numjit.codegen import machine

    if request.param and not machine._host_converts_half():
        pytest.skip("this CPU does not convert float16")
    monkeypatch.setattr(machine, "_host_converts_half", lambda: request.param)


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_decode_every_bit_pattern_as_torch(dtype):
    bits = np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}")
    run = build(lambda b, v: decode(b, HOST, dtype, [v]), lane_type(dtype), value_type(dtype))
    got = torch.from_numpy(run(bits, np.float32))
    want = torch.from_numpy(bits).view(getattr(torch, dtype.name)).float()
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(), want.nan_to_num())
    assert torch.equal(torch.signbit(got), torch.signbit(want))


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_encode_as_torch(dtype):
    rng = np.random.default_rng(0)
    every = np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}")
    stored = torch.from_numpy(every).view(getattr(torch, dtype.name)).float().numpy()
    stored = stored[np.isfinite(stored)]
    ties = (stored[:-1].astype(np.float64) + stored[1:]) / 2
    x = np.concatenate(
        [
            stored,
            ties.astype(np.float32),
            np.nextafter(ties.astype(np.float32), np.float32(np.inf)),
            np.nextafter(ties.astype(np.float32), np.float32(-np.inf)),
            rng.integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32),
            np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 65519, 65520, 57344, 61439, 61440]),
        ]
    ).astype(np.float32)
    run = build(lambda b, v: encode(b, HOST, dtype, v)[0], ir.FloatType(), lane_type(dtype))
    got = torch.from_numpy(run(x, f"u{dtype.itemsize}")).view(getattr(torch, dtype.name)).float()
    source = torch.from_numpy(x)
    if dtype is dtypes.float8_e4m3fn:  # numjit saturates; torch's releases differ
        source = torch.where(source.isnan(), source, source.clamp(-448.0, 448.0))
    want = source.to(getattr(torch, dtype.name)).float()
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(), want.nan_to_num())
    finite = ~source.isnan()
    assert torch.equal(torch.signbit(got)[finite], torch.signbit(want)[finite])


REAL = [d for d in dtypes.ALL if not d.is_complex and d not in SMALL and d is not dtypes.bool_]


@pytest.mark.parametrize("src", REAL, ids=str)
@pytest.mark.parametrize("dst", [*REAL, dtypes.bool_, *SMALL], ids=str)
def test_convert_as_torch(src, dst):
    low = 0 if src.kind == "u" or (src.kind == "f" and dst.kind == "u" and dst is not dtypes.uint8) else -100
    x = torch.arange(low, 101).to(torch.float64)
    if src.kind == "f":
        x = torch.cat([x, x / 7, torch.tensor([0.0, -0.0])])
        x = x.clamp(low)
    x = x.to(getattr(torch, src.name))
    run = build(
        lambda b, v: encode(b, HOST, dst, convert(b, HOST, v, src, dst))[0], value_type(src), lane_type(dst)
    )
    raw = run(x.numpy(), f"u{dst.itemsize}")
    got = torch.from_numpy(raw).view(getattr(torch, dst.name))
    want = x.to(getattr(torch, dst.name))
    assert torch.equal(got.to(torch.float64), want.to(torch.float64))


def test_minus_three_point_seven_to_uint8_is_253():
    run = build(lambda b, v: convert(b, HOST, v, dtypes.float32, dtypes.uint8), ir.FloatType(), ir.IntType(8))
    assert run(np.float32([-3.7]), np.uint8)[0] == 253


def test_nan_is_true():
    run = build(
        lambda b, v: encode(b, HOST, dtypes.bool_, convert(b, HOST, v, dtypes.float32, dtypes.bool_))[0],
        ir.FloatType(),
        ir.IntType(8),
    )
    assert run(np.float32([np.nan, 0.0, -0.0, 0.1]), np.uint8).tolist() == [1, 0, 0, 1]
