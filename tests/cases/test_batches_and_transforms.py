"""torch.func's transforms, forward mode and torch.autograd's batches over calls of numjit."""

import concurrent.futures
import math

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import numjit
from numjit.errors import OutputError
from tests.cases import KINDS, both_kinds, pair
from tests.support.tiers import mostly_slow, pairs

WAVE = pair(
    lambda x, y, *, a=2.0: a * math.tanh(x) * y + x * x,
    "template <typename T> T wave(T x, T y, T a) { return a * std::tanh(x) * y + x * x; }",
    a=2.0,
)
PRODUCT = pair(lambda x, y: x * y, "template <typename T> T product(T x, T y) { return x * y; }")
BOTH = pair(
    lambda x: (math.sin(x), x > 0),
    "template <typename T> void both(T x, T& s, bool& p) { s = std::sin(x); p = x > T(0); }",
)
EXP = "template <typename T> T exponential(T x) { return std::exp(x); }"
f32, f64 = torch.float32, torch.float64


def reference(x, y, a=2.0):
    return a * torch.tanh(x) * y + x * x


@pytest.fixture
def operands(device):
    x = torch.linspace(-1.5, 1.5, 12, device=device, dtype=f64).reshape(4, 3)
    return x, torch.linspace(0.5, 2.0, 3, device=device, dtype=f64)


TRANSFORMS = {
    "grad": lambda f: grad(lambda x, y: f(x, y).sum(), argnums=(0, 1)),
    "vjp": lambda f: lambda x, y: vjp(f, x, y)[1](torch.ones_like(x)),
    "jvp": lambda f: lambda x, y: jvp(f, (x, y), (torch.cos(x), torch.ones_like(y))),
    "jvp of one": lambda f: lambda x, y: jvp(lambda x: f(x, y), (x,), (torch.cos(x),)),
    "jacrev": lambda f: jacrev(f, argnums=(0, 1)),
    "jacfwd": lambda f: jacfwd(f, argnums=(0, 1)),
    "hessian": lambda f: hessian(lambda x, y: f(x, y).sum(), argnums=(0, 1)),
    "reverse over reverse": lambda f: jacrev(jacrev(lambda x, y: f(x, y).sum())),
    "reverse over forward": lambda f: jacrev(jacfwd(lambda x, y: f(x, y).sum())),
    "forward over forward": lambda f: jacfwd(jacfwd(lambda x, y: f(x, y).sum())),
    "vmap": lambda f: vmap(f, in_dims=(0, None)),
    "vmap of columns": lambda f: vmap(f, in_dims=(1, 0), out_dims=1),
    "vmap of both": lambda f: lambda x, y: vmap(f)(x, y.expand(4, 3)),
    "vmap of rows against all": lambda f: lambda x, y: vmap(lambda row: f(x, row))(x),
    "vmap of vmap": lambda f: vmap(vmap(f), in_dims=(0, None)),
    "gradients of each row": lambda f: vmap(grad(lambda x, y: f(x, y).sum()), in_dims=(0, None)),
    "hessians of each row": lambda f: vmap(hessian(lambda x, y: f(x, y).sum()), in_dims=(0, None)),
    "gradient of a batch": lambda f: grad(
        lambda x, y: vmap(f, in_dims=(0, None))(x, y).sum(), argnums=(0, 1)
    ),
    "tangents of a batch": lambda f: (
        lambda x, y: vmap(lambda t: jvp(lambda x: f(x, y), (x,), (t,))[1])(
            torch.stack([torch.cos(x), torch.sin(x)])
        )
    ),
}


