"""Special functions of real floats that the C library or libdevice lacks, the same for GPU, CPU and C++.

Formulas are written on `Real`, mostly without branches, so that loops over them vectorise on the CPU and
threads of a warp stay together on the GPU. ``numjit/functor/cpp/include/values.h`` is written from them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from llvmlite import ir

from numjit.codegen.storage import decode, encode
from numjit.dtypes import DType
from numjit.rules.lowering import Emitter
from numjit.rules.real import Condition, Emission, Real, branch, chebyshev, loop, polynomial, split

__all__ = [
    "Function", "Real", "cospi", "digamma", "erfcinv", "erfcx", "erfinv", "exp10", "fma",
    "gammainc", "i0", "i1", "lcm", "ldexp", "log_ndtr", "logaddexp", "logit", "nextafter",
    "normcdf", "normcdfinv", "rcbrt", "rsqrt", "sigmoid", "sinc", "sinpi", "softplus", "trigamma",
    "xlogy",
]  # fmt: skip


class Function:
    """A formula of `Real` values as an emission ``(emitter, dtype, *values) -> value``.

    Parameters
    ----------
    formula
        Takes and returns `Real`.
    cuda
        CUDA's function, which the GPU computes instead of the formula; none where empty.
    """

    def __init__(self, formula: Callable[..., Real], cuda: str = "") -> None:
        self.formula = formula
        self.cuda = cuda
        self.__name__ = formula.__name__
        self.__doc__ = formula.__doc__

    def __call__(self, emitter: Emission, dtype: DType, *values: Any) -> Any:
        """Emit the function of values of a real dtype."""
        given = [Real(emitter, dtype, value) for value in values]
        if self.cuda and emitter.machine.is_ptx:
            return given[0].call(self.cuda, *given[1:]).value
        return self.formula(*given).value

    def of(self, x: Real, *others: Real) -> Real:
        """Return the function's value inside of another formula."""
        if self.cuda and x.emitter.machine.is_ptx:
            return x.call(self.cuda, *others)
        return x.emitter.shared(self.__name__, self.formula, x, *others)  # type: ignore[no-any-return]


def _function(cuda: str = "") -> Callable[[Callable[..., Real]], Function]:
    return lambda formula: Function(formula, cuda)


# ------------------------------------------------------------------------------------- short formulas


@_function()
def sigmoid(x: Real) -> Real:
    """Logistic function."""
    return 1.0 / (1.0 + (-x).call("exp"))


@_function(cuda="rsqrt")
def rsqrt(x: Real) -> Real:
    """Reciprocal of the square root."""
    return 1.0 / x.call("sqrt")


@_function(cuda="rcbrt")
def rcbrt(x: Real) -> Real:
    """Reciprocal of the cube root."""
    return 1.0 / x.call("cbrt")


@_function(cuda="exp10")
def exp10(x: Real) -> Real:
    """10 to a power."""
    return x.of(10.0).call("pow", x)


