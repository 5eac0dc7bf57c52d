"""Functions that numjit computes itself: one formula for C++ and Python, exact on a grid of edges."""

import math

import mpmath as mp
import numpy
import pytest
import torch

import numjit
from numjit.rules import special
from numjit.rules.python_numbers import of_numbers
from tests.support.emitted import evaluated

INF = math.inf
EDGES = [
    0.0, 5e-324, 1e-310, 1e-305, 1e-300, 1e-200, 1e-100, 1e-40, 1e-38, 1e-20, 1e-17, 1e-16, 1e-14, 1e-10,
    1e-8, 1e-5,
    1e-3, 0.01, 0.03, 0.0624, 0.0626, 0.1, 0.25, 0.3, 0.4999, 0.5001, 0.7, 0.75, 0.9, 0.99, 0.99999,
    1 - 1e-10, 1 - 2.0**-24, 1 - 2.0**-53, 1.0, 1 + 1e-10,
    1.25, 1.4616321, 1.46163, 1.47, 1.5, 1.75, 1.9, 1.999, 2.0, 2.5, 3.0, 5.0, 7.3331, 8.0, 8.01, 9.5,
    9.9999, 10.0, 12.77, 20.0, 25.0, 26.7123, 30.0, 38.4, 60.0, 100.0, 170.5, 1e3, 1e5, 1e8, 1e15, 1e17,
    1e38, 1e100, 1e300, INF,
]  # fmt: skip
EDGES += [-x for x in EDGES] + [math.nan] + numpy.linspace(-10, 10, 241).tolist()
EDGES += numpy.linspace(-0.9999, 0.9999, 101).tolist() + numpy.logspace(-6, 4, 120).tolist()
EDGES += numpy.linspace(-60, 60, 161).tolist()


def _erfinv(x):
    if abs(x) >= 1:
        return mp.sign(x) * mp.inf if abs(x) == 1 else mp.nan
    return mp.erfinv(x)


def _erfcinv(x):
    if not 0 < x < 2:
        return {0: mp.inf, 2: -mp.inf}.get(x, mp.nan)
    with mp.workdps(360):
        return mp.erfinv(1 - x)


def _erfcx(x):
    if x > 1e5:
        return 1 / (mp.sqrt(mp.pi) * x)
    return mp.inf if x < -30 else mp.exp(x * x) * mp.erfc(x)


def _rsqrt(x):
    return mp.nan if x < 0 else mp.inf if x == 0 else 1 / mp.sqrt(x)


def _rcbrt(x):
    if x == 0:
        return mp.inf
    return mp.mpf(0) if mp.isinf(x) else mp.sign(x) / mp.cbrt(abs(x))


def _digamma(x):
    if x == 0:
        return -mp.inf
    if x == -mp.inf or (x < 0 and x == mp.floor(x)):
        return mp.nan
    return mp.digamma(x) if x < 1e50 else mp.log(x)


def _trigamma(x):
    if x == -mp.inf:
        return mp.nan
    if x <= 0 and x == mp.floor(x):
        return mp.inf
    return mp.psi(1, x) if x < 1e50 else 1 / x


def _log_ndtr(x):
    if abs(x) > 1e5:
        return mp.mpf(0) if x > 0 else -(mp.mpf(x) ** 2) / 2 - mp.log(-x * mp.sqrt(2 * mp.pi))
    with mp.workdps(60):
        return mp.log1p(-mp.ncdf(-x)) if x > 0 else mp.log(mp.ncdf(x))


def _bessel(order):
    def exact(x):
        if abs(x) > 1e4:
            return mp.inf if order == 0 else mp.sign(x) * mp.inf
        return mp.besseli(order, x)

    return exact


def _sinc(x):
    if mp.isinf(x):
        return mp.nan
    return mp.mpf(1) if x == 0 else mp.sin(mp.pi * x) / (mp.pi * x)


#: By C++ name: the formula, the exact value, and the units in the last place that a value may be off.
FUNCTIONS = {
    "rsqrt": (special.rsqrt, _rsqrt, 2),
    "rcbrt": (special.rcbrt, _rcbrt, 3),
    "exp10": (
        special.exp10,
        lambda x: mp.power(10, x) if abs(x) < 400 else (mp.inf if x > 0 else mp.mpf(0)),
        2,
    ),
    "sinpi": (special.sinpi, lambda x: mp.nan if mp.isinf(x) else mp.sinpi(x), 2),
    "cospi": (special.cospi, lambda x: mp.nan if mp.isinf(x) else mp.cospi(x), 2),
    "erfinv": (special.erfinv, _erfinv, 3),
    "erfcx": (special.erfcx, _erfcx, 3),
    "erfcinv": (special.erfcinv, _erfcinv, 3),
    "normcdf": (special.normcdf, lambda x: mp.ncdf(x) if abs(x) < 1e5 else mp.mpf(x > 0), 3),
    "numjit::log_ndtr": (special.log_ndtr, _log_ndtr, 4),
    "normcdfinv": (special.normcdfinv, lambda x: -mp.sqrt(2) * _erfcinv(2 * x), 3),
    "cyl_bessel_i0": (special.i0, _bessel(0), 5),
    "cyl_bessel_i1": (special.i1, _bessel(1), 10),
    "numjit::digamma": (special.digamma, _digamma, 5),
    "numjit::trigamma": (special.trigamma, _trigamma, 5),
    "numjit::sinc": (special.sinc, _sinc, 2),
}
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def edges_of(dtype):
    return torch.tensor(EDGES, dtype=torch.float64).to(dtype)


