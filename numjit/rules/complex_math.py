"""Complex functions emitted from real ones, the same for GPU and CPU.

Numba implements some of ``cmath`` as overloads, which on the GPU need a device while compiling, and some
in float64 whatever the dtype. Here they follow from real functions in the precision of the dtype. Beside
``cmath``'s functions these are those that torch has for complex numbers.

Infinities, NaN and signs of zeros follow annex G of the C standard, as NumPy's do. Everything is selected
without a branch: both sides are computed, and what one of them makes of the other's operands has no say.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from numjit import dtypes
from numjit.dtypes import DType
from numjit.rules.lowering import Emitter
from numjit.rules.real import Condition, Emission, Real

__all__ = ["COMPLEX_FUNCTIONS", "FORMULAS", "TORCH_COMPLEX_FUNCTIONS", "power", "power_formula"]

#: ``(emitter, complex dtype, (re, im)) -> (re, im)``
_Function = Callable[[Emitter, DType, Any], Any]
_Pair = tuple[Real, Real]


def _formula(function: Callable[[Real, Real], tuple[Any, Any]]) -> _Function:
    """Make an emission of a formula of real and imaginary part."""

    @functools.wraps(function)
    def emit(emitter: Emitter, dtype: DType, z: Any) -> Any:
        x, y = (Real(emitter, dtype.real, part) for part in z)
        return tuple(x.of(part).value for part in function(x, y))

    return emit


def _choose(condition: Condition, yes: tuple[Any, Any], no: _Pair) -> _Pair:
    first = no[0]
    dtype = dtypes.complex64 if first.is_single else dtypes.complex128
    sides = [tuple(first.of(part).value for part in pair) for pair in (yes, no)]
    real, imag = first.emitter.select(dtype, condition.value, *sides)
    return first.of(real), first.of(imag)


def _called(function: Callable[[Real, Real], _Pair]) -> Callable[[Real, Real], _Pair]:
    """Let C++ call a function that other formulas are made of; Python writes it out."""
    name = function.__name__.removeprefix("_").removesuffix("_of")

    @functools.wraps(function)
    def call(x: Real, y: Real) -> _Pair:
        return x.emitter.shared(name, function, x, y)  # type: ignore[no-any-return]

    return call


def _rescaled(x: Real, y: Real) -> tuple[Real, Real, Real, Real]:
    """Return x and y times a power of four that keeps sums of them in range and subnormals exact.

    With it the logarithm of the power's reciprocal, and the reciprocal's square root.
    """
    exponent = 24 if x.is_single else 54
    size = x.abs().where(x.abs().is_(">", y.abs()), y.abs())
    is_large = size.is_(">", x.largest / 8)
    is_small = size.is_("<", x.smallest * 2.0**exponent)

    def scale(large: float, small: float, ordinary: float = 1.0) -> Real:
        return x.of(large).where(is_large, x.of(small).where(is_small, ordinary))

    factor = scale(2.0**-4, 2.0**exponent)
    logarithm = scale(math.log(2.0**4), math.log(2.0**-exponent), 0.0)
    return x * factor, y * factor, logarithm, scale(4.0, 2.0 ** -(exponent // 2))


# -------------------------------------------------------------------------- exponential and hyperbolic


def _grown(x: Real, cosine: Real, sine: Real) -> _Pair:
    """``(exp(x) * cosine, exp(x) * sine)`` where exp(x) alone may overflow and the products need not."""
    whole, half = x.call("exp"), (x * 0.5).call("exp")
    is_finite = whole.is_finite()
    return _choose(is_finite, (whole * cosine, whole * sine), (half * cosine * half, half * sine * half))


@_called
def _exp_of(x: Real, y: Real) -> _Pair:
    found = _grown(x, y.call("cos"), y.call("sin"))
    no_angle = x.is_infinite() & ~y.is_finite()
    is_left = x.is_("<", 0.0)
    found = _choose(no_angle, (x.of(0.0).where(is_left, x), x.of(0.0).where(is_left, math.nan)), found)
    return _choose(y.is_("==", 0.0), (x.call("exp"), y), found)


def _hyperbolic(x: Real, y: Real, *, odd: bool) -> _Pair:
    """``sinh`` (odd) or ``cosh``."""
    cosine, sine = y.call("cos"), y.call("sin")
    wide, slope = x.call("cosh"), x.call("sinh")
    one = x.of(1.0).signed(x)
    real, imag = (slope * cosine, wide * sine) if odd else (wide * cosine, slope * sine)
    large = _grown(x.abs(), cosine, sine)
    first, second = large[0] * 0.5, large[1] * 0.5
    overflows = wide.is_infinite() & x.is_finite()
    found = _choose(overflows, (one * first, second) if odd else (first, one * second), (real, imag))
    no_angle = x.is_infinite() & ~y.is_finite()
    found = _choose(no_angle, (x.abs(), math.nan), found)
    is_known = cosine.is_number()
    zero = x * cosine.where(is_known, 1.0) if odd else x * sine.where(is_known, 1.0)
    found = _choose(x.is_("==", 0.0), (zero, sine) if odd else (cosine, zero), found)
    return _choose(y.is_("==", 0.0), (slope, y) if odd else (wide, one * y), found)


@_called
def _sinh_of(x: Real, y: Real) -> _Pair:
    return _hyperbolic(x, y, odd=True)


@_called
def _cosh_of(x: Real, y: Real) -> _Pair:
    return _hyperbolic(x, y, odd=False)


@_called
def _tanh_of(x: Real, y: Real) -> _Pair:
    """Kahan's formula, which neither overflows nor cancels."""
    tangent, sine = y.call("tan"), x.call("sinh")
    squared = sine * sine
    beta = 1.0 + tangent * tangent
    scale = 1.0 / (1.0 + beta * squared)
    found = beta * (1.0 + squared).call("sqrt") * sine * scale, tangent * scale
    # Far out sinh squared overflows: the real part is 1 to the last bit, the imaginary part vanishes.
    turn = y.call("sin") * y.call("cos")
    decay = (-x.abs()).call("exp")
    is_far = x.abs().is_(">", 11.0 if x.is_single else 22.0)
    one = x.of(1.0).signed(x)
    found = _choose(is_far, (one.where(y.is_finite(), math.nan), turn * 4.0 * decay * decay), found)
    found = _choose(x.is_infinite(), (one, x.of(0.0).signed(turn.where(y.is_finite(), y))), found)
    found = _choose(x.is_("==", 0.0) & ~y.is_finite(), (x, math.nan), found)
    return _choose(y.is_("==", 0.0), (x.call("tanh"), y), found)


