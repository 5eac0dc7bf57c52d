"""``numjit.math``: functions of one element that torch has and Python's ``math`` lacks or answers otherwise.

Inside a functor every function is compiled to what torch answers for the element's dtype: integers become
the default dtype where the function is one of real numbers, and real and complex elements are both taken
where torch takes both. Called outside of a functor, on Python numbers, each gives the same in Python's own
int, float and complex.
"""

from __future__ import annotations

import functools as _functools
import math as _math
import operator as _operator
from collections.abc import Callable
from typing import Any

import numpy as _np

from numjit.errors import ArgumentError as _ArgumentError
from numjit.errors import kind_of as _kind_of
from numjit.errors import shown as _shown

__all__ = [
    "acos", "acosh", "angle", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "ceil", "clamp", "copysign", "cos", "cosh", "digamma", "erf", "erfc",
    "erfcx", "erfinv", "exp", "exp2", "expm1", "floor", "fma", "fmax", "fmin", "fmod", "frac", "gammainc",
    "gcd", "hypot", "i0", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "lcm", "ldexp",
    "left_shift", "lgamma", "log", "log1p", "log2", "log10", "log_ndtr", "logaddexp", "logit", "maximum",
    "minimum", "nextafter", "reciprocal", "remainder", "right_shift", "round", "rsqrt", "sgn", "sigmoid",
    "sign", "signbit", "sin", "sinc", "sinh", "softplus", "sqrt", "square", "tan", "tanh", "trunc", "where",
    "xlogy",
]  # fmt: skip

# ------------------------------------------------------------------- Python numbers as elements


