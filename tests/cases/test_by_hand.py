"""Gradients attached with ``f.backward``: functors, torch code, residuals, pickles, refusals."""

import math
import pickle

import pytest
import torch

import numjit
from numjit.errors import ArgumentError, AutogradError
from tests.cases import both_kinds, pair

f64 = torch.float64
FORMULA = pair(
    lambda x, y, *, a=2.0: a * math.tanh(x) * y + x * x,
    "template <typename T> T formula(T x, T y, T a) { return a * std::tanh(x) * y + x * x; }",
    a=2.0,
)


def leaf(device, count=5):
    return torch.linspace(-1, 1.2, count, device=device, dtype=f64).requires_grad_()


# ---------------------------------------------------------------------------------------- f.backward


def straight_through():
    """A step whose gradient is that of a clipped identity: nothing that could be derived."""
    step = numjit.elementwise(lambda x, *, width=1.0: 1.0 if x > 0 else 0.0)

    @step.backward
    def step_gradient(grad, x, *, width=1.0):
        return grad if abs(x) < width else 0.0

    return step, step_gradient


def test_a_function_of_one_element_becomes_the_gradient(device):
    step, gradient = straight_through()
    assert isinstance(gradient, numjit.Elementwise)
    x = leaf(device)
    result = step(x, width=0.5)
    assert torch.equal(result.detach(), (x > 0).double())
    (got,) = torch.autograd.grad(result.sum(), x)
    assert torch.equal(got, (x.abs() < 0.5).double())
    with torch.no_grad():
        assert not step(x).requires_grad


def test_it_is_used_under_transforms_and_differentiated_in_its_turn(device):
    square = numjit.elementwise(lambda x: x * x)
    square.backward(lambda grad, x: grad * x * x * x)  # wrong on purpose: visible
    x = leaf(device).detach()
    assert torch.equal(torch.func.grad(lambda x: square(x).sum())(x), x**3)
    rows = torch.stack([x, 2 * x])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(lambda x: square(x).sum()))(rows), rows**3)
    got = torch.func.jacrev(torch.func.grad(lambda x: square(x).sum()))(x)
    torch.testing.assert_close(got, torch.diag(3 * x * x))
    with pytest.raises(AutogradError, match=r"no forward mode.*reverse mode"):
        torch.func.jvp(square, (x,), (x,))


def test_cpp_text_and_operations_as_gradients(device):
    square = numjit.elementwise("template <typename T> T square(T x) { return x * x; }")
    square.backward("template <typename T> T slope(T grad, T x) { return T(5) * grad * x; }")
    x = leaf(device)
    (got,) = torch.autograd.grad(square(x).sum(), x)
    torch.testing.assert_close(got, 5 * x)
    square.backward(numjit.elementwise(lambda grad, y: grad * y), save_for_backward="outputs")
    (got,) = torch.autograd.grad(square(x).sum(), x)
    torch.testing.assert_close(got, x * x)


def test_code_of_whole_tensors_gives_a_raw_operand_its_gradient(device):
    gather = numjit.elementwise("template <typename T> T gather(int i, numjit::raw<T> t) { return t[i]; }")

    @gather.backward(tensors=True)
    def scatter(grad, index, table):
        return None, torch.zeros_like(table).index_add_(0, index, grad)

    index = torch.tensor([1, 1, 3], device=device, dtype=torch.int32)
    assert torch.autograd.gradcheck(lambda table: gather(index, table), (leaf(device),))


def test_functors_without_operands(device):
    table_row = numjit.elementwise(
        "template <typename T> T row(numjit::raw<T> t, numjit::index i) { return t[i] * t[i]; }"
    )
    table_row.backward(lambda grad, table: 2 * grad * table, tensors=True)
    x = leaf(device)
    (got,) = torch.autograd.grad(table_row(x, shape=5, device=device).sum(), x)
    torch.testing.assert_close(got, 2 * x)


def test_gradients_that_do_not_fit_are_refused():
    step, _ = straight_through()
    with pytest.raises(ArgumentError, match=r"given 2 operands .*takes 1"):
        step.backward(lambda grad, *, width=1.0: grad)
    with pytest.raises(ArgumentError, match=r"the scalar 'width'"):
        step.backward(lambda grad, x: grad)
    with pytest.raises(ArgumentError, match=r"tensors=True"):
        step.backward(torch.sin)
    with pytest.raises(ArgumentError, match=r"save_for_backward"):
        step.backward(torch.sin, tensors=True, save_for_backward="all")


