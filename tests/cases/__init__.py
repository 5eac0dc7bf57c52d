"""The acceptance cases, each a test named by its number; here is what they and the GPU suites share."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import strategies as st

import numjit
from tests.support.strategies import View, broadcast_views, views

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = ("python", "c++")
both_kinds = pytest.mark.parametrize("kind", KINDS)


def pair(python, cpp, **options):
    """Return one operation written in both languages, by kind."""
    return {"python": numjit.elementwise(python, **options), "c++": numjit.elementwise(cpp, **options)}


IDENTITY = pair(lambda x: x, "template <typename T> T identity(T x) { return x; }")
ADD = pair(lambda x, y: x + y, "template <typename T> T add(T x, T y) { return x + y; }")
SUBTRACT = pair(lambda x, y: x - y, "template <typename T> T subtract(T x, T y) { return x - y; }")
MULTIPLY = pair(lambda x, y: x * y, "template <typename T> T multiply(T x, T y) { return x * y; }")
INCREMENT = pair(lambda x: x + 1, "template <typename T> T increment(T x) { return x + T(1); }")
SQUARE = pair(lambda x: x * x, "template <typename T> T square(T x) { return x * x; }")
LESS = pair(lambda x, y: x < y, "template <typename T> bool less(T x, T y) { return x < y; }")


def _choose(c: numjit.bool_, a, b):
    return a if c else b


def _sum_and_difference(x, y):
    return x + y, x - y


CHOOSE = pair(_choose, "template <typename T> T choose(bool c, T a, T b) { return c ? a : b; }")
SUM_AND_DIFFERENCE = pair(
    _sum_and_difference,
    "template <typename T> void both(T x, T y, T& sum, T& difference) { sum = x + y; difference = x - y; }",
)


def _scaled(x, y, *, alpha=1):
    return alpha * x + y


SCALED = pair(_scaled, "template <typename T> T scaled(T x, T y, T alpha) { return alpha * x + y; }", alpha=1)


class Exporter:
    """Speaks ``__dlpack__`` and nothing else; counts how often."""

    def __init__(self, array):
        self.array, self.count = array, 0

    def __dlpack__(self, **keywords):
        self.count += 1
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


# ------------------------------------------------------------------------------------------ comparing


def bits(tensor):
    """Return the stored bytes of a tensor's values, on the CPU, in C order."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    return plain.reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8)


def exact(tensor):
    """Return a tensor's values, on the CPU, in a dtype that all of torch's kernels know."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if plain.dtype.is_complex:
        return plain.to(torch.complex128)
    return plain.to(torch.float64 if plain.dtype.is_floating_point else torch.int64)


def same(result, expected, *, strides=True):
    """Assert that a tensor is what torch answered: dtype, device, shape, strides and every value."""
    assert isinstance(result, torch.Tensor)
    assert result.dtype == expected.dtype
    assert result.device == expected.device
    assert result.shape == expected.shape
    if strides and expected.numel():
        assert result.stride() == expected.stride()
    torch.testing.assert_close(exact(result), exact(expected), rtol=0, atol=0, equal_nan=True)


def holds(result, values, dtype):
    """Assert a tensor's dtype and values, given as a (nested) list or a number."""
    assert result.dtype == dtype
    wanted = torch.tensor(values, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    assert result.shape == wanted.shape
    torch.testing.assert_close(exact(result).to(wanted.dtype), wanted, rtol=0, atol=0, equal_nan=True)


# --------------------------------------------------------------------------------------- random operands

_FLOATS = (0.0, -0.0, 1.0, -1.5, 2.75, -3.0, 100.0, 447.0, 60000.0, 1e-7, float("inf"), float("nan"))


def fill(buffer, seed, *, special=True):
    """Fill a flat tensor with values that its dtype has, the odd ones included; returns it."""
    source = torch.Generator().manual_seed(seed)
    count = buffer.numel()
    if buffer.dtype == torch.bool:
        values = torch.randint(0, 2, (count,), generator=source)
    elif buffer.dtype.is_floating_point or buffer.dtype.is_complex:
        table = torch.tensor(_FLOATS if special else _FLOATS[:6], dtype=torch.float64)
        values = table[torch.randint(0, len(table), (count,), generator=source)]
        if buffer.dtype.is_complex:
            values = torch.complex(values, table[torch.randint(0, len(table), (count,), generator=source)])
    else:
        values = torch.randint(-(2**62), 2**62, (count,), generator=source)
        small = torch.randint(-3, 4, (count,), generator=source)
        values = torch.where(small > 0, small, values)
    return buffer.copy_(values.to(buffer.dtype))


def operand(view: View, dtype, device, seed, *, offset=0, special=True):
    """Return a tensor of a layout over a buffer of its own, `offset` elements in."""
    buffer = torch.empty(max(view.bounds[1], 1) + offset, dtype=dtype, device=device)
    return fill(buffer, seed, special=special).as_strided(view.shape, view.strides, view.offset + offset)


def operands(count, **sizes):
    """Draw `count` layouts that broadcast together, each with an offset of its own, and a seed."""
    offsets = st.lists(st.integers(0, 5), min_size=count, max_size=count)
    return st.tuples(broadcast_views(count, **sizes).map(lambda drawn: drawn[1]), offsets, st.integers(0, 99))


def build(drawn, dtypes, device, *, special=True):
    """Return the tensors of what `operands` drew."""
    layouts, offsets, seed = drawn
    return [
        operand(view, dtype, device, seed + k, offset=offset, special=special)
        for k, (view, dtype, offset) in enumerate(zip(layouts, dtypes, offsets, strict=True))
    ]


def strided_like(result, drawn, operation):
    """Assert the strides that one TensorIterator over these layouts gives.

    Its operands have one dtype here: torch's CPU kernels first copy those of another dtype, which changes
    their strides.
    """
    expected = operation(*build(drawn, [torch.float32] * len(drawn[0]), result.device, special=False))
    assert result.shape == expected.shape
    if expected.numel():
        assert result.stride() == expected.stride()


def out_views(shape):
    """Draw layouts that an ``out=`` of this shape may have: no two elements in one place."""
    return views(shape, expand=False)


def check_out(functor, tensors, view, dtype, expected, device):
    """Assert that ``out=`` takes the result, keeps its strides, and that nothing around it is written."""
    buffer = torch.full((view.bounds[1] + 3,), 77, dtype=torch.int64).to(dtype).to(device)
    out = buffer.as_strided(view.shape, view.strides, view.offset + 2)
    wanted = buffer.clone()
    wanted.as_strided(out.shape, out.stride(), out.storage_offset()).copy_(expected)
    assert functor(*tensors, out=out) is out
    assert out.stride() == view.strides
    torch.testing.assert_close(exact(buffer), exact(wanted), rtol=0, atol=0, equal_nan=True)


# ------------------------------------------------------------------------------------------- processes


def environment(**changes):
    """Return an environment for another Python that finds numjit and these tests; None removes a name."""
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for name, value in changes.items():
        found.pop(name, None)
        if value is not None:
            found[name] = str(value)
    return found


def run_python(code, *arguments, timeout=240, check=True, **changes):
    """Run code in another Python process; returns what it printed on both streams."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=ROOT,
        env=environment(**changes),
    )
    if check:
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