def cpp_values(name, *operands):
    letters = "xyz"[: len(operands)]
    declared = ", ".join(f"T {letter}" for letter in letters)
    text = f"template <typename T> T f({declared}) {{ return {name}({', '.join(letters)}); }}"
    return numjit.elementwise(text)(*operands).cpu()


def is_near(found, wanted, ulps, info, slack):
    if found == wanted or (found != found and wanted != wanted):
        return True
    if not (math.isfinite(found) and math.isfinite(wanted)):
        return False
    return abs(found - wanted) <= ulps * info.eps * max(abs(wanted), info.smallest_normal) + slack


def slack_of(name, x, dtype):
    """Return what a value may be off besides: where pi * x is rounded, times the slope there."""
    eps = torch.finfo(dtype).eps
    if name == "numjit::sinc":
        return eps * 4
    if name == "numjit::digamma" and x <= -1:  # the cotangent near its poles, and zeros
        return eps * 4 * (1 + (math.pi / math.sin(math.pi * math.fmod(x, 1.0))) ** 2 * abs(x))
    if name == "numjit::digamma":
        return eps if 1.4 < x < 1.5 else 4 * eps if x < 0 else 0.0
    return 0.0


@DTYPES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_languages_and_numbers_are_exact_to_some_units(name, dtype, device):
    function, exact, ulps = FUNCTIONS[name]
    x = edges_of(dtype)
    ulps = ulps if device == "cpu" else max(ulps, 8)  # CUDA's own function
    found = {"C++": cpp_values(name, x.to(device)).tolist()}
    if device == "cpu":
        found["LLVM"] = evaluated(function, x.numpy()).tolist()
    if dtype == torch.float64:
        found["numbers"] = [of_numbers(function, number) for number in x.tolist()]
    info = torch.finfo(dtype)
    wrong = []
    with mp.workdps(40):
        for k, number in enumerate(x.tolist()):
            wanted = float(exact(mp.mpf(number))) if number == number else math.nan
            rounded = torch.tensor(wanted, dtype=torch.float64).to(dtype).item()
            slack = slack_of(name, number, dtype) if math.isfinite(number) and math.isfinite(rounded) else 0.0
            wrong += [
                (language, number, values[k], rounded)
                for language, values in found.items()
                if number or not math.copysign(1, number) < 0  # mpmath has no -0
                if not is_near(values[k], rounded, ulps, info, slack)
            ]
    assert not wrong


@DTYPES
def test_zeros_have_their_signs(dtype, device):
    zeros = torch.tensor([0.0, -0.0], dtype=dtype)
    odd = {"erfinv", "sinpi", "cyl_bessel_i1"}
    poles = {"rcbrt": [INF, -INF], "numjit::digamma": [-INF, INF], "rsqrt": [INF, -INF]}
    for name, (function, _, _) in FUNCTIONS.items():
        values = [cpp_values(name, zeros.to(device))]
        if device == "cpu":
            values.append(torch.from_numpy(evaluated(function, zeros.numpy())))
        for found in values:
            if name in odd:
                assert torch.equal(found, zeros), name
                assert torch.signbit(found).tolist() == [False, True], name
            elif name in poles:
                assert found.tolist() == poles[name], name
            else:
                assert found[0] == found[1], name


@DTYPES
def test_both_languages_give_the_same_of_two_operands(dtype):
    x, y = torch.cartesian_prod(*[edges_of(dtype)[:160:3]] * 2).T.contiguous()
    for name, function in {"xlogy": special.xlogy, "logaddexp": special.logaddexp}.items():
        found = cpp_values(f"numjit::{name}", x, y)
        info = torch.finfo(dtype)  # logaddexp is 0 where terms of size 1 cancel
        least = info.eps if name == "logaddexp" else info.tiny
        for wanted in (
            torch.from_numpy(evaluated(function, x.numpy(), y.numpy())),
            getattr(torch, name)(x, y),
        ):
            torch.testing.assert_close(found, wanted, rtol=4 * info.eps, atol=least, equal_nan=True)


