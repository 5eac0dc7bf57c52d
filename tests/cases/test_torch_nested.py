"""Functors on torch's jagged nested tensors: the answer is that of the elements they hold."""

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.errors import BroadcastError, UnsupportedArrayError
from tests.cases import KINDS, pair

PRODUCT = pair(
    lambda x, y, *, a=1.0: a * x * y + x,
    "template <typename T> T product(T x, T y, T a) { return a * x * y + x; }",
    a=1.0,
)
BOTH = pair(
    lambda x, y: (x * y, x - y),
    "template <typename T> void both(T x, T y, T& p, T& d) { p = x * y; d = x - y; }",
)
THREE = pair(lambda x, y, z: x * y + z, "template <typename T> T three(T x, T y, T z) { return x * y + z; }")
SIGMOID = pair(
    lambda x: 1 / (1 + numjit.math.exp(-x)),
    "template <typename T> T logistic(T x) { return T(1) / (T(1) + std::exp(-x)); }",
)
ROWS = (0, 0, 1, 1, 1, 1, 1)
kinds = pytest.mark.parametrize("kind", KINDS)


def leaves(device, *shapes):
    """Elements that require grad."""
    source = torch.Generator().manual_seed(3)
    made = [torch.rand(shape, generator=source, dtype=torch.float64) + 0.5 for shape in shapes]
    return [one.to(device).requires_grad_() for one in made]


def nested(offsets, *values):
    return [torch.nested.nested_tensor_from_jagged(value, offsets) for value in values]


def elements(result):
    many = result if isinstance(result, tuple) else (result,)
    return [one.values() if one.is_nested else one for one in many]


def compare(found, wanted, inputs):
    """Assert equal results and gradients by all of the inputs."""
    found, wanted = elements(found), elements(wanted)
    for one, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, right)
    gradients = [
        torch.autograd.grad(sum(r.sin().sum() for r in results), inputs, retain_graph=True)
        for results in (found, wanted)
    ]
    for one, right in zip(*gradients, strict=True):
        torch.testing.assert_close(one, right)


@pytest.fixture
def offsets(device):
    return torch.tensor([0, 2, 7], device=device)


def called(functor, way, name):
    if way == "operator":
        return numjit.torch_op(f"numjit_tests::jagged_{name}", functor)
    if way == "compiled":
        torch._dynamo.reset()
        return torch.compile(functor, fullgraph=True, backend="aot_eager")
    return functor


@pytest.mark.parametrize("way", ["functor", "operator", "compiled"])
@kinds
def test_several_operands_and_results(kind, way, offsets, device):
    x, y, z = leaves(device, (7, 3), (7, 3), (7, 3))
    a, b, c = nested(offsets, x, y, z)
    one = called(SIGMOID[kind], way, f"one_{kind[0]}")(a)
    compare(one, x.sigmoid(), [x])
    assert one.is_nested
    assert one.shape == a.shape
    compare(called(PRODUCT[kind], way, f"product_{kind[0]}")(a, b), x * y + x, [x, y])
    compare(called(BOTH[kind], way, f"both_{kind[0]}")(a, b), (x * y, x - y), [x, y])
    compare(called(THREE[kind], way, f"three_{kind[0]}")(a, b, c), x * y + z, [x, y, z])


@kinds
def test_numbers_and_scalars(kind, offsets, device):
    x, alpha = leaves(device, (7, 3), ())
    (a,) = nested(offsets, x)
    compare(PRODUCT[kind](a, 2.0, a=3.0), 7 * x, [x])
    compare(PRODUCT[kind](2.0, a, a=3.0), 6 * x + 2, [x])
    compare(PRODUCT[kind](a, a, a=alpha), alpha * x * x + x, [x, alpha])


@pytest.mark.parametrize("shape", [(), (3,), (1, 3), (1, 1, 3), (2, 1, 3), (2, 1, 1), (1, 1, 1, 3)])
@kinds
def test_plain_tensors_broadcast_with_rows(kind, shape, offsets, device):
    x, w = leaves(device, (7, 3), shape)
    (a,) = nested(offsets, x)
    spread = w.squeeze(0) if len(shape) == 4 else w
    if spread.dim() == 3:
        spread = spread[list(ROWS), 0] if shape[0] == 2 else spread[0]
    compare(PRODUCT[kind](a, w), x * spread + x, [x, w])
    compare(PRODUCT[kind](w, a), x * spread + spread, [x, w])


@kinds
def test_jagged_tensors_broadcast_with_each_other(kind, offsets, device):
    x, y = leaves(device, (7, 3), (7, 1))
    a, b = nested(offsets, x, y)
    compare(PRODUCT[kind](a, b), x * y + x, [x, y])
    compare(PRODUCT[kind](b, a), x * y + y, [x, y])


@kinds
def test_what_does_not_go_together_says_so(kind, offsets, device):
    x, y = leaves(device, (7, 3), (7, 3))
    (a,) = nested(offsets, x)
    (other,) = nested(torch.tensor([0, 3, 7], device=device), y)
    for value, reason in (
        (other, "same rows"),
        (torch.rand(2, 7, 3, device=device), "size 1 in dimension 1"),
        (torch.rand(5, 1, 3, device=device), "does not broadcast"),
        (torch.rand(2, 2, 1, 3, device=device), "does not broadcast"),
    ):
        for function in (PRODUCT[kind], numjit.torch_op("numjit_tests::jagged_refused", PRODUCT[kind])):
            with pytest.raises(BroadcastError, match=reason):
                function(a, value)

    def gather(x, table: numjit.raw):
        return x + table[0]

    with pytest.raises(UnsupportedArrayError, match="raw operand is a nested tensor"):
        numjit.elementwise(gather)(torch.rand(7, 3, device=device), a.detach())
