"""Plain numbers among themselves as device code, without a GPU: every operator and function has one."""

from __future__ import annotations

import cmath
import math

import pytest

from numjit import dtypes
from numjit.errors import CompilationError
from numjit.functor.device import compile_device
from numjit.functor.signature import ArgumentType, SignedNumber
from numjit.semantics.category import Category
from tests.support.number_cases import functor_of

KINDS = {"bool": dtypes.bool_, "int": dtypes.int64, "float": dtypes.float64, "complex": dtypes.complex128}
WHOLE = "+ - * / // % & | ^ << >> == != < <= > >="
REAL = "+ - * / // % == != < <= > >="
ANY = "+ - * / == !="
ONE = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc gamma lgamma fabs degrees radians isnan isinf isfinite floor ceil trunc"
)
TWO = "atan2 fmod copysign remainder pow hypot log ldexp nextafter"
COMPLEX = (
    "exp log log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh isnan isinf isfinite "
    "phase"
)


def ptx(expressions, kind, sign=None):
    """Compile a functor of two numbers of a kind, with a result for each expression."""
    functor = functor_of(expressions, "ab").__numjit_functor__
    number = ArgumentType(KINDS[kind], Category.NUMBER)
    if sign is not None:
        number = SignedNumber.of(number, sign)
    arguments = ArgumentType(dtypes.int8, Category.DIM), number, number
    specialised = functor.specialise(arguments, dtypes.float64, target="cuda")
    return compile_device(functor, specialised, "numjit_functor", (9, 0), "ptx").decode()


@pytest.mark.parametrize(
    ("kind", "symbols"), [("bool", WHOLE), ("int", WHOLE), ("float", REAL), ("complex", ANY + " **")]
)
def test_every_operator_of_numbers_compiles(kind, symbols):
    expressions = [f"a {symbol} b" for symbol in symbols.split()] + ["-a", "+a", "not a", "abs(a)", "bool(a)"]
    assert ".visible" in ptx(expressions, kind)


@pytest.mark.parametrize("kind", ["bool", "int", "float"])
def test_every_function_of_numbers_compiles(kind):
    ones = [f"math.{name}(a)" for name in ONE.split() if hasattr(math, name)]
    rest = [f"math.{name}(a, b)" for name in TWO.split()] + ["float(a)", "int(a)", "round(a)", "max(a, b)"]
    rest += [f"cmath.{name}(a)" for name in COMPLEX.split() if hasattr(cmath, name)][:14]
    if kind != "float":
        rest[:0] = ["math.gcd(a, b)", "math.lcm(a, b)"]
    for expressions in (ones[:20], ones[20:], rest):
        assert ".visible" in ptx(expressions, kind)


def test_every_function_of_complex_numbers_compiles():
    assert ".visible" in ptx([f"cmath.{name}(a)" for name in COMPLEX.split()], "complex")


def test_powers_of_ints_compile_by_the_sign_of_the_exponent():
    rising, falling = ptx(["a ** b"], "int", sign=False), ptx(["a ** b"], "int", sign=True)
    assert ".f64" not in rising
    assert ".f64" in falling
    with pytest.raises(CompilationError, match=r"2\.0 \*\* n"):
        ptx(["a ** b"], "int")
