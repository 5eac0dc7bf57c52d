"""Recorded calls take a short way where only gradients are wanted: it answers what the long one does."""

import sys

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import numjit
from numjit.errors import AutogradError
from tests.cases import both_kinds, pair
from tests.support.threads import in_threads

PRODUCT = pair(
    lambda x, y, *, alpha=2.0: alpha * x * y,
    "template <typename T> T product(T x, T y, T alpha) { return alpha * x * y; }",
    scalars={"alpha": 2.0},
)


def reference(x, y, alpha=2.0):
    return alpha * x * y


def leaves(device, *shapes):
    source = torch.Generator().manual_seed(len(shapes))
    return [torch.randn(s, generator=source).to(device).requires_grad_() for s in shapes]


def gradients(operation, operands, **scalars):
    result = operation(*operands, **scalars)
    inputs = [x for x in operands if isinstance(x, torch.Tensor) and x.requires_grad]
    return result.detach(), *torch.autograd.grad(result, inputs, torch.ones_like(result))


@both_kinds
def test_calls_of_every_kind_in_turn(kind, device):
    """Each again and again: the second time of each is warm, in forward and backward."""
    x, y, row = leaves(device, (4, 5), (4, 5), (5,))
    fixed = y.detach()
    calls = {
        "two leaves": ((x, y), {}),
        "one leaf": ((x, fixed), {}),
        "the other": ((fixed, x), {}),
        "row": ((x, row), {}),
        "number": ((x, 3.0), {}),
        "int number": ((x, 3), {}),
        "scalar": ((x, y), {"alpha": 0.5}),
        "view": ((x.t(), y.t()), {}),
        "parameter": ((torch.nn.Parameter(fixed), y), {}),
        "float64": ((x.double(), y), {}),
        "0-dim": ((x, torch.tensor(2.0, device=device, requires_grad=True)), {}),
        "0-dim of the CPU": ((x, torch.tensor(2.0, requires_grad=True)), {}),
        "empty": ((x[:0], y[:0]), {}),
    }
    for _ in range(3):
        for name, (operands, scalars) in calls.items():
            got = gradients(PRODUCT[kind], operands, **scalars)
            want = gradients(reference, operands, **scalars)
            assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in want], name
            torch.testing.assert_close(got, want)


def test_the_short_way_is_taken(device, monkeypatch):
    operation = numjit.elementwise(lambda x, y: x * y)
    x, y = leaves(device, 16, 16)
    gradients(operation, (x, y))
    for module, name in (("call.operation", "read_arguments"), ("torch.recorded", "dispatched")):
        fail = lambda *a: pytest.fail("the general path ran")  # noqa: E731
        monkeypatch.setattr(sys.modules[f"numjit.{module}"], name, fail)
    torch.testing.assert_close(gradients(operation, (x, y)), gradients(torch.mul, (x, y)))


def test_a_call_is_refused_after_its_short_way_was_taken(device):
    operation = PRODUCT["python"]
    x, y = leaves(device, 8, 8)
    gradients(operation, (x, y))
    with pytest.raises(numjit.errors.ArgumentError, match="alpha"):
        operation(x, y, alpha="2")
    with pytest.raises(numjit.errors.BroadcastError):
        operation(x, y[:3])
    with pytest.raises(numjit.errors.NumjitError, match="int64"):
        operation(x, y, alpha=1 << 70)
    with pytest.raises(numjit.errors.ArgumentError):
        operation(x, None)


def test_numpy_arrays_beside_a_leaf():
    (x,) = leaves("cpu", 6)
    array = np.arange(6, dtype=np.float32)
    for _ in range(2):
        result, dx = gradients(PRODUCT["python"], (x, array))
        torch.testing.assert_close(result, 2 * x.detach() * torch.from_numpy(array))
        torch.testing.assert_close(dx, 2 * torch.from_numpy(array))


@both_kinds
def test_derivatives_of_derivatives(kind, device):
    x, y = leaves(device, 7, 7)
    for operation in (PRODUCT[kind], reference) * 2:
        result = operation(x, y) * 1.0
        dx, dy = torch.autograd.grad(result, [x, y], x * x, create_graph=True)
        (second,) = torch.autograd.grad((dx * dy).sum(), [x], create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), [y])
        torch.testing.assert_close(second, (20 * x**4 * y), msg=str(operation))
        torch.testing.assert_close(third, 20 * x.detach() ** 4)


def test_a_variable_rebound_and_bound_back(device):
    """A derivative that noticed a change on its own goes back with its functor, which noticed nothing."""
    scope = {"numjit": numjit, "factor": 2.0}
    exec("f = numjit.elementwise(lambda x: factor * x * x)", scope)
    (x,) = leaves(device, 5)
    (slope,) = torch.autograd.grad(scope["f"](x).sum(), [x], create_graph=True)
    scope["factor"] = 3.0
    with pytest.raises(AutogradError, match="rebound"):
        torch.autograd.grad(slope.sum(), [x])
    scope["factor"] = 2.0
    torch.testing.assert_close(gradients(scope["f"], (x,))[1], 4 * x.detach())
    scope["factor"] = 3.0
    torch.testing.assert_close(gradients(scope["f"], (x,))[1], 6 * x.detach())


