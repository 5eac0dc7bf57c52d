"""``numjit.value_and_grad``: values and partial derivatives of one kernel, for every kind of functor."""

import pickle

import numpy as np
import pytest
import torch

import numjit
from numjit.errors import ArgumentError, AutogradError
from tests.cases import both_kinds, pair
from tests.cases.test_by_hand import FORMULA, f64, leaf


@both_kinds
def test_value_and_partials_of_numpy_arrays(kind):
    x, y = np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(2, 3, 3)
    value, by_x, by_y = numjit.value_and_grad(FORMULA[kind])(x, y, a=1.5)
    tanh = np.tanh(x)
    np.testing.assert_allclose(value, 1.5 * tanh * y + x * x, rtol=1e-14)
    np.testing.assert_allclose(by_x, 1.5 * (1 - tanh**2) * y + 2 * x, rtol=1e-12)
    np.testing.assert_allclose(by_y, 1.5 * tanh, rtol=1e-14)


@both_kinds
def test_value_and_some_partials(kind, device):
    x, y = leaf(device).detach(), leaf(device).detach() + 3
    value, by_a = numjit.value_and_grad(FORMULA[kind], wrt="a")(
        x, y, a=torch.tensor(1.5, dtype=f64, device=device)
    )
    torch.testing.assert_close(by_a, torch.tanh(x) * y)
    torch.testing.assert_close(value, 1.5 * torch.tanh(x) * y + x * x)
    results = [torch.empty_like(x) for _ in range(2)]
    assert numjit.value_and_grad(FORMULA[kind], wrt=[1])(x, y, out=tuple(results))[1] is results[1]
    torch.testing.assert_close(results[1], 2 * torch.tanh(x))


@both_kinds
def test_partials_can_be_differentiated_again(kind, device):
    both = numjit.value_and_grad(FORMULA[kind], wrt="x")
    y = leaf(device).detach() + 3
    assert torch.autograd.gradcheck(lambda x: both(x, y), (leaf(device),))


@both_kinds
def test_value_and_partials_with_an_index_or_a_raw_operand(kind):
    indexed = pair(
        lambda x: x * x * numjit.index(),
        "template <typename T> T indexed(numjit::index i, T x) { return x * x * T(i); }",
    )[kind]
    value, by_x = numjit.value_and_grad(indexed)(np.float64([1, 2, 3]))
    assert value.tolist() == [0, 4, 18]
    assert by_x.tolist() == [0, 4, 12]


def test_value_and_grad_of_rebound_variables_and_what_it_refuses():
    scope = {"numjit": numjit, "factor": 2.0}
    exec("f = numjit.elementwise(lambda x: factor * x * x)", scope)
    both = numjit.value_and_grad(scope["f"])
    for factor in (2.0, 3.0):
        scope["factor"] = factor
        assert both(np.float64([1]))[1].tolist() == [2 * factor]
    with pytest.raises(ArgumentError, match=r"wrt='z' is no parameter; name one of x, y, a"):
        numjit.value_and_grad(FORMULA["python"], wrt="z")
    with pytest.raises(AutogradError, match="2 results"):
        numjit.value_and_grad(numjit.elementwise(lambda x: (x, x)))
    with pytest.raises(ArgumentError, match="not a function"):
        numjit.value_and_grad(lambda x: x)


def test_value_and_grad_of_cpp_text_can_be_pickled():
    both = pickle.loads(pickle.dumps(numjit.value_and_grad(FORMULA["c++"])))
    assert len(both(np.float64([1]), np.float64([2]))) == 3
