"""Cases C: broadcasting, empty and huge operands, many operands, devices, tensors without memory."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import numjit
from numjit.errors import BroadcastError, CompilationError, DeviceError
from tests.cases import (
    ADD,
    CHOOSE,
    IDENTITY,
    INCREMENT,
    SCALED,
    SUM_AND_DIFFERENCE,
    both_kinds,
    holds,
    pair,
    run_python,
    same,
)

# -------------------------------------------------------------------------------------- shapes, empty ones


@both_kinds
@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        pytest.param((0, 1, 3), (0, 10, 3), (0, 10, 3), id="c1"),
        pytest.param((1,), (0,), (0,), id="c2"),
        pytest.param((0,), (), (0,), id="with-zero-dim"),
        pytest.param((3, 1, 0), (2, 1), (3, 2, 0), id="one-meets-zero"),
        pytest.param((2, 0, 4), (2, 1, 1), (2, 0, 4), id="empty-middle"),
    ],
)
def test_c1_c2_empty_results(kind, left, right, shape, device):
    x, y = torch.ones(left, device=device), torch.ones(right, device=device)
    for a, b in ((x, y), (y, x)):
        result = ADD[kind](a, b)
        assert result.shape == shape
        same(result, a + b)


@both_kinds
def test_c1_an_empty_call_still_checks_the_functor(kind, device):
    broken = {
        "python": numjit.elementwise(lambda x: x.no_such_thing),
        "c++": numjit.elementwise("template <typename T> T f(T x) { return no_such_thing(x); }"),
    }[kind]
    with pytest.raises(CompilationError, match="no_such_thing"):
        broken(torch.ones(0, device=device))


@both_kinds
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 0), (0, 5)),
        ((2,), (3,)),
        ((3, 1), (2, 1)),
        ((1, 3, 2), (3,)),
        ((3, 1, 2), (2, 1, 2)),
        ((0,), (2,)),
    ],
    ids=str,
)
def test_c3_shapes_that_do_not_broadcast(kind, left, right, device):
    x, y = torch.ones(left, device=device), torch.ones(right, device=device)
    with pytest.raises(BroadcastError) as caught:
        ADD[kind](x, y)
    message = str(caught.value)
    assert str(tuple(left)) in message
    assert str(tuple(right)) in message
    assert isinstance(caught.value, ValueError)
    with pytest.raises(RuntimeError):
        torch.add(x, y)
    holds(ADD[kind](torch.ones(2, device=device), 1), [2.0, 2.0], torch.float32)


# --------------------------------------------------------------------------------------- many operands


def _sum_of(count):
    """Return the sum of `count` operands, in both languages."""
    names = [f"a{k}" for k in range(count)]
    scope = {}
    exec(f"def total({', '.join(names)}):\n    return {' + '.join(names)}", scope)
    parameters = ", ".join(f"T {name}" for name in names)
    text = f"template <typename T> T total({parameters}) {{ return {' + '.join(names)}; }}"
    return pair(scope["total"], text)


@both_kinds
@pytest.mark.parametrize("count", [9, 16, 32])
def test_c6_many_inputs(kind, count, device):
    tensors = [torch.full((5, 3), float(2**k if k < 20 else k), device=device) for k in range(count)]
    tensors[1] = tensors[1].t().contiguous().t()
    tensors[2] = tensors[2][:1]
    result = _sum_of(count)[kind](*tensors)
    expected = tensors[0]
    for tensor in tensors[1:]:
        expected = expected + tensor
    same(result, expected, strides=False)


@both_kinds
@pytest.mark.parametrize("count", [9, 16])
def test_c6_many_outputs(kind, count, device):
    scope = {}
    exec(f"def many(x):\n    return ({', '.join(f'x + {k}' for k in range(count))})", scope)
    outputs = ", ".join(f"T& o{k}" for k in range(count))
    body = " ".join(f"o{k} = x + T({k});" for k in range(count))
    functor = pair(scope["many"], f"template <typename T> void many(T x, {outputs}) {{ {body} }}")[kind]
    x = torch.arange(7.0, device=device)[::2]
    results = functor(x)
    assert len(results) == count
    for k, result in enumerate(results):
        same(result, x + k)


@both_kinds
def test_more_operands_than_fit_are_a_clear_error_or_right(kind, device):
    if device == "cpu":
        pytest.skip("only kernel parameters have a limit")
    tensors = [torch.ones(2, device=device) for _ in range(600)]
    try:
        result = _sum_of(600)[kind](*tensors)
    except numjit.NumjitError as error:
        assert re.search(r"parameter|operand", str(error))  # noqa: PT017 - either answer is right
    else:
        assert result.tolist() == [600.0, 600.0]


@pytest.mark.parametrize("count", [0, -1])
def test_c7_no_outputs(count):
    with pytest.raises(ValueError, match="outputs"):
        numjit.elementwise(lambda x: x, outputs=count)
    with pytest.raises(ValueError, match="outputs"):
        numjit.elementwise("template <typename T> T f(T x) { return x; }", outputs=count)
    with pytest.raises(ValueError, match="void"):
        numjit.elementwise("template <typename T> void f(T x) { }")


def test_outputs_that_disagree_with_the_functor():
    with pytest.raises(ValueError, match="2"):
        numjit.elementwise("template <typename T> T f(T x) { return x; }", outputs=2)
    with pytest.raises(ValueError, match="2"):
        numjit.elementwise(lambda x: (x, x), outputs=3)(torch.ones(2))
    assert len(numjit.elementwise(lambda x: (x, x), outputs=2)(torch.ones(2))) == 2


# --------------------------------------------------------------------------------------------- devices


@both_kinds
def test_c8_cpu_tensors_run_on_the_cpu(kind):
    x = torch.arange(6.0)
    result = ADD[kind](x, x)
    assert result.device.type == "cpu"
    same(result, x + x)


@pytest.mark.gpu
@both_kinds
def test_c9_a_zero_dim_cpu_tensor_goes_with_cuda(kind):
    x = torch.arange(3.0, device="cuda")
    for scalar in (torch.tensor(2.5), torch.tensor(3), torch.tensor(True), torch.tensor(1j)):
        same(ADD[kind](x, scalar), x + scalar)
        same(ADD[kind](scalar, x), scalar + x)


@pytest.mark.gpu
@both_kinds
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_c9_d4_no_call_waits_for_the_device(kind, where):
    x = torch.arange(3.0, device="cuda")
    scalar = torch.tensor(2.0, device=where)
    ADD[kind](x, scalar)
    SCALED[kind](x, x, alpha=scalar)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # about a second
    results = ADD[kind](x, scalar), SCALED[kind](x, x, alpha=scalar)
    assert not torch.cuda.current_stream().query(), "a call waited for the work before it"
    torch.cuda.synchronize()
    same(results[0], x + 2)
    same(results[1], 3 * x)


@pytest.mark.gpu
@both_kinds
def test_c10_cpu_and_cuda_do_not_mix(kind):
    x, y = torch.ones(3, device="cuda"), torch.ones(3)
    for a, b in ((x, y), (y, x)):
        with pytest.raises(DeviceError, match=r"cpu.*cuda:0|cuda:0.*cpu") as caught:
            ADD[kind](a, b)
        assert isinstance(caught.value, ValueError)
    with pytest.raises(DeviceError):
        ADD[kind](x, 1, out=y)
    assert y.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.gpu
@both_kinds
def test_c11_two_devices(kind):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    first, second = torch.ones(3, device="cuda:0"), torch.arange(3.0, device="cuda:1")
    with pytest.raises(DeviceError, match=r"cuda:0.*cuda:1"):
        ADD[kind](first, second)
    with torch.cuda.device(0):
        result = ADD[kind](second, second)
        assert torch.cuda.current_device() == 0
        same(result, second + second)
        same(ADD[kind](first, first), first + first)


def test_no_gpu_for_a_cuda_call_is_an_error():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    nullary = numjit.elementwise(lambda: 1.0)
    with pytest.raises(DeviceError, match="driver"):
        nullary(shape=(3,), device="cuda:0")
    holds(nullary(shape=(3,)), [1.0, 1.0, 1.0], torch.float32)


# ------------------------------------------------------------------------------------------------- size


def _needs_memory(gigabytes):
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < gigabytes << 30:
        pytest.skip(f"needs {gigabytes} GiB of free GPU memory")


@pytest.mark.gpu
@both_kinds
@pytest.mark.parametrize(
    "count", [pytest.param((1 << 31) + 5, id="c12"), pytest.param((1 << 32) + 3, id="c15")]
)
def test_c12_c15_more_elements_than_32_bits_count(kind, count):
    _needs_memory(10)
    x = torch.zeros(count, dtype=torch.int8, device="cuda")
    x[-5:] = torch.tensor([1, 2, 3, 4, 5], dtype=torch.int8, device="cuda")
    result = INCREMENT[kind](x)
    assert result[-5:].tolist() == [2, 3, 4, 5, 6]
    assert result[:3].tolist() == [1, 1, 1]
    del x
    for part in result[:-5].split(1 << 28):
        assert int((part != 1).sum()) == 0


# --------------------------------------------------------------------------- other kinds of tensor


@both_kinds
def test_c16_sparse_quantised_and_nested(kind, device):
    dense = torch.eye(3, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strange = {
            "sparse": dense.to_sparse(),
            "csr": dense.to_sparse_csr(),
            "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=device),
        }
        if device == "cpu":
            strange["quanti"] = torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8)
    for word, tensor in strange.items():
        with pytest.raises(TypeError, match="sparse" if word == "csr" else word):
            IDENTITY[kind](tensor)
        with pytest.raises(TypeError):
            IDENTITY[kind](dense, out=tensor)
    same(IDENTITY[kind](dense), dense)


@both_kinds
def test_c17_meta_tensors(kind):
    x, y = (
        torch.empty(2, 3, 4, device="meta").permute(2, 0, 1),
        torch.empty(3, device="meta", dtype=torch.int64),
    )
    result = ADD[kind](x, y)
    assert result.device.type == "meta"
    expected = x + y
    assert (result.shape, result.dtype, result.stride()) == (expected.shape, expected.dtype, (1, 12, 4))
    first, second = SUM_AND_DIFFERENCE[kind](x, 2.5)
    assert first.shape == second.shape == x.shape


@both_kinds
def test_c17_fake_tensors(kind):
    with FakeTensorMode():
        x = torch.empty(4, 6).t()[::2]
        result = ADD[kind](x, 1)
        mask = torch.empty(3, 4, dtype=torch.bool)
        chosen = CHOOSE[kind](mask, x, torch.empty((), dtype=torch.float64))
    assert type(result).__name__ == "FakeTensor"
    assert (result.shape, result.dtype, result.stride()) == ((3, 4), torch.float32, (1, 3))
    assert (chosen.shape, chosen.dtype, chosen.device.type) == ((3, 4), torch.float32, "cpu")


@both_kinds
def test_c17_fake_cuda_tensors_need_no_gpu(kind):
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(3, 4, device="cuda")
        try:
            result = ADD[kind](x, x)
        except numjit.errors.ToolchainError:
            pytest.skip("type inference for CUDA needs the CUDA extras")
    assert (result.shape, result.device.type) == ((3, 4), "cuda")


# ------------------------------------------------------------------------------------------- no crashes

_DIVISIONS = """
import sys, torch, numjit
device = sys.argv[1]
texts = {
    "divide": "template <typename T> T divide(T x, T y) { return x / y; }",
    "remainder": "template <typename T> T remainder(T x, T y) { return x % y; }",
}
python = {
    "divide": numjit.elementwise(lambda x, y: x // y),
    "remainder": numjit.elementwise(lambda x, y: x % y),
}
for dtype in (torch.int8, torch.int32, torch.int64, torch.uint8):
    x = torch.tensor([5, 100, 0]).to(dtype).to(device)
    zero = torch.zeros_like(x)
    for name, text in texts.items():
        cpp = numjit.elementwise(text)
        cpp(x, zero).tolist()
        assert cpp(x, zero + 3).tolist()[0] == {"divide": 1, "remainder": 2}[name]
        assert python[name](x, zero).tolist() == [0, 0, 0], (name, dtype)
    if dtype.is_signed:
        least = torch.full_like(x, torch.iinfo(dtype).min)
        for name in texts:
            numjit.elementwise(texts[name])(least, zero - 1).tolist()
            python[name](least, zero - 1).tolist()
print("alive")
"""


def test_c18_integer_division_by_zero_kills_no_process(device):
    assert run_python(_DIVISIONS, device).stdout.strip() == "alive"


_WORKERS = """
import torch, numjit
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(2)
double = numjit.elementwise(lambda x: x * 2)
triple = numjit.elementwise("template <typename T> T triple(T x) { return x * T(3); }")
large = torch.ones(200_000)
double(large), triple(large)  # several threads: their pool exists before the fork

class Data(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, k):
        return double(torch.full((100_000,), float(k))).sum() + triple(torch.tensor([float(k)])).sum()

loader = DataLoader(Data(), 2, num_workers=2, multiprocessing_context="fork", timeout=120)
found = torch.cat([batch.flatten() for batch in loader])
assert found.tolist() == [200_003.0 * k for k in range(8)], found
assert double(large)[-1] == 2
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_c19_forked_workers_call_functors_after_the_parent_did():
    assert run_python(_WORKERS).stdout.strip() == "done"


# ------------------------------------------------------------------------------- functors without operands

NULLARY = pair(lambda *, value=1.5: value, "float constant(float value) { return value; }", value=1.5)


@both_kinds
def test_nullary_functors_take_shape_dtype_and_device(kind, device):
    holds(NULLARY[kind](shape=(2, 3), device=device), [[1.5] * 3] * 2, torch.float32)
    result = NULLARY[kind](shape=(2,), dtype=torch.float64, device=device, value=2)
    holds(result, [2.0, 2.0], torch.float64)
    assert result.device.type == device
    like = torch.zeros(3, 2, dtype=torch.float16, device=device)
    same(NULLARY[kind](like=like), torch.full_like(like, 1.5))
    out = torch.zeros(4, device=device)
    assert NULLARY[kind](out=out) is out
    holds(out, [1.5] * 4, torch.float32)
    assert NULLARY[kind](shape=(0, 2), device=device).shape == (0, 2)
    assert type(NULLARY[kind](like=np.zeros(2, np.float32))) is np.ndarray


@both_kinds
def test_nullary_keywords_are_checked(kind):
    with pytest.raises(TypeError, match="shape"):
        NULLARY[kind]()
    with pytest.raises(TypeError, match="negative"):
        NULLARY[kind](shape=(-1,))
    with pytest.raises(TypeError, match="shape"):
        ADD[kind](torch.ones(2), 1, shape=(2,))