def _numpy(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a NumPy function to floats or complex numbers, without warnings, as IEEE 754 answers."""
    kind = complex if any(isinstance(value, complex) for value in values) else float
    with _np.errstate(all="ignore"):
        return function(*map(kind, values)).item()


def _real(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a NumPy function to floats, refusing complex numbers."""
    return _numpy(function, *map(float, values))


def _promoted(*values: Any) -> list[Any]:
    """Convert numbers to the widest kind among them, of bool, int, float and complex."""
    kinds = (bool, int, float, complex)
    widest = max(next(rank for rank, kind in enumerate(kinds) if isinstance(v, kind)) for v in values)
    return [kinds[widest](value) for value in values]


def _ordered(*values: Any) -> list[Any]:
    """Promote real numbers, refusing complex ones."""
    promoted = _promoted(*values)
    if isinstance(promoted[0], complex):
        raise TypeError("complex numbers have no order; take abs(x) or x.real")
    return promoted


def _whole(*values: Any) -> list[Any]:
    """Promote integers, refusing all else."""
    return _promoted(*map(_operator.index, values))


# -------------------------------------------------------------------- exponentials and logarithms


def exp(x: Any) -> Any:
    """Return ``e**x``, of real or complex numbers."""
    return _numpy(_np.exp, x)


def exp2(x: Any) -> Any:
    """Return ``2**x``, of real or complex numbers."""
    return _numpy(_np.exp2, x)


def expm1(x: Any) -> Any:
    """Return ``e**x - 1``, exact for small x, of real or complex numbers."""
    return _numpy(_np.expm1, x)


def log(x: Any) -> Any:
    """Return the natural logarithm of a real or complex number; of 0 it is -infinity."""
    return _numpy(_np.log, x)


def log2(x: Any) -> Any:
    """Return the logarithm to base 2, of real or complex numbers."""
    return _numpy(_np.log2, x)


def log10(x: Any) -> Any:
    """Return the logarithm to base 10, of real or complex numbers."""
    return _numpy(_np.log10, x)


def log1p(x: Any) -> Any:
    """Return ``log(1 + x)``, exact for small x, of real or complex numbers."""
    return _numpy(_np.log1p, x)


def sqrt(x: Any) -> Any:
    """Return the square root of a real or complex number; NaN for negative reals."""
    return _numpy(_np.sqrt, x)


def rsqrt(x: Any) -> Any:
    """Return ``1 / sqrt(x)``, of real or complex numbers."""
    return reciprocal(sqrt(x))


def ldexp(x: Any, n: Any) -> Any:
    """Return ``x * 2**n`` as a float."""
    half = trunc(float(n) / 2)
    return float(x) * exp2(half) * exp2(float(n) - half)


def logaddexp(x: Any, y: Any) -> Any:
    """Return ``log(exp(x) + exp(y))`` of floats without overflow."""
    return _real(_np.logaddexp, x, y)


def xlogy(x: Any, y: Any) -> Any:
    """Return ``x * log(y)``, and 0 where x is 0, whatever the number y is."""
    return 0.0 if x == 0 and y == y else float(x) * log(float(y))  # noqa: PLR0124


# ---------------------------------------------------------------------------------- trigonometry


def sin(x: Any) -> Any:
    """Return the sine of a real or complex number."""
    return _numpy(_np.sin, x)


def cos(x: Any) -> Any:
    """Return the cosine of a real or complex number."""
    return _numpy(_np.cos, x)


def tan(x: Any) -> Any:
    """Return the tangent of a real or complex number."""
    return _numpy(_np.tan, x)


def asin(x: Any) -> Any:
    """Return the inverse sine of a real or complex number; NaN for reals beyond 1."""
    return _numpy(_np.arcsin, x)


def acos(x: Any) -> Any:
    """Return the inverse cosine of a real or complex number; NaN for reals beyond 1."""
    return _numpy(_np.arccos, x)


def atan(x: Any) -> Any:
    """Return the inverse tangent of a real or complex number."""
    return _numpy(_np.arctan, x)


def atan2(y: Any, x: Any) -> Any:
    """Return the angle of the point ``(x, y)``, between -pi and pi."""
    return _real(_np.arctan2, y, x)


def sinh(x: Any) -> Any:
    """Return the hyperbolic sine of a real or complex number."""
    return _numpy(_np.sinh, x)


def cosh(x: Any) -> Any:
    """Return the hyperbolic cosine of a real or complex number."""
    return _numpy(_np.cosh, x)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent of a real or complex number."""
    return _numpy(_np.tanh, x)


def asinh(x: Any) -> Any:
    """Return the inverse hyperbolic sine of a real or complex number."""
    return _numpy(_np.arcsinh, x)


def acosh(x: Any) -> Any:
    """Return the inverse hyperbolic cosine of a real or complex number; NaN for reals below 1."""
    return _numpy(_np.arccosh, x)


def atanh(x: Any) -> Any:
    """Return the inverse hyperbolic tangent of a real or complex number; NaN for reals beyond 1."""
    return _numpy(_np.arctanh, x)


def hypot(x: Any, y: Any) -> Any:
    """Return ``sqrt(x**2 + y**2)`` of floats without overflow."""
    return _real(_np.hypot, x, y)


def sinc(x: Any) -> Any:
    """Return ``sin(pi * x) / (pi * x)``, which is 1 at 0, of real or complex numbers."""
    turned = _promoted(x, 0.0)[0] * _math.pi
    return sin(turned) / turned if turned != 0 else _promoted(1.0, turned)[0]


def angle(x: Any) -> Any:
    """Return the argument of a complex number; of a real one 0, pi, or NaN."""
    if isinstance(x, complex):
        return _math.atan2(x.imag, x.real)
    return float(x) if x != x else _math.pi if x < 0 else 0.0  # noqa: PLR0124


# ----------------------------------------------------------------------------- special functions


def sigmoid(x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``, of real or complex numbers."""
    return reciprocal(1.0 + exp(-x))


def logit(x: Any, eps: Any = None) -> Any:
    """Return ``log(x / (1 - x))``, the inverse of `sigmoid`; `eps` keeps x in ``[eps, 1 - eps]``."""
    x = float(x) if eps is None else clamp(float(x), eps, 1.0 - eps)
    return log(x * reciprocal(1.0 - x))


def softplus(x: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    """Return ``log(1 + exp(beta * x)) / beta`` of floats; x itself where ``beta * x > threshold``."""
    x = float(x)
    return x if beta * x > threshold else log1p(exp(beta * x)) / beta


def erf(x: Any) -> Any:
    """Return the error function."""
    return _math.erf(x)


def erfc(x: Any) -> Any:
    """Return ``1 - erf(x)``, exact for large x."""
    return _math.erfc(x)


def erfcx(x: Any) -> Any:
    """Return ``exp(x * x) * erfc(x)``, which stays in range for large x; infinite below -27."""
    x = float(x)
    if x < 2.0:
        return _math.exp(x * x) * _math.erfc(x) if x > -26.6 else _math.inf
    tail = x
    for k in range(100, 0, -1):  # the continued fraction of erfc
        tail = x + 0.5 * k / tail
    return 1.0 / (_math.sqrt(_math.pi) * tail)


def log_ndtr(x: Any) -> Any:
    """Return the logarithm of the standard normal distribution function, exact for x far below 0 too."""
    x = float(x)
    if x < -1.0:
        return log(0.5 * erfcx(x * -_math.sqrt(0.5))) - 0.5 * x * x
    outside = 0.5 * _math.erfc(abs(x) * _math.sqrt(0.5))
    return _math.log1p(-outside) if x > 0.0 else log(outside)


def gammainc(a: Any, x: Any) -> Any:
    """Return the regularised lower incomplete gamma function P(a, x), of which x may be differentiated."""
    a, x = float(a), float(x)
    if not (a >= 0.0 and x >= 0.0) or a == x == 0.0 or a == x == _math.inf:
        return _math.nan
    if a in {0.0, _math.inf} or x in {0.0, _math.inf}:
        return float(a == 0.0 or x == _math.inf)
    if a < 20.0:
        weight = _math.exp(a * _math.log(x) - x - _math.lgamma(a))
    else:  # by Stirling's series, whose terms do not cancel
        off = (x - a) / a
        series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / (a * a)) / (a * a)) / (a * a)) / a
        weight = _math.sqrt(a / (2.0 * _math.pi)) * _math.exp(a * (_math.log1p(off) - off) - series)
    if x < a + 1.0:  # the series in powers of x
        term = total = 1.0 / a
        order = a
        while term > total * 1e-17:
            order += 1.0
            term *= x / order
            total += term
        return min(weight * total, 1.0)
    # The continued fraction of the rest, by Lentz's method.
    below = x + 1.0 - a
    over, down = 1e300, 1.0 / below
    rest = down
    for k in range(1, 100000):
        factor, below = -k * (k - a), below + 2.0
        down = 1.0 / (factor * down + below)
        over = below + factor / over
        rest *= down * over
        if abs(down * over - 1.0) < 1e-16:
            break
    return 1.0 - weight * rest


