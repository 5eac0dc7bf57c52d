"""What random trees are made of: operators and functions in Python, C++, torch, and for plain numbers."""

from __future__ import annotations

import cmath
import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy
import torch

__all__ = ["CPP_HELPERS", "RULES", "Rule", "common", "negated", "promoted", "tensor_of"]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One operator or function of elements.

    Attributes
    ----------
    name
        As Python has it; numjit.math's start with ``nm.``.
    arity
        How many operands.
    python, cpp
        Formats of the texts; no C++ text where C++ means something else.
    answer
        The torch computation, of tensors and numbers.
    number
        The same of plain numbers alone, as CPython has it; None where torch's answer in float64 is taken.
    ulps
        Units in the last place that an answer may be off.
    kinds
        Of operands: b(ool), i(nteger), f(loat), c(omplex).
    cpp_kinds
        Of the C++ functor's type.
    asks
        Whether the answer is a bool.
    logical
        Whether the operands are bools (and, or, not).
    integral
        Whether integers stay integers.
    smooth
        Whether torch and numjit agree on derivatives wherever there are any.
    second
        What the second operand is: an ``exponent`` (a literal), a ``count`` (a small integer), or that the
        first is a ``condition``.
    near_zero
        Multiples of eps that an answer may be off where terms of size 1 cancel.
    """

    name: str
    arity: int
    python: str
    answer: Callable[..., Any]
    number: Callable[..., Any] | None = None
    cpp: str = ""
    ulps: float = 0
    kinds: str = "bif"
    cpp_kinds: str = "if"
    asks: bool = False
    logical: bool = False
    integral: bool = True
    smooth: bool = True
    second: str = ""
    near_zero: float = 0


def promoted(function: Callable[..., Any], *, floating: bool = False) -> Callable[..., Any]:
    """Return a function that converts tensors and numbers to their common dtype first, as torch does."""

    def converted(*values: Any) -> Any:
        dtype = common(values)
        if floating and not (dtype.is_floating_point or dtype.is_complex):
            dtype = torch.get_default_dtype()
        return function(*(tensor_of(value).to(dtype) for value in values))

    return converted


def _lcm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Answer as ``torch.lcm``, which may divide the smallest integer by -1: then the process ends."""
    smallest = (x == torch.iinfo(x.dtype).min) | (y == torch.iinfo(y.dtype).min)
    if x.dtype.itemsize >= 4 and bool(smallest.any()):
        divisor = torch.gcd(x, y).abs()
        return (torch.div(x, torch.where(divisor == 0, 1, divisor), rounding_mode="trunc") * y).abs()
    return torch.lcm(x, y)


