"""The public shape of the API: how functors are made, called, named, copied and sent to other processes."""

from __future__ import annotations

import copy
import gc
import inspect
import multiprocessing
import pickle
import weakref

import numpy as np
import pytest
import torch

import numjit
from numjit.errors import ArgumentError, FunctorError
from tests.cases import ADD, IDENTITY, SCALED, both_kinds, holds, pair, run_python, same


@numjit.elementwise
def documented(x, y, *, alpha=2.0):
    """Return a weighted sum."""
    return alpha * x + y


@numjit.elementwise(alpha=3.0)
def with_arguments(x, *, alpha):
    """Scale."""
    return x * alpha


CPP = numjit.elementwise(
    "template <typename T> T axpy(T x, T y, T alpha) { return alpha * x + y; }", alpha=2.0
)


def _plain(x):
    return x + 1


ASSIGNED = numjit.elementwise(_plain)


# ------------------------------------------------------------------------------------------------- identity


def test_names_documents_and_signatures():
    assert isinstance(documented, numjit.Elementwise)
    assert documented.__name__ == "documented"
    assert documented.__doc__ == "Return a weighted sum."
    assert documented.__module__ == __name__
    assert documented.__qualname__ == "documented"
    parameters = inspect.signature(documented).parameters
    assert list(parameters)[:3] == ["x", "y", "alpha"]
    assert parameters["alpha"].default == 2.0
    assert parameters["alpha"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "out" in parameters
    assert CPP.__name__ == "axpy"
    assert CPP.__doc__
    assert list(inspect.signature(CPP).parameters)[:3] == ["x", "y", "alpha"]
    assert inspect.signature(with_arguments).parameters["alpha"].default == 3.0
    assert with_arguments.__doc__ == "Scale."
    for functor in (documented, CPP, with_arguments):
        assert functor.__name__ in repr(functor)
    inspect.signature(documented).bind(1, 2, alpha=3, out=None)
    with pytest.raises(TypeError):
        inspect.signature(documented).bind(1, 2, 3)


def test_the_signature_of_a_nullary_functor_shows_its_keywords():
    parameters = inspect.signature(numjit.elementwise(lambda: 1.0)).parameters
    assert {"shape", "like", "dtype", "device", "out"} <= set(parameters)


def test_hash_and_equality_are_by_identity():
    other = numjit.elementwise(_plain)
    assert other != ASSIGNED
    assert len({other, ASSIGNED, ASSIGNED}) == 2
    assert {documented: 1}[documented] == 1


def test_copies():
    for functor in (documented, CPP, with_arguments, ASSIGNED):
        for made in (copy.copy(functor), copy.deepcopy(functor), copy.deepcopy([functor])[0]):
            x = torch.ones(2)
            arguments = (x, x) if len(inspect.signature(functor).parameters) > 3 else (x,)
            same(made(*arguments), functor(*arguments))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(protocol):
    x = torch.tensor([1.0, 2.0])
    assert pickle.loads(pickle.dumps(documented, protocol)) is documented
    same(pickle.loads(pickle.dumps(CPP, protocol))(x, x), CPP(x, x))
    same(pickle.loads(pickle.dumps(with_arguments, protocol))(x), x * 3)
    same(pickle.loads(pickle.dumps(ASSIGNED, protocol))(x), x + 1)


def test_pickling_keeps_options():
    text = """
        template <typename T> T a(T x, T s) { return x + s * EXTRA; }
        template <typename T> T b(T x) { return x; }
    """
    made = numjit.elementwise(text, entry="a", scalars={"s": 2}, preamble="#define EXTRA 3")
    holds(pickle.loads(pickle.dumps(made))(torch.zeros(1)), [6.0], torch.float32)


def test_a_lambda_says_that_it_cannot_be_pickled():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(IDENTITY["python"])


def _call(job):
    functor, array = job
    return functor(array)


def test_spawned_processes_take_functors():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        array = np.float32([1, 2])
        jobs = [(with_arguments, array), (ASSIGNED, array), (SPAWNED, array)]
        results = pool.map_async(_call, jobs).get(timeout=240)
    for result, expected in zip(results, ([3, 6], [2, 3], [10, 20]), strict=True):
        np.testing.assert_array_equal(result, np.float32(expected))


SPAWNED = numjit.elementwise("template <typename T> T ten(T x) { return x * T(10); }")


def test_dtypes_pickle_to_themselves():
    for dtype in (numjit.float32, numjit.bool_, numjit.float8_e5m2):
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype


# -------------------------------------------------------------------------------------------------- making


def test_decorators_with_and_without_arguments(device):
    x = torch.tensor([1.0, 2.0], device=device)
    same(documented(x, x), 3 * x)
    same(with_arguments(x), 3 * x)
    same(with_arguments(x, alpha=5), 5 * x)

    @numjit.elementwise()
    def empty_parentheses(x):
        return x + 1

    @numjit.elementwise(outputs=2)
    def two(x):
        return x, x * 2

    same(empty_parentheses(x), x + 1)
    same(two(x)[1], x * 2)


def test_what_is_no_functor():
    for thing in (3, None, [1], numjit.elementwise):
        if thing is None:
            assert callable(numjit.elementwise(thing))
            continue
        with pytest.raises((FunctorError, TypeError)):
            numjit.elementwise(thing)
    with pytest.raises(FunctorError):
        numjit.elementwise(documented)
    with pytest.raises(FunctorError):
        numjit.elementwise(len)
    with pytest.raises(FunctorError):
        numjit.elementwise(lambda *xs: xs[0])
    with pytest.raises(FunctorError):
        numjit.elementwise(lambda x, **options: x)


def test_options_of_cpp_are_refused_for_python():
    for options in ({"entry": "f"}, {"preamble": "#define A"}, {"options": ["-O1"]}):
        with pytest.raises(FunctorError):
            numjit.elementwise(_plain, **options)


def test_the_public_names():
    dtypes = (
        "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64"
    )
    for name in [*dtypes.split(), "complex128", "float8_e4m3fn", "float8_e5m2", "elementwise", "Elementwise"]:
        assert hasattr(numjit, name)
        assert name in numjit.__all__


# ------------------------------------------------------------------------------------------------- calling


@both_kinds
def test_operands_by_name(kind, device):
    x, y = torch.tensor([1.0, 2.0], device=device), torch.tensor([10.0, 20.0], device=device)
    expected = 2 * x + y
    same(SCALED[kind](x, y=y, alpha=2), expected)
    same(SCALED[kind](y=y, x=x, alpha=2), expected)
    same(SCALED[kind](alpha=2, y=y, x=x), expected)
    with pytest.raises(ArgumentError, match="'x'"):
        SCALED[kind](x, x=x, y=y)


@both_kinds
def test_scalars_are_not_positional(kind, device):
    x = torch.ones(2, device=device)
    with pytest.raises(TypeError, match="keyword"):
        SCALED[kind](x, x, 2.0)


def _optional(x, y=2):
    return x * y


@both_kinds
def test_omittable_operands(kind, device):
    functor = pair(_optional, "template <typename T> T optional(T x, T y = 2) { return x * y; }")[kind]
    x = torch.tensor([1.0, 3.0], device=device)
    same(functor(x), x * 2)
    same(functor(x, x), x * x)
    same(functor(x, y=x), x * x)
    same(functor(x, 0.5), x * 0.5)


@both_kinds
def test_one_output_is_an_array_and_numbers_alone_are_computed(kind, device):
    x = torch.ones(2, device=device)
    assert isinstance(ADD[kind](x, x), torch.Tensor)
    result = ADD[kind](1, 2.5)
    assert result.shape == ()
    assert float(result) == 3.5


@both_kinds
def test_numbers_alone_are_right_in_every_kind(kind):
    for a, b in ((1, 2), (True, 2), (1.5, 2), (1j, 2)):
        result = ADD[kind](a, b)
        expected = torch.tensor(a) + torch.tensor(b)
        assert result.shape == ()
        torch.testing.assert_close(torch.as_tensor(result), expected, check_dtype=False)


@both_kinds
def test_calls_do_not_keep_their_operands(kind, device):
    x = torch.ones(5, device=device)
    result = ADD[kind](x, x)
    watched = weakref.ref(x)
    del x, result
    gc.collect()
    assert watched() is None


@both_kinds
def test_many_shapes_in_turn(kind, device):
    for rows in range(1, 60):
        x = torch.ones(rows, 3, device=device)
        assert torch.equal(ADD[kind](x, x[:1]), x + 1)


# ------------------------------------------------------------------------------------------------ importing


@both_kinds
def test_numpy_alone_needs_no_torch(kind):
    functor = {
        "python": "lambda x, y: x + y",
        "c++": "'template <typename T> T add(T x, T y) { return x + y; }'",
    }[kind]
    code = f"""
        import sys, numpy as np, numjit
        add = numjit.elementwise({functor})
        print(add(np.float32([1, 2]), np.float32([3, 4])).tolist(), 'torch' in sys.modules)
        """
    assert run_python(code).stdout.strip() == "[4.0, 6.0] False"
