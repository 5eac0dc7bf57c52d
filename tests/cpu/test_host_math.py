"""CUDA's functions on the CPU against mpmath, on a grid of edges."""

# ruff: noqa: E501, SIM114 - a grid

import mpmath as mp
import pytest
import torch

import numjit

INF = float("inf")
EDGES = [
    0.0, 5e-324, 1e-310, 1e-305, 1e-300, 1e-200, 1e-100, 1e-40, 1e-38, 1e-20, 1e-17, 1e-16, 1e-14, 1e-10,
    1e-8, 1e-5,
    1e-3, 0.01, 0.03, 0.0624, 0.0626, 0.1, 0.25, 0.3, 0.4999, 0.5001, 0.75, 0.9, 0.99, 1 - 1e-10, 1.0, 1 + 1e-10,
    1.25, 1.5, 1.75, 1.9, 1.999, 2.0, 2.5, 3.0, 5.0, 7.3331, 9.5, 12.77, 20.0, 25.0, 26.7123, 30.0, 38.4, 100.0,
    170.5, 1e3, 1e5, 1e8, 1e15, 1e17, 1e38, 1e100, 1e300, INF,
]  # fmt: skip


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


FUNCTIONS = {
    "erfinv": _erfinv,
    "erfcinv": _erfcinv,
    "normcdfinv": lambda x: -mp.sqrt(2) * _erfcinv(2 * x),
    "normcdf": lambda x: mp.ncdf(x) if abs(x) < 1e5 else mp.mpf(x > 0),
    "erfcx": _erfcx,
    "sinpi": lambda x: mp.nan if mp.isinf(x) else mp.sinpi(x),
    "cospi": lambda x: mp.nan if mp.isinf(x) else mp.cospi(x),
    "rsqrt": _rsqrt,
    "rcbrt": lambda x: (
        mp.sign(x) / mp.cbrt(abs(x)) if x and not mp.isinf(x) else (mp.mpf(0) if x else mp.inf)
    ),
    "exp10": lambda x: mp.power(10, x) if abs(x) < 400 else (mp.inf if x > 0 else mp.mpf(0)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_digit_of_cudas_functions(name, dtype):
    edges = torch.tensor(EDGES + [-x for x in EDGES[1:]], dtype=dtype)
    edges = edges[(edges != 0) | ~torch.signbit(edges)]  # mpmath has no -0
    got = numjit.elementwise(f"template <typename T> T f(T x) {{ return {name}(x); }}")(edges)
    info = torch.finfo(dtype)
    wrong = []
    with mp.workdps(30):
        for x, found in zip(edges.tolist(), got.tolist(), strict=True):
            exact = FUNCTIONS[name](mp.mpf(x))
            rounded = torch.tensor(float(exact), dtype=torch.float64).to(dtype).item()
            if found == rounded or (found != found and rounded != rounded):
                continue
            if abs(rounded) == INF or abs(found) == INF or found != found or rounded != rounded:
                wrong.append((x, found, rounded))
            elif abs(found - exact) > 4 * info.eps * max(abs(exact), info.smallest_normal):
                wrong.append((x, found, rounded))
    assert not wrong


@pytest.mark.parametrize("name", ["erfinv", "sinpi"])
def test_zeros_keep_their_sign_and_nan_stays(name):
    x = torch.tensor([0.0, -0.0, float("nan")])
    got = numjit.elementwise(f"template <typename T> T f(T x) {{ return {name}(x); }}")(x)
    assert torch.equal(torch.signbit(got[:2]), torch.tensor([False, True]))
    assert torch.isnan(got[2])


def test_erfinv_is_torchs():
    x = torch.logspace(-300, -0.001, 4001, dtype=torch.float64)
    got = numjit.elementwise("template <typename T> T f(T x) { return erfinv(x); }")(x)
    torch.testing.assert_close(got, torch.erfinv(x), rtol=4e-15, atol=0)