def _turned(function: Callable[[Real, Real], _Pair]) -> Callable[[Real, Real], _Pair]:
    """Return ``z -> -i f(iz)``: sin, tan, asinh and atan from sinh, tanh, asin and atanh."""

    def turned(x: Real, y: Real) -> _Pair:
        real, imag = function(-y, x)
        return imag, -real

    return turned


def _cos_of(x: Real, y: Real) -> _Pair:
    return _cosh_of(-y, x)


# --------------------------------------------------------------------------------- logarithm and roots


def _log_size(x: Real, y: Real) -> Real:
    """``log(hypot(x, y))``, exact near the unit circle, without overflow."""
    is_first = x.abs().is_(">", y.abs())
    big, small = x.abs().where(is_first, y.abs()), y.abs().where(is_first, x.abs())
    # There it is log1p(x**2 + y**2 - 1) / 2, of squares with their rounding errors.
    # (The square is a fused product with 0: a product and the difference from 1 a GPU would fuse.)
    square, other = big.call("fma", big, 0.0), small * small
    error = big.call("fma", big, -square) + small.call("fma", small, -other)
    above = square - 1.0
    total = above + other
    rest = (above - total) + other  # exact, as other is the smaller one, or the sum is far from 0
    swapped = (other - total) + above
    rest = rest.where(above.abs().is_(">=", other), swapped)
    near = (total + (rest + error)).call("log1p") * 0.5
    is_near = big.is_(">", 0.5) & big.is_("<", 1.5)
    first, second, back, _ = _rescaled(x, y)
    far = first.call("hypot", second).call("log") + back
    return near.where(is_near, far)


