"""Functors made of rows of expressions, so that one compilation serves many functions, and edges to try."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys

import torch

__all__ = ["BINARY", "CHOICES", "EDGES", "UNARY", "blocks", "product", "same", "written"]

_ONE = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sinc angle sigmoid logit erf erfc erfcx erfinv log_ndtr lgamma digamma i0 sign sgn floor "
    "ceil trunc round frac square reciprocal softplus"
)
_TWO = "logaddexp xlogy atan2 hypot copysign remainder maximum minimum fmax fmin ldexp nextafter"
_POWERS = ("0", "1", "2", "3", "5", "-1", "-2", "-3", "0.5", "-0.5", "1.5", "0.0", "1.0")

#: By name, expressions of ``{x}``: every function and operator of one real operand that torch has too.
UNARY = {
    **{f"nm.{name}": f"nm.{name}({{x}})" for name in _ONE.split()},
    **{f"math.{name}": f"math.{name}({{x}})" for name in ("fabs", "degrees", "radians", "log")},
    **{f"** {n}": f"{{x}} ** ({n})" for n in _POWERS},
    "abs": "abs({x})", "-": "-{x}", "+": "+{x}", "round": "round({x})", "round 2": "round({x}, 2)",
    "float": "float({x})", "softplus of beta": "nm.softplus({x}, 2.0, 3.0)",
    "logit of eps": "nm.logit({x}, 0.25)",
    "2 ** x": "2.0 ** {x}", "0 ** x": "0.0 ** {x}", "1 / x": "1 / {x}", "x // 2": "{x} // 2.0",
    "x % 2": "{x} % 2.0", "pow by 0": "math.pow({x}, 0.0)", "log to 2": "math.log({x}, 2)",
}  # fmt: skip
#: What chooses between values, of which the one that is left out has no finite slope.
CHOICES = {
    "where": "nm.where({x} > 0, nm.sqrt({x}), {x})", "if": "nm.sqrt({x}) if {x} > 0 else {x}",
    "and": "{x} and nm.log({x})", "or": "{x} or nm.sqrt({x})", "max": "max(nm.sqrt({x}), 0.5)",
    "min": "min(nm.log({x}), {x})", "max of three": "max({x}, 1.0, -{x})", "clamp": "nm.clamp({x}, -1, 1)",
    "clamp of sqrt": "nm.clamp(nm.sqrt({x}), 0.25, 1.0)", "sign of sqrt": "nm.sign(nm.sqrt({x}))",
    "fmax": "nm.fmax({x}, 0.5)", "sum": "sum(({x}, {x}))",
    "nested": "nm.where({x} > 1, nm.where({x} > 2, {x}, nm.log({x} - 2)), nm.sqrt({x}))",
}  # fmt: skip
#: The same of ``{x}`` and ``{y}``.
BINARY = {
    **{f"nm.{name}": f"nm.{name}({{x}}, {{y}})" for name in _TWO.split()},
    **{symbol: f"{{x}} {symbol} {{y}}" for symbol in ["+", "-", "*", "/", "//", "%", "**"]},
    "fmod": "math.fmod({x}, {y})", "log": "math.log({x}, {y})", "max": "max({x}, {y})",
    "min": "min({x}, {y})", "clamp by lo": "nm.clamp({x}, {y})", "clamp by hi": "nm.clamp({x}, hi={y})",
    "clamp by both": "nm.clamp({x}, {y}, 1.0)", "clamp a number": "nm.clamp(1.0, {x}, {y})",
    "where": "nm.where({x} < {y}, nm.sqrt({x}), {y} ** {x})", "if": "{x} if {x} < {y} else {y}",
    "softplus": "nm.softplus({x}, {y})", "hypot of three": "math.hypot({x}, {y}, 1.0)",
}  # fmt: skip
_EPS = 2.0**-52
EDGES = [
    0.0, -0.0, 1e-310, -1e-310, 1e-30, -1e-30, 1e-8, 0.25, 0.5, -0.5, 1.0, -1.0, 1 + _EPS, 1 - _EPS / 2,
    -1 - _EPS, 1.5, 2.0, -2.0, 3.0, -3.0, 10.0, -2.5, 20.0, 89.0, -89.0, 100.0, -745.0, 1e30, -1e30, 1.7e308,
    -1.7e308, math.inf, -math.inf, math.nan,
]  # fmt: skip


def product(values, dtype=torch.float64):
    """Return tensors of the first and the second of all pairs of values."""
    first, second = zip(*itertools.product(values, repeat=2), strict=True)
    return torch.tensor(first, dtype=dtype), torch.tensor(second, dtype=dtype)


def blocks(table, folder, *, size=12):
    """Yield (names, function), a function with the results of some of a table's rows, each of own operands.

    Each row's gradient is then found by one backward pass of the sum of all results.
    """
    rows = list(table.items())
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        operands, results = [], []
        for number, (_, text) in enumerate(part):
            names = {letter: f"{letter}{number}" for letter in "xyz" if f"{{{letter}}}" in text}
            operands += names.values()
            results.append(text.format(**names))
        yield [row for row, _ in part], written(f"def block({', '.join(operands)})", results, folder)


def written(head, results, folder):
    """Return a function of a head and the expressions that it returns."""
    body = ", ".join(results) + ("," if len(results) > 1 else "")
    name = f"block_{abs(hash((head, body))):x}"
    path = folder / f"{name}.py"
    path.write_text(
        f"import cmath\nimport math\n\nfrom numjit import math as nm\n\n\n{head}:\n    return {body}\n"
    )
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.block


def same(first, second, tolerance):
    """Return where values are equal, both NaN, or finite and near."""
    equal = (first == second) | (first.isnan() & second.isnan())
    near = (first - second).abs() <= tolerance * second.abs() + 10 * torch.finfo(second.dtype).tiny
    return equal | (first.isfinite() & second.isfinite() & near)
