"""What torch sees of a derived gradient: dtypes, shapes, strides, which inputs, versions, and errors."""

import math

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import numjit
from numjit.errors import AutogradError, OutputError
from tests.cases import KINDS, both_kinds, pair
from tests.support.tiers import mostly_slow, pairs

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
MULTIPLY = pair(lambda x, y: x * y, "template <typename T> T multiply(T x, T y) { return x * y; }")
SCALED = pair(
    lambda x, *, alpha=2.0, power=1.0: alpha * math.exp(power * x),
    "template <typename T> T scaled(T x, T alpha, T power) { return alpha * std::exp(power * x); }",
    scalars={"alpha": 2.0, "power": 1.0},
)
THREE = pair(
    lambda x, y: (x * y, x > y, math.sin(x) + y),
    "template <typename T> void three(T x, T y, T& a, bool& b, T& c)"
    "{ a = x * y; b = x > y; c = std::sin(x) + y; }",
)


def leaf(*shape, device, dtype=f64, seed=0):
    source = torch.Generator().manual_seed(seed + sum(shape))
    x = torch.randn(shape, generator=source, dtype=torch.complex128 if dtype.is_complex else f64)
    return x.to(device, dtype).requires_grad_()


def same_gradients(operation, reference, leaves, weight=None, **tolerance):
    """Assert that gradients are those that torch gives the reference, in dtype, shape and value."""
    result, expected = operation(*leaves), reference(*leaves)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    if weight is None:
        weight = torch.linspace(0.5, 1.5, result.numel()).to(result).reshape(result.shape)
    got = torch.autograd.grad(result, leaves, weight)
    want = torch.autograd.grad(expected, leaves, weight)
    for x, a, b in zip(leaves, got, want, strict=True):
        assert (a.dtype, a.shape, a.device) == (x.dtype, x.shape, x.device)
        torch.testing.assert_close(a, b, **tolerance)
    return got


# ---------------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    ("dtypes", "kind"),
    pairs(
        [(f16, f16), (bf16, bf16), (f16, bf16), (f16, f32), (f32, f64), (f64, bf16), (torch.complex64, f32)],
        KINDS,
    ),
    ids=str,
)
def test_each_gradient_has_the_dtype_of_its_input(kind, dtypes, device):
    leaves = [leaf(4, 5, device=device, dtype=dtype, seed=k) for k, dtype in enumerate(dtypes)]
    same_gradients(MULTIPLY[kind], torch.mul, leaves)


@both_kinds
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_gradients_are_computed_in_float32_and_rounded_once(kind, dtype, device):
    cube = pair(lambda x: x * x * x, "template <typename T> T cube(T x) { return x * x * x; }")[kind]
    x = torch.linspace(-2, 2, 64, device=device).to(dtype).requires_grad_()
    weight = torch.linspace(0.1, 0.9, 64, device=device).to(dtype)
    (got,) = torch.autograd.grad(cube(x), x, weight)
    exact = 3 * x.detach().double() ** 2 * weight.double()
    # Of the nearest: float32 arithmetic moves a value by far less than half a unit of 16 bits.
    torch.testing.assert_close(got, exact.to(dtype), rtol=torch.finfo(dtype).eps, atol=0)
    assert (got == exact.to(dtype)).double().mean() > 0.95


@both_kinds
def test_a_broadcast_half_operand_is_summed_in_float32(kind, device):
    x = torch.ones(4096, 1, device=device, dtype=f16)
    row = torch.full((1,), 1.0, device=device, dtype=f16, requires_grad=True)
    (got,) = torch.autograd.grad(MULTIPLY[kind](x, row), row, torch.ones(4096, 1, device=device, dtype=f16))
    assert got.dtype is f16
    assert got.item() == 4096.0  # a sum of halves would stop at 2048


@both_kinds
def test_integers_get_no_gradient_and_do_not_disturb(kind, device):
    x = leaf(5, device=device, dtype=f32)
    n = torch.arange(5, device=device)
    (got,) = torch.autograd.grad(MULTIPLY[kind](x, n).sum(), x)
    assert torch.equal(got, n.float())


# --------------------------------------------------------------------------------------------- complex


@pytest.mark.parametrize("kind", mostly_slow(KINDS, lambda kind: kind == "python"))
def test_complex_operands_by_torch_s_convention(kind, device):
    z, w = (leaf(3, 4, device=device, dtype=torch.complex128, seed=k) for k in (0, 1))
    assert torch.autograd.gradcheck(MULTIPLY[kind], (z, w))
    assert torch.autograd.gradgradcheck(MULTIPLY[kind], (z, w))
    same_gradients(MULTIPLY[kind], torch.mul, [z, w])


