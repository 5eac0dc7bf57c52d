"""Registered operators' calls go through the launcher: on a fake GPU with Python functions as kernels."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit import dtypes
from tests.support.fake_gpu import entry, floats, operand, slot
from tests.unit.test_launcher import N, gpu, tensors  # noqa: F401
from tests.unit.test_launcher_detached import answered, own_class  # noqa: F401

# ruff: noqa: F811
numbers = itertools.count()


@pytest.fixture
def register(own_class):
    """Register functors as operators whose calls the launcher answers from a plan."""
    made = []

    def register(function, plan, examples):
        operator = numjit.torch_op(f"numjit_tests::launched_{next(numbers)}", function)
        made.append(operator)
        answered(operator.operation, plan, examples)
        return operator

    yield register
    for operator in made:
        operator.remove()


@pytest.fixture
def axpy(gpu, register):
    """``alpha * x + y`` of 100 float32 as an operator."""

    def kernel(table):
        out, x, y = (operand(table, k, N) for k in range(3))
        out[:] = x * floats(slot(table, 3), 1)[0] + y

    gpu.kernel = kernel
    plan = entry((N,), memory=(0, 1), values=((2, dtypes.float32),))
    return register(lambda x, y, *, alpha=1.0: alpha * x + y, plan, [*tensors(), 1.0])


def hits(operator):
    return operator.operation.fast.record.hits


def test_calls_in_every_form(axpy):
    x, y = tensors()
    torch.testing.assert_close(axpy.op(x, y), x + y)
    torch.testing.assert_close(axpy.op(x, y, alpha=2.5), 2.5 * x + y)
    torch.testing.assert_close(axpy(x, y, alpha=-1.0), y - x)
    packet = getattr(torch.ops.numjit_tests, axpy.name.partition("::")[2])
    torch.testing.assert_close(packet(x, y, alpha=3.0), 3 * x + y)
    assert hits(axpy) == 4


def test_answered_calls_look_at_nothing_else(axpy, monkeypatch):
    asked = []
    monkeypatch.setattr(axpy.operation, "refresh", lambda: asked.append(True))
    x, y = tensors()
    axpy.op(x, y)
    assert not asked
    axpy.op(x[:50], y[:50])
    assert asked


def test_recorded_calls_and_their_gradients(axpy):
    x, y = (x.requires_grad_() for x in tensors())
    result = axpy.op(x, y, alpha=2.0)
    assert result.requires_grad
    got = torch.autograd.grad(result.sum(), [x, y])
    torch.testing.assert_close(got, (torch.full((N,), 2.0), torch.ones(N)))
    assert hits(axpy) == 1
    with torch.no_grad():
        assert not axpy.op(x, y).requires_grad
    assert hits(axpy) == 2


@pytest.mark.parametrize(
    "change",
    [lambda x: x[:50], lambda x: x.double(), lambda x: x.reshape(10, 10)],
    ids=["shape", "dtype", "rank"],
)
def test_other_arguments_are_computed_as_ever(axpy, change):
    x, y = map(change, tensors())
    torch.testing.assert_close(axpy.op(x, y), x + y)
    assert hits(axpy) == 0


def test_torch_s_dispatcher_resolves_views_first(axpy):
    x, y = tensors()
    torch.testing.assert_close(axpy.op(x._neg_view(), y), y - x)
    assert hits(axpy) == 1


def test_transforms_and_modes_see_the_call(axpy):
    x, y = tensors()
    torch.testing.assert_close(torch.func.vmap(axpy.op)(x.expand(3, N), y.expand(3, N)), (x + y).expand(3, N))
    torch.testing.assert_close(torch.func.jvp(axpy.op, (x, y), (y, x)), (x + y, x + y))
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        axpy.op(x, y)
    assert counter.get_total_flops() == 2 * N


def test_a_rebound_variable(gpu, register):
    def kernel(table):
        out, x = (operand(table, k, N) for k in range(2))
        out[:] = 2 * x

    gpu.kernel = kernel
    scope = {"numjit": numjit, "factor": 2.0}
    exec("f = numjit.elementwise(lambda x: x * factor)", scope)
    (x,) = tensors(1)
    operator = register(scope["f"], entry((N,), memory=(0,)), [x])
    torch.testing.assert_close(operator.op(x), 2 * x)
    assert hits(operator) == 1
    scope["factor"] = 3.0
    torch.testing.assert_close(operator.op(x), 3 * x)
    assert hits(operator) == 1
    assert len(operator.operation.fast.record) == 0  # it has noticed

    scope["factor"] = 4.0
    torch.testing.assert_close(scope["f"](x), 4 * x)  # the functor itself notices first
    torch.testing.assert_close(operator.op(x), 4 * x)
