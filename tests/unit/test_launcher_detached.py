"""The calls of autograd's nodes go through the launcher: on a fake GPU with Python functions as kernels."""

import threading

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.call.detached import Detached
from numjit.torch import autograd
from tests.support.fake_gpu import FakeLauncher, entry, operand
from tests.unit.test_launcher import N, gpu, tensors  # noqa: F401

# ruff: noqa: F811


def answered(operation, plan, examples):
    """Let the launcher answer an operation's calls within nodes; returns them.

    Their class is its own, so that the fake GPU answers for no other operation.
    """

    class Own(Detached):
        pass

    operation.__dict__["detached"] = made = Own(operation)
    plan.fingerprint = operation.fingerprint
    assert made.warm.fast.offer(examples, None, plan)
    return made


class Kernels:
    """What the fake GPU computes: ``x * y`` for two inputs and one output, else its two gradients."""

    def __init__(self, gpu):
        self.ran, self.threads = [], []
        gpu.kernel = self

    def __call__(self, table):
        self.threads.append(threading.get_ident())
        self.ran.append(self.now)
        if self.now == "product":
            out, x, y = (operand(table, k, N) for k in range(3))
            out[:] = x * y
        else:
            dx, dy, x, y, grad = (operand(table, k, N) for k in range(5))
            dx[:], dy[:] = grad * y, grad * x

    now = "product"


@pytest.fixture
def product(gpu):
    """``x * y`` of 100 float32 and its gradients, all by the launcher; what ran, and both operations."""
    operation = numjit.elementwise(lambda x, y: x * y)
    derivative = autograd.derived(operation, "vjp", (0, 1), (True,))
    x, y, grad = tensors(3)
    forward = answered(operation, entry((N,), memory=(0, 1)), [x, y])
    backward = answered(derivative, entry((N,), memory=(0, 1, 2), outputs=2), [x, y, grad])
    kernels = Kernels(gpu)
    kernels.forward, kernels.backward = forward, backward
    kernels.operation, kernels.derivative = operation, derivative
    return kernels


def hits(calls):
    return calls.warm.fast.record.hits


def leaves():
    return [x.requires_grad_() for x in tensors()]


def test_they_do_not_ask_for_gradients(product):
    x, y = leaves()
    assert torch.is_grad_enabled()
    result = product.forward(x, y)
    assert not result.requires_grad
    torch.testing.assert_close(result, x.detach() * y.detach())
    assert hits(product.forward) == 1


def test_both_ways_of_a_recorded_call(product):
    for count in range(1, 4):
        x, y = leaves()
        product.now = "product"
        result = product.operation(x, y)
        assert result.requires_grad
        (weight,) = tensors(1)
        product.now = "gradients"
        got = torch.autograd.grad(result, [x, y], weight)
        want = torch.autograd.grad(x * y, [x, y], weight)
        torch.testing.assert_close(got, want)
        assert (hits(product.forward), hits(product.backward)) == (count, count)
    assert product.operation._call.warm.fast.record is None  # the operation's own plans are others


def test_gradients_on_another_thread(product):
    x, y = leaves()
    result = product.operation(x, y)
    product.now = "gradients"
    thread = threading.Thread(target=lambda: result.backward(torch.ones(N)))
    thread.start()
    thread.join()
    torch.testing.assert_close(x.grad, y.detach())
    torch.testing.assert_close(y.grad, x.detach())
    assert product.ran == ["product", "gradients"]
    assert product.threads == [threading.get_ident(), thread.ident]


def test_a_gradient_to_be_differentiated_is_recorded_and_launched(product):
    x, y = leaves()
    (weight,) = leaves()[:1]
    result = product.operation(x, y)
    product.now = "gradients"
    dx, dy = torch.autograd.grad(result, [x, y], weight, create_graph=True)
    assert dx.requires_grad
    assert dy.requires_grad
    assert hits(product.backward) == 1
    second = torch.autograd.grad(dx.sum() + dy.sum(), [x, y, weight])  # of no plan: by the CPU's loop
    want = (weight, weight, x + y)
    torch.testing.assert_close(second, tuple(w.detach() for w in want))


def test_leaves_without_grad_mode_are_not_recorded_and_not_theirs(product):
    x, y = leaves()
    with torch.no_grad():
        assert not product.operation(x, y).requires_grad
    assert hits(product.forward) == 0


