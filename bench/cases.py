"""What is measured: operands, the functor in each provider's language, and the bytes that must move."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch

import numjit

__all__ = ["ADD_CPP", "CASES", "Case", "add", "random_operand"]

M = 1 << 20
GELU_CUPY = "T u = 0.7978845608028654 * (x + 0.044715 * x * x * x); z = 0.5 * x * (1 + tanh(u))"
GELU_CPP = """template <typename T> T gelu(T x) {
  T u = T(0.7978845608028654) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T(1) + std::tanh(u));
}"""
ADD_CPP = "template <typename T> T add(T x, T y) { return x + y; }"
MUL_CPP = "template <typename T> T mul(T x, T y) { return x * y; }"
AXPY_CPP = "template <typename T> T axpy(T x, T y, T alpha) { return alpha * x + y; }"
SINCOS_CPP = "template <typename T> void sincos_(T x, T& s, T& c) { s = std::sin(x); c = std::cos(x); }"
SUM8_CPP = (
    "template <typename T> T sum8(T a, T b, T c, T d, T e, T f, T g, T h) "
    "{ return a + b + c + d + e + f + g + h; }"
)


@numjit.elementwise
def gelu(x):
    """Tanh approximation, as torch's."""
    return 0.5 * x * (1 + math.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@numjit.elementwise
def add(x, y):
    """Sum."""
    return x + y


@numjit.elementwise
def mul(x, y):
    """Product."""
    return x * y


@numjit.elementwise
def axpy(x, y, *, alpha=1.0):
    """Scaled sum."""
    return alpha * x + y


@numjit.elementwise
def sincos(x):
    """Sine and cosine."""
    return math.sin(x), math.cos(x)


@numjit.elementwise
def sum8(a, b, c, d, e, f, g, h):
    """Sum of eight operands."""
    return a + b + c + d + e + f + g + h


def eager_gelu(x: torch.Tensor) -> torch.Tensor:
    """Call torch's own gelu."""
    return torch.nn.functional.gelu(x, approximate="tanh")


def eager_axpy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As a user writes it: two kernels in eager mode."""
    return 2.5 * x + y


def eager_sincos(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two kernels in eager mode."""
    return torch.sin(x), torch.cos(x)


def eager_sum8(*xs: torch.Tensor) -> torch.Tensor:
    """Seven kernels in eager mode."""
    total = xs[0] + xs[1]
    for x in xs[2:]:
        total = total + x
    return total


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes
    ----------
    name
        Shown and used to choose cases.
    make
        Makes operands on a device; the second argument divides the sizes (1 on a GPU).
    functor, cpp
        numjit's functor in Python, and the C++ text (jiterator's too).
    eager
        The same in torch; torch.compile compiles it.
    cupy
        (inputs, outputs, code) of a ``cupy.ElementwiseKernel``; None where CuPy lacks the dtype.
    scalars
        Keyword scalars of functor and text.
    goal
        Roof fraction to reach.
    limit
        Roof fraction that the strides allow.
    outputs
        How many.
    rtol
        Relative tolerance against eager, in units of the dtype's epsilon.
    """

    name: str
    make: Callable[[str, int], tuple[torch.Tensor, ...]]
    functor: Callable[..., Any]
    cpp: str
    eager: Callable[..., Any]
    cupy: tuple[str, str, str] | None
    goal: float
    scalars: dict[str, float] = dataclasses.field(default_factory=dict)
    limit: float = 1.0
    outputs: int = 1
    rtol: float = 8.0

    def moved_bytes(self, operands: tuple[torch.Tensor, ...], results: tuple[torch.Tensor, ...]) -> int:
        """Bytes that any implementation must move: every distinct input byte and every output byte once."""
        total = 0
        for tensor in (*operands, *results):
            sizes = [n for n, s in zip(tensor.shape, tensor.stride(), strict=True) if s != 0]
            total += math.prod(sizes) * tensor.element_size()
        return total


def random_operand(*shape: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Return a fresh operand: normal floats, integers below 100."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(*shape, device=device, dtype=dtype if dtype.itemsize > 2 else None).to(dtype)
    return torch.randint(0, 100, shape, device=device, dtype=dtype)


def _flat(millions: int, *kinds: torch.dtype) -> Callable[[str, int], tuple[torch.Tensor, ...]]:
    return lambda device, divide: tuple(
        random_operand(millions * M // divide, dtype=kind, device=device) for kind in kinds
    )


def _grid(
    *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> Callable[[str, int], tuple[torch.Tensor, ...]]:
    def make(device: str, divide: int) -> tuple[torch.Tensor, ...]:
        side = math.isqrt(divide)
        sizes = [tuple(n // side if n > 1 else n for n in shape) for shape in shapes]
        return tuple(random_operand(*size, dtype=dtype, device=device) for size in sizes)

    return make


def _transposed(dtype: torch.dtype, both: bool) -> Callable[[str, int], tuple[torch.Tensor, ...]]:
    square = _grid((8192, 8192), (8192, 8192), dtype=dtype)

    def make(device: str, divide: int) -> tuple[torch.Tensor, ...]:
        x, y = square(device, divide)
        return x.t(), y.t() if both else y

    return make


def _sliced(device: str, divide: int) -> tuple[torch.Tensor, ...]:
    rows, columns = 8192 // math.isqrt(divide), 8192
    x = random_operand(rows, columns + 8, dtype=torch.float32, device=device)
    return x[:, 3 : columns + 3], random_operand(rows, columns, dtype=torch.float32, device=device)


def _stepped(device: str, divide: int) -> tuple[torch.Tensor, ...]:
    count = 64 * M // divide
    return (
        random_operand(2 * count, dtype=torch.float32, device=device)[::2],
        random_operand(count, dtype=torch.float32, device=device),
    )


def _images(device: str, divide: int) -> tuple[torch.Tensor, ...]:
    shape = (max(1, 64 // divide), 64, 112, 112)
    x, y = (random_operand(*shape, dtype=torch.float32, device=device) for _ in range(2))
    return x.to(memory_format=torch.channels_last), y


def _bias(device: str, divide: int) -> tuple[torch.Tensor, ...]:
    shape = (max(1, 64 // divide), 64, 112, 112)
    return (
        random_operand(*shape, dtype=torch.float32, device=device),
        random_operand(64, 1, 1, dtype=torch.float32, device=device),
    )


def _permuted(device: str, divide: int) -> tuple[torch.Tensor, ...]:
    batch = max(1, 64 // divide)
    x = random_operand(batch, 128, 64, 128, dtype=torch.float32, device=device)
    return x.permute(0, 2, 1, 3), random_operand(batch, 64, 128, 128, dtype=torch.float32, device=device)


def _two(name: str, make: Callable[[str, int], tuple[torch.Tensor, ...]], goal: float, **more: Any) -> Case:
    """Return an addition of two operands."""
    return Case(
        name, make, add, ADD_CPP, torch.add, more.pop("cupy", ("T x, T y", "T z", "z = x + y")), goal, **more
    )


_GELU_CUPY = ("T x", "T z", GELU_CUPY)
_AXPY_CUPY = ("T x, T y", "T z", "z = T(2.5) * x + y")
_HALF, _BRAIN, _FLOAT, _DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64

#: The table of cases, in the order in which it is printed.
CASES: tuple[Case, ...] = (
    Case("gelu f32", _flat(64, _FLOAT), gelu, GELU_CPP, eager_gelu, _GELU_CUPY, 0.98),
    Case("gelu bf16", _flat(128, _BRAIN), gelu, GELU_CPP, eager_gelu, None, 0.98),
    Case("axpy f32", _flat(64, _FLOAT, _FLOAT), axpy, AXPY_CPP, eager_axpy, _AXPY_CUPY, 0.99, {"alpha": 2.5}),
    Case("axpy bf16", _flat(128, _BRAIN, _BRAIN), axpy, AXPY_CPP, eager_axpy, None, 1.0, {"alpha": 2.5}),
    Case("axpy f16", _flat(128, _HALF, _HALF), axpy, AXPY_CPP, eager_axpy, _AXPY_CUPY, 1.0, {"alpha": 2.5}),
    _two("add f32+bf16", _flat(64, _FLOAT, _BRAIN), 0.98, cupy=None),
    _two("add int32", _flat(64, torch.int32, torch.int32), 0.99),
    _two("add uint8", _flat(256, torch.uint8, torch.uint8), 0.99),
    _two("add f64", _flat(32, _DOUBLE, _DOUBLE), 0.99),
    Case(
        "mul complex64", _flat(32, torch.complex64, torch.complex64), mul, MUL_CPP, torch.mul,
        ("T x, T y", "T z", "z = x * y"), 0.98,
    ),
    _two("row broadcast", _grid((8192, 8192), (8192,)), 0.97),
    _two("column broadcast", _grid((8192, 8192), (8192, 1)), 0.97),
    _two("outer", _grid((8192, 1), (1, 8192)), 1.0),
    _two("x.t() + y f32", _transposed(_FLOAT, both=False), 0.98),
    _two("x.t() + y bf16", _transposed(_BRAIN, both=False), 0.95, cupy=None),
    _two("x.t() + y.t() f32", _transposed(_FLOAT, both=True), 1.0),
    _two("x[::2] + y", _stepped, 0.75, limit=0.75),
    _two("inner slice + y", _sliced, 0.98),
    _two("channels_last + NCHW", _images, 0.98),
    _two("NCHW + (C,1,1) bias", _bias, 0.96),
    _two("permute(0,2,1,3) + y", _permuted, 0.97),
    Case(
        "sin, cos", _flat(64, _FLOAT), sincos, SINCOS_CPP, eager_sincos,
        ("T x", "T s, T c", "s = sin(x); c = cos(x)"), 0.97, outputs=2,
    ),
    Case(
        "sum of 8", _flat(16, *[_FLOAT] * 8), sum8, SUM8_CPP, eager_sum8,
        ("T a, T b, T c, T d, T e, T f, T g, T h", "T z", "z = a + b + c + d + e + f + g + h"), 1.0,
    ),
)  # fmt: skip