def _gcd(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Answer as ``torch.gcd``, which of the smallest integer may be negative."""
    return torch.gcd(x, y).abs()


def tensor_of(value: Any) -> torch.Tensor:
    """Return a tensor, or a number as one, in full precision."""
    if isinstance(value, torch.Tensor):
        return value
    return torch.tensor(value, dtype={float: torch.float64, complex: torch.complex128}.get(type(value)))


def common(values: tuple[Any, ...]) -> torch.dtype:
    """Return the dtype that tensors and numbers promote to."""
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    numbers = [v for v in values if not isinstance(v, torch.Tensor)]
    kinds: list[Any] = []
    for dims in (True, False):
        dtype = None
        for tensor in tensors:
            if bool(tensor.ndim) is dims:
                dtype = tensor.dtype if dtype is None else torch.promote_types(dtype, tensor.dtype)
        if dtype is not None:
            kinds.append(torch.empty((1,) if dims else (), dtype=dtype))
    number = max(numbers, key=_rank, default=None)
    if number is not None:
        kinds.append(number)
    return torch.result_type(kinds[0], kinds[0]) if len(kinds) == 1 else _fold(kinds)


def _fold(kinds: list[Any]) -> torch.dtype:
    dtype = torch.result_type(kinds[0], kinds[1])
    if len(kinds) == 3:
        first = torch.empty((1,) if kinds[0].ndim else (), dtype=dtype)
        dtype = torch.result_type(first, kinds[2])
    return dtype


def _rank(value: Any) -> int:
    return [bool, int, float, complex].index(type(value))


def negated(x: Any) -> Any:
    """Answer as ``-x``, which torch's vectors of complex numbers compute as ``0 - x``: without 0's sign."""
    return torch.complex(-x.real, -x.imag) if x.is_complex() else -x


def _sinc(x: torch.Tensor) -> torch.Tensor:
    """Answer as ``torch.sinc``, whose second derivative at 0 is 0 or NaN."""
    if not x.is_floating_point():
        return torch.sinc(x)
    near = x.abs() < 1e-3
    square = (math.pi * torch.where(near, x, torch.zeros_like(x))) ** 2
    series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42))
    return torch.where(near, series, torch.sinc(torch.where(near, torch.ones_like(x), x)))


def _i0(x: torch.Tensor) -> torch.Tensor:
    """Answer as ``torch.i0``, which is NaN at infinities."""
    return torch.where(torch.isinf(x), x.abs(), torch.i0(x))


def _fmod(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Answer as ``torch.fmod``, which is NaN where the quotient of floats is huge."""
    if not x.is_floating_point():
        return torch.fmod(x, y)
    wide = [value.to(torch.float64).numpy() for value in (x, y)]  # in which it is exact
    with numpy.errstate(all="ignore"):
        return torch.from_numpy(numpy.asarray(numpy.fmod(*wide))).to(x.dtype)


def _remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Answer as ``torch.remainder``, likewise."""
    if not x.is_floating_point():
        return torch.remainder(x, y)
    rest = _fmod(x, y)
    return torch.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _safe(function: Callable[[Any, Any], Any], of_minus_one: Callable[[Any], Any]) -> Callable[..., Any]:
    """Integers: 0 where the divisor is 0, and no trap where it is -1; see docs/semantics.md."""

    def divided(a: Any, b: Any) -> Any:
        dtype = common((a, b))
        if dtype.is_complex or dtype == torch.bool:
            return function(a, b)  # which torch refuses
        a, b = (tensor_of(v).to(dtype) for v in (a, b))
        if dtype.is_floating_point:
            return function(a, b)
        odd = (b == 0) | (b == -1) if dtype.is_signed else b == 0
        usual = function(a, torch.where(odd, torch.ones_like(b), b))
        return torch.where(b == 0, torch.zeros_like(usual), torch.where(odd, of_minus_one(a), usual))

    return divided


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    return promoted(function)


def _python_shift(left: bool) -> Callable[[int, int], int]:
    """What a shift of plain integers gives where CPython raises: a distance below 0 is outside the width."""

    def shifted(a: int, n: int) -> int:
        if n < 0:
            return 0 if left else (-1 if a < 0 else 0)
        return a << n if left else a >> n

    return shifted


def _extremum(function: Callable[..., Any]) -> Callable[..., Any]:
    return promoted(function)


def _unary(name: str) -> Callable[..., Any]:
    return getattr(torch, name)


def _numbers_floordiv(a: Any, b: Any) -> Any:
    if b == 0:
        return 0 if isinstance(a, int) and isinstance(b, int) else _torch_number(torch.floor_divide, a, b)
    return a // b


def _numbers_mod(a: Any, b: Any) -> Any:
    if b == 0:
        return 0 if isinstance(a, int) and isinstance(b, int) else math.nan
    return a % b


def _numbers_div(a: Any, b: Any) -> Any:
    return a / b if b != 0 else _torch_number(torch.true_divide, a, b)


def _torch_number(function: Callable[..., Any], *values: Any) -> Any:
    return function(*(torch.tensor(float(v), dtype=torch.float64) for v in values)).item()


RULES: dict[str, Rule] = {}

CPP_HELPERS = """
template <typename T> T fuzz_max(T a, T b) { return a != a ? a : b != b ? b : a > b ? a : b; }
template <typename T> T fuzz_min(T a, T b) { return a != a ? a : b != b ? b : a < b ? a : b; }
template <typename T> T fuzz_abs(T a) { return a <= T(0) ? T(T(0) - a) : a; }
""".strip()


def _add(rule: Rule) -> None:
    RULES[rule.name] = rule


def _operators() -> None:
    o = operator
    for symbol, function, kinds in (("+", o.add, "bifc"), ("-", o.sub, "bifc"), ("*", o.mul, "bifc")):
        _add(Rule(symbol, 2, f"({{}} {symbol} {{}})", function, function, f"({{}} {symbol} {{}})", 0, kinds))
    _add(
        Rule(
            "/",
            2,
            "({} / {})",
            promoted(torch.true_divide, floating=True),
            _numbers_div,
            "({} / {})",
            0,
            "bifc",
            "f",
            integral=False,
        )
    )
    floordiv = _safe(torch.floor_divide, o.neg)
    mod = _safe(_remainder, torch.zeros_like)
    _add(Rule("//", 2, "({} // {})", floordiv, _numbers_floordiv, smooth=False))
    _add(Rule("%", 2, "({} % {})", mod, _numbers_mod, smooth=False))
    _add(Rule("**", 2, "({} ** {})", o.pow, o.pow, ulps=8, kinds="bifc", second="exponent"))
    for symbol, function in (("&", o.and_), ("|", o.or_), ("^", o.xor)):
        _add(
            Rule(
                symbol, 2, f"({{}} {symbol} {{}})", function, function, f"({{}} {symbol} {{}})", 0, "bi", "i"
            )
        )
    for symbol, name in (("<<", "bitwise_left_shift"), (">>", "bitwise_right_shift")):
        number = _python_shift(symbol == "<<")
        answer = _shift(getattr(torch, name))
        _add(Rule(symbol, 2, f"({{}} {symbol} {{}})", answer, number, "", 0, "i", second="count"))
    for symbol, name in (("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge"), ("==", "eq"), ("!=", "ne")):
        function = getattr(o, name)
        kinds = "bifc" if symbol in ("==", "!=") else "bif"
        _add(
            Rule(
                symbol,
                2,
                f"({{}} {symbol} {{}})",
                function,
                function,
                f"({{}} {symbol} {{}})",
                0,
                kinds,
                asks=True,
            )
        )
    _add(Rule("neg", 1, "(-{})", negated, o.neg, "(-{})", 0, "bifc"))
    _add(Rule("pos", 1, "(+{})", o.pos, o.pos, "(+{})", 0, "bifc"))
    _add(Rule("~", 1, "(~{})", torch.bitwise_not, o.invert, "(~{})", 0, "bi", "i"))
    truth = lambda x: x != 0  # noqa: E731
    for name, function in (("and", torch.logical_and), ("or", torch.logical_or)):
        symbol = {"and": "&&", "or": "||"}[name]
        number = {"and": lambda a, b: bool(a and b), "or": lambda a, b: bool(a or b)}[name]
        answer = lambda a, b, f=function: f(tensor_of(a), tensor_of(b))  # noqa: E731
        _add(
            Rule(
                name,
                2,
                f"({{}} {name} {{}})",
                answer,
                number,
                f"({{}} {symbol} {{}})",
                0,
                asks=True,
                logical=True,
            )
        )
    _add(Rule("not", 1, "(not {})", torch.logical_not, o.not_, "(!{})", 0, asks=True, logical=True))
    _add(Rule("bool", 1, "bool({})", truth, bool, asks=True, kinds="bifc"))
    _add(Rule("abs", 1, "abs({})", torch.abs, abs, "fuzz_abs({})", 0, "ifc"))
    _add(
        Rule(
            "float",
            1,
            "float({})",
            lambda x: x if x.is_floating_point() else x.to(torch.get_default_dtype()),
            float,
        )
    )
    # An int of an element is a 64-bit integer with the element's say in promotion; see docs/semantics.md.
    _add(Rule("int", 1, "int({})", lambda x: x.to(torch.int64), int, smooth=False))
    for name, torch_name in (("max", "maximum"), ("min", "minimum")):
        function = getattr(torch, torch_name)
        number = {"max": _number_max, "min": _number_min}[name]
        _add(
            Rule(
                name,
                2,
                f"{name}({{}}, {{}})",
                _extremum(function),
                number,
                f"fuzz_{name}({{}}, {{}})",
                0,
                "bif",
            )
        )
    three = lambda a, b, c: torch.maximum(torch.maximum(*_alike(a, b, c)[:2]), _alike(a, b, c)[2])  # noqa: E731
    _add(Rule("max3", 3, "max({}, {}, {})", three, None, "", 0, "bif"))
    _add(Rule("sum", 2, "sum(({}, {}))", lambda a, b: 0 + a + b, lambda a, b: 0 + a + b, "", 0, "bif"))
    _add(Rule("round", 1, "round({})", torch.round, None, kinds="if", smooth=False))
    _add(
        Rule(
            "round2",
            1,
            "round({}, 2)",
            lambda x: torch.round(x, decimals=2),
            None,
            kinds="f",
            smooth=False,
            ulps=2,
        )
    )


def _alike(*values: Any) -> list[Any]:
    dtype = common(values)
    return [tensor_of(value).to(dtype) for value in values]


def _number_max(a: Any, b: Any) -> Any:
    return a if a != a or a >= b else b


def _number_min(a: Any, b: Any) -> Any:
    return a if a != a or a <= b else b


#: Python's math functions: torch's name, and units in the last place.
_MATH = {
    "exp": ("exp", 4), "exp2": ("exp2", 4), "expm1": ("expm1", 4), "log2": ("log2", 4), "log10": ("log10", 4),
    "log1p": ("log1p", 4), "sqrt": ("sqrt", 1), "sin": ("sin", 4), "cos": ("cos", 4), "tan": ("tan", 6),
    "asin": ("asin", 4), "acos": ("acos", 4), "atan": ("atan", 4), "sinh": ("sinh", 4), "cosh": ("cosh", 4),
    "tanh": ("tanh", 4), "asinh": ("asinh", 6), "acosh": ("acosh", 6), "atanh": ("atanh", 6),
    "erf": ("erf", 4), "erfc": ("erfc", 8), "lgamma": ("lgamma", 16), "fabs": ("abs", 0), "log": ("log", 4),
    "degrees": ("rad2deg", 2), "radians": ("deg2rad", 2),
}  # fmt: skip
_IN_CPP = {
    "exp", "exp2", "expm1", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "log",
}  # fmt: skip
_NM_UNARY = {
    "exp": 4, "exp2": 4, "expm1": 4, "log": 4, "log2": 4, "log10": 4, "log1p": 4, "sqrt": 1, "rsqrt": 4,
    "sin": 4, "cos": 4, "tan": 6, "asin": 4, "acos": 4, "atan": 4, "sinh": 4, "cosh": 4, "tanh": 4,
    "asinh": 6, "acosh": 6, "atanh": 6, "sinc": 8, "angle": 1, "sigmoid": 6, "erf": 4, "erfc": 8,
    "erfinv": 12, "lgamma": 16, "digamma": 16, "i0": 16, "sign": 0, "sgn": 1, "square": 0, "reciprocal": 1,
    "frac": 0,
    "floor": 0, "ceil": 0, "trunc": 0, "logit": 8, "softplus": 6, "bitwise_not": 0,
}  # fmt: skip
_NM_QUESTIONS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit")
_NM_BINARY = {
    "logaddexp": 6, "xlogy": 6, "atan2": 6, "hypot": 4, "copysign": 0, "fmod": 0, "remainder": 0, "gcd": 0,
    "lcm": 0, "maximum": 0, "minimum": 0, "fmax": 0, "fmin": 0, "bitwise_and": 0, "bitwise_or": 0,
    "bitwise_xor": 0, "left_shift": 0, "right_shift": 0, "nextafter": 0,
}  # fmt: skip
_KINDS = {
    **dict.fromkeys(("erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "logit", "atan2", "copysign",
                     "xlogy", "sign"), "bif"),
    **dict.fromkeys(("hypot", "logaddexp", "frac", "softplus", "nextafter"), "f"),
    **dict.fromkeys(("floor", "ceil", "trunc", "fmod", "remainder"), "if"),
    **dict.fromkeys(("gcd", "lcm", "left_shift", "right_shift"), "i"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), "bi"),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), "bif"),
    **dict.fromkeys(("isposinf", "isneginf", "signbit"), "bif"),
}  # fmt: skip
_FLOATS = {"atan2", "copysign", "xlogy"}
_NOT_SMOOTH = {"floor", "ceil", "trunc", "frac", "fmod", "remainder", "sign", "sgn", "copysign", "nextafter",
               "angle", "i0"}  # fmt: skip
_NEAR_ZERO = {"digamma": 16, "lgamma": 8, "logaddexp": 2}
_COMPLEX_ULPS = 40


def _of_complex(function: Callable[..., Any]) -> Callable[..., Any]:
    def answer(z: Any) -> Any:
        return function(z if z.is_complex() else z.to(_complex_of(z.dtype)))

    return answer


def _functions() -> None:
    for name, (torch_name, ulps) in _MATH.items():
        answer = _unary(torch_name)
        if name == "fabs":
            answer = promoted(torch.abs, floating=True)
        cpp = f"std::{name}({{}})" if name in _IN_CPP else ""
        _add(
            Rule(
                f"math.{name}",
                1,
                f"math.{name}({{}})",
                answer,
                _number_of(getattr(math, name), answer),
                cpp,
                ulps,
                "bif",
                "f",
                integral=False,
                near_zero=_NEAR_ZERO.get(name, 0),
            )
        )
    for name in ("floor", "ceil", "trunc"):
        _add(
            Rule(
                f"math.{name}",
                1,
                f"math.{name}({{}})",
                _unary(name),
                getattr(math, name),
                "",
                0,
                "if",
                smooth=False,
            )
        )
    for name, torch_name in (("isnan", "isnan"), ("isinf", "isinf"), ("isfinite", "isfinite")):
        number = getattr(math, name)
        cpp = f"std::{name}({{}})"
        _add(
            Rule(
                f"math.{name}",
                1,
                f"math.{name}({{}})",
                _unary(torch_name),
                number,
                cpp,
                0,
                "bif",
                "f",
                asks=True,
            )
        )
    for name, torch_name, ulps in (
        ("atan2", "atan2", 6),
        ("copysign", "copysign", 0),
        ("fmod", "fmod", 0),
        ("hypot", "hypot", 4),
        ("pow", "pow", 8),
    ):
        answer = promoted(_fmod if name == "fmod" else _unary(torch_name), floating=True)
        number = _number_of(getattr(math, name), answer)
        cpp = f"std::{name}({{}}, {{}})" if name in ("atan2", "hypot", "copysign") else ""
        _add(
            Rule(
                f"math.{name}",
                2,
                f"math.{name}({{}}, {{}})",
                answer,
                number,
                cpp,
                ulps,
                "bif",
                "f",
                integral=False,
                smooth=name not in ("copysign", "fmod", "pow"),
            )
        )
    for name, own_answer in (("gcd", _gcd), ("lcm", _lcm)):
        _add(
            Rule(
                f"math.{name}",
                2,
                f"math.{name}({{}}, {{}})",
                promoted(own_answer),
                getattr(math, name),
                "",
                0,
                "i",
                smooth=False,
            )
        )
    for name, ulps in _NM_UNARY.items():
        kinds = _KINDS.get(name, "bifc")
        own = {"softplus": torch.nn.functional.softplus, "sinc": _sinc, "i0": _i0}
        answer = own.get(name) or _unary(name)
        integral = name in ("sign", "sgn", "square", "floor", "ceil", "trunc", "bitwise_not")
        _add(
            Rule(
                f"nm.{name}",
                1,
                f"nm.{name}({{}})",
                answer,
                None,
                "",
                ulps,
                kinds,
                integral=integral,
                smooth=name not in _NOT_SMOOTH,
                near_zero=_NEAR_ZERO.get(name, 0),
            )
        )
    for name in _NM_QUESTIONS:
        _add(
            Rule(
                f"nm.{name}",
                1,
                f"nm.{name}({{}})",
                _unary(name),
                None,
                "",
                0,
                _KINDS.get(name, "bifc"),
                asks=True,
            )
        )
    for name, ulps in _NM_BINARY.items():
        torch_name = {"left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift"}.get(
            name, name
        )
        answer = promoted(_unary(torch_name), floating=name in _FLOATS)
        if name in ("gcd", "lcm"):
            answer = promoted(_gcd if name == "gcd" else _lcm)
        if name in ("fmod", "remainder"):
            answer = _safe(_fmod if name == "fmod" else _remainder, torch.zeros_like)
        _add(
            Rule(
                f"nm.{name}",
                2,
                f"nm.{name}({{}}, {{}})",
                answer,
                None,
                "",
                ulps,
                _KINDS.get(name, "bif"),
                integral=name not in _FLOATS,
                smooth=name not in _NOT_SMOOTH,
                near_zero=_NEAR_ZERO.get(name, 0),
                second="count" if "shift" in name else "",
            )
        )
    _add(
        Rule(
            "nm.clamp",
            3,
            "nm.clamp({}, {}, {})",
            lambda x, lo, hi: torch.clamp(*_alike(x, lo, hi)),
            None,
            "",
            0,
            "bif",
        )
    )
    where = lambda c, a, b: torch.where(tensor_of(c), *_alike(a, b))  # noqa: E731
    _add(Rule("nm.where", 3, "nm.where({}, {}, {})", where, None, "", 0, "bifc", second="condition"))
    for name in (
        "exp",
        "log",
        "log10",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
    ):
        answer = _of_complex(getattr(torch, name))
        _add(
            Rule(
                f"cmath.{name}",
                1,
                f"cmath.{name}({{}})",
                answer,
                getattr(cmath, name),
                "",
                _COMPLEX_ULPS,
                "c",
                integral=False,
            )
        )
    _add(Rule(".real", 1, "{}.real", lambda z: z.real if z.is_complex() else z, None, "", 0, "c"))
    _add(
        Rule(
            ".imag",
            1,
            "{}.imag",
            lambda z: z.imag if z.is_complex() else torch.zeros_like(z),
            None,
            "",
            0,
            "c",
        )
    )
    _add(Rule(".conj", 1, "{}.conjugate()", torch.conj_physical, None, "", 0, "c"))


def _complex_of(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype == torch.float64 else torch.complex64


def _number_of(function: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of numbers: CPython's answer, and torch's where that raises."""

    def number(*values: Any) -> Any:
        try:
            return function(*values)
        except (ValueError, OverflowError):
            return _torch_number(answer, *values)

    return number


_operators()
_functions()
