"""Gradients written by hand: against torch's own, broadcast, with scalars, saved outputs and errors."""

import math

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.errors import ArgumentError, AutogradError

swish = numjit.elementwise(lambda x, *, beta=1.0: x / (1 + math.exp(-beta * x)))


@numjit.elementwise
def swish_backward(grad, x, *, beta=1.0):
    s = 1 / (1 + math.exp(-beta * x))
    return grad * (s + beta * x * s * (1 - s))


product = numjit.elementwise("template <typename T> T product(T x, T y) { return x * y; }")
product_backward = numjit.elementwise(lambda grad, x, y: (grad * y, grad * x))
tanh = numjit.elementwise(lambda x: math.tanh(x))
tanh_backward = numjit.elementwise(lambda grad, y: grad * (1 - y * y))


def leaf(*shape, device, dtype=torch.float64):
    return torch.randn(shape, device=device, dtype=dtype, requires_grad=True)


def test_gradcheck_of_a_functor_with_a_scalar(device):
    pair = numjit.differentiable(swish, swish_backward)
    x = leaf(4, 5, device=device)
    assert torch.autograd.gradcheck(lambda x: pair(x, beta=1.5), (x,))
    pair(x, beta=1.5).sum().backward()
    y = x.detach().clone().requires_grad_()
    (y * torch.sigmoid(1.5 * y)).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (3,))])
def test_broadcast_inputs_get_gradients_of_their_shape(shapes, device):
    pair = numjit.differentiable(product, product_backward)
    x, y = (leaf(*shape, device=device) for shape in shapes)
    assert torch.autograd.gradcheck(pair, (x, y))
    pair(x, y).sum().backward()
    assert (x.grad.shape, y.grad.shape) == (x.shape, y.shape)


def test_saved_outputs(device):
    pair = numjit.differentiable(tanh, tanh_backward, save_for_backward="outputs")
    assert torch.autograd.gradcheck(pair, (leaf(6, device=device),))


def test_both_and_torch_code_as_backward(device):
    def backward(grad, x, y):
        return grad * (1 - y * y) + 0 * x

    pair = numjit.differentiable(tanh, backward, save_for_backward="both")
    assert torch.autograd.gradcheck(pair, (leaf(6, device=device),))


def test_numbers_and_inputs_without_gradients(device):
    pair = numjit.differentiable(product, lambda grad, x, y: grad * y, num_grad_inputs=1)
    x = leaf(5, device=device)
    pair(x, 3.0).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 3.0))


def test_gradients_take_the_dtype_of_the_input(device):
    pair = numjit.differentiable(product, product_backward)
    x, y = leaf(4, device=device, dtype=torch.float32), leaf(4, device=device)
    pair(x, y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (torch.float32, torch.float64)


def test_nothing_is_recorded_without_grad(device):
    pair = numjit.differentiable(product, lambda *a: pytest.fail("backward ran"))
    x = leaf(4, device=device)
    with torch.no_grad():
        assert not pair(x, x).requires_grad
    assert not pair(x.detach(), 2.0).requires_grad


def test_a_backward_with_too_few_gradients_explains_itself(device):
    pair = numjit.differentiable(product, lambda grad, x, y: grad)
    x = leaf(4, device=device)
    with pytest.raises(AutogradError, match=r"1 gradients for 2 inputs.*num_grad_inputs"):
        pair(x, x).sum().backward()


@pytest.mark.parametrize("options", [{"save_for_backward": "all"}, {"num_grad_inputs": 0}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        numjit.differentiable(product, product_backward, **options)
