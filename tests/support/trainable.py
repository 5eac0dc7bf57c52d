"""Functors that people train: in Python, in C++ and as torch's formula, with the domain of each operand."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import numjit
from numjit import math as nm

__all__ = ["CASES", "Case", "Network", "points"]

#: Points on both sides of the usual kinks (0, 0.5, 1, 3) and on none of them.
_REAL = (-3.4, -2.3, -1.1, -0.4, 0.3, 0.7, 1.6, 2.6, 4.2)


class Network(nn.Module):
    """Two layers around a gated activation."""

    def __init__(self, activation):
        super().__init__()
        self.activation = activation
        self.first, self.second = nn.Linear(6, 32), nn.Linear(16, 1)

    def forward(self, x):
        """Return one number a row."""
        return self.second(self.activation(*self.first(x).chunk(2, dim=-1)))


@dataclasses.dataclass(frozen=True)
class Case:
    """One functor.

    `domains` names what each operand holds: ``real``, ``positive``, ``unit`` (between 0 and 1), ``sign``
    (-1 or 1) or ``zero one``; the last two get no gradient.
    """

    name: str
    python: Callable[..., Any]
    cpp: str
    torch: Callable[..., Any]
    domains: tuple[str, ...] = ("real",)

    def __str__(self) -> str:
        return self.name

    def operation(self, kind: str) -> Any:
        """Return the operation of a kind, made once."""
        return _operation(self.python if kind == "python" else self.cpp)


@functools.cache
def _operation(functor: Any) -> Any:
    return numjit.elementwise(functor)


def points(domains: Sequence[str], device: str, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Return operands; those that are differentiated by require grad."""
    made = []
    for k, domain in enumerate(domains):
        x = torch.tensor(_REAL, dtype=torch.float64).roll(2 * k) * (1 + 0.07 * k)
        if domain == "positive":
            x = x.abs()
        elif domain == "unit":
            x = torch.sigmoid(x)
        elif domain == "sign":
            x = torch.sign(x)
        elif domain == "zero one":
            x = (x > 0).double()
        made.append(x.to(device, dtype).requires_grad_(domain not in ("sign", "zero one")))
    return made


def _template(body: str, operands: str = "x") -> str:
    """Return the text of a C++ functor of these operands, all of one type."""
    parameters = ", ".join(f"T {name}" for name in operands.split())
    return f"template <typename T> T f({parameters}) {{ {body} }}"


def _horner(x):
    total = 0.3
    for k in range(1, 6):
        total = total * x + 1.0 / k
    return total


def _newton(x):
    r = x
    for _ in range(6):
        r = 0.5 * (r + x / r)
    return r


def _until(x):
    total, term, k = x, x, 1
    while k < 8 and abs(term) > 1e-9:
        term = term * x / (k + 1)
        total = total + term
        k += 1
    return total


def _torch_until(x):
    total, term = x, x
    for k in range(1, 8):
        term = term * x / (k + 1)
        total = total + term
    return total


def _branches(x, y):
    if x > 1.0:
        return x * x * y
    if y > 0.0:
        return math.sin(x) + y * y * y
    return x - y


def _torch_branches(x, y):
    return torch.where(x > 1, x * x * y, torch.where(y > 0, torch.sin(x) + y**3, x - y))


def _gaussian_nll(mean, target, variance):
    d = mean - target
    return 0.5 * (math.log(variance) + d * d / variance)


def _log_density(x, mean, scale):
    z = (x - mean) / scale
    return -0.5 * z * z - math.log(scale) - 0.9189385332046727


_SELU = (1.0507009873554805, 1.6732632423543772)

