"""The calls of autograd's nodes go through the launcher: on a fake GPU with Python functions as kernels."""

import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.torch import watched
from tests.support.fake_gpu import FakeLauncher, entry, operand
from tests.unit.test_launcher import N, gpu, tensors  # noqa: F401

# ruff: noqa: F811


@pytest.fixture
def own_class(monkeypatch):
    """Operations made from now on are of a class of the test's, so that the fake GPU answers for no other."""

    class Own(watched.WatchedOperation):
        pass

    for module in (watched, sys.modules["numjit.elementwise"]):
        monkeypatch.setattr(module, "WatchedOperation", Own)


def answered(operation, plan, examples):
    """Let the launcher answer the calls that an operation makes within nodes; returns the operation."""
    plan.fingerprint = operation.fingerprint
    assert operation.fast.offer(examples, None, plan)
    return operation


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
def product(gpu, own_class):
    """``x * y`` of 100 float32 and its gradients, all by the launcher; what ran, and both operations."""
    operation = numjit.elementwise(lambda x, y: x * y)
    derivative = watched.derived(operation.__numjit_operation__, "vjp", (0, 1), (True,))
    x, y, grad = tensors(3)
    forward = answered(operation.__numjit_operation__, entry((N,), memory=(0, 1)), [x, y])
    backward = answered(derivative, entry((N,), memory=(0, 1, 2), outputs=2), [x, y, grad])
    kernels = Kernels(gpu)
    kernels.forward, kernels.backward = forward, backward
    kernels.operation, kernels.derivative = operation, derivative
    return kernels


def hits(calls):
    return calls.fast.record.hits


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
    assert product.operation._fast.record is None  # the operation's own plans are others


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


def test_a_rebound_variable(gpu, own_class):
    scope = {"numjit": numjit, "factor": 2.0}
    exec("f = numjit.elementwise(lambda x: x * factor)", scope)
    (x,) = tensors(1)
    calls = answered(scope["f"].__numjit_operation__, entry((N,), memory=(0,)), [x])
    calls(x)
    assert hits(calls) == 1
    scope["factor"] = 3.0
    leaf = x.clone().requires_grad_()
    torch.testing.assert_close(scope["f"](leaf).detach(), 3 * x)
    assert hits(calls) == 1
    assert len(calls.fast.record) == 0  # the operation has noticed it


def test_repeated_calls_are_offered(gpu, own_class, monkeypatch):
    """The first call that Python repeats hands the next one over, though the tensors require grad."""
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    launched = []

    class Launched(FakeLauncher):
        def __call__(self, stream, grid, numbers):
            launched.append((stream, grid))

    operation = numjit.elementwise(lambda x, y: x * y)
    calls = operation.__numjit_operation__
    x, y = leaves()
    plan = entry((N,), memory=(0, 1))
    plan.kernel = Launched(plan.kernel.slot_count)
    plan.fingerprint = calls.fingerprint
    plan.allocation = (torch.float32,), torch.device("cpu")
    calls.warm.remember(calls.key([x, y], detached=True), plan)
    for _ in range(3):
        assert operation(x, y).requires_grad
    assert launched == [(0, (7, 1, 1))]
    assert hits(calls) == len(gpu.launches) == 2


def test_a_first_call_is_offered_by_the_side_that_made_it(gpu, own_class, monkeypatch):
    """What is planned for a node is offered by the node's side, a call that records nothing by the user's."""
    operation = numjit.elementwise(lambda x, y: x + y)
    engine = operation.__numjit_operation__
    offered = []
    for name, fast in (("own", operation._fast), ("node", engine.fast)):
        monkeypatch.setattr(fast, "offer", lambda bound, out, plan, name=name: offered.append(name))
    x, y = leaves()
    operation(x, y)
    assert offered == ["node"]
    with torch.no_grad():
        operation(x, y.double())
    assert offered == ["node", "own"]
    assert len(engine.warm.plans) == 2
