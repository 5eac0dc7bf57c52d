"""Every parameter of the public API by every wrong kind of value.

A row is one call. It raises numjit's own error, of the class listed and of the builtin that fits; the message
says which function and argument it is about and, after a semicolon or colon, what to do. Nothing is written
before, and the next good call works.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import numjit
from numjit import jiterator
from numjit.errors import (
    ArgumentError,
    DeviceError,
    FunctorError,
    NumjitError,
    OptionError,
    OutputError,
    UnsupportedArrayError,
    UnsupportedDtypeError,
)
from tests.support.wrong_values import NUMBERS, VALUES

#: What ends a message: what to do.
CURE = re.compile(
    r"[;:,] (?:or |the producer must )?"
    r"(?:add|call|check|convert|correct|decorate|export|fill|give|install|leave|make|move|name|numjit needs|"
    r"pass|pip install|prepare|put|rename|reshape|return|say|set|take|use|wrap|write)\b"
)
TEXT = "template <typename T> T axpy(T x, T y, T alpha) { return alpha * x + y; }"
INTEGERS = {"zero", "one", "negative", "numpy int"}
REALS = INTEGERS | {"true", "fraction", "nan", "infinity", "numpy float", "numpy bool"}
SCALARS = REALS | {"complex"}
PLAIN_ARRAYS = {"numpy array", "numpy matrix", "tensor", "matrix"}
OPERANDS = SCALARS | PLAIN_ARRAYS
DTYPES = {"numpy dtype", "torch dtype"}
SIZES = {"zero", "one", "numpy int", "true", "empty list", "range", "memoryview"}


def _axpy(x, y, *, alpha=1.0):
    return alpha * x + y


def _ramp(*, step=1.0):
    return step * numjit.index()


class Spec(NamedTuple):
    """One parameter: how it is passed, which of `VALUES` it takes, and what its errors are."""

    function: str
    parameter: str
    call: Callable[[Any], Any]
    fine: set[str]
    errors: tuple[type[NumjitError], ...]
    words: tuple[str, ...]


def _operation(kind="python"):
    return numjit.elementwise(_axpy) if kind == "python" else numjit.elementwise(TEXT, alpha=1.0)


def _square():
    return numjit.elementwise(lambda x: x * x)


X = torch.ones(3)
_READ = (ArgumentError, UnsupportedArrayError, UnsupportedDtypeError)


def _construction():
    for option, fine in (
        ("outputs", {"one", "none"}),
        ("entry", {"none"}),
        ("scalars", {"none"}),
        ("preamble", {"empty text"}),
        ("options", {"empty list", "list of text", "numpy text"}),
        ("autotune", {"true", "numpy bool"}),
        ("opaque", {"true", "numpy bool"}),
        ("defaults", SCALARS),
    ):
        name = "alpha" if option == "defaults" else option
        text = "template <typename T> T f(T x) { return x; }" if option != "defaults" else TEXT

        def call(value, name=name, text=text):
            numjit.elementwise(text, **{name: value})

        # A text is told of by its own line, a number of outputs by the functor's.
        words = {"preamble": (), "outputs": (), "scalars": ()}.get(option, (name,))
        yield Spec("elementwise", option, call, fine, (OptionError, FunctorError), words)

        def decorate(value, name=name):
            numjit.elementwise(**{name: value})

        texts = {"text", "empty text", "text with a NUL", "surrogate", "long text"}
        later = texts if option in ("entry", "preamble") else set()
        if option == "outputs":
            later = {"numpy int", "huge"}
        if option == "scalars":
            later = {"dict"}
        words = () if option == "scalars" else (name,)
        yield Spec(
            "elementwise", f"{option} (decorator)", decorate, fine | later, (OptionError, FunctorError), words
        )
    yield Spec(
        "elementwise", "functor", numjit.elementwise, {"function", "none"}, (OptionError, FunctorError), ()
    )


def _calls():
    for kind in ("python", "c++"):
        name = "_axpy" if kind == "python" else "axpy"

        def operand(value, kind=kind):
            _operation(kind)(value, X)

        def by_name(value, kind=kind):
            _operation(kind)(X, y=value)

        def scalar(value, kind=kind):
            _operation(kind)(X, X, alpha=value)

        def out(value, kind=kind):
            _operation(kind)(X, X, out=value)

        label = f"Elementwise.__call__ {kind}"
        yield Spec(label, "operands", operand, OPERANDS, _READ, (f"{name}()", "'x'"))
        yield Spec(label, "operands (by name)", by_name, OPERANDS, _READ, (f"{name}()", "'y'"))
        yield Spec(label, "scalars", scalar, SCALARS, _READ, (f"{name}()", "'alpha'"))
        yield Spec(
            label, "out", out, {"none", "numpy array", "tensor"}, (OutputError, *_READ), (f"{name}()", "out")
        )
    for option, fine, error in (
        ("shape", SIZES, ArgumentError),
        ("like", PLAIN_ARRAYS, _READ),
        ("dtype", DTYPES | {"none"}, UnsupportedDtypeError),
        ("device", {"none", "torch device"}, DeviceError),
    ):
        errors = error if isinstance(error, tuple) else (error,)

        def nullary(value, option=option):
            more = {} if option in ("shape", "like") else {"shape": 3}
            numjit.elementwise(_ramp)(**{option: value}, **more)

        def inspected(value, option=option):
            more = {} if option in ("shape", "like") else {"shape": 3}
            numjit.elementwise(_ramp).inspect(**{option: value}, **more)

        words = ("_ramp()", option if option in ("shape", "like") else "")
        yield Spec("Elementwise.__call__", option, nullary, fine, errors, words)
        yield Spec("Elementwise.inspect", option, inspected, fine, errors, words)

        def out_of_place(value, option=option):
            _operation()(X, X, **{option: value})

        words = ("_axpy()", "shape, like, dtype and device")
        yield Spec(
            "Elementwise.__call__", f"{option} (operands)", out_of_place, {"none"}, (ArgumentError,), words
        )


def _methods():
    words = ("_axpy()", "'x'")
    for method in ("inspect", "derivative", "prepare"):

        def operands(value, method=method):
            getattr(_operation(), method)(value, X)

        def scalars(value, method=method):
            getattr(_operation(), method)(X, X, alpha=value)

        yield Spec(f"Elementwise.{method}", "operands", operands, OPERANDS, _READ, words)
        yield Spec(f"Elementwise.{method}", "scalars", scalars, SCALARS, _READ, ("_axpy()", "'alpha'"))
    yield Spec(
        "Elementwise.prepare",
        "out",
        lambda value: _operation().prepare(X, X, out=value),
        {"none", "numpy array", "tensor"},
        (OutputError, *_READ),
        ("_axpy", "out"),
    )
    tensors = {"tensor", "matrix", "sparse", "nested"}
    for parameter, call in (
        ("operands", lambda value: _operation().explain(value, X)),
        ("scalars", lambda value: _operation().explain(X, X, alpha=value)),
    ):
        yield Spec("Elementwise.explain", parameter, call, SCALARS | tensors, _READ, ())
    backward = "Elementwise.backward"
    where = ("<lambda>.backward()",)
    yield Spec(
        backward,
        "function",
        lambda value: _square().backward(value),
        {"none"},
        (ArgumentError, FunctorError),
        (),
    )
    for option, fine in (
        ("tensors", {"true", "numpy bool"}),
        ("save_for_backward", set()),
        ("num_grad_inputs", {"one", "huge", "numpy int", "none"}),
    ):

        def rule(value, option=option):
            _square().backward(lambda g, x: g * x, **{option: value})

        yield Spec(backward, option, rule, fine, (ArgumentError,), (option,))
        if option != "save_for_backward":

            def decorator(value, option=option):
                _square().backward(**{option: value})

            yield Spec(backward, f"{option} (decorator)", decorator, fine, (ArgumentError,), (*where, option))
    yield Spec(
        "Elementwise.device_function",
        "dtypes",
        lambda value: _operation().device_function(value, "float32", cc=(5, 0)),
        set(),
        (UnsupportedDtypeError, DeviceError),
        (),
    )
    yield Spec(
        "Elementwise.device_function",
        "cc",
        lambda value: _operation().device_function("float32", "float32", cc=value),
        set(),
        (ArgumentError, DeviceError),
        (),
    )


def _functions():
    yield Spec("value_and_grad", "f", numjit.value_and_grad, set(), (ArgumentError,), ("value_and_grad",))
    yield Spec(
        "value_and_grad",
        "wrt",
        lambda value: numjit.value_and_grad(_operation(), value),
        {"zero", "one", "range", "none"},
        (ArgumentError,),
        ("value_and_grad of _axpy", "wrt"),
    )
    yield Spec(
        "warmup",
        "functor",
        lambda v: numjit.warmup(v, targets="1.0"),
        set(),
        (ArgumentError, DeviceError),
        (),
    )
    described = {"tuple", "generator", "numpy matrix", "matrix"}
    yield Spec(
        "warmup",
        "signatures",
        lambda value: numjit.warmup(_operation(), value, targets="cpu"),
        described | {"nested"},
        _READ,
        (),
    )
    for option, fine in (
        ("scalars", {"none"}),
        ("targets", {"empty list", "none"}),
        ("dtypes", {"empty list", "none"}),
        ("layouts", {"empty list", "list of text", "numpy text", "none"}),
        ("jobs", {"one", "huge", "numpy int", "none"}),
        ("progress", {"none", "class", "type", "function", "builtin"}),
    ):

        def warm(value, option=option):
            numjit.warmup(_operation(), ("float32", "float32"), **{"targets": "cpu", option: value})

        yield Spec("warmup", option, warm, fine, (ArgumentError, DeviceError, UnsupportedDtypeError), ())
    operand = numjit.Operand
    for option, call, fine, error in (
        ("dtype", operand, DTYPES, UnsupportedDtypeError),
        ("shape", lambda v: operand("float32", v), {"empty list", "range", "memoryview"}, ArgumentError),
        ("strides", lambda v: operand("float32", (3,), v), {"none"}, ArgumentError),
        (
            "offset",
            lambda v: operand("float32", (3,), None, v),
            {"zero", "one", "huge", "numpy int"},
            ArgumentError,
        ),
    ):
        yield Spec(
            "Operand", option, call, fine, (error,), (option if option in ("shape", "offset") else "",)
        )
    yield Spec("raw", "element", numjit.raw, DTYPES, (FunctorError,), ("numjit.raw",))
    yield Spec(
        "Elementwise",
        "functor",
        lambda v: numjit.Elementwise(v, {}),
        set(),
        (FunctorError,),
        ("Elementwise",),
    )
    functor = _operation().functor
    yield Spec(
        "Elementwise",
        "options",
        lambda v: numjit.Elementwise(functor, v),
        set(),
        (FunctorError,),
        ("Elementwise",),
    )


def _jiterator():
    text = TEXT
    many = "template <typename T> void f(T x, T& y) { y = x; }"
    name = "numjit.jiterator.create_jit_fn"
    yield Spec(name, "code_string", jiterator.create_jit_fn, set(), (OptionError, FunctorError), ())
    yield Spec(
        name,
        "kwargs",
        lambda value: jiterator.create_jit_fn(text, alpha=value),
        SCALARS,
        (OptionError, FunctorError),
        ("create_jit_fn()", "'alpha'"),
    )
    yield Spec(
        f"{name}(...)",
        "tensors",
        lambda value: jiterator.create_jit_fn(text, alpha=1.0)(value, X),
        OPERANDS,
        _READ,
        ("axpy()", "'x'"),
    )
    yield Spec(
        f"{name}(...)",
        "kwargs",
        lambda value: jiterator.create_jit_fn(text, alpha=1.0)(X, X, alpha=value),
        REALS,
        _READ,
        ("axpy()", "'alpha'"),
    )
    name = "numjit.jiterator.create_multi_output_jit_fn"
    create = jiterator.create_multi_output_jit_fn
    yield Spec(name, "code_string", lambda value: create(value, 1), set(), (OptionError, FunctorError), ())
    yield Spec(
        name, "num_outputs", lambda value: create(many, value), {"one"}, (OptionError, FunctorError), ()
    )
    yield Spec(
        name,
        "kwargs",
        lambda value: create(many.replace("T x", "T x, T s"), 1, s=value),
        SCALARS,
        (OptionError, FunctorError),
        ("'s'",),
    )


def _mathematics():
    numbers = set(NUMBERS) | {"numpy masked"}
    for name in ("exp", "erf", "fmod", "atan2", "maximum", "sqrt", "isnan", "bitwise_and", "sigmoid", "gcd"):
        function = getattr(numjit.math, name)
        count = len(inspect.signature(function).parameters)

        def call(value, function=function, count=count):
            function(*[value] * count)

        fine = numbers | {"no index", "numpy text", "numpy dates"}
        yield Spec(f"math.{name}", "x", call, fine, (ArgumentError,), (f"numjit.math.{name}()",))


def _prepared():
    for option in ("operands", "scalars", "out"):

        def call(value, option=option):
            made = _operation().prepare(X, X, out=torch.empty(3))
            more = {"operands": {"y": value}, "scalars": {"alpha": value}, "out": {"out": value}}[option]
            made(X, **{"y": X, **more})

        fine = {"operands": {"tensor"}, "scalars": {"fraction", "nan", "infinity"}, "out": {"tensor", "none"}}
        name = {"operands": "'y'", "scalars": "'alpha'", "out": "'out'"}[option]
        yield Spec("Prepared.__call__", option, call, fine[option], _READ, ("_axpy()", name))


SPECS = [
    *_construction(), *_calls(), *_methods(), *_functions(), *_jiterator(), *_mathematics(), *_prepared(),
]  # fmt: skip


def check(spec, error):
    """Assert that an error is one of those listed, and says what it has to."""
    assert isinstance(error, spec.errors), f"is a {type(error).__name__}"
    assert isinstance(error, TypeError | ValueError)
    text = str(error)
    for word in spec.words:
        assert word in text, f"does not name {word}: {text}"
    assert CURE.search(text), f"does not say what to do: {text}"
    assert len(text) < 1200 or "xxxxxxxxxx" in text, f"is {len(text)} characters long"


def failing(spec, names):
    """Return what is wrong with each row of a parameter that is not as it should be."""
    found = []
    for name in names:
        value = VALUES[name]()
        try:
            spec.call(value)
        except NumjitError as error:
            try:
                check(spec, error)
            except AssertionError as wrong:
                found.append(f"{name}: {wrong}")
        except Exception as error:  # noqa: BLE001 - what is looked for
            found.append(f"{name}: {type(error).__name__} {error}")
        else:
            found.append(f"{name}: accepted")
    return found


@pytest.mark.parametrize("spec", SPECS, ids=[f"{spec.function}-{spec.parameter}" for spec in SPECS])
def test_every_wrong_value_is_told(spec):
    assert failing(spec, [name for name in VALUES if name not in spec.fine]) == []


def test_there_are_rows_enough():
    assert sum(len(VALUES) - len(spec.fine) for spec in SPECS) > 5000


#: What is public and takes parameters, by the name that the table has it under.
PUBLIC = {
    "elementwise": numjit.elementwise,
    "Elementwise": numjit.Elementwise,
    "Elementwise.__call__": numjit.Elementwise.__call__,
    **{
        f"Elementwise.{name}": getattr(numjit.Elementwise, name)
        for name in ("backward", "derivative", "device_function", "explain", "inspect", "prepare")
    },
    "Prepared.__call__": type(_operation().prepare(X, X)).__call__,
    "value_and_grad": numjit.value_and_grad,
    "warmup": numjit.warmup,
    "Operand": numjit.Operand,
    "numjit.jiterator.create_jit_fn": jiterator.create_jit_fn,
    "numjit.jiterator.create_multi_output_jit_fn": jiterator.create_multi_output_jit_fn,
}
#: Parameters that are for numjit alone.
PRIVATE = {("Elementwise", "gradients")}


@pytest.mark.parametrize("function", PUBLIC)
def test_every_parameter_of_the_public_api_has_rows(function):
    taken = {
        name
        for name in inspect.signature(PUBLIC[function]).parameters
        if name != "self" and (function, name) not in PRIVATE
    }
    listed = {spec.parameter.split(" ")[0] for spec in SPECS if spec.function.split(" ")[0] == function}
    assert listed == taken


def test_all_that_is_public_is_known_here():
    """A new public name is given rows, or is one of those that are not called with arguments."""
    elsewhere = {
        "DType", "NumjitError", "TorchOp", "Warmed", "Differentiable", "differentiable", "index", "math",
        "override", "raw", "torch_op",
    }  # fmt: skip
    names = {name for name in numjit.__all__ if not isinstance(getattr(numjit, name), numjit.DType)}
    assert names == elsewhere | {name for name in PUBLIC if "." not in name}


def test_a_keyword_that_a_drop_in_function_did_not_declare():
    made = jiterator.create_jit_fn(TEXT, alpha=1.0)
    with pytest.raises(KeyError) as caught:
        made(X, X, beta=1.0)
    assert isinstance(caught.value, ArgumentError)
    assert str(caught.value).startswith("axpy(): beta is not declared in function definition; leave it out")


def test_the_index_outside_of_a_functor():
    with pytest.raises(FunctorError, match="call it in the body of"):
        numjit.index()
