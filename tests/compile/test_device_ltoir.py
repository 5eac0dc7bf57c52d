"""Python functors as device code, without a GPU: the seam, no float64, literal powers, linking."""

from __future__ import annotations

import cmath
import math
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from numjit import dtypes
from numjit.errors import CompilationError, NumjitError, ToolchainError
from numjit.functor.device import compile_device
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.ground.numba_cuda import compile_kernel, numba_cuda_ready
from numjit.rules.table import RULES
from numjit.semantics.category import Category
from numjit.toolchain.nvjitlink import link
from tests.support.tiers import mostly_slow, pairs

CC = (9, 0)


def dim(dtype):
    return ArgumentType(dtype, Category.DIM)


def code(fn, *arguments, output="ptx", cc=CC, default=dtypes.float32, **options):
    functor = PythonFunctor(fn, **options)
    specialised = functor.specialise(arguments, default, target="cuda")
    made = compile_device(functor, specialised, "numjit_functor", cc, output)
    return made.decode() if output == "ptx" else made


def literal_sum(x):
    return x * 2 + 1


def loop_index(x):
    total = 0.0
    for i in range(4):
        total = total + x * i
    return total


def dynamic_loop(x):
    total = x * 0
    for i in range(int(x)):
        total = total + x / (i + 1)
    return total


def gelu(x):
    return 0.5 * x * (1 + math.erf(x * 0.7071067811865476))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def leaky(x):
    return x if x > 0 else 0.01 * x


def horner(x):
    result = 0.0
    for c in (1.0, 0.5, 0.25, 0.125):
        result = result * x + c
    return result


def newton(x):
    guess = 1.0
    while abs(guess * guess - x) > 1e-3 * x:
        guess = 0.5 * (guess + x / guess)
    return guess


def clamp(x):
    return min(max(x, -1.5), 2)


def softplus(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0)


def helpers(x):
    def shift(value, by=0.5):
        return value + by

    return shift(x) + _scaled(x)


def _scaled(x, factor=1.5):
    return x * factor


def conditional(x):
    return (1 if x > 0 else 0.5) * x + (x > 0.5) * 0.25


