"""Every rule of C++ functors' derivatives: C++ text beside what torch says of the same function."""

# ruff: noqa: E501 - rules stay on one line beside what they must answer.

import math

import pytest

torch = pytest.importorskip("torch")

special = torch.special
INF = math.inf

# ------------------------------------------------------------------------------------------ one argument

PI = math.pi
# C++ of an argument in the domain, and the same for torch; x is any number.
DOMAINS = {
    "x": lambda x: x,
    "u": lambda x: torch.tanh(x) * 0.9,  # inside (-1, 1)
    "p": lambda x: torch.exp(x),  # positive
    "q": lambda x: 1.25 + x * x,  # above 1
    "h": lambda x: torch.sigmoid(x),  # inside (0, 1)
}
UNARY = {
    "abs": ("x", torch.abs), "acos": ("u", torch.acos), "acosh": ("q", torch.acosh), "asin": ("u", torch.asin),
    "asinh": ("x", torch.asinh), "atan": ("x", torch.atan), "atanh": ("u", torch.atanh),
    "cbrt": ("p", lambda x: x ** (1 / 3)), "ceil": ("x", torch.ceil), "cos": ("x", torch.cos), "cosh": ("x", torch.cosh),
    "erf": ("x", torch.erf), "erfc": ("x", torch.erfc), "exp": ("x", torch.exp), "exp2": ("x", torch.exp2),
    "expm1": ("x", torch.expm1), "fabs": ("x", torch.abs), "floor": ("x", torch.floor), "lgamma": ("p", torch.lgamma),
    "log": ("p", torch.log), "log10": ("p", torch.log10), "log1p": ("p", torch.log1p), "log2": ("p", torch.log2),
    "nearbyint": ("x", torch.round), "rint": ("x", torch.round), "round": ("x", torch.round), "sin": ("x", torch.sin),
    "sinh": ("x", torch.sinh), "sqrt": ("p", torch.sqrt), "tan": ("u", torch.tan), "tanh": ("x", torch.tanh),
    "tgamma": ("p", lambda x: torch.exp(torch.lgamma(x))), "trunc": ("x", torch.trunc),
    "cospi": ("x", lambda x: torch.cos(PI * x)), "sinpi": ("x", lambda x: torch.sin(PI * x)),
    "erfcinv": ("h", lambda x: torch.erfinv(1 - x)), "erfcx": ("x", special.erfcx), "erfinv": ("u", torch.erfinv),
    "exp10": ("x", lambda x: torch.exp(x * math.log(10))), "normcdf": ("x", special.ndtr), "normcdfinv": ("h", special.ndtri),
    "rcbrt": ("p", lambda x: x ** (-1 / 3)), "rsqrt": ("p", torch.rsqrt),
}  # fmt: skip
# In float whatever T is.
FLOAT = {
    "expf": ("x", torch.exp), "logf": ("p", torch.log), "sqrtf": ("p", torch.sqrt), "sinf": ("x", torch.sin),
    "cosf": ("x", torch.cos), "tanhf": ("x", torch.tanh), "fabsf": ("x", torch.abs), "erff": ("x", torch.erf),
    "rsqrtf": ("p", torch.rsqrt), "floorf": ("x", torch.floor), "lgammaf": ("p", torch.lgamma), "cbrtf": ("p", lambda x: x ** (1 / 3)),
    "__expf": ("x", torch.exp), "__exp10f": ("x", lambda x: torch.exp(x * math.log(10))), "__logf": ("p", torch.log),
    "__log2f": ("p", torch.log2), "__log10f": ("p", torch.log10), "__sinf": ("x", torch.sin), "__cosf": ("x", torch.cos),
    "__tanf": ("u", torch.tan), "__frcp_rn": ("p", torch.reciprocal), "__fsqrt_rn": ("p", torch.sqrt), "__frsqrt_rn": ("p", torch.rsqrt),
    "__saturatef": ("x", lambda x: torch.clamp(x, 0, 1)),
}  # fmt: skip
BINARY = {
    "pow(p, y)": lambda y, p: p**y, "pow(x, 2)": lambda x: x**2, "pow(x, 3)": lambda x: x**3, "pow(x, 5)": lambda x: x**5,
    "pow(p, 2.5)": lambda p: p**2.5, "pow(2.0, y)": lambda y: 2**y, "atan2(x, y)": torch.atan2,
    "hypot(x, y)": torch.hypot, "fmod(x, p)": torch.fmod, "remainder(x, p)": lambda x, p: x - p * torch.round((x / p).detach()),
    "copysign(x, y)": torch.copysign, "fmax(x, y)": torch.fmax, "fmin(x, y)": torch.fmin,
    "std::max(x, y)": torch.maximum, "std::min(x, y)": torch.minimum, "max(x, y)": torch.maximum, "min(x, y)": torch.minimum,
    "std::max<T>(x, 0)": lambda x: x.clamp(min=0), "max(x, 0.5)": lambda x: x.clamp(min=0.5), "fdim(x, y)": lambda x, y: (x - y).relu(),
    "fma(x, y, p)": lambda x, y, p: x * y + p, "fma(x, 2.0, p)": lambda x, p: 2 * x + p, "rhypot(x, y)": lambda x, y: 1 / torch.hypot(x, y),
    "norm3d(x, y, p)": lambda x, y, p: (x * x + y * y + p * p).sqrt(), "ldexp(x, 3)": lambda x: x * 8, "scalbn(x, -2)": lambda x: x / 4,
    "std::clamp(x, T(-0.5), T(0.5))": lambda x: x.clamp(-0.5, 0.5), "std::clamp(x, y, T(0.75))": lambda x, y: torch.where(x < y, y, x.clamp(max=0.75)),
    "std::min({x, y, p})": lambda x, y, p: torch.minimum(torch.minimum(x, y), p),
}  # fmt: skip
BINARY_FLOAT = {
    "powf(p, y)": lambda y, p: p**y, "__powf(p, y)": lambda y, p: p**y, "fmaxf(x, y)": torch.maximum, "fminf(x, 0.1f)": lambda x: x.clamp(max=0.1),
    "atan2f(x, y)": torch.atan2, "__fdividef(x, p)": lambda x, p: x / p, "__fmul_rn(x, y)": lambda x, y: x * y,
    "__fadd_rn(x, 2.0f)": lambda x: x + 2, "__fsub_rn(x, y)": lambda x, y: x - y, "__fdiv_rn(x, p)": lambda x, p: x / p,
    "__fmaf_rn(x, y, p)": lambda x, y, p: x * y + p, "hypotf(x, y)": torch.hypot, "fmodf(x, p)": torch.fmod, "fmaf(x, y, p)": lambda x, y, p: x * y + p,
    "fdividef(x, p)": lambda x, p: x / p, "ldexpf(x, 2)": lambda x: x * 4, "copysignf(x, y)": torch.copysign, "fdimf(x, y)": lambda x, y: (x - y).relu(),
}  # fmt: skip
OPERATORS = {
    "x + y": lambda x, y: x + y, "x - y": lambda x, y: x - y, "x * y": lambda x, y: x * y, "x / p": lambda x, p: x / p,
    "-x": lambda x: -x, "+x": lambda x: +x, "2 * x": lambda x: 2 * x, "x * 0.1": lambda x: x * 0.1, "1 / p": lambda p: 1 / p,
    "1.0f - x": lambda x: 1 - x, "x - 1.0": lambda x: x - 1, "(x += y, x)": lambda x, y: x + y, "(x -= 2, x)": lambda x: x - 2,
    "(x *= y, x)": lambda x, y: x * y, "(x /= p, x)": lambda x, p: x / p, "++x": lambda x: x + 1, "x--": lambda x: x,
    "x < y ? x : y": torch.minimum, "x > 0 ? x : 0.01 * x": lambda x: torch.where(x > 0, x, 0.01 * x),
    "x > 0 ? 1.0 : x": lambda x: torch.where(x > 0, 1.0, x), "x && y ? x * y : T(0)": lambda x, y: x * y, "!x ? T(3) : x": lambda x: x,
    "(modf(x, &y), y)": lambda x: x.trunc(), "modf(x, &y)": lambda x: x.frac(), "(sincos(x, &p, &y), p * y)": lambda x: x.sin() * x.cos(),
    "(sincospi(x, &p, &y), p * y)": lambda x: torch.sin(PI * x) * torch.cos(PI * x), "frexp(p, &n)": lambda p: p / 2 ** (p.log2().floor() + 1).detach(),
    "x * (x > 0)": lambda x: x * (x > 0), "x * (int)(p)": lambda x, p: x * p.trunc().detach(), "T(1) - x * std::isnan(y)": lambda x: 1 + 0 * x,
}  # fmt: skip