def test_modes_see_both_ways(device):
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            seen.append(str(op))
            return op(*args, **(kwargs or {}))

    seen = []
    x, y = leaves(device, 8, 8)
    operation = numjit.elementwise(lambda x, y: x * y)
    gradients(operation, (x, y))
    with Names():
        got = gradients(operation, (x, y))
    torch.testing.assert_close(got, gradients(torch.mul, (x, y)))
    assert any("numjit" in name for name in seen)
    seen.clear()
    result = operation(x, y)
    with Names():  # the node was made without it
        torch.autograd.grad(result, [x, y], torch.ones_like(result))
    assert any("numjit" in name for name in seen)


def test_a_gradient_of_a_tensor_class_of_its_own(device):
    class Noisy(torch.Tensor):
        pass

    x, y = leaves(device, 8, 8)
    operation = numjit.elementwise(lambda x, y: x * y)
    weight = torch.full((8,), 3.0, device=device)
    for grad in (weight, weight.as_subclass(Noisy), weight):
        dx, dy = torch.autograd.grad(operation(x, y), [x, y], grad)
        torch.testing.assert_close(dx.as_subclass(torch.Tensor), 3 * y.detach())
        torch.testing.assert_close(dy.as_subclass(torch.Tensor), 3 * x.detach())


@both_kinds
def test_batches_and_vectorised_jacobians(kind, device):
    x, y = leaves(device, 4, 4)
    for _ in range(2):
        result = PRODUCT[kind](x, y)
        rows = torch.eye(4, device=device)
        got = torch.autograd.grad(result, [x, y], rows, is_grads_batched=True)
        torch.testing.assert_close(got, (torch.diag(2 * y.detach()), torch.diag(2 * x.detach())))
    jacobian = torch.autograd.functional.jacobian(
        lambda x: PRODUCT[kind](x, x), x.detach(), create_graph=True, vectorize=True
    )
    torch.testing.assert_close(jacobian, torch.diag(4 * x.detach()))


def test_forward_over_reverse_after_a_warm_backward(device):
    x, y = leaves(device, 6, 6)
    operation = numjit.elementwise(lambda x, y: x * y * y)
    gradients(operation, (x, y))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        result = operation(dual, y)
        torch.testing.assert_close(forward_ad.unpack_dual(result).tangent, y * y)
        (dy,) = torch.autograd.grad(result, [y], torch.ones_like(result))
        torch.testing.assert_close(forward_ad.unpack_dual(dy).tangent, 2 * y)


def test_a_node_made_outside_of_a_level_of_forward_mode(device):
    x, y = leaves(device, 6, 6)
    result = numjit.elementwise(lambda x, y: x * y * y)(x, y)
    with forward_ad.dual_level():
        weight = forward_ad.make_dual(torch.ones_like(x), torch.full_like(x, 2.0))
        dx, dy = torch.autograd.grad(result, [x, y], weight)
        torch.testing.assert_close(forward_ad.unpack_dual(dx).tangent, 2 * y * y)
        torch.testing.assert_close(forward_ad.unpack_dual(dy).tangent, 4 * x * y)


def test_threads_differentiate_one_operation(device):
    operation = numjit.elementwise(lambda x, y: x * y)

    def work(seed):
        for k in range(50):
            x = torch.full((8,), float(seed + k), device=device, requires_grad=True)
            y = torch.full((8,), float(seed), device=device, requires_grad=True)
            operation(x, y).sum().backward()
            assert bool((x.grad == seed).all())
            assert bool((y.grad == seed + k).all())

    in_threads(work, range(1, 5))


def test_results_without_derivatives_and_unused_ones(device):
    both = numjit.elementwise(lambda x, y: (x * y, x > y, x + y))
    x, y = leaves(device, 9, 9)
    for _ in range(2):
        product, larger, total = both(x, y)
        assert (product.requires_grad, larger.requires_grad, total.requires_grad) == (True, False, True)
        (dx,) = torch.autograd.grad(total.sum(), [x])
        torch.testing.assert_close(dx, torch.ones_like(x))


@pytest.mark.parametrize("transform", ["none", "vjp"])
def test_a_gradient_by_hand_has_one_meaning_on_both_ways(device, transform):
    seen = []
    cube = numjit.elementwise(lambda x: x * x * x)

    @cube.backward(tensors=True)
    def slope(grad, x):
        seen.append(torch.is_grad_enabled())
        return grad * 3 * x * x

    (x,) = leaves(device, 5)
    for _ in range(2):
        if transform == "vjp":
            result, back = torch.func.vjp(cube, x.detach())
            (dx,) = back(torch.ones_like(result))
        else:
            result, dx = gradients(cube, (x,))
            assert seen[-1] is False
        torch.testing.assert_close(result.detach(), x.detach() ** 3)
        torch.testing.assert_close(dx.detach(), 3 * x.detach() ** 2)
    with forward_ad.dual_level(), pytest.raises(AutogradError, match="forward mode"):
        cube(forward_ad.make_dual(x.detach(), torch.ones(5, device=device)))


def test_torch_code_within_a_hand_written_pair_records_nothing(device):
    def forward(x):
        modes.append(torch.is_grad_enabled())
        return torch.sin(x)

    modes = []
    pair_of_torch = numjit.differentiable(forward, lambda grad, x: grad * torch.cos(x))
    (x,) = leaves(device, 5)
    result = pair_of_torch(x)
    assert modes == [False]
    (dx,) = torch.autograd.grad(result.sum(), [x])
    torch.testing.assert_close(dx, torch.cos(x.detach()))