@_called
def _log_of(x: Real, y: Real) -> _Pair:
    return _log_size(x, y), y.call("atan2", x)


@_called
def _sqrt_of(x: Real, y: Real) -> _Pair:
    first, second, _, back = _rescaled(x, y)
    root = ((first.abs() + first.call("hypot", second)) * 0.5).call("sqrt")
    other = second / (root * 2.0)
    is_right = x.is_(">=", 0.0)
    found = root.where(is_right, other.abs()) * back, other.where(is_right, root.signed(y)) * back
    found = _choose(x.is_("==", 0.0) & y.is_("==", 0.0), (0.0, y), found)
    zero = x.of(0.0).where(y.is_number(), y)
    right, left = (x, zero.signed(y).where(y.is_number(), y)), (zero, x.of(math.inf).signed(y))
    found = _choose(x.is_("==", math.inf), right, found)
    found = _choose(x.is_("==", -math.inf), left, found)
    return _choose(y.is_infinite(), (math.inf, y), found)


# --------------------------------------------------------------------------------------------- inverse


def _is_huge(x: Real, y: Real) -> Condition:
    """Return whether the roots below overflow, or infinities cancel in them."""
    limit = x.largest / 8
    return x.abs().is_(">", limit) | y.abs().is_(">", limit)


def _log_twice(x: Real, y: Real) -> Real:
    """``log|2z|`` of a huge number."""
    return (x * 0.125).call("hypot", y * 0.125).call("log") + math.log(16.0)


@_called
def _asin_of(x: Real, y: Real) -> _Pair:
    """W. Kahan, "Branch cuts for complex elementary functions": neither cancels nor overflows early."""
    below, above = _sqrt_of(1.0 - x, -y), _sqrt_of(1.0 + x, y)
    across = below[0] * above[0] - below[1] * above[1]
    along = below[0] * above[1] - below[1] * above[0]
    found = x.call("atan2", across), along.call("asinh")
    found = _choose(_is_huge(x, y), (x.call("atan2", y.abs()), _log_twice(x, y).signed(y)), found)
    return _choose(x.is_("==", 0.0) & y.is_nan(), (x, y), found)


def _acos_of(x: Real, y: Real) -> _Pair:
    below, above = _sqrt_of(1.0 - x, -y), _sqrt_of(1.0 + x, y)
    along = above[0] * below[1] - above[1] * below[0]
    found = below[0].call("atan2", above[0]) * 2.0, along.call("asinh")
    huge = y.abs().call("atan2", x), _log_twice(x, y).signed(-y)
    found = _choose(_is_huge(x, y), huge, found)
    return _choose(x.is_("==", 0.0) & y.is_nan(), (math.pi / 2, y), found)


def _acosh_of(x: Real, y: Real) -> _Pair:
    below, above = _sqrt_of(x - 1.0, y), _sqrt_of(x + 1.0, y)
    along = below[0] * above[0] + below[1] * above[1]
    found = along.call("asinh"), below[1].call("atan2", above[0]) * 2.0
    found = _choose(_is_huge(x, y), (_log_twice(x, y), y.call("atan2", x)), found)
    return _choose(x.is_("==", 0.0) & y.is_nan(), (y, math.pi / 2), found)