def erfinv(x: Any) -> Any:
    """Return the inverse error function: infinite at -1 and 1, NaN beyond."""
    y = abs(float(x))
    if not y < 1.0:
        return copysign(_math.inf if y == 1.0 else _math.nan, x)
    # Halley's method from Winitzki's formula.
    depth = _math.log1p(-y * y)
    half = 2.0 / (_math.pi * 0.147) + depth / 2.0
    root = _math.sqrt(max(_math.sqrt(half * half - depth / 0.147) - half, 0.0))
    for _ in range(4):
        off = _math.erf(root) - y if y < 0.5 else (1.0 - y) - _math.erfc(root)
        step = off * _math.sqrt(_math.pi) / 2.0 * _math.exp(root * root)
        root -= step / (1.0 + root * step)
    return copysign(root, x)


def lgamma(x: Any) -> Any:
    """Return the logarithm of the gamma function's magnitude; infinite at 0 and the negative integers."""
    x = float(x)
    if x == _math.floor(x) and x <= 0 if _math.isfinite(x) else x < 0:
        return _math.inf
    try:
        return _math.lgamma(x)
    except OverflowError:
        return _math.inf


def digamma(x: Any) -> Any:
    """Return the derivative of `lgamma`: infinite at 0, NaN at the negative integers."""
    x = float(x)
    if x == 0.0:
        return _math.copysign(_math.inf, -x)
    if x != x or x == -_math.inf or (x < 0 and x == _math.floor(x)):  # noqa: PLR0124
        return _math.nan
    if x < 0:
        return digamma(1.0 - x) - _math.pi / _math.tan(_math.pi * _math.fmod(x, 1.0))
    result = 0.0
    while x < 10.0:
        result -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = 0.0
    for coefficient in (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        series = series * square + coefficient
    return result + _math.log(x) - 0.5 / x - series * square


def i0(x: Any) -> Any:
    """Return the modified Bessel function of the first kind of order 0."""
    return _real(_np.i0, x) if _math.isfinite(x) else abs(float(x))


# ---------------------------------------------------------------------- signs, rounding, remainders


def sign(x: Any) -> Any:
    """Return -1, 0 or 1 in x's own dtype; 0 for NaN."""
    (x,) = _ordered(x)
    return type(x)((x > 0) - (x < 0))


def sgn(x: Any) -> Any:
    """Return `sign` of a real number, ``x / abs(x)`` of a complex one."""
    return (x / abs(x) if x != 0 else x) if isinstance(x, complex) else sign(x)


def signbit(x: Any) -> Any:
    """Whether x is negative; so is -0.0."""
    return _ordered(x)[0] < 0 or (isinstance(x, float) and _math.copysign(1.0, x) < 0)


def copysign(x: Any, y: Any) -> Any:
    """Return the magnitude of x with the sign of y."""
    return _math.copysign(x, y)


def floor(x: Any) -> Any:
    """Round towards minus infinity, in x's own dtype."""
    return _real(_np.floor, x) if isinstance(x, float) else _operator.index(x)


def ceil(x: Any) -> Any:
    """Round towards infinity, in x's own dtype."""
    return _real(_np.ceil, x) if isinstance(x, float) else _operator.index(x)


def trunc(x: Any) -> Any:
    """Round towards 0, in x's own dtype."""
    return _real(_np.trunc, x) if isinstance(x, float) else _operator.index(x)


def round(x: Any, decimals: int = 0) -> Any:  # noqa: A001
    """Round half to even, in x's own dtype; in a functor `decimals` must be a literal."""
    if not isinstance(x, float):
        return _operator.index(x)
    scale = 10.0 ** abs(decimals)
    return _real(_np.rint, x * scale) / scale if decimals >= 0 else _real(_np.rint, x / scale) * scale


def frac(x: Any) -> Any:
    """Return a float's part after the point, with its sign."""
    return _real(lambda v: _np.float64(v) - _np.trunc(v), x)


def fmod(x: Any, y: Any) -> Any:
    """Return the remainder with the sign of x; an integer's by 0 is 0."""
    x, y = _ordered(x, y)
    if isinstance(x, float):
        return _real(_np.fmod, x, y)
    rest = abs(x) % abs(y) if y else 0
    return -rest if x < 0 else rest


def remainder(x: Any, y: Any) -> Any:
    """Return ``x % y``, the remainder with the sign of y; an integer's by 0 is 0."""
    x, y = _ordered(x, y)
    if isinstance(x, float):
        rest = fmod(x, y)
        return rest + y if rest and (rest < 0) != (y < 0) else rest
    return x % y if y else 0


def gcd(x: Any, y: Any) -> Any:
    """Return the greatest common divisor of integers."""
    return _math.gcd(x, y)


def lcm(x: Any, y: Any) -> Any:
    """Return the least common multiple of integers."""
    return _math.lcm(x, y)


def nextafter(x: Any, y: Any) -> Any:
    """Return the float after x towards y, among those of x's own dtype."""
    return _math.nextafter(x, y)


# ------------------------------------------------------------------------------- products and powers


def square(x: Any) -> Any:
    """Return ``x * x``; of a bool it is an int."""
    return x * x


def reciprocal(x: Any) -> Any:
    """Return ``1 / x``, of real or complex numbers; of 0 it is infinite."""
    return _numpy(_np.reciprocal, x)


def fma(x: Any, y: Any, z: Any) -> Any:
    """Return ``x * y + z``, of floats rounded once; of integers it wraps."""
    x, y, z = _ordered(x, y, z)
    if not isinstance(x, float) or not all(map(_math.isfinite, (x, y, z))):
        return x * y + z
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) if exact else x * y + z
    except OverflowError:
        return _math.copysign(_math.inf, exact)