def case_names(text):
    """Return which of the operands a rule's text reads, in the order in which its reference takes them."""
    words = {"x", "y", "p"} & set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
    if "&p" in text:
        words = {"x"}
    return sorted(words - ({"y"} if "&y" in text or "isnan(y)" in text else set()), key="xyp".index)


def rule_cases():
    for kind, table in (("double", UNARY), ("float", FLOAT)):
        for name, (domain, reference) in table.items():
            yield name, kind, f"{name}({domain})", (domain,), reference
    for kind, table in (("double", {**BINARY, **OPERATORS}), ("float", BINARY_FLOAT)):
        for text, reference in table.items():
            names = case_names(text)
            yield text, kind, text, tuple(names), reference


CASES = {name: rest for name, *rest in rule_cases()}


#: What a rule's text may name besides the operands x, y and p (which is positive).
CODE = "T u = T(0.9) * tanh(x), q = T(1.25) + x * x, h = T(1) / (T(1) + exp(-x)); int n = 0; "


def grouped(size):
    """Return the rules' names in groups for one program each, and each group's C++ functor of x, y and p."""
    names = list(CASES)
    for start in range(0, len(names), size):
        chosen = names[start : start + size]
        outputs = ", ".join(f"T& r{j}" for j in range(len(chosen)))
        parts = [
            f"r{j} = [=]() mutable -> T {{ (void)n; return {CASES[name][1]}; }}();"
            for j, name in enumerate(chosen)
        ]
        yield chosen, f"template <typename T> void f(T x, T y, T p, {outputs}) {{ {CODE}{' '.join(parts)} }}"