@_called
def _atanh_of(x: Real, y: Real) -> _Pair:
    """``log1p(4x / ((1 - x)**2 + y**2)) / 4`` for the magnitude of the real part."""
    size, height = x.abs(), y.abs()
    gap = 1.0 - size
    real = (size * 4.0 / (gap * gap + y * y)).call("log1p") * 0.25
    imag = (y * 2.0).call("atan2", gap * (1.0 + size) - y * y) * 0.5
    # Beside the pole at 1 the squares vanish.
    is_beside = gap.is_("==", 0.0) & height.is_("<", math.sqrt(x.smallest))
    beside = x.of(math.log(2.0)) - height.call("log")
    real = (beside * 0.5).where(is_beside, real)
    quarter = x.of(math.pi / 4).signed(y)
    imag = y.where(y.is_("==", 0.0), quarter).where(is_beside, imag)
    # Far out they overflow: there it is the real part of 1 / z, a quarter turn away.
    limit = math.sqrt(x.largest) / 4
    is_far = size.is_(">", limit) | height.is_(">", limit)
    is_flat = size.is_(">", height)
    ratio = y.where(is_flat, x) / x.where(is_flat, y)
    part = (1.0 / x).where(is_flat, ratio / y) / (1.0 + ratio * ratio)
    part = x.of(0.0).where(x.is_infinite() | y.is_infinite(), part)
    half_turn = x.of(math.pi / 2).signed(y)
    is_known = y.is_infinite() | x.is_("ord", y)
    half_turn = half_turn.where(is_known, math.nan)
    real, imag = part.where(is_far, real), half_turn.where(is_far, imag)
    real = size.where(x.is_("==", 0.0), real)
    return real.signed(x), imag


# ----------------------------------------------------------------------------------------------- powers


def power_formula(x: Real, y: Real, u: Real, v: Real) -> _Pair:
    """``exp(w * log(z))``, with the C library's answers at 0."""
    size, angle = _log_of(x, y)
    is_real, is_imaginary = v.is_("==", 0.0), u.is_("==", 0.0)
    turn, growth = u * angle, -(v * angle)
    # 0 times infinity would be NaN.
    growth, turn = growth.where(is_imaginary, u * size + growth), turn.where(is_real, turn + v * size)
    found = _exp_of(growth, turn)
    is_zero = x.is_("==", 0.0) & y.is_("==", 0.0)
    is_growing = u.is_(">", 0.0)
    pole = x.of(0.0).where(is_growing, x.of(math.inf).where(is_real, math.nan))
    found = _choose(is_zero, (pole, x.of(0.0).where(is_growing, math.nan)), found)
    return _choose(is_imaginary & is_real, (1.0, 0.0), found)


def power(emitter: Emission, dtype: DType, z: Any, exponent: Any) -> Any:
    """Complex power."""
    found = power_formula(*(Real(emitter, dtype.real, part) for part in (*z, *exponent)))
    return tuple(part.value for part in found)


def _scaled(function: Callable[[Real, Real], _Pair], factor: float) -> Callable[[Real, Real], _Pair]:
    def scaled(x: Real, y: Real) -> _Pair:
        real, imag = function(x, y)
        return real * factor, imag * factor

    return scaled


def _exp2_of(x: Real, y: Real) -> _Pair:
    return _exp_of(x * math.log(2.0), y * math.log(2.0))


def _expm1_of(x: Real, y: Real) -> _Pair:
    """``expm1(x) cos y - 2 sin(y / 2)**2``, which does not cancel near 0."""
    half = (y * 0.5).call("sin")
    near = x.call("expm1") * y.call("cos") - half * half * 2.0
    grown = _exp_of(x, y)
    is_far = x.is_(">", 2.0) | x.is_("==", -math.inf)
    return (grown[0] - 1.0).where(is_far, near), grown[1]


def _log1p_of(x: Real, y: Real) -> _Pair:
    """``log1p(x (x + 2) + y**2) / 2`` near 0, where 1 + z would lose z."""
    near = (x * (x + 2.0) + y * y).call("log1p") * 0.5
    is_near = x.abs().is_("<", 0.5) & y.abs().is_("<", 0.5)
    far, angle = _log_of(1.0 + x, y)
    return near.where(is_near, far), angle


