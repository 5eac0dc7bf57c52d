"""Complex functions emitted from real ones, the same for GPU and CPU.

Numba implements some of ``cmath`` as overloads, which on the GPU need a device while compiling, and some
in float64 whatever the dtype. Here they follow from real functions in the precision of the dtype. Beside
``cmath``'s functions these are those that torch has for complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numjit.dtypes import DType
from numjit.functor.scalars.lowering import Emitter

__all__ = ["COMPLEX_FUNCTIONS", "TORCH_COMPLEX_FUNCTIONS"]

#: ``(emitter, complex dtype, (re, im)) -> (re, im)``
_Function = Callable[[Emitter, DType, Any], Any]


def _exp(emitter: Emitter, dtype: DType, z: Any) -> Any:
    b, real = emitter.builder, dtype.real
    size = emitter.math("exp", real, z[0])
    imag = b.fmul(size, emitter.math("sin", real, z[1]))
    is_real = b.fcmp_ordered("==", z[1], emitter.constant(real, 0))  # or inf * 0 would be NaN
    return b.fmul(size, emitter.math("cos", real, z[1])), b.select(is_real, z[1], imag)


def _log(emitter: Emitter, dtype: DType, z: Any) -> Any:
    real = dtype.real
    return (
        emitter.math("log", real, emitter.math("hypot", real, *z)),
        emitter.math("atan2", real, z[1], z[0]),
    )


def _scaled(emitter: Emitter, dtype: DType, z: Any, factor: float) -> Any:
    scale = emitter.constant(dtype.real, factor)
    return tuple(emitter.builder.fmul(part, scale) for part in z)


def _log10(emitter: Emitter, dtype: DType, z: Any) -> Any:
    return _scaled(emitter, dtype, _log(emitter, dtype, z), 1.0 / math.log(10.0))


def _sqrt(emitter: Emitter, dtype: DType, z: Any) -> Any:
    b, real = emitter.builder, dtype.real
    zero, half = emitter.constant(real, 0), emitter.constant(real, 0.5)
    sizes = [emitter.math("fabs", real, part) for part in z]
    sum_ = b.fadd(b.fmul(half, sizes[0]), b.fmul(half, emitter.math("hypot", real, *z)))
    large = emitter.math("sqrt", real, sum_)
    small = b.fdiv(b.fmul(half, sizes[1]), large)
    small = b.select(b.fcmp_ordered("==", sizes[1], zero), zero, small)  # 0 / 0 at the origin
    is_right = b.fcmp_ordered(">=", z[0], zero)
    signed = emitter.math("copysign", real, b.select(is_right, small, large), z[1])
    infinity = emitter.constant(real, math.inf)
    is_infinite = b.fcmp_ordered("==", sizes[1], infinity)
    return emitter.select(dtype, is_infinite, (infinity, z[1]), (b.select(is_right, large, small), signed))


def _sinh(emitter: Emitter, dtype: DType, z: Any) -> Any:
    b, real = emitter.builder, dtype.real
    return (
        b.fmul(emitter.math("sinh", real, z[0]), emitter.math("cos", real, z[1])),
        b.fmul(emitter.math("cosh", real, z[0]), emitter.math("sin", real, z[1])),
    )


def _cosh(emitter: Emitter, dtype: DType, z: Any) -> Any:
    b, real = emitter.builder, dtype.real
    return (
        b.fmul(emitter.math("cosh", real, z[0]), emitter.math("cos", real, z[1])),
        b.fmul(emitter.math("sinh", real, z[0]), emitter.math("sin", real, z[1])),
    )


def _tanh(emitter: Emitter, dtype: DType, z: Any) -> Any:
    """Kahan's formula, which neither overflows nor cancels."""
    b, real = emitter.builder, dtype.real
    one = emitter.constant(real, 1)
    tangent, sine = emitter.math("tan", real, z[1]), emitter.math("sinh", real, z[0])
    squared = b.fmul(sine, sine)
    beta = b.fadd(one, b.fmul(tangent, tangent))
    divisor = b.fadd(one, b.fmul(beta, squared))
    rho = emitter.math("sqrt", real, b.fadd(one, squared))
    near = b.fdiv(b.fmul(b.fmul(beta, rho), sine), divisor), b.fdiv(tangent, divisor)
    # Far out sinh squared overflows: the real part is 1 to the last bit, the imaginary part vanishes.
    limit = emitter.constant(real, 11.0 if real.itemsize == 4 else 22.0)
    size = emitter.math("fabs", real, z[0])
    is_far = b.fcmp_ordered(">", size, limit)
    decay = emitter.math("exp", real, b.fmul(emitter.constant(real, -2), size))
    product = b.fmul(emitter.math("sin", real, z[1]), emitter.math("cos", real, z[1]))
    far = (
        emitter.math("copysign", real, one, z[0]),
        b.fmul(emitter.constant(real, 4), b.fmul(product, decay)),
    )
    return emitter.select(dtype, is_far, far, near)