# ----------------------------------------------------------------------------------------------- kinks

KINKS = {
    "abs(x)": torch.abs, "std::max(x, y)": torch.maximum, "std::min(x, y)": torch.minimum, "fmax(x, y)": torch.fmax,
    "fmin(x, y)": torch.fmin, "pow(x, y)": torch.pow, "fmod(x, y)": torch.fmod, "copysign(x, y)": torch.copysign,
    "sqrt(x)": torch.sqrt, "rsqrt(x)": torch.rsqrt, "log(x)": torch.log, "x / y": lambda x, y: x / y, "floor(x)": torch.floor,
    "hypot(x, y)": torch.hypot, "atan2(x, y)": torch.atan2, "lgamma(x)": torch.lgamma, "pow(x, 2)": lambda x: x**2, "pow(x, 0)": lambda x: x**0,
    "std::clamp(x, T(0), T(1))": lambda x: x.clamp(0, 1), "sqrt(std::max(x, T(0)) + 0)": lambda x: torch.sqrt(torch.maximum(x, torch.zeros_like(x)) + 0),
    "x > 0 ? log(x) : T(0)": lambda x: torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), 0.0), "x * (y - y)": lambda x, y: x * (y - y),
    "asin(x)": torch.asin, "tanh(x * T(INFINITY))": lambda x: torch.tanh(x * INF), "exp(x) * 0": lambda x: torch.exp(x) * 0,
    "sqrt(abs(x))": lambda x: x.abs().sqrt(), "erfinv(x)": torch.erfinv, "x * T(INFINITY) + y": lambda x, y: x * INF + y,
}  # fmt: skip