@pytest.mark.parametrize("name", ["erfinv", "digamma", "i0"])
def test_python_numbers_are_exact_to_some_units(name):
    _, exact, _ = FUNCTIONS[{"digamma": "numjit::digamma", "i0": "cyl_bessel_i0"}.get(name, name)]
    numbers = {"erfinv": numpy.linspace(-0.9999, 0.9999, 301), "digamma": numpy.logspace(-6, 4, 400)}
    for number in numbers.get(name, numpy.linspace(-60, 60, 481)).tolist():
        with mp.workdps(30):
            wanted = float(exact(mp.mpf(number)))
        assert getattr(numjit.math, name)(number) == pytest.approx(wanted, rel=2e-14, abs=2e-15)


def _gammainc(a, x):
    """Return the power series, of terms with one sign, summed with 40 digits."""
    if x > a + 50 * mp.sqrt(a) + 200:
        return mp.mpf(1)
    term = total = mp.mpf(1)
    n = a
    while term > total * mp.mpf(10) ** -30:
        n += 1
        term *= x / n
        total += term
    return total * mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1))


def pairs_of_gammainc():
    """Return shapes from small to large with arguments far from, beside and between the methods' limits."""
    shapes = [
        1e-300,
        1e-6,
        0.01,
        0.3,
        0.5,
        1.0,
        1.5,
        3.0,
        9.99,
        10.01,
        30.0,
        99.9,
        100.1,
        150.0,
        700.0,
        3e3,
        1e4,
    ]
    shares = [1e-6, 0.03, 0.3, 0.69, 0.71, 0.9, 0.99, 1.0, 1.01, 1.1, 1.29, 1.31, 2.0, 10.0]
    pairs = [(a, a * share) for a in shapes for share in shares if a * share > 1e-305]
    pairs += [(a, a + more) for a in shapes for more in (1e-3, 1.0, 4.9, 5.1)]
    return torch.tensor(pairs, dtype=torch.float64)


@DTYPES
def test_the_incomplete_gamma_function_is_exact_in_both_languages(dtype, device):
    a, x = pairs_of_gammainc().to(dtype).T.contiguous()
    a, x = a[(a > 0) & (x > 0)], x[(a > 0) & (x > 0)]
    found = {"C++": cpp_values("numjit::gammainc", a.to(device), x.to(device)).tolist()}
    if device == "cpu":
        found["LLVM"] = evaluated(special.gammainc, a.numpy(), x.numpy()).tolist()
    if dtype == torch.float64:
        found["numbers"] = list(map(of_numbers, [special.gammainc] * len(a), a.tolist(), x.tolist()))
    info = torch.finfo(dtype)
    wrong = []
    with mp.workdps(40):
        for k, (shape, at) in enumerate(zip(a.tolist(), x.tolist(), strict=True)):
            exact = _gammainc(mp.mpf(shape), mp.mpf(at))
            if exact < info.tiny:
                continue
            # A small value's exponent is a large number, of which one unit is many of the value.
            ulps = 16 + 2 * abs(float(mp.log(exact)))
            for language, values in found.items():
                if not abs(values[k] - exact) <= ulps * info.eps * exact:
                    wrong.append((language, shape, at, values[k], float(exact)))
    assert not wrong


@DTYPES
def test_the_incomplete_gamma_function_has_torchs_limits(dtype):
    edges = [0.0, -0.0, 1e-30, 1.0, 1e5, 1e30, 1e300, INF, -1.0, -1e5, -INF]
    a, x = torch.cartesian_prod(*[torch.tensor(edges, dtype=torch.float64).to(dtype)] * 2).T.contiguous()
    wanted = torch.special.gammainc(a, x)
    same = (a == x) & (a > 1e4) & a.isfinite()  # beside 1/2, where torch is not exact
    emitted = torch.from_numpy(evaluated(special.gammainc, a.numpy(), x.numpy()))
    for found in (cpp_values("numjit::gammainc", a, x), emitted):
        torch.testing.assert_close(found[~same], wanted[~same], rtol=1e-5, atol=0, equal_nan=True)
        assert ((found[same] >= 0.5) & (found[same] < 0.501)).all()
    odd = torch.tensor(
        [[math.nan, 1.0], [math.nan, 0.0], [math.nan, INF], [INF, math.nan], [5e-324, 1.0]]
    ).to(dtype)
    wanted = torch.tensor([math.nan] * 4 + [1.0], dtype=dtype)
    a, x = odd.T.contiguous()
    assert torch.equal(cpp_values("numjit::gammainc", a, x).nan_to_num(2.0), wanted.nan_to_num(2.0))