def fma(emitter: Emitter, dtype: DType, x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, of floats with one rounding."""
    if dtype.is_floating:
        return emitter.math("fma", dtype, x, y, z)
    return emitter.add(dtype, emitter.mul(dtype, x, y), z)


@_function(cuda="sinpi")
def sinpi(x: Real) -> Real:
    """``sin(pi * x)``, reduced before the multiplication by pi, so that whole and half numbers are exact."""
    size = x.abs()
    turned = size - (size * 0.5).call("floor") * 2.0
    folded = (turned - 2.0).where(turned.is_(">", 1.0), turned)
    below = (-1.0 - folded).where(folded.is_("<", -0.5), folded)
    inner = (1.0 - folded).where(folded.is_(">", 0.5), below)
    return (inner * math.pi).call("sin") * x.of(1.0).signed(x)


@_function(cuda="cospi")
def cospi(x: Real) -> Real:
    """``cos(pi * x)``, reduced as `sinpi`."""
    size = x.abs()
    turned = size - (size * 0.5).call("floor") * 2.0
    folded = (2.0 - turned).where(turned.is_(">", 1.0), turned)
    is_middle = folded.is_(">", 0.25) & folded.is_("<", 0.75)
    return ((0.5 - folded) * math.pi).call("sin").where(is_middle, (folded * math.pi).call("cos"))


@_function()
def sinc(x: Real) -> Real:
    """``sin(pi * x) / (pi * x)``, 1 at 0."""
    turned = x * math.pi
    return x.of(1.0).where(x.is_("==", 0.0), turned.call("sin") / turned)


def logit(emitter: Emission, dtype: DType, value: Any, eps: Any) -> Any:
    """``log(x / (1 - x))``, of x moved into ``[eps, 1 - eps]`` unless `eps` is None."""
    x = Real(emitter, dtype, value)
    if eps is not None:
        low = x.of(eps)
        high = 1.0 - low
        x = low.where(x.is_("<", low), high.where(x.is_(">", high), x))
    return (x / (1.0 - x)).call("log").value


@_function()
def xlogy(x: Real, y: Real) -> Real:
    """``x * log(y)``, 0 where x is 0 and y is no NaN."""
    is_zero = x.is_("==", 0.0) & y.is_number()
    return x.of(0.0).where(is_zero, x * y.call("log"))


@_function()
def logaddexp(x: Real, y: Real) -> Real:
    """``log(exp(x) + exp(y))`` that does not overflow."""
    larger = x.where(x.is_(">", y), y)
    distance = (x - y).abs()
    total = larger + (-distance).call("exp").call("log1p")
    is_same_infinity = x.is_("==", y) & x.is_infinite()
    return x.where(is_same_infinity, total)


def softplus(emitter: Emission, dtype: DType, value: Any, beta: Any, threshold: Any) -> Any:
    """``log(1 + exp(beta * x)) / beta``, x itself where ``beta * x`` exceeds `threshold`."""
    x = Real(emitter, dtype, value)
    scaled = x * x.of(beta)
    smooth = scaled.call("exp").call("log1p") / x.of(beta)
    return x.where(scaled.is_(">", x.of(threshold)), smooth).value


def ldexp(emitter: Emission, dtype: DType, value: Any, exponent: Any) -> Any:
    """``x * 2**n`` in two steps, so that the power alone neither overflows nor vanishes."""
    x, n = Real(emitter, dtype, value), Real(emitter, dtype, exponent)
    half = (n * 0.5).call("trunc")
    return (x * half.call("exp2") * (n - half).call("exp2")).value


def lcm(emitter: Emitter, dtype: DType, x: Any, y: Any) -> Any:
    """Least common multiple, 0 with 0; too large a one wraps as torch's, whose small integers are ints."""
    divisor = emitter.gcd(dtype, x, y)
    if dtype.bits < 32:
        x, y = emitter.abs(dtype, x), emitter.abs(dtype, y)
        return emitter.mul(dtype, emitter.floordiv(dtype, x, divisor), y)
    return emitter.abs(dtype, emitter.mul(dtype, emitter.floordiv(dtype, x, divisor), y))


# --------------------------------------------------------------------------------- inverse error function

# A first guess for |y| <= 0.7, and one beyond it (the coefficients that torch's calc_erfinv uses).
_CENTRAL = (-0.140543331, 0.914624893, -1.645349621, 0.886226899)
_CENTRAL_BELOW = (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0)
_TAIL = (1.641345311, 3.429567803, -1.624906493, -1.970840454)
_TAIL_BELOW = (1.637067800, 3.543889200, 1.0)
#: The slope of erf at 0.
_SLOPE = 2.0 / math.sqrt(math.pi)


def _inverse(y: Real, rest: Real) -> Real:
    """Inverse error function of ``y`` in [0, 1], told with ``rest``, which is 1 - y."""
    is_central = y.is_("<=", 0.7)
    square = y * y
    depth = (-(rest * 0.5).call("log")).call("sqrt")
    central = y * polynomial(square, _CENTRAL) / polynomial(square, _CENTRAL_BELOW)
    x = central.where(is_central, polynomial(depth, _TAIL) / polynomial(depth, _TAIL_BELOW))
    # Halley's method. The rest is exact in the tail, where the difference of erf(x) and y would cancel.
    for _ in range(1 if y.is_single else 3):
        off = (x.call("erf") - y).where(is_central, rest - x.call("erfc"))
        step = off / ((-(x * x)).call("exp") * _SLOPE)
        x = x - step / (1.0 + x * step)
    return x


@_function(cuda="erfinv")
def erfinv(x: Real) -> Real:
    """Inverse error function: infinite at 1 and -1, NaN beyond."""
    y = x.abs()
    found = _inverse(y, 1.0 - y)
    return x.of(math.inf).where(y.is_("==", 1.0), found).signed(x)


@_function(cuda="erfcx")
def erfcx(x: Real) -> Real:
    """``exp(x * x) * erfc(x)``; what rounding takes from the square counts in the exponent."""
    square = x * x
    lost = x.call("fma", x, -square)
    near = square.call("exp") * (lost + 1.0) * x.call("erfc")
    t = 0.5 / x / x  # x * x may overflow
    series = x.of(1.0)
    for odd in (13, 11, 9, 7, 5, 3, 1):
        series = 1.0 - t * odd * series
    far = (1.0 / math.sqrt(math.pi)) / x * series
    found = far.where(x.is_(">", 8.0 if x.is_single else 25.0), near)
    return x.of(math.inf).where(x.is_("<", -27.0), found)


@_function(cuda="erfcinv")
def erfcinv(x: Real) -> Real:
    """Inverse of erfc: infinite at 0 and 2, NaN beyond."""
    is_upper = x.is_(">", 1.0)
    rest = (2.0 - x).where(is_upper, x)
    y = _inverse((x - 1.0).where(is_upper, 1.0 - x), rest)
    # Far out Newton's method on log(erfc), which does not run out of exponents.
    goal = x.call("log")
    depth = (math.log(2.0) - goal).call("sqrt")
    far = polynomial(depth, _TAIL) / polynomial(depth, _TAIL_BELOW)
    for _ in range(2 if x.is_single else 3):
        scaled = erfcx.of(far)
        far = far + (scaled.call("log") - far * far - goal) * scaled / _SLOPE
    y = far.where(x.is_("<", 0.0625), (-y).where(is_upper, y))
    return x.of(math.inf).where(x.is_("==", 0.0), (-y.of(math.inf)).where(x.is_("==", 2.0), y))


@_function(cuda="normcdf")
def normcdf(x: Real) -> Real:
    """``erfc(-x / sqrt(2)) / 2``, with what rounding takes from the quotient: far out it is many digits."""
    high, low = split(x, math.sqrt(0.5), -4.833646656726457e-17)
    y = -(x * high)
    lost = (-x).call("fma", high, -y) - x * low
    found = (y.call("erfc") - lost * _SLOPE * (-(y * y)).call("exp")) * 0.5
    limit = x.of(1.0).where(x.is_(">", 0.0), 0.0)
    return limit.where(x.abs().is_(">", 40.0), found)


@_function()
def log_ndtr(x: Real) -> Real:
    """Logarithm of `normcdf`: of negative numbers by what is scaled, since that vanishes."""
    left = (erfcx.of(x * -math.sqrt(0.5)) * 0.5).call("log") - x * x * 0.5
    return left.where(x.is_("<", 0.0), (-normcdf.of(-x)).call("log1p"))


@_function(cuda="normcdfinv")
def normcdfinv(x: Real) -> Real:
    """Inverse of `normcdf`."""
    return erfcinv.of(x * 2.0) * -math.sqrt(2.0)


# ------------------------------------------------------------------------------------------- digamma

#: Where digamma is 0, and its rational approximation around there (J. Maddock, Boost.Math, 1 <= x <= 2):
#: ``(x - root) * (scale + P(x - 1) / Q(x - 1))``, which keeps the relative error small at the root.
_ROOT = (1569415565.0 / 2.0**30, 3.309564689176888e-10)
_ROOT_SCALE = 0.99558162689208984375
_ROOT_P = (
    -0.0020713321167745952, -0.045251321448739056, -0.28919126444774784, -0.65031853770896507,
    -0.32555031186804491, 0.25479851061131551,
)  # fmt: skip
_ROOT_Q = (
    -0.55789841321675513e-6, 0.0021284987017821144, 0.054151797245674225, 0.43593529692665969,
    1.4606242909763515, 2.0767117023730469, 1.0,
)  # fmt: skip
#: Bernoulli numbers B(2n) / 2n of the asymptotic series in 1 / x**2, n = 7 to 1.
_ASYMPTOTIC = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


@_function()
def digamma(given: Real) -> Real:
    """Logarithmic derivative of the gamma function.

    NaN at the negative integers and -infinity; infinite with the other sign at zeros, as torch's.
    """
    zero = given.of(0.0)
    is_reflected = given.is_("<=", -1.0)
    x = (1.0 - given).where(is_reflected, given)
    is_large = x.is_(">=", 10.0)

    inverse = 1.0 / (x * x)
    large = x.call("log") - 0.5 / x - inverse * polynomial(inverse, _ASYMPTOTIC)

    near = x.of(1.5).where(is_large, x)
    shift = zero
    for _ in range(2):  # up from (-1, 1) to [1, 2]
        is_low = near.is_("<", 1.0)
        shift = shift - (1.0 / near).where(is_low, zero)
        near = (near + 1.0).where(is_low, near)
    above, below = zero, given.of(1.0)  # down from (2, 10): the sum of 1 / (x - k) as one fraction
    for _ in range(8):
        is_high = near.is_(">", 2.0)
        near = (near - 1.0).where(is_high, near)
        above = (above * near + below).where(is_high, above)
        below = (below * near).where(is_high, below)
    high, low = split(x, *_ROOT)
    distance = near - high - low
    ratio = polynomial(near - 1.0, _ROOT_P) / polynomial(near - 1.0, _ROOT_Q)
    small = distance * _ROOT_SCALE + distance * ratio + above / below + shift

    whole = given.call("trunc")
    rest = given - whole  # in (-1, 0] where it is used; moved to where pi * rest is most exact
    rest = (rest + 1.0).where(rest.is_("<", -0.5), rest)
    if given.emitter.machine.is_ptx:  # tan would reduce large arguments in float64
        cotangent = rest.call("cospi") / rest.call("sinpi")
    else:
        cotangent = 1.0 / (rest * math.pi).call("tan")
    positive = large.where(is_large, small)
    reflected = (positive - cotangent * math.pi).where(is_reflected, positive)
    is_pole = is_reflected & given.is_("==", whole)
    return given.of(math.nan).where(is_pole, reflected)


#: Bernoulli numbers B(2n) of trigamma's asymptotic series, n = 7 to 1.
_BERNOULLI = (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)


@_function()
def trigamma(x: Real) -> Real:
    """Return the derivative of `digamma`: reflection, ten steps of the recurrence, asymptotic series."""
    is_reflected = x.is_("<", 0.5)
    near = (1.0 - x).where(is_reflected, x)
    total = x.of(0.0)
    for _ in range(10):
        total = total + 1.0 / (near * near)
        near = near + 1.0
    inverse = 1.0 / (near * near)
    total = total + (1.0 + 0.5 / near + inverse * polynomial(inverse, _BERNOULLI)) / near
    height = math.pi / sinpi.of(x)
    return (height * height - total).where(is_reflected, total)


# --------------------------------------------------------------------------- incomplete gamma function

#: From where on, and how near to 1 x / a has to be, that Temme's expansion is exact.
_UNIFORM_FROM, _UNIFORM_WITHIN = 100.0, 0.3
#: Of Stirling's series for log(Gamma(a)): B(2n) / (2n (2n - 1)) of 1 / a**(2n - 1), n = 7 to 1.
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


@functools.cache
def _temme(count: int = 30) -> tuple[tuple[float, ...], ...]:
    """Return the power series, lowest coefficients first, of c_k(eta) in DLMF 8.12.10, k = 0, 1, ..."""
    # mu mu' = eta (1 + mu), where mu = x / a - 1 and eta**2 / 2 = mu - log(1 + mu).
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        known = sum(mu[i] * (n + 1 - i) * mu[n + 1 - i] for i in range(2, n))
        mu.append((mu[n - 1] - known) / (n + 1))
    inverse = [Fraction(1)]  # of mu / eta
    for n in range(1, count + 1):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    series = [inverse[1:]]
    while len(series[-1]) > 2:
        last = series[-1]
        series.append([(n + 2) * last[n + 2] - last[1] * inverse[n + 1] for n in range(len(last) - 2)])
    return tuple(tuple(map(float, one)) for one in series)


def _excess(mu: Real, ratio: Real) -> Real:
    """``mu - log(ratio)`` of ratio = 1 + mu, exact near 0."""
    r = mu / (mu + 2.0)
    square = r * r
    series = polynomial(square, [1.0 / k for k in range(27, 1, -2)])
    return (mu * r - r * square * 2.0 * series).where(mu.abs().is_("<", 0.4), mu - ratio.call("log"))


def _gamma_density(a: Real, x: Real) -> Real:
    """``x**a exp(-x) / Gamma(a + 1)``, without overflow where a is large."""
    scale = 1.0 / a

    def large() -> Real:
        correction = scale * polynomial(scale * scale, _STIRLING)
        decay = (-(a * _excess((x - a) / a, x / a)) - correction).call("exp")
        return decay / (a * (2.0 * math.pi)).call("sqrt")

    def small() -> Real:
        return x.call("pow", a) * (-x).call("exp") / (a + 1.0).call("tgamma")

    return branch(a.is_(">", 10.0), large, small)


def _gamma_uniform(a: Real, x: Real) -> Real:
    """Temme's expansion, uniform in x near a large a (DLMF 8.12)."""
    mu = (x - a) / a
    excess = _excess(mu, x / a)
    eta = (excess * 2.0).call("sqrt").signed(mu)
    least = 1e-9 if x.is_single else 1e-17
    sums = []
    for order, series in enumerate(_temme()):
        scale = _UNIFORM_FROM**-order
        kept = [c for n, c in enumerate(series) if abs(c) * 0.35**n * scale > least]
        if kept:
            sums.append(polynomial(eta, kept[::-1]))
    inverse = 1.0 / a
    total = sums[-1]
    for one in sums[-2::-1]:
        total = total * inverse + one
    tail = (-eta * (a * 0.5).call("sqrt")).call("erfc") * 0.5
    return tail - (-(a * excess)).call("exp") * total / (a * (2.0 * math.pi)).call("sqrt")


def _gamma_series(a: Real, x: Real) -> Real:
    """Power series (DLMF 8.11.4), of terms with one sign."""
    least = 2.0**-25 if x.is_single else 2.0**-54

    def step(total: Real, term: Real, n: Real) -> tuple[Real, ...]:
        term = term * x / n
        return total + term, term, n + 1.0

    def goes_on(total: Real, term: Real, _: Real) -> Condition:
        return term.is_(">", total * least)

    one = x.of(1.0)
    total, _, _ = loop((one, one, a + 1.0), step, goes_on)
    return _gamma_density(a, x) * total


def _gamma_fraction(a: Real, x: Real) -> Real:
    """One less the continued fraction of the rest (DLMF 8.9.2), from its front (Lentz)."""
    least = 2.0**-23 if x.is_single else 2.0**-52

    def step(value: Real, above: Real, below: Real, n: Real, _: Real) -> tuple[Real, ...]:
        factor = n * (a - n)
        place = x - a + (n * 2.0 + 1.0)
        below = 1.0 / (factor * below + place)
        above = place + factor / above
        change = above * below
        return value * change, above, below, n + 1.0, change

    def goes_on(_: Real, __: Real, ___: Real, ____: Real, change: Real) -> Condition:
        return (change - 1.0).abs().is_(">", least)

    first = 1.0 / (x - a + 1.0)
    one = x.of(1.0)
    value = loop((first, one.of(math.inf), first, one, one), step, goes_on)[0]
    return 1.0 - _gamma_density(a, x) * a * value


@_function()
def gammainc(a: Real, x: Real) -> Real:
    """Regularised lower incomplete gamma function P(a, x); NaN where both are 0 or infinite."""
    is_inside = a.is_(">", 0.0) & a.is_finite() & x.is_(">", 0.0) & x.is_finite()
    none = x.of(math.nan)
    shape, at = a.where(is_inside, none), x.where(is_inside, none)  # NaN ends the loops
    is_near = shape.is_(">", _UNIFORM_FROM) & (at - shape).abs().is_("<", shape * _UNIFORM_WITHIN)

    def apart() -> Real:
        is_low = at.is_("<", shape + 5.0)
        return branch(is_low, lambda: _gamma_series(shape, at), lambda: _gamma_fraction(shape, at))

    found = branch(is_near, lambda: _gamma_uniform(shape, at), apart)
    found = x.of(1.0).where(found.is_(">", 1.0), found)
    is_none = (x.is_("==", 0.0) & a.is_(">", 0.0)) | (
        a.is_("==", math.inf) & x.is_(">=", 0.0) & x.is_finite()
    )
    is_all = (a.is_("==", 0.0) & x.is_(">", 0.0)) | (x.is_("==", math.inf) & a.is_(">=", 0.0) & a.is_finite())
    return x.of(0.0).where(is_none, x.of(1.0).where(is_all, found))


# ------------------------------------------------------------------------- modified Bessel function I0

# Chebyshev coefficients of exp(-x) I0(x) on [0, 8] and exp(-x) sqrt(x) I0(x) beyond, as in Cephes.
_I0_NEAR = (
    -4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16,
    1.71539128555513303061e-15, -1.16853328779934516808e-14, 7.67618549860493561688e-14,
    -4.85644678311192946090e-13, 2.95505266312963983461e-12, -1.72682629144155570723e-11,
    9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9,
    -1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7,
    1.11738753912010371815e-6, -4.41673835845875056359e-6, 1.64484480707288970893e-5,
    -5.75419501008210370398e-5, 1.88502885095841655729e-4, -5.76375574538582365885e-4,
    1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
    -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2,
    1.71620901522208775349e-1, -3.04682672343198398683e-1, 6.76795274409476084995e-1,
)  # fmt: skip
_I0_FAR = (
    -7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17,
    3.46122286769746109310e-17, -2.82762398051658348494e-16, -3.42548561967721913462e-16,
    1.77256013305652638360e-15, 3.81168066935262242075e-15, -9.55484669882830764870e-15,
    -4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13,
    7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11,
    -3.14991652796324136454e-11, 1.18891471078464383424e-11, 4.94060238822496958910e-10,
    3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7,
    2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
    8.04490411014108831608e-1,
)  # fmt: skip


@_function(cuda="cyl_bessel_i0")
def i0(given: Real) -> Real:
    """Bessel function I0: modified, of the first kind, of order 0."""
    x = given.abs()
    is_near = x.is_("<=", 8.0)
    near = chebyshev(x * 0.5 - 2.0, _I0_NEAR)
    far = chebyshev(32.0 / x - 2.0, _I0_FAR) / x.call("sqrt")
    grown = x.call("exp") * near.where(is_near, far)
    return x.where(x.is_("==", math.inf), grown)


# The same for I1, of exp(-x) I1(x) / x and exp(-x) sqrt(x) I1(x).
_I1_NEAR = (
    2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16,
    -1.10559694773538630805e-15, 7.60068429473540693410e-15, -5.04218550472791168711e-14,
    3.22379336594557470981e-13, -1.98397439776494371520e-12, 1.17361862988909016308e-11,
    -6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9,
    9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7,
    -8.56872026469545474066e-7, 3.47025130813767847674e-6, -1.32731636560394358279e-5,
    4.78156510755005422638e-5, -1.61760815825896745588e-4, 5.12285956168575772895e-4,
    -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
    2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1,
    -1.76416518357834055153e-1, 2.52587186443633654823e-1,
)  # fmt: skip
_I1_FAR = (
    7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17,
    -3.20952592199342395980e-17, 2.96262899764595013876e-16, 3.30820231092092828324e-16,
    -1.88035477551078244854e-15, -3.81440307243700780478e-15, 1.04202769841288027642e-14,
    4.27244001671195135429e-14, -2.10154184277266431302e-14, -4.08355111109219731823e-13,
    -7.19855177624590851209e-13, 2.03562854414708950722e-12, 1.41258074366137813316e-11,
    3.25260358301548823856e-11, -1.89749581235054123450e-11, -5.58974346219658380687e-10,
    -3.83538038596423702205e-9, -2.63146884688951950684e-8, -2.51223623787020892529e-7,
    -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
    7.78576235018280120474e-1,
)  # fmt: skip


@_function(cuda="cyl_bessel_i1")
def i1(given: Real) -> Real:
    """Bessel function I1, the derivative of I0."""
    x = given.abs()
    is_near = x.is_("<=", 8.0)
    near = chebyshev(x * 0.5 - 2.0, _I1_NEAR) * x
    far = chebyshev(32.0 / x - 2.0, _I1_FAR) / x.call("sqrt")
    grown = x.call("exp") * near.where(is_near, far)
    return x.where(x.is_("==", math.inf), grown).signed(given)


# ------------------------------------------------------------------------------------------ neighbours


def nextafter(emitter: Emitter, dtype: DType, first: Any, second: Any) -> Any:
    """Return the value of `dtype` itself (16-bit floats too) after `first` in the direction of `second`."""
    b = emitter.builder
    machine = emitter.machine
    x, y = (encode(b, machine, dtype, value)[0] for value in (first, second))
    start, goal = (decode(b, machine, dtype, [lane]) for lane in (x, y))
    lane = x.type
    sign = lane(1 << (lane.width - 1))
    zero = start.type(0.0)
    # Away from zero the bits count up, whatever the sign.
    is_outward = b.xor(b.fcmp_ordered(">", start, goal), b.fcmp_ordered(">", start, zero))
    moved = b.select(is_outward, b.add(x, lane(1)), b.sub(x, lane(1)))
    smallest = b.or_(b.and_(y, sign), lane(1))
    bits = b.select(b.fcmp_ordered("==", start, zero), smallest, moved)
    bits = b.select(b.fcmp_ordered("==", start, goal), y, bits)
    found = decode(b, machine, dtype, [bits])
    is_nan = b.fcmp_unordered("uno", start, goal)
    nan = ir.Constant(found.type, math.nan)
    return b.select(is_nan, nan, found)