def test_a_scalar_that_requires_grad_is_not_silently_detached(device):
    step, _ = straight_through()
    width = torch.tensor(1.0, dtype=f64, device=device, requires_grad=True)
    result = step(leaf(device), width=width)
    with pytest.raises(AutogradError, match=r"scalar 'width' requires grad"):
        result.sum().backward()


def test_pickles_keep_the_gradient(device):
    square = numjit.elementwise("template <typename T> T square(T x) { return x * x; }")
    square.backward("template <typename T> T slope(T grad, T x) { return T(5) * grad * x; }")
    x = leaf(device)
    (got,) = torch.autograd.grad(pickle.loads(pickle.dumps(square))(x).sum(), x)
    torch.testing.assert_close(got, 5 * x)


@both_kinds
def test_pickles_of_derivatives_keep_what_was_set_on_them(kind, device):
    text = "template <typename T> T square(T x) { return x * x; }"
    both = numjit.value_and_grad(numjit.elementwise({"python": math_square, "c++": text}[kind]))
    both.backward(slope_of_both)
    again = pickle.loads(pickle.dumps(both))
    x = torch.ones(3, device=device, dtype=f64, requires_grad=True)
    value, slope = again(x)
    assert value.tolist() == [1.0] * 3
    assert slope.tolist() == [2.0] * 3
    (got,) = torch.autograd.grad((value + slope).sum(), x)
    assert got.tolist() == [7.0] * 3


def math_square(x):
    return x * x


@numjit.elementwise
def slope_of_both(by_value, by_slope, x):
    return 3 * by_value + 4 * by_slope


# ------------------------------------------------------------------------------------------ residuals


def test_residuals_are_saved_and_not_returned(device):
    forward = numjit.elementwise(lambda x, *, a=1.0: (a * x * math.exp(x), math.exp(x)))
    backward = numjit.elementwise(lambda grad, x, e, *, a=1.0: grad * a * (e + x * e))
    operation = numjit.differentiable(forward, backward, residuals=1)
    x = leaf(device)
    assert isinstance(operation(x.detach()), torch.Tensor)
    assert torch.autograd.gradcheck(lambda x: operation(x, a=2.0), (x,))
    got = torch.func.vmap(torch.func.grad(lambda x: operation(x).sum()))(torch.stack([x.detach()] * 2))
    torch.testing.assert_close(got[1], torch.exp(x) * (1 + x))
    with pytest.raises(AutogradError, match=r"residuals.*second"):
        torch.autograd.gradgradcheck(operation, (x,))


def test_residuals_in_place_of_inputs_and_unused_results(device):
    forward = numjit.elementwise(lambda x, y: (x * y, x + y, x, y))
    seen = []

    def backward(first, second, *saved):
        seen.append((first, second, len(saved)))
        return first * saved[-1] + second, first * saved[-2] + second

    operation = numjit.differentiable(forward, backward, residuals=2, save_for_backward="outputs")
    x, y = leaf(device), leaf(device).detach().requires_grad_()
    product, total = operation(x, y)
    got = torch.autograd.grad(product.sum(), (x, y), retain_graph=True)
    torch.testing.assert_close(got, (y, x))
    assert seen[-1][2] == 4
    assert not seen[-1][1].any()  # zeros for the result that was not used
    torch.testing.assert_close(torch.autograd.grad(total.sum(), (x, y)), (torch.ones_like(x),) * 2)


def test_too_many_residuals(device):
    operation = numjit.differentiable(lambda x: x * 1, lambda grad, x: grad, residuals=1)
    with pytest.raises(AutogradError, match=r"gives 1 results, but residuals=1"):
        operation(leaf(device))
    with torch.no_grad(), pytest.raises(AutogradError, match=r"residuals=1"):
        operation(leaf(device))
    with pytest.raises(ArgumentError, match="residuals=-1"):
        numjit.differentiable(lambda x: x, lambda grad, x: grad, residuals=-1)


# ---------------------------------------------------------------------------------- inspect, derivative
