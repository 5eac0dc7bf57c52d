"""Operators that functors get by themselves: which functors share one, and gradients written by hand."""

import functools

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

import numjit
from numjit.errors import AutogradError, OutputError
from numjit.torch.operator import opaque_op
from tests.cases.test_batches_and_transforms import TRANSFORMS, WAVE, reference
from tests.support.tiers import pairs

compiled = functools.partial(torch.compile, backend="aot_eager", fullgraph=True)


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


class Through(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def scaled(**options):
    """A functor with a captured number of its own, and what rebinds it."""
    factor = 2.0

    def f(x):
        return x * factor

    def rebind(value):
        nonlocal factor
        factor = value

    return numjit.elementwise(f, **options), rebind


def tensor(device, count=4):
    return torch.arange(1.0, count + 1, dtype=torch.float64, device=device).requires_grad_()


def gradient(function, x):
    return torch.autograd.grad(function(x).sum(), x)[0]


@pytest.mark.parametrize("way", ["compiled", "mode"])
def test_captured_numbers_of_equal_functors_are_their_own(device, way):
    (first, rebind), (second, _) = scaled(opaque=True), scaled(opaque=True)
    x = tensor(device).detach()
    calls = [first, second]
    if way == "compiled":
        calls = [compiled(lambda x: first(x)), compiled(lambda x: second(x))]

    def run():
        if way == "compiled":
            return [call(x) for call in calls]
        with Through():
            return [call(x) for call in calls]

    torch.testing.assert_close(run(), [2 * x, 2 * x])
    rebind(5.0)
    torch.testing.assert_close(run(), [5 * x, 2 * x])


@pytest.mark.parametrize("kind", ["python", "cpp"])
@pytest.mark.parametrize("first", ["by hand", "derived"])
def test_gradients_of_equal_functors_are_their_own(device, kind, first):
    def make():
        if kind == "python":
            return numjit.elementwise(lambda x: x * x * x)
        return numjit.elementwise("template <typename T> T cube(T x) { return x * x * x; }")

    x = tensor(device)
    by_hand, plain = make(), make()
    by_hand.backward(lambda g, x: g * 7 * x)
    cases = [(by_hand, 7 * x), (plain, 3 * x * x)]
    for operation, want in cases if first == "by hand" else reversed(cases):
        with Through():
            found = gradient(operation, x)
        torch.testing.assert_close(found, want.detach())
        torch.testing.assert_close(gradient(compiled(lambda x, f=operation: f(x)), x), want.detach())


def test_equal_functors_share_an_operator():
    text = "template <typename T> T own(T x) { return x - T(3); }"
    first, second = numjit.elementwise(text), numjit.elementwise(text)
    assert opaque_op(first.__numjit_operation__) is opaque_op(second.__numjit_operation__)

    def f(x):
        return x - 3.5

    assert opaque_op(numjit.elementwise(f).__numjit_operation__) is opaque_op(
        numjit.elementwise(f).__numjit_operation__
    )
    second.backward(lambda g, x: g)
    assert opaque_op(second.__numjit_operation__) is not opaque_op(first.__numjit_operation__)
    assert opaque_op(second.__numjit_operation__) is opaque_op(second.__numjit_operation__)
    assert opaque_op(second.__numjit_operation__).name.startswith(
        opaque_op(first.__numjit_operation__).name + "_"
    )


@pytest.mark.parametrize("saved", ["inputs", "outputs", "both"])
def test_what_a_gradient_by_hand_saves_under_compile(device, saved):
    square = numjit.elementwise(lambda x: x * x)

    @square.backward(tensors=True, save_for_backward=saved)
    def backward(grad, *kept):
        return grad * 5 * kept[-1]

    x = tensor(device)
    want = 5 * (x if saved == "inputs" else x * x).detach()
    for call in (square, compiled(lambda x: square(x))):
        torch.testing.assert_close(gradient(call, x), want)


def test_an_unused_output_with_a_gradient_by_hand_under_compile(device):
    both = numjit.elementwise(lambda x: (x * x, x + 1))
    both.backward(lambda g, h, x: 5 * g * x + 3 * h)
    x = tensor(device)
    for call in (both, compiled(lambda x: both(x))):
        torch.testing.assert_close(gradient(lambda x, call=call: call(x)[0], x), 5 * x.detach())
        torch.testing.assert_close(gradient(lambda x, call=call: call(x)[1], x), 0 * x.detach() + 3)


REVERSE = [
    "grad",
    "vjp",
    "jacrev",
    "reverse over reverse",
    "vmap",
    "vmap of vmap",
    "gradients of each row",
    "gradient of a batch",
]


def by_hand(saved):
    """A functor and its gradient written by hand, of what it is said to save, that is not the true one."""
    operation = numjit.elementwise(lambda x, y: x * x * x * y)
    rules = {
        "inputs": lambda g, x, y: (g * 7 * x * y, g * 5 * x),
        "outputs": lambda g, made: (g * 7 * made, g * 5 * made),
        "both": lambda g, x, y, made: (g * 7 * x * y, g * 5 * made),
    }
    operation.backward(rules[saved], save_for_backward=saved)
    return operation


@pytest.mark.parametrize("name", REVERSE)
@pytest.mark.parametrize("saved", ["inputs", "outputs", "both"])
def test_transforms_have_the_gradient_by_hand(device, saved, name):
    operation = by_hand(saved)
    registered = numjit.torch_op(f"numjit_tests::transformed_{saved}", operation)
    x, y = tensor(device, 12).detach().reshape(4, 3) / 8, tensor(device, 3).detach()
    got, want = (
        torch.utils._pytree.tree_leaves(TRANSFORMS[name](call)(x, y)) for call in (registered, operation)
    )
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    if name == "grad":
        (factor, _), made = got, x**3 * y
        want = 7 * (made if saved == "outputs" else x * y)
        torch.testing.assert_close(factor, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("called", ["functor", "operator"])
@pytest.mark.parametrize("recorded", ["with", "without"])
@pytest.mark.parametrize("saved", ["inputs", "outputs", "both"])
def test_a_gradient_by_hand_asked_for_when_its_transform_has_ended(device, saved, recorded, called):
    operation = by_hand(saved)
    call = operation
    if called == "operator":
        call = numjit.torch_op(f"numjit_tests::afterwards_{saved}", operation)
    x, y = tensor(device, 12).detach().reshape(4, 3) / 8, tensor(device, 3).detach()
    for function in (
        call,
        torch.vmap(call, in_dims=(0, None)),
        lambda x, y: torch.func.grad(lambda x: (call(x, y) * x).sum())(x),
    ):
        pullback = torch.func.vjp(function, x, y)[1]
        with torch.set_grad_enabled(recorded == "with"):
            got = pullback(torch.cos(x))
        leaves = [value.clone().requires_grad_() for value in (x, y)]
        want = torch.autograd.grad(function(*leaves), leaves, torch.cos(x))
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["jvp", "jacfwd", "hessian"])
def test_a_gradient_by_hand_has_no_forward_mode(device, name):
    """The functor has a true derivative, which must not take the other's place."""
    registered = numjit.torch_op("numjit_tests::reverse_only", by_hand("inputs"))
    x, y = tensor(device, 12).detach().reshape(4, 3), tensor(device, 3).detach()
    with pytest.raises(AutogradError, match=r"by hand has no forward mode; use reverse mode"):
        TRANSFORMS[name](registered)(x, y)
    with (
        torch.autograd.forward_ad.dual_level(),
        pytest.raises(AutogradError, match="by hand has no forward mode"),
    ):
        registered(torch.autograd.forward_ad.make_dual(x, x), y)
    tangent = torch.func.jvp(lambda z: z * registered(x, y).sum(), (y,), (y,))[1]
    torch.testing.assert_close(tangent, y * (x**3 * y).sum(), rtol=1e-12, atol=0)


COMPILED = ["grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "gradients of each row"]


@pytest.mark.parametrize(("name", "kind"), pairs(COMPILED, ["python", "opaque", "c++", "functor"]))
def test_compiled_transforms(device, kind, name):
    operation = {
        "python": numjit.torch_op("numjit_tests::compiled_python", WAVE["python"]),
        "opaque": numjit.elementwise(WAVE["python"].source, opaque=True),
        "c++": numjit.torch_op("numjit_tests::compiled_cpp", WAVE["c++"]),
        "functor": WAVE["c++"],
    }[kind]
    x = torch.linspace(-1.5, 1.5, 12, device=device, dtype=torch.float64).reshape(4, 3)
    y = torch.linspace(0.5, 2.0, 3, device=device, dtype=torch.float64)
    if name in ("jacfwd", "hessian"):
        try:
            compiled(TRANSFORMS[name](reference))(x, y)
        except torch._dynamo.exc.UserError as error:
            pytest.skip(f"this torch compiles {name} of nothing: {str(error).splitlines()[0]}")
    got = torch.utils._pytree.tree_leaves(compiled(TRANSFORMS[name](operation))(x, y))
    want = torch.utils._pytree.tree_leaves(TRANSFORMS[name](reference)(x, y))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("saved", ["inputs", "outputs", "both"])
def test_compiled_transforms_have_the_gradient_by_hand(device, saved):
    operation = by_hand(saved)
    registered = numjit.torch_op(f"numjit_tests::compiled_{saved}", operation)
    x, y = tensor(device, 12).detach().reshape(4, 3) / 8, tensor(device, 3).detach()
    for name in ("grad", "jacrev"):
        want = TRANSFORMS[name](operation)(x, y)
        for call in (registered, operation):
            torch.testing.assert_close(compiled(TRANSFORMS[name](call))(x, y), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("saved", ["inputs", "outputs", "both"])
def test_gradients_by_hand_of_an_operator_are_differentiated(device, saved):
    """What the backward saved of the outputs depends on the inputs."""
    square = numjit.elementwise(lambda x: x * x)

    @square.backward(tensors=True, save_for_backward=saved)
    def backward(grad, *kept):
        return grad * kept[-1]

    registered = numjit.torch_op(f"numjit_tests::square_{saved}", square)
    x = tensor(device)
    first = {
        call: torch.autograd.grad(call(x).sum(), x, create_graph=True)[0] for call in (square, registered)
    }
    second = {call: torch.autograd.grad(found.sum(), x)[0] for call, found in first.items()}
    # The rule says that x * x has the gradient kept[-1]: x itself, or x * x, whose gradient it says again.
    want = torch.ones_like(x) if saved == "inputs" else x * x
    torch.testing.assert_close(first[registered], first[square])
    torch.testing.assert_close(second[registered], second[square])
    torch.testing.assert_close(second[square], want.detach())


def test_out_where_gradients_would_be_recorded(device):
    registered = numjit.torch_op("numjit_tests::out_recorded", lambda x: x + 1)
    x, out = tensor(device), torch.zeros(4, dtype=torch.float64, device=device)
    with pytest.raises(OutputError, match="automatic differentiation"):
        registered(x, out=out)
    with torch.no_grad():
        assert registered(x, out=out) is out
    torch.testing.assert_close(out, x.detach() + 1)