@pytest.mark.parametrize(("name", "kind"), pairs(TRANSFORMS, KINDS))
def test_transforms_give_what_they_give_torch_s_operators(kind, name, operands):
    got = torch.utils._pytree.tree_leaves(TRANSFORMS[name](WAVE[kind])(*operands))
    want = torch.utils._pytree.tree_leaves(TRANSFORMS[name](reference)(*operands))
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@both_kinds
def test_keyword_scalars_under_transforms(kind, operands):
    x, y = operands
    a = torch.tensor([0.5, 1.0, 1.5, 2.0], device=x.device, dtype=f64)
    got = vmap(lambda x, a: WAVE[kind](x, y, a=a))(x, a)
    torch.testing.assert_close(got, reference(x, y, a[:, None]), rtol=1e-12, atol=0)
    got = vmap(grad(lambda a, x: WAVE[kind](x, y, a=a).sum()))(a, x)
    torch.testing.assert_close(got, (torch.tanh(x) * y).sum(1), rtol=1e-12, atol=0)
    got = jacfwd(lambda a: WAVE[kind](x, y, a=a))(a[0])
    torch.testing.assert_close(got, torch.tanh(x) * y, rtol=1e-12, atol=0)


@both_kinds
def test_a_batch_of_operands_without_dimensions_promotes_as_each_does(kind, device):
    c = torch.linspace(0, 1, 4, device=device, dtype=f64)
    x = torch.ones(4, 3, device=device, dtype=f32)
    got = vmap(PRODUCT[kind])(c, x)
    assert got.dtype is f32 is vmap(torch.mul)(c, x).dtype
    torch.testing.assert_close(got, c[:, None].float() * x)
    assert vmap(PRODUCT[kind], in_dims=(0, None))(c, x[0]).shape == (4, 3)
    assert vmap(PRODUCT[kind])(c, c).dtype is f64
    got = vmap(grad(lambda c, x: PRODUCT[kind](c, x).sum()))(c, x)
    assert got.dtype is f64
    assert got.tolist() == [3.0] * 4


@both_kinds
def test_the_index_counts_within_each_element_of_a_batch(kind, device):
    ramp = pair(
        lambda x: x * numjit.index(),
        "template <typename T> T ramp(T x, numjit::index i) { return x * T(i); }",
    )[kind]
    x = torch.ones(2, 3, device=device)
    assert vmap(ramp)(x).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert vmap(grad(lambda x: ramp(x).sum()))(x).tolist() == [[0, 1, 2], [0, 1, 2]]


def test_batches_of_raw_operands_and_of_functors_without_operands(device):
    gather = numjit.elementwise("template <typename T> T gather(int i, numjit::raw<T> t) { return t[i]; }")
    tables = torch.arange(6.0, device=device).reshape(2, 3)
    index = torch.tensor([2, 0], device=device, dtype=torch.int32)
    assert vmap(gather, in_dims=(None, 0))(index, tables).tolist() == [[2, 0], [5, 3]]
    ramp = numjit.elementwise(lambda *, step=1.0: step * numjit.index())
    steps = torch.tensor([1.0, 2.0], device=device)
    got = vmap(lambda step: ramp(shape=3, step=step, device=device))(steps)
    assert got.tolist() == [[0, 1, 2], [0, 2, 4]]


@both_kinds
def test_results_that_are_not_differentiable(kind, device):
    x = torch.tensor([-1.0, 2.0], device=device)
    torch.testing.assert_close(grad(lambda x: BOTH[kind](x)[0].sum())(x), torch.cos(x))
    (sine, positive), (tangent, none) = jvp(BOTH[kind], (x,), (torch.ones_like(x),))
    assert torch.equal(positive, x > 0)
    torch.testing.assert_close(tangent, torch.cos(x))
    torch.testing.assert_close(sine, torch.sin(x))
    assert not none.any()
    assert vmap(BOTH[kind])(x)[1].tolist() == [False, True]