CASES = [
    # ------------------------------------------------------------------------------------- activations
    Case("relu", lambda x: x if x > 0 else 0.0, _template("return x > T(0) ? x : T(0);"), F.relu),
    Case(
        "relu6", lambda x: min(max(x, 0), 6), _template("return std::min(std::max(x, T(0)), T(6));"), F.relu6
    ),
    Case(
        "leaky relu",
        lambda x: x if x > 0 else 0.01 * x,
        _template("return x > T(0) ? x : T(0.01) * x;"),
        F.leaky_relu,
    ),
    Case(
        "prelu",
        lambda x, w: x if x > 0 else w * x,
        _template("return x > T(0) ? x : w * x;", "x w"),
        lambda x, w: torch.where(x > 0, x, w * x),
        ("real", "positive"),
    ),
    Case(
        "elu",
        lambda x: x if x > 0 else math.expm1(x),
        _template("return x > T(0) ? x : std::expm1(x);"),
        F.elu,
    ),
    Case(
        "selu",
        lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
        _template("return T(1.0507009873554805) * (x > T(0) ? x : T(1.6732632423543772) * std::expm1(x));"),
        lambda x: _SELU[0] * torch.where(x > 0, x, _SELU[1] * torch.expm1(x)),
    ),
    Case(
        "celu",
        lambda x: max(x, 0) + min(0, 1.5 * math.expm1(x / 1.5)),
        _template("return std::max(x, T(0)) + std::min(T(0), T(1.5) * std::expm1(x / T(1.5)));"),
        lambda x: torch.where(x > 0, x, 1.5 * torch.expm1(x / 1.5)),
    ),
    Case(
        "gelu",
        lambda x: 0.5 * x * (1 + math.erf(x * 0.7071067811865476)),
        _template("return T(0.5) * x * (T(1) + std::erf(x * T(0.7071067811865476)));"),
        F.gelu,
    ),
    Case(
        "gelu tanh",
        lambda x: 0.5 * x * (1 + math.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))),
        _template(
            "return T(0.5) * x * (T(1) + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));"
        ),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    Case("silu", lambda x: x / (1 + math.exp(-x)), _template("return x / (T(1) + std::exp(-x));"), F.silu),
    Case(
        "mish",
        lambda x: x * math.tanh(math.log1p(math.exp(x))),
        _template("return x * std::tanh(std::log1p(std::exp(x)));"),
        F.mish,
    ),
    Case("softplus", lambda x: nm.softplus(x), _template("return std::log1p(std::exp(x));"), F.softplus),
    Case("softsign", lambda x: x / (1 + abs(x)), _template("return x / (T(1) + std::abs(x));"), F.softsign),
    Case(
        "hardtanh",
        lambda x: nm.clamp(x, -1, 1),
        _template("return x < T(-1) ? T(-1) : x > T(1) ? T(1) : x;"),
        F.hardtanh,
    ),
    Case(
        "hardswish",
        lambda x: x * min(max(x + 3, 0), 6) / 6,
        _template("return x * std::min(std::max(x + T(3), T(0)), T(6)) / T(6);"),
        lambda x: x * torch.clamp(x + 3, 0, 6) / 6,
    ),
    Case(
        "hardsigmoid",
        lambda x: 0.0 if x <= -3 else 1.0 if x >= 3 else x / 6 + 0.5,
        _template("if (x <= T(-3)) return T(0); if (x >= T(3)) return T(1); return x / T(6) + T(0.5);"),
        lambda x: torch.clamp(x + 3, 0, 6) / 6,  # torch's own backward rounds 1/6 to float32
    ),
    Case("tanhshrink", lambda x: x - math.tanh(x), _template("return x - std::tanh(x);"), F.tanhshrink),
    Case(
        "softshrink",
        lambda x: x - 0.5 if x > 0.5 else x + 0.5 if x < -0.5 else 0.0,
        _template("return x > T(0.5) ? x - T(0.5) : x < T(-0.5) ? x + T(0.5) : T(0);"),
        F.softshrink,
    ),
    Case(
        "hardshrink",
        lambda x: x if abs(x) > 0.5 else 0.0,
        _template("return std::abs(x) > T(0.5) ? x : T(0);"),
        F.hardshrink,
    ),
    Case(
        "logsigmoid",
        lambda x: min(0, x) - math.log1p(math.exp(-abs(x))),
        _template("return std::min(T(0), x) - std::log1p(std::exp(-std::abs(x)));"),
        F.logsigmoid,
    ),
    Case(
        "sigmoid", lambda x: nm.sigmoid(x), _template("return T(1) / (T(1) + std::exp(-x));"), torch.sigmoid
    ),
    Case("tanh", lambda x: math.tanh(x), _template("return std::tanh(x);"), torch.tanh),
    Case(
        "squared relu",
        lambda x: max(x, 0) ** 2,
        _template("T r = std::max(x, T(0)); return r * r;"),
        lambda x: F.relu(x) ** 2,
    ),
    Case(
        "swiglu",
        lambda x, gate: x / (1 + math.exp(-x)) * gate,
        _template("return x / (T(1) + std::exp(-x)) * gate;", "x gate"),
        lambda x, gate: F.silu(x) * gate,
        ("real", "real"),
    ),
    Case(
        "geglu",
        lambda x, gate: 0.5 * x * math.erfc(-x * 0.7071067811865476) * gate,
        _template("return T(0.5) * x * std::erfc(-x * T(0.7071067811865476)) * gate;", "x gate"),
        lambda x, gate: F.gelu(x) * gate,
        ("real", "real"),
    ),
    # ------------------------------------------------------------------------------------------ losses
    Case(
        "mse",
        lambda x, y: (x - y) * (x - y),
        _template("return (x - y) * (x - y);", "x y"),
        lambda x, y: F.mse_loss(x, y, reduction="none"),
        ("real", "real"),
    ),
    Case(
        "l1",
        lambda x, y: abs(x - y),
        _template("return std::abs(x - y);", "x y"),
        lambda x, y: F.l1_loss(x, y, reduction="none"),
        ("real", "real"),
    ),
    Case(
        "smooth l1",
        lambda x, y: 0.5 * (x - y) ** 2 if abs(x - y) < 1 else abs(x - y) - 0.5,
        _template("T d = std::abs(x - y); return d < T(1) ? T(0.5) * d * d : d - T(0.5);", "x y"),
        lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
        ("real", "real"),
    ),
    Case(
        "huber",
        lambda x, y: 0.5 * (x - y) ** 2 if abs(x - y) < 2 else 2 * (abs(x - y) - 1),
        _template("T d = std::abs(x - y); return d < T(2) ? T(0.5) * d * d : T(2) * (d - T(1));", "x y"),
        lambda x, y: F.huber_loss(x, y, reduction="none", delta=2.0),
        ("real", "real"),
    ),
    Case(
        "bce",
        lambda p, y: -(y * math.log(p) + (1 - y) * math.log1p(-p)),
        _template("return -(y * std::log(p) + (T(1) - y) * std::log1p(-p));", "p y"),
        lambda p, y: F.binary_cross_entropy(p, y, reduction="none"),
        ("unit", "zero one"),
    ),
    Case(
        "bce with logits",
        lambda x, y: max(x, 0) - x * y + math.log1p(math.exp(-abs(x))),
        _template("return std::max(x, T(0)) - x * y + std::log1p(std::exp(-std::abs(x)));", "x y"),
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        ("real", "unit"),
    ),
    Case(
        "gaussian nll",
        _gaussian_nll,
        _template("T d = m - y; return T(0.5) * (std::log(v) + d * d / v);", "m y v"),
        lambda m, y, v: F.gaussian_nll_loss(m, y, v, reduction="none"),
        ("real", "real", "positive"),
    ),
    Case(
        "poisson nll",
        lambda x, y: math.exp(x) - y * x,
        _template("return std::exp(x) - y * x;", "x y"),
        lambda x, y: F.poisson_nll_loss(x, y, reduction="none"),
        ("real", "positive"),
    ),
    Case(
        "kl",
        lambda x, y: y * (math.log(y) - x),
        _template("return y * (std::log(y) - x);", "x y"),
        lambda x, y: F.kl_div(x, y, reduction="none"),
        ("real", "unit"),
    ),
    Case(
        "hinge",
        lambda x, y: max(0, 1 - x * y),
        _template("return std::max(T(0), T(1) - x * y);", "x y"),
        lambda x, y: F.relu(1 - x * y),
        ("real", "sign"),
    ),
    Case(
        "log-cosh",
        lambda x, y: math.log(math.cosh(x - y)),
        _template("return std::log(std::cosh(x - y));", "x y"),
        lambda x, y: torch.log(torch.cosh(x - y)),
        ("real", "real"),
    ),
    Case(
        "normal log density",
        _log_density,
        _template(
            "T z = (x - m) / s; return T(-0.5) * z * z - std::log(s) - T(0.9189385332046727);", "x m s"
        ),
        lambda x, m, s: torch.distributions.Normal(m, s).log_prob(x),
        ("real", "real", "positive"),
    ),
    # --------------------------------------------------------------------------------- special functions
    Case("erf", lambda x: math.erf(x), _template("return std::erf(x);"), torch.erf),
    Case("erfc", lambda x: math.erfc(x), _template("return std::erfc(x);"), torch.erfc),
    Case(
        "lgamma", lambda x: math.lgamma(x), _template("return std::lgamma(x);"), torch.lgamma, ("positive",)
    ),
    Case("expm1", lambda x: math.expm1(x), _template("return std::expm1(x);"), torch.expm1),
    Case("log1p", lambda x: math.log1p(x), _template("return std::log1p(x);"), torch.log1p, ("positive",)),
    Case(
        "atan2",
        lambda y, x: math.atan2(y, x),
        _template("return std::atan2(y, x);", "y x"),
        torch.atan2,
        ("real", "real"),
    ),
    Case(
        "hypot",
        lambda x, y: math.hypot(x, y),
        _template("return std::hypot(x, y);", "x y"),
        torch.hypot,
        ("real", "real"),
    ),
    Case(
        "pow", lambda x, y: x**y, _template("return std::pow(x, y);", "x y"), torch.pow, ("positive", "real")
    ),
    # ------------------------------------------------------------------------------ branches and loops
    Case(
        "branches",
        _branches,
        _template(
            "if (x > T(1)) return x * x * y; if (y > T(0)) return std::sin(x) + y * y * y; return x - y;",
            "x y",
        ),
        _torch_branches,
        ("real", "real"),
    ),
    Case(
        "horner",
        _horner,
        _template("T r = T(0.3); for (int k = 1; k < 6; ++k) r = r * x + T(1) / T(k); return r;"),
        lambda x: ((((0.3 * x + 1) * x + 1 / 2) * x + 1 / 3) * x + 1 / 4) * x + 1 / 5,
    ),
    Case(
        "newton",
        _newton,
        _template("T r = x; for (int k = 0; k < 6; ++k) r = T(0.5) * (r + x / r); return r;"),
        _newton,
        ("positive",),
    ),
    Case(
        "until",
        _until,
        _template(
            "T total = x, term = x; int k = 1;"
            "while (k < 8 && std::abs(term) > T(1e-9)) { term = term * x / T(k + 1); total += term; ++k; }"
            "return total;"
        ),
        _torch_until,
    ),
    # ---------------------------------------------------------------------------------- several results
    Case(
        "sine and cosine",
        lambda x: (math.sin(x), math.cos(x)),
        "template <typename T> void f(T x, T& s, T& c) { s = std::sin(x); c = std::cos(x); }",
        lambda x: (torch.sin(x), torch.cos(x)),
    ),
    Case(
        "polar",
        lambda x, y: (math.sqrt(x * x + y * y), math.atan2(y, x)),
        "template <typename T> void f(T x, T y, T& r, T& a)"
        "{ r = std::sqrt(x * x + y * y); a = std::atan2(y, x); }",
        lambda x, y: (torch.sqrt(x * x + y * y), torch.atan2(y, x)),
        ("real", "real"),
    ),
]
