"""Complex functions emitted from real ones, the same for GPU and CPU.

Numba implements some of ``cmath`` as overloads, which on the GPU need a device while compiling. Those
that follow from real functions in a line or two are emitted here; the others are left to Numba.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from numjit.dtypes import DType
from numjit.functor.scalars.lowering import Emitter

__all__ = ["COMPLEX_FUNCTIONS"]

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


def _log10(emitter: Emitter, dtype: DType, z: Any) -> Any:
    scale = emitter.constant(dtype.real, 1.0 / math.log(10.0))
    return tuple(emitter.builder.fmul(part, scale) for part in _log(emitter, dtype, z))


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


def _numba(function: Callable[..., Any]) -> _Function:
    return lambda emitter, dtype, z: emitter.complex_call(function, dtype, z)


def _acosh(emitter: Emitter, dtype: DType, z: Any) -> Any:
    """Return the one of ``+-i acos(z)`` whose real part is not negative."""
    real, imag = emitter.complex_call(cmath.acos, dtype, z)
    zero = emitter.constant(dtype.real, 0)
    flip = emitter.builder.fcmp_ordered(">", imag, zero)
    return emitter.select(
        dtype, flip, (imag, emitter.neg(dtype.real, real)), (emitter.neg(dtype.real, imag), real)
    )


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
    "asin": _numba(cmath.asin),
    "acos": _numba(cmath.acos),
    "atan": _numba(cmath.atan),
    "asinh": _turned(_numba(cmath.asin)),
    "acosh": _acosh,
    "atanh": _turned(_numba(cmath.atan)),
}