@both_kinds
def test_dual_tensors_also_where_the_warm_path_was_taken(kind, operands):
    x, y = operands
    WAVE[kind](x, y)
    WAVE[kind](x, y)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.cos(x))
        value, tangent = forward_ad.unpack_dual(WAVE[kind](dual, y))
        assert forward_ad.unpack_dual(WAVE[kind](x, y)).tangent is None
        with pytest.raises(OutputError):
            WAVE[kind](dual, y, out=torch.empty_like(x))
    torch.testing.assert_close(value, reference(x, y), rtol=1e-12, atol=0)
    want = (2 * y * (1 - torch.tanh(x) ** 2) + 2 * x) * torch.cos(x)
    torch.testing.assert_close(tangent, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", mostly_slow(KINDS, lambda kind: kind == "python"))
def test_gradcheck_of_every_mode(kind, operands):
    x, y = (x.clone().requires_grad_() for x in operands)
    assert torch.autograd.gradcheck(
        WAVE[kind], (x, y), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert torch.autograd.gradgradcheck(WAVE[kind], (x, y), check_fwd_over_rev=True, check_batched_grad=True)


@both_kinds
def test_torch_autograd_s_own_batches(kind, operands):
    x, y = operands
    rows = torch.autograd.functional.jacobian(lambda x: WAVE[kind](x, y), x)
    batch = torch.autograd.functional.jacobian(lambda x: WAVE[kind](x, y), x, vectorize=True)
    assert torch.equal(rows, batch)
    leaf = x.clone().requires_grad_()
    basis = torch.eye(12, device=x.device, dtype=f64).reshape(12, 4, 3)
    (got,) = torch.autograd.grad(WAVE[kind](leaf, y), leaf, basis, is_grads_batched=True)
    assert torch.equal(got, rows.reshape(12, 4, 3))
    want = torch.autograd.functional.hessian(lambda x: reference(x, y).sum(), x)
    got = torch.autograd.functional.hessian(
        lambda x: WAVE[kind](x, y).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"
    )
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gradient", ["derived", "by hand"])
@both_kinds
def test_batches_are_recorded_for_further_derivatives(kind, gradient, operands):
    """Those of what was given to the call as much as those of the gradients given to its derivative."""
    x, y = (x.clone().requires_grad_() for x in operands)
    functional = torch.autograd.functional

    def slopes(f, vectorize):
        rows = functional.jacobian(lambda x: f(x, y), x, vectorize=vectorize, create_graph=True)
        return rows * functional.hessian(lambda x: f(x, y).sum(), x, vectorize=vectorize, create_graph=True)

    wanted = torch.autograd.grad((slopes(reference, False) * torch.cos(x)).sum(), (x, y))
    found = torch.autograd.grad((slopes(WAVE[kind], True) * torch.cos(x)).sum(), (x, y))
    torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-13)

    exp = numjit.elementwise({"python": lambda x: math.exp(x), "c++": EXP}[kind])
    if gradient == "by hand":
        exp.backward(lambda grad, out: grad * out, save_for_backward="outputs")
    f = numjit.differentiable(torch.sin, lambda grad, x: exp(grad) * x.cos())
    rows = x.detach().expand(2, 4, 3).clone().requires_grad_()
    (got,) = torch.autograd.grad(f(x), x, rows, is_grads_batched=True, create_graph=True)
    want = torch.exp(rows) * torch.cos(x)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=0)
    found, wanted = (torch.autograd.grad((value * value).sum(), (x, rows)) for value in (got, want))
    torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-13)


@both_kinds
def test_batches_are_computed_right_by_any_thread(kind, operands):
    """Torch's engine differentiates on a GPU in a thread of its own, which is in no batch."""
    x, y = operands
    with concurrent.futures.ThreadPoolExecutor(1) as pool:

        def elsewhere(*batch):
            return pool.submit(WAVE[kind], *batch).result(60)

        once = torch._vmap_internals._vmap(elsewhere, (0, None))
        assert torch.equal(once(x, y), WAVE[kind](x, y))
        twice = torch._vmap_internals._vmap(torch._vmap_internals._vmap(elsewhere, (0, 0)), (0, None))
        assert torch.equal(twice(x, y), WAVE[kind](x, y))


def test_plain_tensors_beside_a_transform_are_computed_as_ever(operands):
    x, y = operands
    found = []
    grad(lambda z: (found.append(PRODUCT["python"](x, y)), z)[1])(torch.tensor(1.0))
    assert torch.equal(found[0], x * y)
    ramp = numjit.elementwise(lambda *, step=1.0: step * numjit.index())
    assert vmap(lambda z: z + ramp(shape=3, device=x.device))(x).shape == (4, 3)
