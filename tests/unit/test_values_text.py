"""Formulas written as C++: the headers that ship, and how choices, loops and shared values look."""

import pathlib

import pytest

import numjit
from numjit import dtypes
from numjit.codegen.machine import HOST
from numjit.rules import cpp_values
from numjit.rules.real import branch, loop
from numjit.rules.values_text import TextEmitter, alone, merged

INCLUDE = pathlib.Path(numjit.__file__).parent / "functor/cpp/include"


@pytest.mark.parametrize("file", cpp_values.texts())
def test_the_headers_that_ship_are_what_the_formulas_say(file):
    again = "the formulas have changed: python -m numjit.rules.cpp_values"
    assert (INCLUDE / file).read_text(encoding="utf-8") == cpp_values.texts()[file], again


def body(formula, dtype=dtypes.float64):
    emitter = TextEmitter(HOST, dtype)
    return emitter.write([formula(emitter.parameter("x"), emitter.parameter("y"))], "{}")


def written(formula):
    return alone(body(formula))


def test_operators_keep_their_order():
    assert written(lambda x, y: x - (y - x) * -(x / (y * x))) == ["return x - (y - x) * -(x / (y * x));"]
    assert written(lambda x, y: (x + y) - (x + 1.0)) == ["return x + y - (x + R(1));"]
    assert written(lambda x, y: x.where((x.is_("<", y) | y.is_nan()) & ~x.is_("==", 0.5), -0.0)) == [
        "return (x < y || y != y) && !(x == R(0.5)) ? x : R(-0.0);"
    ]


def test_a_value_is_computed_where_it_is_needed():
    """In the arm that alone needs it, before the choice that both need it in, and once."""

    def formula(x, y):
        shared, own = x.call("exp"), y.call("log")
        return (own * own + shared).where(x.is_(">", 0.0), shared - 1.0)

    assert written(formula) == [
        "const R t1 = std::exp(x);",
        "if (!(x > R(0))) return t1 - R(1);",
        "const R t2 = std::log(y);",
        "return t2 * t2 + t1;",
    ]


def test_a_choice_inside_of_a_formula():
    def formula(x, y):
        root = x.call("sqrt")
        chosen = (root * root).where(x.is_(">", 0.0), y)
        return chosen * chosen

    assert written(formula) == [
        "R t1;",
        "if (x > R(0)) {",
        "  const R t2 = std::sqrt(x);",
        "  t1 = t2 * t2;",
        "} else {",
        "  t1 = y;",
        "}",
        "return t1 * t1;",
    ]


def powers(x, y):
    """Sum x**k exp(y), k < 5, by a loop; what does not change in it is computed before."""

    def step(total, power, count):
        return total + power * y.call("exp"), power * x, count + 1.0

    total, _, _ = loop(
        [x.of(0.0), x.of(1.0), x.of(0.0)], step, lambda _total, _power, count: count.is_("<", 5.0)
    )
    return branch(x.is_("<", y), lambda: total, lambda: x)


def test_a_loop_in_a_branch():
    assert written(powers) == [
        "if (!(x < y)) return x;",
        "const R t1 = std::exp(y);",
        "R t2 = R(0), t3 = R(1), t4 = R(0);",
        "for (;;) {",
        "  const R t5 = t4 + R(1);",
        "  const R t6 = t2 + t3 * t1;",
        "  const R t7 = t3 * x;",
        "  const bool t8 = t5 < R(5);",
        "  t2 = t6;",
        "  t3 = t7;",
        "  t4 = t5;",
        "  if (!t8) break;",
        "}",
        "return t2;",
    ]


def test_numbers_of_two_types_are_one_template_and_other_differences_none():
    def by_size(x, y):
        return x * (3.5 if x.is_single else 4.5) + y * 0.1

    bodies = [body(by_size, dtype) for dtype in (dtypes.float32, dtypes.float64)]
    assert merged(*bodies) == ["return x * R(sizeof(R) == 4 ? 3.5 : 4.5) + y * R(0.1);"]

    def by_length(x, y):
        return x + y if x.is_single else x + y + 1.0

    assert merged(*(body(by_length, dtype) for dtype in (dtypes.float32, dtypes.float64))) is None
