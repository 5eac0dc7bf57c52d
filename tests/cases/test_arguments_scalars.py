"""Cases D: scalars by keyword, what a Python functor captures, and what is compiled anew."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch

import numjit
from numjit.errors import ArgumentError, FunctorError
from tests.cases import ADD, SCALED, bits, both_kinds, exact, holds, pair, run_python, same

ORDERED = pair(
    lambda x, *, a, b: x + 10 * a + b,
    "template <typename T> T f(T x, float a, float b) { return x + 10*a + b; }",
    b=1,
    a=2,
)


@both_kinds
def test_d1_scalars_are_bound_by_name(kind, device):
    x = torch.tensor([10.0], device=device)
    holds(ORDERED[kind](x), [31.0], torch.float32)
    holds(ORDERED[kind](x, a=0), [11.0], torch.float32)
    holds(ORDERED[kind](x, b=0, a=1), [20.0], torch.float32)


def test_d2_a_default_for_a_scalar_that_is_not_there():
    with pytest.raises(FunctorError, match="beta"):
        numjit.elementwise("template <typename T> T f(T x) { return x; }", beta=1)
    with pytest.raises(FunctorError, match="beta"):
        numjit.elementwise(lambda x, *, alpha: x + alpha, beta=1)
    with pytest.raises(FunctorError, match="beta"):
        numjit.elementwise(lambda x, *, alpha: x + alpha, scalars={"beta": 1})


def test_d2_defaults_must_be_numbers():
    for value in (None, "a", [1]):
        with pytest.raises(numjit.NumjitError, match="alpha"):
            numjit.elementwise(lambda x, *, alpha: x, alpha=value)
        with pytest.raises(numjit.NumjitError, match="alpha"):
            numjit.elementwise("template <typename T> T f(T x, T alpha) { return x; }", alpha=value)


@both_kinds
def test_d2b_too_few_operands(kind, device):
    with pytest.raises(ArgumentError, match="'y'"):
        ADD[kind](torch.ones(2, device=device))
    with pytest.raises(ArgumentError, match="'x'"):
        ADD[kind]()
    assert issubclass(ArgumentError, TypeError)


def test_d2b_a_scalar_without_a_value():
    shift = numjit.elementwise(lambda x, *, alpha: x + alpha)
    with pytest.raises(ArgumentError, match="'alpha'"):
        shift(torch.ones(2))
    holds(shift(torch.ones(2), alpha=2), [3.0, 3.0], torch.float32)


@both_kinds
def test_too_many_operands(kind):
    x = torch.ones(2)
    with pytest.raises(ArgumentError, match=r"2 operands.*3 were given"):
        ADD[kind](x, x, x)


@both_kinds
def test_d3_an_unknown_keyword(kind, device):
    x = torch.ones(2, device=device)
    with pytest.raises(TypeError, match="'beta'"):
        SCALED[kind](x, x, beta=1)
    with pytest.raises(TypeError, match="'x'"):
        SCALED[kind](x, x, x=x)
    holds(SCALED[kind](x, x), [2.0, 2.0], torch.float32)


@both_kinds
def test_d4_values_of_every_type_and_no_compilation_per_value(kind, device, compilations):
    x, y = torch.tensor([1.0, 2.0], device=device), torch.tensor([0.5, 0.25], device=device)
    values = [1, 1.0, True, np.float32(1.0), np.int16(1), torch.tensor(1.0), torch.tensor(1.0, device=device)]
    for value in values:
        same(SCALED[kind](x, y, alpha=value), x + y)
    count = len(compilations)
    for value in (
        2,
        3.5,
        False,
        np.float32(0.5),
        np.int16(-4),
        torch.tensor(7.0),
        torch.tensor(9.0, device=device),
    ):
        same(SCALED[kind](x, y, alpha=value), float(value) * x + y)
    assert len(compilations) == count, "a new value compiled"


@both_kinds
def test_values_arrive_bit_exact(kind, device):
    give = pair(
        lambda x, *, alpha=0.0: alpha,
        "template <typename T> T give(T x, T alpha) { return alpha; }",
        alpha=0.0,
    )[kind]
    x = torch.zeros(1, dtype=torch.float64, device=device)
    for value in (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, 0.1):
        # A bare float is weak, and alone it would be of the default dtype; a 0-dim tensor is a double.
        result = give(x, alpha=value if kind == "c++" else torch.tensor(value, dtype=x.dtype))
        wanted = torch.tensor([value], dtype=torch.float64)
        assert torch.equal(bits(result), bits(wanted)), value
    whole = torch.zeros(1, dtype=torch.int64, device=device)
    for value in (2**63 - 1, -(2**63), 2**53 + 1):
        assert give(whole, alpha=value).tolist() == [value]


@both_kinds
def test_d6_values_that_are_no_numbers(kind, device):
    x = torch.ones(2, device=device)
    for value in (None, "a", [1], (1,), {}, 2**64, -(2**63) - 1, torch.ones(2)):
        with pytest.raises(TypeError, match="'alpha'"):
            SCALED[kind](x, x, alpha=value)
    holds(SCALED[kind](x, x, alpha=3), [4.0, 4.0], torch.float32)


@both_kinds
def test_d7_a_bool_flag(kind, device):
    def either(x, *, flag=False):
        return x if flag else -x

    functor = pair(
        either, "template <typename T> T either(T x, bool flag) { return flag ? x : -x; }", flag=False
    )[kind]
    x = torch.tensor([1.0, 2.0], device=device)
    same(functor(x, flag=True), x)
    same(functor(x, flag=False), -x)
    same(functor(x), -x)


def test_an_int_scalar_is_a_plain_int(device):
    @numjit.elementwise
    def power(x, *, n):
        result = x * 0 + 1
        for _ in range(n):
            result *= x
        return result

    x = torch.tensor([2.0, 3.0], device=device)
    same(power(x, n=3), x**3)
    same(power(x, n=0), x**0)
    half = torch.tensor([2.0], dtype=torch.float16, device=device)
    assert power(half, n=4).dtype == torch.float16


def test_builtins_annotate_scalars(device):
    @numjit.elementwise
    def shift(x, *, n: int = 1, w: float = 0.5, flag: bool = True):
        return x + n * w if flag else x

    x = torch.tensor([1.0], device=device)
    holds(shift(x), [1.5], torch.float32)
    holds(shift(x, n=3, w=2), [7.0], torch.float32)
    holds(shift(x, flag=False), [1.0], torch.float32)
    with pytest.raises(TypeError, match="'n'"):
        shift(x, n=1.5)


@pytest.mark.parametrize("name", ["out", "shape", "like", "dtype", "device"])
def test_scalars_named_like_a_keyword_of_the_call_are_refused(name):
    with pytest.raises(FunctorError, match=name):
        numjit.elementwise(f"template <typename T> T f(T x, T {name}) {{ return x; }}", scalars={name: 1})


def test_scalars_named_like_a_keyword_of_elementwise(device):
    functor = numjit.elementwise(
        "template <typename T> T f(T x, T options, T entry) { return x + options + entry; }",
        scalars={"options": 1, "entry": 2},
    )
    holds(functor(torch.ones(1, device=device)), [4.0], torch.float32)
    holds(functor(torch.ones(1, device=device), entry=10), [12.0], torch.float32)


# ---------------------------------------------------------------------------------------------- captures


def _plus(captured):
    return numjit.elementwise(lambda x: x + captured)


def test_d10_closures_that_differ_in_what_they_capture(device):
    x = torch.zeros(1, device=device)
    holds(_plus(4)(x), [4.0], torch.float32)
    holds(_plus(8)(x), [8.0], torch.float32)
    holds(_plus(8.5)(x), [8.5], torch.float32)
    holds(_plus(4)(x), [4.0], torch.float32)


RATE = 2


def _helped(x):
    return x + 1


@numjit.elementwise
def rated(x):
    return _helped(x) * RATE


def test_d11_a_rebound_global(device, monkeypatch):
    x = torch.ones(1, device=device)
    holds(rated(x), [4.0], torch.float32)
    monkeypatch.setitem(globals(), "RATE", 3)
    holds(rated(x), [6.0], torch.float32)
    monkeypatch.setitem(globals(), "RATE", 0.5)
    holds(rated(x), [1.0], torch.float32)
    monkeypatch.setitem(globals(), "_helped", lambda x: x + 9)
    holds(rated(x), [5.0], torch.float32)
    monkeypatch.undo()
    holds(rated(x), [4.0], torch.float32)


def test_d11_a_rebound_closure_variable(device):
    rate = 2

    @numjit.elementwise
    def scale(x):
        return x * rate

    x = torch.ones(1, device=device)
    holds(scale(x), [2.0], torch.float32)
    rate = 7
    holds(scale(x), [7.0], torch.float32)


def test_d11_a_rebound_name_of_a_helpers_module(device, tmp_path, monkeypatch):
    (tmp_path / "numjit_case_d11.py").write_text("FACTOR = 2\ndef helper(x):\n    return x * FACTOR\n")
    monkeypatch.syspath_prepend(tmp_path)
    import numjit_case_d11 as other

    scale = numjit.elementwise(lambda x: other.helper(x))
    x = torch.ones(1, device=device)
    holds(scale(x), [2.0], torch.float32)
    other.FACTOR = 5
    holds(scale(x), [5.0], torch.float32)
    del sys.modules["numjit_case_d11"]


def test_d11_a_helper_edited_between_runs(device, tmp_path):
    code = """
        import sys, torch, numjit
        sys.path.insert(0, sys.argv[1])
        from helpers import helper
        print(numjit.elementwise(lambda x: helper(x))(torch.ones(1, device=sys.argv[2])).item())
        """
    cache = tmp_path / "cache"
    for body, expected in (("x * 2", "2.0"), ("x * 9", "9.0"), ("x * 2", "2.0")):
        (tmp_path / "helpers.py").write_text(f"def helper(x):\n    return {body}\n")
        done = run_python(code, tmp_path, device, NUMJIT_CACHE_DIR=cache, PYTHONDONTWRITEBYTECODE="1")
        assert done.stdout.strip() == expected


def test_a_functor_cannot_capture_an_array():
    array = np.ones(3)
    with pytest.raises(FunctorError, match="ndarray"):
        numjit.elementwise(lambda x: x + array[0])(torch.ones(2))


# ----------------------------------------------------------------------------------- no float64 inside

D12 = {
    "linear": lambda x: x * 2 + 1,
    "half": lambda x: 0.5 * x,
    "scalar": lambda x, *, alpha=0.25: alpha * x + alpha,
}


def _loop(x):
    total = x
    for i in range(5):
        total += x * i
    return total


D12["loop"] = _loop


@pytest.mark.parametrize("dtype", [numjit.float16, numjit.bfloat16, numjit.float32], ids=str)
@pytest.mark.parametrize("name", D12)
def test_d12_no_float64_in_the_ptx(name, dtype):
    pytest.importorskip("numba_cuda")
    pytest.importorskip("cuda.bindings.nvrtc")
    from numjit import dtypes
    from numjit.call import build
    from numjit.functor.signature import ArgumentType
    from numjit.kernels.spec import FUNCTOR_SYMBOL
    from numjit.semantics import Category
    from numjit.toolchain.nvjitlink import link
    from numjit.toolchain.nvrtc import compile_ltoir

    cc = (9, 0)
    functor = numjit.elementwise(D12[name]).__numjit_functor__
    arguments = [ArgumentType(dtype, Category.DIM)]
    arguments += [ArgumentType(dtypes.float64, Category.NUMBER) for _ in functor.signature.scalars]
    made = build.specialise(functor, tuple(arguments), dtypes.float32, "cuda")
    assert made.outputs == (dtype,)
    # All of these travel as float32 at the seam, the scalar as the double that it is.
    scalar = ("double a", "double", "a") if len(arguments) > 1 else None
    kinds, names = ["float*", "float"], ["&o[i]", "x[i]"]
    kernel = "float* o, const float* x"
    if scalar:
        kinds, names, kernel = [*kinds, scalar[1]], [*names, scalar[2]], f"{kernel}, {scalar[0]}"
    caller = f"""
        extern "C" __device__ int {FUNCTOR_SYMBOL}({", ".join(kinds)});
        extern "C" __global__ void caller({kernel}) {{
            int i = threadIdx.x;
            {FUNCTOR_SYMBOL}({", ".join(names)});
        }}
    """
    parts = [
        ("caller", compile_ltoir(caller, cc=cc, name="caller")),
        ("functor", build.device_code(functor, made, cc)),
    ]
    text = link(parts, cc, ptx=True).decode("ascii", "replace")
    assert ".f32" in text
    wide = [line.strip() for line in text.splitlines() if "f64" in line]
    # The double itself is loaded, and rounded once.
    expected = (".reg", ".param", "ld.param", "cvt.rn.f32.f64") if scalar else ()
    wide = [line for line in wide if not line.startswith(expected or "never")]
    assert not wide, "\n".join(wide[:5])


def test_float_scalars_are_weak(device):
    for dtype in (torch.float16, torch.float32, torch.int32):
        x = torch.tensor([1, 2, 3]).to(dtype).to(device)
        functor = numjit.elementwise(lambda x, *, alpha: x * alpha + 1)
        result = functor(x, alpha=0.1)
        expected = (exact(x).double() * 0.1 + 1).to(result.dtype)
        assert result.dtype == (torch.float32 if dtype == torch.int32 else dtype)
        torch.testing.assert_close(result.cpu(), expected)