def test_erfinv_is_torchs():
    x = torch.logspace(-300, -0.001, 4001, dtype=torch.float64)
    torch.testing.assert_close(cpp_values("erfinv", x), torch.erfinv(x), rtol=4e-15, atol=0)


def test_functions_of_namespace_numjit_take_any_numbers(device):
    text = "template <typename T> void f(T x, double& a, float& b, double& c) { a = numjit::digamma(x); b = numjit::xlogy(2.0f, 3.0f); c = numjit::xlogy(2.0f, 3); }"  # noqa: E501
    found = numjit.elementwise(text)(torch.tensor([3], dtype=torch.int32, device=device))
    wanted = [1 - 0.5772156649015329 + 0.5, float(2 * torch.log(torch.tensor(3.0))), 2 * math.log(3)]
    assert [one.item() for one in found] == pytest.approx(wanted, rel=1e-7)
    assert found[0].item() == pytest.approx(wanted[0], rel=1e-15)


@pytest.mark.parametrize("name", ["cyl_bessel_i0", "cyl_bessel_i1"])
def test_what_has_no_derivative_is_refused_and_not_taken_for_a_constant(name):
    x = torch.tensor([1.5], requires_grad=True)
    operation = numjit.elementwise(f"template <typename T> T f(T x) {{ return {name}(x); }}")
    with pytest.raises(numjit.NumjitError):
        operation(x).sum().backward()


#: Functions of namespace numjit, with operands at which they are smooth.
OWN = {
    "digamma": ([0.3, 1.7, -0.4, 5.2],),
    "sinc": ([0.3, 1.7, -0.4, 5.2],),
    "log_ndtr": ([-30.0, -2.5, -0.3, 0.8, 4.0],),
    "xlogy": ([0.9, 2.2, 0.7, 3.1], [0.3, 1.7, 0.4, 5.2]),
    "logaddexp": ([0.9, 2.2, 0.7, 3.1], [0.3, 1.7, 0.4, -5.2]),
}


def test_gammainc_is_differentiated_by_x_alone_in_both_languages(device):
    a = torch.tensor([0.5, 2.0, 7.5, 40.0], dtype=torch.float64, device=device)
    x = torch.tensor([0.3, 2.5, 6.0, 45.0], dtype=torch.float64, device=device, requires_grad=True)
    python = numjit.elementwise(lambda a, x: numjit.math.gammainc(a, x))
    cpp = numjit.elementwise("template <class T> T f(T a, T x) { return numjit::gammainc(a, x); }")
    exact = [
        float(mp.gammainc(p, 0, q, regularized=True)) for p, q in zip(a.tolist(), x.tolist(), strict=True)
    ]
    for operation in (python, cpp):
        value = operation(a, x)
        wanted = torch.tensor(exact, dtype=torch.float64)
        torch.testing.assert_close(value.detach().cpu(), wanted, rtol=1e-13, atol=0)
        (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        density = torch.exp((a - 1) * torch.log(x) - x - torch.lgamma(a)).detach()
        torch.testing.assert_close(slope.detach(), density, rtol=1e-12, atol=0)
        (second,) = torch.autograd.grad(slope.sum(), x)
        torch.testing.assert_close(second, density * ((a - 1) / x - 1).detach(), rtol=1e-11, atol=1e-13)
    order = a.clone().requires_grad_()
    with pytest.raises(numjit.NumjitError, match="no derivative by a"):
        python(order, x).sum().backward()
    assert torch.autograd.grad(cpp(order, x).sum(), order)[0].isnan().all()
    for p, q, wanted in zip(a.tolist(), x.tolist(), exact, strict=True):
        assert numjit.math.gammainc(p, q) == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("name", OWN)
def test_both_languages_differentiate_numjits_own_functions_twice(name, device):
    letters = "xyz"[: len(OWN[name])]
    declared, called = ", ".join(f"T {x}" for x in letters), ", ".join(letters)
    scope = {"nm": numjit.math, "numjit": numjit}
    exec(f"f = numjit.elementwise(lambda {called}: nm.{name}({called}))", scope)
    cpp = numjit.elementwise(f"template <class T> T f({declared}) {{ return numjit::{name}({called}); }}")
    points = [torch.tensor(x, dtype=torch.float64, device=device, requires_grad=True) for x in OWN[name]]
    assert torch.autograd.gradcheck(cpp, points)
    assert torch.autograd.gradgradcheck(cpp, points)
    for operation in (cpp, scope["f"]):
        value = operation(*points)
        first = torch.autograd.grad(value.sum(), points, create_graph=True)
        second = torch.autograd.grad(sum(gradient.sum() for gradient in first), points)
        if operation is cpp:
            wanted = (value, *first, *second)
        else:
            torch.testing.assert_close((value, *first, *second), wanted, rtol=1e-12, atol=1e-13)