FUNCTORS = [
    literal_sum, loop_index, dynamic_loop, gelu, gelu_tanh, leaky, horner, newton, clamp, softplus, helpers,
    conditional, lambda x: 0.5 * x, lambda x: x**2 + x**-1 + x**0.5, lambda x: x // 2 + x % 1.5,
    lambda x: (x / 3, round(x), math.floor(x), float(x), int(x) * 0.5),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fn", "dtype"),
    pairs(FUNCTORS, [dtypes.float32, dtypes.bfloat16, dtypes.float16]),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_no_float64_from_literals(fn, dtype):
    ptx = code(fn, dim(dtype))
    assert ".f64" not in ptx, [line for line in ptx.splitlines() if ".f64" in line]


def test_only_the_conversion_of_a_scalar_is_float64():
    arguments = (dim(dtypes.float32), ArgumentType(dtypes.float64, Category.NUMBER))
    lines = [
        line for line in code(lambda x, *, alpha: x * alpha + 1, *arguments).splitlines() if ".f64" in line
    ]
    assert all(re.search(r"\.reg|ld\.param|cvt\.rn\.f32\.f64|\.param", line) for line in lines)


def test_literal_powers_multiply():
    ptx = code(lambda x: x**2 + x**3, dim(dtypes.float32))
    assert len(ptx.splitlines()) < 60
    assert "fma" not in code(lambda x: x**2, dim(dtypes.float32))
    assert len(code(lambda x: x**2.3, dim(dtypes.float32)).splitlines()) > 100


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_the_seam(dtype):
    """One symbol; values in compute types, bools as bytes, complex numbers as two reals."""
    ptx = code(lambda x, y: (x == y, x), dim(dtype), dim(dtype))
    (header,) = re.findall(r"\.visible \.func.*?numjit_functor\((.*?)\)", ptx, re.DOTALL)
    kinds = re.findall(r"\.param \.(\w+)", header)
    compute = dtype.compute
    names = {
        "b": "b32",
        "u": f"b{max(32, compute.bits)}",
        "i": f"b{max(32, compute.bits)}",
        "f": f"b{compute.bits}",
    }
    value = names[compute.real.kind]
    if compute.real.kind == "f":
        value = f"b{compute.real.bits}"
    assert kinds == ["b64", "b64"] + [value] * (4 if dtype.is_complex else 2)
    assert "numjit_functor" in header
    assert ".extern" not in ptx


def test_lto_ir_of_every_dtype():
    for dtype in dtypes.ALL:
        made = code(lambda x: (x, x == x), dim(dtype), output="ltoir")
        assert isinstance(made, bytes)
        assert len(made) > 500


@pytest.mark.parametrize("cc", [(7, 5), (8, 0), (10, 0)])
def test_other_architectures(cc):
    assert f".target sm_{cc[0]}{cc[1]}" in code(gelu, dim(dtypes.float32), cc=cc)


@pytest.mark.parametrize(
    "dtype",
    mostly_slow([dtypes.int32, dtypes.float32, dtypes.complex64], lambda dtype: dtype is dtypes.float32),
    ids=str,
)
def test_every_rule_compiles_where_it_types(dtype):
    """What type inference accepts, NVVM accepts: its dialect lacks some of LLVM."""
    compiled = 0
    for function, rule in RULES.items():
        arguments = "x, x" if rule.spread else ", ".join("x" * rule.arity[0])
        scope = {"function": function}
        exec(f"def f(x): return function({arguments})", scope)
        refusal = None
        try:
            code(scope["f"], dim(dtype), output="ptx")
            compiled += 1
        except CompilationError as error:
            refusal = str(error)
        assert refusal is None or "torch refuses" in refusal or "is not supported" in refusal, (
            rule.name,
            refusal,
        )
    assert compiled > 40


def test_functions_of_the_complex_plane():
    ptx = code(
        lambda x: (cmath.exp(x), x.conjugate() * 2, abs(x), x / (1 + x)), dim(dtypes.complex64), outputs=4
    )
    assert ".visible .func" in ptx


def test_code_that_could_raise():
    """Iterating over tuples leaves paths that raise; they must not become invalid IR."""
    assert code(lambda x: sum((x, x)) + (1.0, 2.0)[int(x)], dim(dtypes.float32), output="ltoir")


def test_the_functor_is_inlined_into_a_kernel():
    with numba_cuda_ready() as cuda:
        from numba.core import types

        function = cuda.declare_device(
            "numjit_functor", types.int32(types.CPointer(types.float32), types.float32), abi="c"
        )

        def kernel(out, values):
            function(out, values[cuda.threadIdx.x])

        pointer = types.CPointer(types.float32)
        kernel_code, name = compile_kernel(kernel, types.void(pointer, pointer), cc=CC, launch_bounds=128)
    functor_code = code(gelu, dim(dtypes.float32), output="ltoir")
    ptx = link([("kernel", kernel_code), ("functor", functor_code)], CC, ptx=True).decode()
    assert f".entry {name}" in ptx
    assert ".maxntid 128" in ptx
    assert "call" not in ptx, ptx
    assert ".local" not in ptx
    assert ".f64" not in ptx


def test_numpy_is_left_as_it_was():
    before = "row_stack" in vars(np)
    with numba_cuda_ready(), numba_cuda_ready():
        assert hasattr(np, "row_stack")
    assert ("row_stack" in vars(np)) == before


def test_a_missing_numba_cuda_is_named(monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "numba_cuda" else found(name)
    )
    with pytest.raises(ToolchainError, match=r"pip install numjit\[cu13\]"), numba_cuda_ready():
        pass


def test_threads():
    """Both targets at once, the same functor and different ones: no deadlock, no mix-up."""
    from numjit.cpu.python_loop import build_chunk

    made, errors = [], []
    shared = PythonFunctor(gelu)
    kinds = (dim(dtypes.float32),)

    def device(number):
        made.append(code(lambda x: x * number + math.exp(x), *kinds, output="ltoir"))
        specialised = shared.specialise(kinds, dtypes.float32, target="cuda")
        made.append(compile_device(shared, specialised, "numjit_functor", CC))

    def host(number):
        specialised = shared.specialise(kinds, dtypes.float32, target="cpu")
        made.append(build_chunk(shared, specialised, [dtypes.float32], specialised.outputs, [""]))
        made.append(PythonFunctor(lambda x: x + number).specialise(kinds, dtypes.float32, target="cpu"))

    def work(function, number):
        try:
            function(number)
        except NumjitError as error:
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=(function, number), daemon=True)
        for number in range(3)
        for function in (device, host)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
    assert len(made) == 12


@pytest.mark.parametrize("first", ["nothing", "numba-cuda", "Numba's CPU target"])
def test_who_used_numba_before_does_not_matter(first):
    """Numba's own templates take any type, and ask for the current device, if they are asked first."""
    program = """
import sys
from numjit import dtypes
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.semantics import Category
from numjit.ground.numba_cuda import numba_cuda_ready

if sys.argv[1] == "numba-cuda":
    with numba_cuda_ready() as cuda:
        from numba.core import types
        float32 = types.float32
        cuda.compile(lambda x: x + 1, float32(float32), device=True, abi="c", cc=(9, 0), output="ltoir")
elif sys.argv[1] != "nothing":
    import numba
    numba.njit(lambda x: sum((x, x)) + max(x, x) + (1.0, 2.0)[int(x)])(1.0)
kinds = (ArgumentType(dtypes.float16, Category.DIM),)
fn = lambda x: (sum((x, x)) + (1.0, 2.0)[int(x)], max(x, 2), abs(x), sum((x > 0, x > 1)))
for target in ("cuda", "cpu"):
    found = PythonFunctor(fn).specialise(kinds, dtypes.float32, target=target)
    print(*found.outputs)
"""
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program, first], capture_output=True, text=True, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["float16 float16 float16 int64"] * 2