def _turned(function: _Function) -> _Function:
    """Return ``z -> -i f(iz)``: sin, tan, asinh and atanh from sinh, tanh, asin and atan, or back."""

    def turned(emitter: Emitter, dtype: DType, z: Any) -> Any:
        real, imag = function(emitter, dtype, (emitter.neg(dtype.real, z[1]), z[0]))
        return imag, emitter.neg(dtype.real, real)

    return turned


def _cos(emitter: Emitter, dtype: DType, z: Any) -> Any:
    return _cosh(emitter, dtype, (emitter.neg(dtype.real, z[1]), z[0]))


def _roots(emitter: Emitter, dtype: DType, z: Any) -> tuple[Any, Any]:
    """Return ``sqrt(1 - z)`` and ``sqrt(1 + z)``, on the right side of their cuts where z is real."""
    b, one = emitter.builder, emitter.constant(dtype.real, 1)
    below = b.fsub(one, z[0]), emitter.neg(dtype.real, z[1])
    return _sqrt(emitter, dtype, below), _sqrt(emitter, dtype, (b.fadd(one, z[0]), z[1]))


def _asin(emitter: Emitter, dtype: DType, z: Any) -> Any:
    """W. Kahan, "Branch cuts for complex elementary functions": neither cancels nor overflows early."""
    b, real = emitter.builder, dtype.real
    below, above = _roots(emitter, dtype, z)
    across = b.fsub(b.fmul(below[0], above[0]), b.fmul(below[1], above[1]))
    along = b.fsub(b.fmul(below[0], above[1]), b.fmul(below[1], above[0]))
    return emitter.math("atan2", real, z[0], across), emitter.math("asinh", real, along)


def _acos(emitter: Emitter, dtype: DType, z: Any) -> Any:
    b, real = emitter.builder, dtype.real
    below, above = _roots(emitter, dtype, z)
    along = b.fsub(b.fmul(above[0], below[1]), b.fmul(above[1], below[0]))
    half = emitter.math("atan2", real, below[0], above[0])
    return b.fmul(emitter.constant(real, 2), half), emitter.math("asinh", real, along)


def _atanh(emitter: Emitter, dtype: DType, z: Any) -> Any:
    """``log1p(4x / ((1 - x)**2 + y**2)) / 4`` for the magnitude of the real part."""
    b, real = emitter.builder, dtype.real
    zero, one, quarter = (emitter.constant(real, value) for value in (0, 1, 0.25))
    x, y = emitter.math("fabs", real, z[0]), z[1]
    left, square = b.fsub(one, x), b.fmul(y, y)
    distance = b.fadd(b.fmul(left, left), square)
    ratio = b.fdiv(b.fmul(emitter.constant(real, 4), x), distance)
    is_far = b.fcmp_ordered("==", distance, emitter.constant(real, math.inf))
    size = b.fmul(quarter, emitter.math("log1p", real, b.select(is_far, zero, ratio)))
    across = b.fsub(b.fmul(left, b.fadd(one, x)), square)
    angle = emitter.math("atan2", real, b.fadd(y, y), across)
    return emitter.math("copysign", real, size, z[0]), b.fmul(emitter.constant(real, 0.5), angle)


def _acosh(emitter: Emitter, dtype: DType, z: Any) -> Any:
    b, real = emitter.builder, dtype.real
    one = emitter.constant(real, 1)
    below = _sqrt(emitter, dtype, (b.fsub(z[0], one), z[1]))
    above = _sqrt(emitter, dtype, (b.fadd(z[0], one), z[1]))
    along = b.fadd(b.fmul(below[0], above[0]), b.fmul(below[1], above[1]))
    half = emitter.math("atan2", real, below[1], above[0])
    return emitter.math("asinh", real, along), b.fmul(emitter.constant(real, 2), half)


