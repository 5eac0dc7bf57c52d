"""Binding calls to parameters: positions, names, defaults, and errors that name the argument."""

import pytest

from numjit.call.binding import Binder
from numjit.errors import ArgumentError
from numjit.functor.signature import MISSING, Output, Parameter, Signature


def binder(*operands, **scalars):
    parameters = [Parameter(*p) if isinstance(p, tuple) else Parameter(p) for p in operands]
    names = [Parameter(name, default=default) for name, default in scalars.items()]
    return Binder(Signature("f", tuple(parameters), tuple(names), (Output(),)))


def test_positions_names_and_defaults():
    bind = binder("x", "y", alpha=1.0, beta=2).bind
    assert bind((1, 2), {}) == [1, 2, 1.0, 2]
    assert bind((1,), {"y": 5, "beta": 7}) == [1, 5, 1.0, 7]
    assert bind((), {"y": 5, "x": 4}) == [4, 5, 1.0, 2]


def test_an_operand_with_a_default_may_be_left_out():
    bind = binder("x", ("y", None, None, 3.5)).bind
    assert bind((1,), {}) == [1, 3.5]
    assert bind((1, 2), {}) == [1, 2]


@pytest.mark.parametrize(
    ("positional", "keywords", "words"),
    [
        ((1, 2, 3), {}, ["takes 2 operands", "x, y", "3 were given"]),
        ((1,), {}, ["no value", "operand", "'y'"]),
        ((1, 2), {"z": 1}, ["unknown keyword 'z'", "x, y, alpha"]),
        ((1, 2), {"x": 1}, ["'x'", "both by position and by name"]),
    ],
)
def test_errors_name_the_functor_and_the_argument(positional, keywords, words):
    with pytest.raises(ArgumentError) as caught:
        binder("x", "y", alpha=1.0).bind(positional, keywords)
    assert "f()" in str(caught.value)
    for word in words:
        assert word in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_a_scalar_without_default_must_be_given():
    bind = binder("x", alpha=MISSING).bind
    with pytest.raises(ArgumentError, match="scalar 'alpha'"):
        bind((1,), {})
    assert bind((1,), {"alpha": 2}) == [1, 2]