def _reciprocal(emitter: Emitter, dtype: DType, z: Any) -> Any:
    return emitter.truediv(dtype, emitter.constant(dtype, 1), z)


def _rsqrt(emitter: Emitter, dtype: DType, z: Any) -> Any:
    return _reciprocal(emitter, dtype, COMPLEX_FUNCTIONS["sqrt"](emitter, dtype, z))


def _sigmoid(emitter: Emitter, dtype: DType, z: Any) -> Any:
    """``1 / (1 + exp(-z))`` on the right and ``exp(z) / (1 + exp(z))`` on the left: neither overflows."""
    x, y = (Real(emitter, dtype.real, part) for part in z)
    is_right = x.is_(">=", 0.0)
    decay = tuple(part.value for part in _exp_of((-x).where(is_right, x), (-y).where(is_right, y)))
    one = emitter.constant(dtype, 1)
    above = emitter.select(dtype, is_right.value, one, decay)
    return emitter.truediv(dtype, above, emitter.add(dtype, one, decay))


def _sgn_of(x: Real, y: Real) -> _Pair:
    """``z / abs(z)``, 0 at 0."""
    first, second, _, _ = _rescaled(x, y)
    size = first.call("hypot", second)
    return _choose(size.is_("==", 0.0), (0.0, 0.0), (first / size, second / size))


#: Of sin(x) / x as a power series in x**2, its highest coefficient first.
_SINC = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9, -1, -1))


def _sinc(emitter: Emitter, dtype: DType, z: Any) -> Any:
    turned = tuple(Real(emitter, dtype.real, part) * math.pi for part in z)
    above = _turned(_sinh_of)(*turned)
    ratio = emitter.truediv(dtype, *(tuple(part.value for part in pair) for pair in (above, turned)))
    # Near 0 the quotient's smaller part cancels; the power series there is exact in both.
    x, y = turned
    square = x * x - y * y, x * y * 2.0
    kept = _SINC[3:] if x.is_single else _SINC
    real, imag = x.of(kept[0]), x.of(0.0)
    for coefficient in kept[1:]:
        real, imag = (
            real * square[0] - imag * square[1] + coefficient, real * square[1] + imag * square[0]
        )  # fmt: skip
    is_near = (x * x + y * y).is_("<", 1.0)
    return emitter.select(dtype, is_near.value, (real.value, imag.value), ratio)


#: ``cmath``'s functions of one argument with a complex result and ``log2``, as formulas of the parts.
FORMULAS: dict[str, Callable[[Real, Real], _Pair]] = {
    "exp": _exp_of, "log": _log_of, "log10": _scaled(_log_of, 1.0 / math.log(10.0)), "sqrt": _sqrt_of,
    "sinh": _sinh_of, "cosh": _cosh_of, "tanh": _tanh_of, "sin": _turned(_sinh_of), "cos": _cos_of,
    "tan": _turned(_tanh_of), "asin": _asin_of, "acos": _acos_of, "atan": _turned(_atanh_of),
    "asinh": _turned(_asin_of), "acosh": _acosh_of, "atanh": _atanh_of,
    "log2": _scaled(_log_of, 1.0 / math.log(2.0)),
}  # fmt: skip
COMPLEX_FUNCTIONS: dict[str, _Function] = {
    name: _formula(function) for name, function in FORMULAS.items() if name != "log2"
}

#: What torch computes of complex numbers: ``cmath``'s functions and more.
TORCH_COMPLEX_FUNCTIONS: dict[str, _Function] = {
    **COMPLEX_FUNCTIONS,
    "exp2": _formula(_exp2_of),
    "expm1": _formula(_expm1_of),
    "log1p": _formula(_log1p_of),
    "log2": _formula(FORMULAS["log2"]),
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "sgn": _formula(_sgn_of),
    "sigmoid": _sigmoid,
    "sinc": _sinc,
}