#: ``cmath``'s functions of one argument with a complex result.
COMPLEX_FUNCTIONS: dict[str, _Function] = {
    "exp": _exp,
    "log": _log,
    "log10": _log10,
    "sqrt": _sqrt,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sin": _turned(_sinh),
    "cos": _cos,
    "tan": _turned(_tanh),
    "asin": _asin,
    "acos": _acos,
    "atan": _turned(_atanh),
    "asinh": _turned(_asin),
    "acosh": _acosh,
    "atanh": _atanh,
}


# ----------------------------------------------------------------------------- torch's, beyond cmath


def _log2(emitter: Emitter, dtype: DType, z: Any) -> Any:
    return _scaled(emitter, dtype, _log(emitter, dtype, z), 1.0 / math.log(2.0))


def _exp2(emitter: Emitter, dtype: DType, z: Any) -> Any:
    return _exp(emitter, dtype, _scaled(emitter, dtype, z, math.log(2.0)))


def _expm1(emitter: Emitter, dtype: DType, z: Any) -> Any:
    """``expm1(x) cos y - 2 sin(y / 2)**2``, which does not cancel near 0."""
    b, real = emitter.builder, dtype.real
    half = emitter.math("sin", real, b.fmul(z[1], emitter.constant(real, 0.5)))
    versed = b.fmul(emitter.constant(real, 2), b.fmul(half, half))
    grown = b.fmul(emitter.math("expm1", real, z[0]), emitter.math("cos", real, z[1]))
    return b.fsub(grown, versed), _exp(emitter, dtype, z)[1]


def _log1p(emitter: Emitter, dtype: DType, z: Any) -> Any:
    """``log1p(x (x + 2) + y**2) / 2`` near 0, where 1 + z would lose z."""
    b, real = emitter.builder, dtype.real
    moved = b.fadd(emitter.constant(real, 1), z[0])
    extra = b.fmul(z[0], b.fadd(z[0], emitter.constant(real, 2)))
    near = emitter.math("log1p", real, b.fadd(extra, b.fmul(z[1], z[1])))
    near = b.fmul(near, emitter.constant(real, 0.5))
    is_near = b.fcmp_ordered("<", emitter.math("hypot", real, *z), emitter.constant(real, 0.5))
    far, angle = _log(emitter, dtype, (moved, z[1]))
    return b.select(is_near, near, far), angle


def _reciprocal(emitter: Emitter, dtype: DType, z: Any) -> Any:
    return emitter.truediv(dtype, emitter.constant(dtype, 1), z)


def _rsqrt(emitter: Emitter, dtype: DType, z: Any) -> Any:
    return _reciprocal(emitter, dtype, _sqrt(emitter, dtype, z))


def _sigmoid(emitter: Emitter, dtype: DType, z: Any) -> Any:
    decay = _exp(emitter, dtype, emitter.neg(dtype, z))
    return _reciprocal(emitter, dtype, emitter.add(dtype, emitter.constant(dtype, 1), decay))


def _sgn(emitter: Emitter, dtype: DType, z: Any) -> Any:
    """``z / abs(z)``, 0 at 0."""
    b, real = emitter.builder, dtype.real
    zero, size = emitter.constant(real, 0), emitter.math("hypot", real, *z)
    is_zero = b.fcmp_ordered("==", size, zero)
    return tuple(b.select(is_zero, zero, b.fdiv(part, size)) for part in z)


def _sinc(emitter: Emitter, dtype: DType, z: Any) -> Any:
    turned = _scaled(emitter, dtype, z, math.pi)
    ratio = emitter.truediv(dtype, COMPLEX_FUNCTIONS["sin"](emitter, dtype, turned), turned)
    is_zero = emitter.builder.not_(emitter.truth(dtype, z))
    return emitter.select(dtype, is_zero, emitter.constant(dtype, 1), ratio)


#: What torch computes of complex numbers: ``cmath``'s functions and more.
TORCH_COMPLEX_FUNCTIONS: dict[str, _Function] = {
    **COMPLEX_FUNCTIONS,
    "exp2": _exp2,
    "expm1": _expm1,
    "log1p": _log1p,
    "log2": _log2,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "sgn": _sgn,
    "sigmoid": _sigmoid,
    "sinc": _sinc,
}
