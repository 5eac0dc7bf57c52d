"""Derivatives of Python functors as device code, without a GPU: no float64, no calls, nothing in vain."""

from __future__ import annotations

import re

import pytest

from numjit import dtypes
from numjit import math as nm
from numjit.errors import CompilationError
from numjit.functor.derived_python import derive_python
from numjit.functor.device import compile_device
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.ground.numba_cuda import compile_kernel, numba_cuda_ready
from numjit.rules.table import RULES
from numjit.semantics.category import Category
from numjit.toolchain.nvjitlink import link
from tests.compile.test_device_ltoir import gelu, gelu_tanh, softplus
from tests.support.tiers import mostly_slow

CC = (9, 0)


def code(functor, dtype=dtypes.float32, output="ptx"):
    kinds = (ArgumentType(dtype, Category.DIM),) * len(functor.signature.operands)
    specialised = functor.specialise(kinds, dtypes.float32, target="cuda")
    made = compile_device(functor, specialised, "numjit_functor", CC, output)
    return made.decode() if output == "ptx" else made


def derived(fn, *active, kind="vjp"):
    return derive_python(PythonFunctor(fn), kind, active or (0,))


def arithmetic(ptx):
    """Return the floating-point instructions by name, without conversions, moves and memory."""
    found = re.findall(r"^\s*(?:@%p\d+ )?((?:mul|add|sub|fma|div|neg|abs)\S*\.f32)\b", ptx, re.MULTILINE)
    return [name.partition(".")[0] for name in found]


def powers(x):
    total, power = 0.0, 1.0
    for i in range(4):
        power = power * x
        total = total + power / (i + 1)
    return total


FUNCTORS = [gelu, gelu_tanh, powers, softplus, lambda x: x if x > 0 else 0.01 * x, lambda x: x**2 + x**-1]


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("fn", FUNCTORS, ids=lambda fn: fn.__name__)
def test_no_float64_and_no_call(fn, dtype):
    for functor in (derived(fn), derived(fn, kind="jvp"), derive_python(derived(fn), "vjp", (0, 1))):
        ptx = code(functor, dtype)
        assert ".f64" not in ptx, [line for line in ptx.splitlines() if ".f64" in line]
        assert "call" not in ptx
        assert ".local" not in ptx


@pytest.mark.parametrize("active", [(0,), (1,)])
def test_one_multiplication_for_one_factor(active):
    ptx = code(derived(lambda x, y: x * y, *active))
    assert arithmetic(ptx) == ["mul"]
    assert ptx.count("ld.param.f32") == 2  # the other factor and the gradient


def test_only_what_is_asked_for_is_computed():
    """x * y + z * x: by z one multiplication, by x an addition more; the value itself is not computed."""

    def f(x, y, z):
        return x * y + z * x

    assert arithmetic(code(derived(f, 2))) == ["mul"]
    assert sorted(arithmetic(code(derived(f, 0)))) in (["add", "mul"], ["fma", "mul"])
    assert sorted(arithmetic(code(derived(f, 0, 1, 2)))) == ["add", "mul", "mul"]  # those by y and z are one


def test_a_constant_factor_is_no_work():
    assert arithmetic(code(derived(lambda x: x + 1.0))) == []
    assert arithmetic(code(derived(lambda x: x * 3.0))) == ["mul"]


def test_a_derivative_is_inlined_into_a_kernel():
    with numba_cuda_ready() as cuda:
        from numba.core import types

        pointer = types.CPointer(types.float32)
        function = cuda.declare_device(
            "numjit_functor", types.int32(pointer, types.float32, types.float32), abi="c"
        )

        def kernel(out, values, gradients):
            function(out, values[cuda.threadIdx.x], gradients[cuda.threadIdx.x])

        made, name = compile_kernel(kernel, types.void(pointer, pointer, pointer), cc=CC, launch_bounds=128)
    functor_code = code(derived(gelu), output="ltoir")
    ptx = link([("kernel", made), ("functor", functor_code)], CC, ptx=True).decode()
    assert f".entry {name}" in ptx
    assert "call" not in ptx
    assert ".local" not in ptx
    assert ".f64" not in ptx


@pytest.mark.parametrize(
    "dtype", mostly_slow([dtypes.float32, dtypes.complex64], lambda dtype: dtype is dtypes.float32), ids=str
)
def test_every_derivative_compiles_where_its_rule_does(dtype):
    """What type inference accepts, NVVM accepts."""
    compiled, seen = 0, set()
    for function, rule in RULES.items():
        if rule.name in seen:
            continue
        seen.add(rule.name)
        count = 2 if rule.spread else rule.arity[0]
        numbers = {"numjit.math.logit": ["x", "0.1"], "numjit.math.gammainc": ["0.5", "x"]}
        operands = numbers.get(rule.name, ["x"] * count)
        scope = {"function": function}
        exec(f"def f(x): return function({', '.join(operands)})", scope)
        functor = PythonFunctor(scope["f"])
        try:
            functor.specialise((ArgumentType(dtype, Category.DIM),), dtypes.float32, target="cuda")
        except CompilationError:
            continue
        if rule.name == "int()":
            with pytest.raises(CompilationError, match=r"int\(\) of a differentiated value"):
                code(derived(scope["f"]), dtype)
            continue
        assert "numjit_functor" in code(derived(scope["f"]), dtype)
        compiled += 1
    assert compiled > (90 if dtype is dtypes.float32 else 40)


def test_symbols_stay_short():
    """Types of nested duals do not make names of kilobytes."""
    functor = PythonFunctor(lambda x, y: nm.sigmoid(x * y) * x)
    for _ in range(3):
        functor = derive_python(functor, "vjp", (0, 1))
    ptx = code(functor)
    assert max(map(len, re.findall(r"[\w$]+", ptx))) < 1000