# ------------------------------------------------------------------------------- choosing and comparing


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` where a bool holds and `b` elsewhere, both promoted to one dtype."""
    a, b = _promoted(a, b)
    return a if condition else b


def clamp(x: Any, lo: Any = None, hi: Any = None) -> Any:
    """Return x moved into ``[lo, hi]``; None leaves a side open, and NaN, in the bounds too, gives NaN.

    Where `lo` exceeds `hi` the answer is `hi`.
    """
    bounds = [bound for bound in (lo, hi) if bound is not None]
    if not bounds:
        raise TypeError("clamp() needs a bound: one of lo and hi must not be None")
    promoted = _ordered(x, *bounds)
    x = maximum(promoted[0], promoted[1]) if lo is not None else promoted[0]
    return minimum(x, promoted[-1]) if hi is not None else x


def maximum(x: Any, y: Any) -> Any:
    """Return the larger number; NaN if either is."""
    x, y = _ordered(x, y)
    return x if x > y or x != x else y  # noqa: PLR0124


def minimum(x: Any, y: Any) -> Any:
    """Return the smaller number; NaN if either is."""
    x, y = _ordered(x, y)
    return x if x < y or x != x else y  # noqa: PLR0124


def fmax(x: Any, y: Any) -> Any:
    """Return the larger number; NaN only if both are."""
    x, y = _ordered(x, y)
    return x if x > y or y != y else y  # noqa: PLR0124


def fmin(x: Any, y: Any) -> Any:
    """Return the smaller number; NaN only if both are."""
    x, y = _ordered(x, y)
    return x if x < y or y != y else y  # noqa: PLR0124


def isnan(x: Any) -> bool:
    """Whether x, or a part of a complex x, is NaN; False for integers."""
    return bool(x != x)  # noqa: PLR0124


def isinf(x: Any) -> bool:
    """Whether x, or a part of a complex x, is infinite; False for integers."""
    return bool(_np.isinf(x))


def isfinite(x: Any) -> bool:
    """Whether x, or both parts of a complex x, are neither infinite nor NaN; True for integers."""
    return bool(_np.isfinite(x))


def isposinf(x: Any) -> bool:
    """Whether x is infinity."""
    return bool(_ordered(x)[0] == _math.inf)


def isneginf(x: Any) -> bool:
    """Whether x is minus infinity."""
    return bool(_ordered(x)[0] == -_math.inf)


# ------------------------------------------------------------------------------------------- bits


def bitwise_and(x: Any, y: Any) -> Any:
    """Return ``x & y`` of integers or bools."""
    return x & y


def bitwise_or(x: Any, y: Any) -> Any:
    """Return ``x | y`` of integers or bools."""
    return x | y


def bitwise_xor(x: Any, y: Any) -> Any:
    """Return ``x ^ y`` of integers or bools."""
    return x ^ y


def bitwise_not(x: Any) -> Any:
    """Return ``~x`` of an integer, ``not x`` of a bool."""
    return not x if isinstance(x, bool) else ~x


def left_shift(x: Any, n: Any) -> Any:
    """Return ``x << n``; in a functor bits beyond the width are lost, and n outside of it gives 0."""
    x, n = _whole(x, n)
    return x << n


def right_shift(x: Any, n: Any) -> Any:
    """Return ``x >> n``; in a functor n outside the width gives 0, or -1 of a negative integer."""
    x, n = _whole(x, n)
    return x >> n


# ---------------------------------------------------------------------------------- what is no number


def _for_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of elements that refuses what is no number.

    It is called outside of functors only: in one, the function's rule is compiled.
    """
    has_bounds = function.__defaults__ is not None

    @_functools.wraps(function)
    def checked(*values: Any, **named: Any) -> Any:
        given = [value for value in (*values, *named.values()) if value is not None or not has_bounds]
        try:
            for value in given:
                if not _is_like_a_number(value):
                    raise TypeError(f"{_shown(value)} is {_kind_of(value)}")
            return function(*map(_plain, values), **{name: _plain(value) for name, value in named.items()})
        except Exception as error:
            if isinstance(error, TypeError) or not all(map(_is_number, given)):
                said = str(error).partition("\n")[0][:200]
                raise _ArgumentError(
                    f"numjit.math.{function.__name__}(): {said}; pass other numbers, or call it in a functor"
                ) from None
            raise

    return checked


def _is_like_a_number(value: Any) -> bool:
    """Whether a value may stand for a number: symbolic ones do, a text does not."""
    kind = type(value)
    return any(hasattr(kind, way) for way in ("__float__", "__index__", "__complex__"))


def _is_number(value: Any) -> bool:
    return issubclass(type(value), bool | int | float | complex | _np.number | _np.bool)


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's number, and all else as it is."""
    return value.item() if issubclass(type(value), _np.generic) else value


for _name in __all__:
    globals()[_name] = _for_numbers(globals()[_name])