class Wrapped(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "change",
    [lambda x: x.as_subclass(Wrapped), lambda x: x._neg_view(), lambda x: x[:50], lambda x: x.double()],
    ids=["subclass", "neg", "shape", "dtype"],
)
def test_other_arguments_are_computed_as_ever(product, change):
    x, y = tensors()
    x, y = change(x).requires_grad_(), change(y)
    result = product.operation(x, y)
    product_of_torch = x * y
    torch.testing.assert_close(result.detach(), product_of_torch.detach())
    (got,) = torch.autograd.grad(result.sum(), [x])
    (want,) = torch.autograd.grad(product_of_torch.sum(), [x])
    torch.testing.assert_close(got, want)
    assert hits(product.forward) == 0


def test_transforms_see_the_call(product):
    x, y = tensors()
    got = torch.func.vmap(product.operation)(x.expand(3, N), y.expand(3, N))
    torch.testing.assert_close(got, (x * y).expand(3, N))
    got = torch.func.jvp(product.operation, (x, y), (y, x))
    torch.testing.assert_close(got, torch.func.jvp(torch.mul, (x, y), (y, x)))


def test_tangents_are_not_lost_in_a_backward(product):
    """Forward over reverse: under a level of forward mode nothing is taken for granted."""
    x, y = leaves()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones(N))
        result = product.operation(dual, y)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(result).tangent, y)
        product.now = "gradients"
        (dy,) = torch.autograd.grad(result, [y], torch.ones(N))
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(dy).tangent, torch.ones(N))


def test_torch_s_own_batches(product):
    x, y = leaves()
    result = product.operation(x, y)
    product.now = "gradients"
    rows = torch.randn(3, N)
    got = torch.autograd.grad(result, [x, y], rows, is_grads_batched=True)
    torch.testing.assert_close(got, (rows * y.detach(), rows * x.detach()))
    assert hits(product.backward) == 0


def test_a_rebound_variable(gpu):
    scope = {"numjit": numjit, "factor": 2.0}
    exec("f = numjit.elementwise(lambda x: x * factor)", scope)
    (x,) = tensors(1)
    calls = answered(scope["f"], entry((N,), memory=(0,)), [x])
    calls(x)
    assert hits(calls) == 1
    scope["factor"] = 3.0
    leaf = x.clone().requires_grad_()
    torch.testing.assert_close(scope["f"](leaf).detach(), 3 * x)
    assert hits(calls) == 1
    assert len(calls.warm.fast.record) == 0  # the operation has noticed it


def test_repeated_calls_are_offered(gpu, monkeypatch):
    """The first call that Python repeats hands the next one over, though the tensors require grad."""
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    launched = []

    class Launched(FakeLauncher):
        def __call__(self, stream, grid, numbers):
            launched.append((stream, grid))

    class Own(Detached):
        pass

    operation = numjit.elementwise(lambda x, y: x * y)
    operation.__dict__["detached"] = calls = Own(operation)
    x, y = leaves()
    plan = entry((N,), memory=(0, 1))
    plan.launcher = Launched(plan.launcher.slot_count)
    plan.fingerprint = operation.fingerprint
    calls.warm.remember(calls.warm.key(operation.fingerprint, [x, y], detached=True), plan)
    for _ in range(3):
        assert operation(x, y).requires_grad
    assert launched == [(0, (7, 1, 1))]
    assert hits(calls) == len(gpu.launches) == 2


def test_a_first_call_is_offered_with_its_entry(gpu, monkeypatch):
    """What `Call.run` plans for a node is kept and offered by the node's side, not by the operation's."""
    operation = numjit.elementwise(lambda x, y: x + y)
    offered = []
    for name, calls in (("own", operation._call.warm), ("node", operation.detached.warm)):
        monkeypatch.setattr(calls.fast, "offer", lambda bound, out, entry, name=name: offered.append(name))
    make = operation._call._entry

    def with_launcher(*arguments):
        found = make(*arguments)
        found.launcher = FakeLauncher(3)
        return found

    monkeypatch.setattr(operation._call, "_entry", with_launcher)
    x, y = leaves()
    operation(x, y)
    assert offered == ["node"]
    assert (len(operation._call.warm._entries), len(operation.detached.warm._entries)) == (0, 1)
    with torch.no_grad():
        operation(x, y)
    assert offered == ["node", "own"]