@both_kinds
def test_a_real_operand_beside_a_complex_one_gets_the_real_part(kind, device):
    z, x = leaf(3, 4, device=device, dtype=torch.complex128), leaf(3, 4, device=device)
    row = leaf(4, device=device, seed=3)
    same_gradients(MULTIPLY[kind], torch.mul, [z, x])
    same_gradients(MULTIPLY[kind], torch.mul, [z, row])
    assert torch.autograd.gradcheck(MULTIPLY[kind], (z, row))


@both_kinds
def test_conj_views(kind, device):
    z = leaf(6, device=device, dtype=torch.complex128)
    same_gradients(lambda z: MULTIPLY[kind](z.conj(), z), lambda z: z.conj() * z, [z])


# ------------------------------------------------------------------------------------- shapes and strides


@both_kinds
@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4,)),
        ((3, 1), (1, 4)),
        ((), (3,)),
        ((2, 1, 4), (3, 1)),
        ((), ()),
        ((0, 3), (3,)),
        ((2, 0), (1, 1)),
    ],
    ids=str,
)
def test_broadcast_operands(kind, shapes, device):
    same_gradients(MULTIPLY[kind], torch.mul, [leaf(*s, device=device, seed=k) for k, s in enumerate(shapes)])


def layouts(device):
    base = torch.arange(1.0, 121.0, device=device, dtype=f64)
    return {
        "transposed": base[:12].reshape(3, 4).t(),
        "channels last": base.reshape(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "sliced": base[:40].reshape(5, 8)[:, 1::2],
        "expanded": base[:4].reshape(4, 1).expand(4, 3),
        "permuted": base[:24].reshape(2, 3, 4).permute(2, 0, 1),
    }


@both_kinds
@pytest.mark.parametrize("name", ["transposed", "channels last", "sliced", "expanded", "permuted"])
def test_gradients_of_operands_that_are_not_contiguous(kind, name, device):
    x = layouts(device)[name].requires_grad_()
    weight = torch.linspace(0.5, 1.5, x.numel(), device=device, dtype=f64).reshape(x.shape)
    square, expected = MULTIPLY[kind](x, x), x * x
    (got,) = torch.autograd.grad(square, x, torch.empty_like(square).copy_(weight))
    (want,) = torch.autograd.grad(expected, x, torch.empty_like(expected).copy_(weight))
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert got.stride() == want.stride()


@both_kinds
def test_a_leaf_accumulates_in_its_own_strides(kind, device):
    x = torch.ones(3, 4, device=device).t().clone(memory_format=torch.preserve_format).requires_grad_()
    y = torch.full((4, 3), 2.0, device=device, requires_grad=True)
    for _ in range(2):
        MULTIPLY[kind](x, y).sum().backward()
    assert x.grad.stride() == x.stride() == (1, 4)
    assert y.grad.stride() == (3, 1)
    assert (x.grad == 4).all()
    assert (y.grad == 2).all()


@both_kinds
def test_one_tensor_twice(kind, device):
    x = leaf(7, device=device)
    same_gradients(lambda x: MULTIPLY[kind](x, x), lambda x: x * x, [x])
    assert torch.autograd.gradgradcheck(lambda x: MULTIPLY[kind](x, x), (x,))


# -------------------------------------------------------------------------------------- scalars, numbers


@pytest.mark.parametrize("kind", mostly_slow(KINDS, lambda kind: kind == "python"))
def test_keyword_scalars_given_as_tensors(kind, device):
    x, alpha, power = leaf(3, 4, device=device), leaf(device=device), leaf(device=device, seed=5)

    def call(x, alpha, power):
        return SCALED[kind](x, alpha=alpha, power=power)

    same_gradients(call, lambda x, alpha, power: alpha * torch.exp(power * x), [x, alpha, power])
    assert torch.autograd.gradcheck(call, (x, alpha, power), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (x, alpha, power))


@both_kinds
def test_a_cpu_scalar_beside_tensors_of_a_device(kind, device):
    x, alpha = leaf(4, device=device, dtype=f32), torch.tensor(3.0, requires_grad=True)
    SCALED[kind](x, alpha=alpha, power=0.5).sum().backward()
    assert alpha.grad.device == alpha.device
    torch.testing.assert_close(alpha.grad, torch.exp(0.5 * x.detach()).sum().cpu())


@both_kinds
def test_numbers_get_none(kind, device):
    x = leaf(4, device=device)
    result = MULTIPLY[kind](x, 3.0)
    result.sum().backward()
    assert (x.grad == 3).all()


def test_scalars_of_functors_without_operands(device):
    ramp = numjit.elementwise(lambda *, start=0.0, step=1.0: start + step * numjit.index() ** 2)
    step = torch.tensor(0.5, device=device, dtype=f64, requires_grad=True)

    def call(step):
        return ramp(shape=(2, 3), step=step, dtype=f64, device=device)

    assert torch.autograd.gradcheck(call, (step,), check_forward_ad=True)
    (got,) = torch.autograd.grad(call(step).sum(), step)
    assert got.item() == 0 + 1 + 4 + 9 + 16 + 25


@both_kinds
def test_functors_that_know_their_index(kind, device):
    f = pair(
        lambda x: x * x * numjit.index(),
        "template <typename T> T f(T x, numjit::index i) { return x * x * T(i); }",
    )[kind]
    same_gradients(
        f, lambda x: x * x * torch.arange(12, device=device).reshape(3, 4), [leaf(3, 4, device=device)]
    )


# -------------------------------------------------------------------------- which inputs, which outputs


@both_kinds
def test_only_the_gradients_that_are_needed_are_computed(kind, device):
    operation = pair(lambda x, y: x * y, "template <typename T> T needed(T x, T y) { return x * y; }")[kind]
    x, y = leaf(4, device=device), leaf(4, device=device, seed=1)
    operation(x, y.detach()).sum().backward()
    operation(x.detach(), y).sum().backward()
    assert set(operation.__numjit_operation__.derivatives) == {("vjp", (0,), (True,)), ("vjp", (1,), (True,))}
    torch.autograd.grad(operation(x, y).sum(), x)  # y requires grad but its gradient is not asked for
    assert x.grad is not None
    assert y.grad is not None


@pytest.mark.parametrize("kind", mostly_slow(KINDS, lambda kind: kind == "python"))
def test_several_results_of_which_some_are_used(kind, device):
    x, y = leaf(5, device=device), leaf(5, device=device, seed=1)
    product, larger, mixed = THREE[kind](x, y)
    assert [r.requires_grad for r in (product, larger, mixed)] == [True, False, True]
    assert torch.equal(larger, x > y)
    got = torch.autograd.grad(mixed.sum(), (x, y), retain_graph=True)
    torch.testing.assert_close(got, (torch.cos(x), torch.ones_like(y)))
    got = torch.autograd.grad((product.sum(), mixed.sum()), (x, y))
    torch.testing.assert_close(got, (y + torch.cos(x), x + 1))
    assert torch.autograd.gradcheck(lambda x, y: THREE[kind](x, y)[::2], (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: THREE[kind](x, y)[::2], (x, y))


def test_arrays_of_other_libraries_among_the_operands():
    x = leaf(3, device="cpu")
    weights = np.array([1.0, 2.0, 3.0])
    for operation in MULTIPLY.values():
        result = operation(weights, x)  # the first array is NumPy's; a graph needs torch's
        assert isinstance(result, torch.Tensor)
        (got,) = torch.autograd.grad(result.sum(), x)
        assert got.tolist() == [1, 2, 3]


# ----------------------------------------------------------------------------- recording, versions, modes


@both_kinds
def test_nothing_is_recorded_without_need(kind, device):
    x = leaf(3, device=device)
    assert not MULTIPLY[kind](x.detach(), 2.0).requires_grad
    with torch.no_grad():
        assert not MULTIPLY[kind](x, x).requires_grad
    with torch.inference_mode():
        assert MULTIPLY[kind](x, x).is_inference()
    result = MULTIPLY[kind](x, x)
    assert "Numjit" in type(result.grad_fn).__name__
    with torch.no_grad(), torch.enable_grad():
        assert MULTIPLY[kind](x, x).requires_grad


@both_kinds
def test_an_input_changed_in_place_is_noticed(kind, device):
    x, y = leaf(3, device=device), torch.ones(3, device=device, dtype=f64)
    result = MULTIPLY[kind](x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@both_kinds
def test_the_graph_is_freed_and_kept_as_torch_s(kind, device):
    x = leaf(3, device=device)
    result = MULTIPLY[kind](x, x).sum()
    result.backward(retain_graph=True)
    result.backward()
    torch.testing.assert_close(x.grad, 4 * x.detach())
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


@both_kinds
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints(kind, use_reentrant, device):
    x = leaf(6, device=device)
    result = checkpoint(lambda x: MULTIPLY[kind](x, torch.sin(x)), x, use_reentrant=use_reentrant)
    (got,) = torch.autograd.grad(result.sum(), x) if not use_reentrant else (None,)
    if use_reentrant:
        result.sum().backward()
        got = x.grad
    torch.testing.assert_close(got, torch.sin(x) + x * torch.cos(x))


@both_kinds
def test_out_is_refused(kind, device):
    x, out = leaf(3, device=device), torch.zeros(3, device=device, dtype=f64)
    with pytest.raises(OutputError, match="automatic differentiation"):
        MULTIPLY[kind](x, x, out=out)
    assert out.tolist() == [0, 0, 0]


@both_kinds
def test_meta_tensors(kind):
    x = torch.ones(3, 4, device="meta", requires_grad=True)
    result = MULTIPLY[kind](x, 2.0)
    (got,) = torch.autograd.grad(result, x, torch.ones(3, 4, device="meta"))
    assert (got.shape, got.device.type) == (x.shape, "meta")


# ----------------------------------------------------------------------------------- captured variables


def test_a_rebound_variable_reaches_later_derivatives(device):
    scope = {"numjit": numjit, "factor": 2.0}
    exec("f = numjit.elementwise(lambda x: factor * x * x)", scope)
    x = leaf(3, device=device)
    for factor in (2.0, 5.0, 2.0):
        scope["factor"] = factor
        (got,) = torch.autograd.grad(scope["f"](x).sum(), x)
        torch.testing.assert_close(got, 2 * factor * x)


def test_a_variable_rebound_before_backward_is_an_error(device):
    scope = {"numjit": numjit, "factor": 2.0}
    exec("f = numjit.elementwise(lambda x: factor * x)", scope)
    x = leaf(3, device=device)
    result = scope["f"](x).sum()
    scope["factor"] = 3.0
    with pytest.raises(AutogradError, match=r"<lambda>\(\).*rebound.*pass it as a scalar"):
        result.backward()


def test_functors_within_functors(device):
    inner = numjit.elementwise(lambda x, *, rate=2.0: math.exp(rate * x))
    outer = numjit.elementwise(lambda x, y: inner(x, rate=0.5) * y)
    leaves = [leaf(4, device=device), leaf(4, device=device, seed=1)]
    same_gradients(outer, lambda x, y: torch.exp(0.5 * x) * y, leaves)


# ---------------------------------------------------------------------------------------------- errors


def refused(result, *words):
    """Assert that a right result's backward raises, in these words and with the remedy."""
    with pytest.raises(AutogradError) as caught:
        result.sum().backward()
    for word in (*words, "numjit.differentiable"):
        assert word in str(caught.value)


def test_a_raw_operand_has_no_derivative(device):
    gather = numjit.elementwise("template <typename T> T gather(int i, numjit::raw<T> t) { return t[i]; }")
    table = leaf(4, device=device)
    index = torch.tensor([2, 0], device=device, dtype=torch.int32)
    result = gather(index, table)
    assert torch.equal(result.detach(), table.detach()[[2, 0]])
    refused(result, "gather", "'t'", "raw")


def test_elements_of_a_raw_operand_are_constants_of_the_others(device):
    def scaled(x, i, table: numjit.raw):
        return x * table[i]

    x, table = leaf(3, device=device), torch.tensor([2.0, 3.0, 4.0], device=device, dtype=f64)
    index = torch.tensor([2, 1, 0], device=device)
    (got,) = torch.autograd.grad(numjit.elementwise(scaled)(x, index, table).sum(), x)
    assert got.tolist() == [4, 3, 2]


def test_an_integer_on_the_way_names_the_line(device):
    steps = numjit.elementwise(lambda x: 0.5 * int(2 * x))
    x = torch.tensor([1.3, -0.2], device=device, requires_grad=True)
    result = steps(x)
    assert result.tolist() == [1.0, 0.0]
    refused(result, "<lambda>()", "int() of a differentiated value", "lambda x: 0.5 * int(2 * x)")


def test_concrete_types_and_casts_in_cpp(device):
    x = torch.tensor([1.5, 2.0], device=device, requires_grad=True)
    concrete = numjit.elementwise("float concrete(float x) { return x * x; }")
    refused(concrete(x), "concrete", "'x'", "template")
    cast = numjit.elementwise("template <typename T> T narrow(T x) {\n  return (float)x * x;\n}")
    refused(cast(x), "narrow", "drops the derivative", "line 2", "(float)x * x")


@pytest.mark.parametrize("kind", ["python", "c++"])
def test_an_operation_works_on_after_a_refusal(kind, device):
    f = pair(lambda x, n: x * n, "template <typename T> T f(T x, int n) { return x * n; }")[kind]
    x = leaf(3, device=device)
    n = torch.tensor([1, 2, 3], device=device, dtype=torch.int32)
    (got,) = torch.autograd.grad(f(x, n).sum(), x)
    assert got.tolist() == [1, 2, 3]
