"""Functors as operators of torch: registration, opcheck, transforms, modes and the rest."""

import copy
import functools
import math
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward_ad
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

import numjit
from numjit.errors import ArgumentError, AutogradError, DeviceError, FunctorError, OutputError
from numjit.torch.operator import opaque_op
from numjit.torch.schema import schema
from tests.cases import run_python
from tests.cases.test_batches_and_transforms import TRANSFORMS, WAVE, reference
from tests.support.tiers import pairs

func, vmap = torch.func, torch.vmap


def _wave(x, y, *, alpha=1.0):
    if x > 0:
        return alpha * math.sin(x) * y + math.sqrt(x)
    return y - x


wave = numjit.torch_op("numjit_tests::wave", _wave)
axpy = numjit.torch_op(
    "numjit_tests::axpy",
    numjit.elementwise("template <typename T> T axpy(T x, T y, T a) { return a * x + y; }", a=1.0),
)
both = numjit.torch_op("numjit_tests::both", lambda x, y: (x + y, x > y))
#: One function as an operator of each kind; `reference` is what it computes.
SMOOTH = {
    "python": numjit.torch_op("numjit_tests::smooth", WAVE["python"]),
    "opaque": numjit.torch_op(
        "numjit_tests::smooth_opaque", numjit.elementwise(WAVE["python"].source, opaque=True)
    ),
    "c++": numjit.torch_op("numjit_tests::smooth_cpp", WAVE["c++"]),
    "unnamed": opaque_op(WAVE["c++"].__numjit_operation__),
}
every_kind = pytest.mark.parametrize("kind", SMOOTH)


def operands(device, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=generator, dtype=dtype).to(device) for s in ((3, 4), (4,))]


# ---------------------------------------------------------------------------------------- registration


def test_schemas():
    assert str(torch.ops.numjit_tests.wave.default._schema) == (
        "numjit_tests::wave(Tensor x, Tensor y, *, Scalar alpha=1.) -> Tensor"
    )
    assert str(torch.ops.numjit_tests.both.default._schema).endswith("-> (Tensor, Tensor)")
    assert str(torch.ops.numjit_tests.wave.out._schema).endswith("Tensor(a!) out) -> ()")
    assert torch.Tag.pointwise in wave.op.tags
    signature = numjit.elementwise(lambda x, *, self=1, far=math.inf, z=1j, on=True: x).functor.signature
    assert schema("f", signature, "TSSSS") == (
        "f(Tensor x, *, Scalar self_=1, Scalar far, Scalar z, Scalar on=True) -> Tensor"
    )


def test_calls_answer_as_the_functor(device):
    x, y = operands(device)
    for given in ((x, y), (x, 2.0), (2, y), (x, y[0])):
        torch.testing.assert_close(wave(*given, alpha=2), wave.functor(*given, alpha=2), rtol=0, atol=0)
    torch.testing.assert_close(torch.ops.numjit_tests.wave(x, y), wave.functor(x, y), rtol=0, atol=0)
    torch.testing.assert_close(wave(x, y, alpha=y[0]), wave.functor(x, y, alpha=y[0]), rtol=0, atol=0)
    for one, other in zip(both(x, y), both.functor(x, y), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert wave(x.int(), 2).dtype == wave.functor(x.int(), 2).dtype
    assert wave(x.half(), 2.5).dtype == torch.float16


def test_scalars_that_no_schema_can_write_have_their_defaults(device):
    operation = numjit.torch_op("numjit_tests::odd", lambda x, *, far=math.inf, z=1j: (x < far, x * z))
    x = operands(device)[0]
    for one, other in zip(operation(x), operation.functor(x), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_name_is_replaced_by_its_module_and_by_nobody_else():
    first = numjit.torch_op("numjit_tests::again", lambda x: x + 1)
    second = numjit.torch_op("numjit_tests::again", lambda x: x + 2)
    assert torch.ops.numjit_tests.again(torch.zeros(1)).item() == 2
    for stale in (first, copy.deepcopy(first)):
        for call in (stale, lambda x: stale.op(x), lambda x: stale(x, out=x), lambda x: stale(1.0)):  # noqa: B023
            with pytest.raises(FunctorError, match="registered anew"):
                call(torch.zeros(1))
    second.remove()
    with pytest.raises(FunctorError, match="removed"):
        second(torch.zeros(1))
    assert not hasattr(torch.ops.numjit_tests, "again")
    assert first is not second
    with pytest.raises(FunctorError, match="already"):
        numjit.torch_op("aten::relu", lambda x: x)
    with pytest.raises(FunctorError, match="namespace::name"):
        numjit.torch_op("relu", lambda x: x)
    with pytest.raises(FunctorError, match="no operands"):
        numjit.torch_op("numjit_tests::none", lambda *, a=1: a)
    with pytest.raises(ArgumentError):
        wave(torch.ones(2))


def test_copies_are_the_operator_itself_and_pickles_its_name():
    module = torch.nn.Module()
    module.operator = axpy
    assert copy.copy(axpy) is copy.deepcopy(module).operator is axpy
    assert pickle.loads(pickle.dumps(axpy)) is axpy
    code = """
        import pickle, sys, torch
        made, x = pickle.loads(bytes.fromhex(sys.argv[1])), torch.ones(1)
        print(made.name, made(x, 2.0, a=3.0).item(), torch.ops.numjit_tests.axpy(x, x, a=3.0).item())
    """
    assert run_python(code, pickle.dumps(axpy).hex()).stdout == "numjit_tests::axpy 5.0 4.0\n"


def test_automatic_names_tell_what_is_computed():
    operation, other = (numjit.elementwise(f) for f in (lambda x: x + 1, lambda x: x + 2))
    assert opaque_op(operation.__numjit_operation__) is opaque_op(operation.__numjit_operation__)
    assert opaque_op(operation.__numjit_operation__).name != opaque_op(other.__numjit_operation__).name
    code = """
        import numjit
        from numjit.torch.operator import opaque_op
        f = numjit.elementwise("template <class T> T f(T x) { return x + T(1); }")
        print(opaque_op(f.__numjit_operation__).name)
    """
    assert run_python(code).stdout == run_python(code).stdout


# -------------------------------------------------------------------------------------------- opcheck


def layouts(device):
    x = torch.randn(2, 3, 4, 5, device=device, dtype=torch.float64)
    last = x.to(memory_format=torch.channels_last)
    return {
        "contiguous": (x, x + 1),
        "permuted": (x.permute(2, 0, 3, 1), x.permute(2, 0, 3, 1) + 1),
        "broadcast": (x, x[0, :, :1, :1]),
        "channels last": (last, torch.randn(3, 1, 1, device=device, dtype=torch.float64)),
        "mixed": (x, last.float()),
        "0-dim": (x[0, 0, 0, 0], x[0, 0, 0, 1].float()),
        "empty": (x[:0], x[:0]),
        "integers": (x.int(), x.to(torch.int8)),
    }


CHECKED = {"python": wave, "c++": axpy, "two results": both}


@pytest.mark.parametrize(("name", "kind"), pairs(layouts("cpu"), CHECKED))
def test_opcheck(name, kind, device):
    results = torch.library.opcheck(CHECKED[kind].op, layouts(device)[name])
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", ["contiguous", "broadcast", "channels last"])
@pytest.mark.parametrize("operation", [wave, both], ids=["python", "two results"])
def test_opcheck_with_gradients(operation, name, device):
    values = tuple(value.detach().clone().requires_grad_() for value in layouts(device)[name])
    results = torch.library.opcheck(operation.op, values)
    assert set(results.values()) == {"SUCCESS"}


# ------------------------------------------------------------------------------------------ gradients


def test_gradients(device):
    x, y = (value.requires_grad_() for value in operands(device))
    assert torch.autograd.gradcheck(lambda x, y: wave(x, y, alpha=1.5), (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: wave(x, y, alpha=1.5), (x, y))
    total, greater = both(x, y)
    assert not greater.requires_grad
    assert torch.autograd.grad(total.sum(), y)[0].tolist() == [3.0] * 4


def test_gradients_of_a_cpp_functor(device):
    x, y = (value.requires_grad_() for value in operands(device))
    assert torch.autograd.gradcheck(lambda x, y: axpy(x, y, a=1.5), (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: axpy(x, y, a=1.5), (x, y))


def test_forward_mode_of_a_cpp_operator(device):
    import torch.autograd.forward_ad as forward_ad

    x, y = operands(device)
    with forward_ad.dual_level():
        result = axpy(forward_ad.make_dual(x, torch.cos(x)), y, a=3.0)
        torch.testing.assert_close(forward_ad.unpack_dual(result).tangent, 3 * torch.cos(x))


def test_a_gradient_that_there_is_not_says_so(device):
    text = "float concrete(float x) { return x * x; }"
    concrete = numjit.torch_op("numjit_tests::concrete", numjit.elementwise(text))
    x = torch.ones(3, device=device, requires_grad=True)
    result = concrete(x)
    assert result.tolist() == [1.0] * 3
    with pytest.raises(AutogradError, match=r"concrete.*numjit\.differentiable"):
        result.sum().backward()


def test_a_gradient_written_by_hand_is_the_operator_s_too(device):
    cube = numjit.elementwise(lambda x, *, scale=1.0: scale * x * x * x)
    cube.backward(lambda grad, x, *, scale=1.0: grad * scale * 100 * x)  # wrong, and so told apart
    x = torch.ones(3, device=device, requires_grad=True)
    registered = numjit.torch_op("numjit_tests::cube", cube)
    registered(x, scale=2.0).sum().backward()
    assert x.grad.tolist() == [200.0] * 3
    assert "by hand" in cube.explain(x)
    x.grad = None
    torch.compile(lambda x: cube(x) + 1, fullgraph=True, backend="aot_eager")(x).sum().backward()
    assert x.grad.tolist() == [100.0] * 3


@pytest.mark.parametrize("operation", [wave, wave.functor], ids=["operator", "functor"])
def test_forward_mode_and_transforms(operation, device):
    x, y = operands(device)

    def reference(x, y):
        return torch.where(x > 0, torch.sin(x) * y + torch.where(x > 0, x, 1).sqrt(), y - x)

    ones = torch.ones_like(x)
    for one, other in zip(
        torch.func.jvp(lambda x: operation(x, y), (x,), (ones,)),
        torch.func.jvp(lambda x: reference(x, y), (x,), (ones,)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(operation(forward_ad.make_dual(x, ones), y)).tangent
    torch.testing.assert_close(tangent, torch.func.jvp(lambda x: reference(x, y), (x,), (ones,))[1])
    for transform in (
        lambda f: torch.func.grad(lambda x: f(x, y).sum()),
        lambda f: torch.vmap(torch.func.grad(lambda x: f(x, y).sum())),
        lambda f: torch.func.jacrev(lambda x: f(x, y)),
        lambda f: torch.func.hessian(lambda x: f(x, y).sum()),
    ):
        torch.testing.assert_close(transform(operation)(x), transform(reference)(x))


# ------------------------------------------------------------------------------------------ transforms


def smooth_operands(device):
    x = torch.linspace(-1.5, 1.5, 12, device=device, dtype=torch.float64).reshape(4, 3)
    return x, torch.linspace(0.5, 2.0, 3, device=device, dtype=torch.float64)


def check_as_torch(transform, kind, device):
    """Assert that a transform of an operator gives what it gives torch's own."""
    got, want = (
        torch.utils._pytree.tree_leaves(transform(f)(*smooth_operands(device)))
        for f in (SMOOTH[kind], reference)
    )
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape, one.requires_grad) == (other.dtype, other.shape, other.requires_grad)
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "kind"), pairs(TRANSFORMS, SMOOTH))
def test_transforms_give_what_they_give_torch_s_operators(kind, name, device):
    check_as_torch(TRANSFORMS[name], kind, device)


def _called_afterwards(f, around):
    """Call a vjp's function where the transform that made it has ended."""

    def call(x, y):
        pullback = torch.func.vjp(f, x, y)[1]
        with around:
            return pullback(torch.cos(x))

    return call


def _partly_without_gradient(f):
    def product(x, y):
        with torch.no_grad():
            constant = f(x, y)
        return (constant * f(x, y)).sum()

    return torch.func.grad(product)


def _tangent_without_gradient(f):
    def product(x, y):
        with torch.no_grad():
            tangent = torch.func.jvp(lambda x: f(x, y), (x,), (torch.ones_like(x),))[1]
        return (tangent * x).sum()

    return torch.func.grad(product)


def _partly_without_tangent(f):
    def product(x, y):
        with forward_ad._set_fwd_grad_enabled(False):
            constant = f(x, y)
        return constant * f(x, y)

    return lambda x, y: torch.func.jvp(lambda x: product(x, y), (x,), (torch.cos(x),))


def _gradient_outside(f):
    def call(x, y):
        x, y = (value.clone().requires_grad_() for value in (x, y))
        inner = torch.func.grad(lambda x: f(x, y).sum())(x)
        return torch.autograd.grad(inner.square().sum(), (x, y))

    return call


def _tangent_outside(f):
    def call(x, y):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.cos(x))
            return forward_ad.unpack_dual(torch.func.grad(lambda x: f(x, y).sum())(dual)).tangent

    return call


NESTED = {
    "third derivatives": lambda f: func.jacfwd(func.jacrev(func.jacfwd(lambda x, y: f(x, y).sum()))),
    "forward three times": lambda f: func.jacfwd(func.jacfwd(func.jacfwd(lambda x, y: f(x[0], y).sum()))),
    "second derivatives of each": lambda f: torch.vmap(
        torch.vmap(func.grad(func.grad(f, argnums=1))), in_dims=(0, None)
    ),
    "gradient of gradients of rows": lambda f: func.grad(
        lambda x, y: torch.vmap(func.grad(lambda x: f(x, y).sum()))(x).square().sum()
    ),
    "tangent of gradients of rows": lambda f: (
        lambda x, y: func.jvp(torch.vmap(func.grad(lambda x: f(x, y).sum())), (x,), (x,))
    ),
    "forward over forward of rows": lambda f: torch.vmap(func.jacfwd(func.jacfwd(f)), in_dims=(0, None)),
    "linearize": lambda f: lambda x, y: func.linearize(lambda x: f(x, y), x)[1](torch.cos(x)),
    "one operand twice": lambda f: lambda x, _: func.hessian(lambda x: f(x, x).sum())(x),
    "both broadcast": lambda f: lambda x, y: func.jacrev(f, argnums=(0, 1))(x[:, :1], y),
    "number": lambda f: func.jacfwd(func.jacrev(lambda x, y: f(x, 2.0) * y)),
    "scalar": lambda f: lambda x, y: func.hessian(lambda a, y: f(x, y, a=a).sum(), argnums=(0, 1))(y[0], y),
    "scalar's tangent": lambda f: lambda x, y: func.jacfwd(lambda a: f(x, y, a=a))(y[0]),
    "vjp afterwards": lambda f: _called_afterwards(f, torch.enable_grad()),
    "vjp afterwards, without gradient": lambda f: _called_afterwards(f, torch.no_grad()),
    "vjp's batch afterwards": lambda f: (
        lambda x, y: torch.vmap(func.vjp(f, x, y)[1])(torch.stack([x, x + 1]))
    ),
    "no gradient inside": _partly_without_gradient,
    "no gradient around a tangent": _tangent_without_gradient,
    "no gradient outside": lambda f: torch.no_grad()(func.hessian(lambda x, y: f(x, y).sum())),
    "no tangent inside": _partly_without_tangent,
    "gradient outside": _gradient_outside,
    "tangent outside": _tangent_outside,
    "functional call": lambda f: (
        lambda x, y: func.grad(lambda weights: func.functional_call(Layer(f), weights, (x,)).sum())(
            {"weight": y}
        )
    ),
}


@pytest.mark.parametrize(("name", "kind"), pairs(NESTED, SMOOTH))
def test_transforms_within_others_and_within_autograd_s_modes(kind, name, device):
    check_as_torch(NESTED[name], kind, device)


WITH_SCALARS = {
    "rows": lambda f: lambda x, y, a: vmap(lambda x, a: f(x, y, a=a))(x, a),
    "one operand": lambda f: lambda x, y, a: vmap(lambda a: f(x, y, a=a), in_dims=-1, out_dims=1)(a),
    "columns": lambda f: (
        lambda x, y, a: vmap(lambda x, y, a: f(x, y, a=a), in_dims=(-1, 0, -1), out_dims=-1)(x, y, a[:3])
    ),
    "of vmap": lambda f: lambda x, y, a: vmap(lambda x: vmap(lambda a: f(x, y, a=a))(a))(x),
    "batch of batches": lambda f: (
        lambda x, y, a: vmap(vmap(lambda x, a: f(x, 2.0, a=a)), in_dims=(0, 1))(
            x, torch.stack([a, a + 1, a + 2])
        )
    ),
    "gradients": lambda f: (
        lambda x, y, a: vmap(
            func.grad(lambda a, x, y: f(x, y, a=a).sum(), argnums=(0, 1, 2)), in_dims=(0, 0, None)
        )(a, x, y)
    ),
    "gradients of operands alone": lambda f: (
        lambda x, y, a: vmap(func.grad(lambda x, a: f(x, y, a=a).sum()))(x, a)
    ),
    "gradients of a batch": lambda f: func.grad(
        lambda x, y, a: vmap(lambda x, a: f(x, y, a=a))(x, a).square().sum(), argnums=(0, 1, 2)
    ),
    "of grad of vmap": lambda f: (
        lambda x, y, a: vmap(
            func.grad(lambda y, s: (vmap(lambda x, a: f(x, y, a=a * s))(x, a) ** 2).sum(), argnums=(0, 1)),
            in_dims=(None, 0),
        )(y, a)
    ),
    "jacobian": lambda f: lambda x, y, a: vmap(func.jacfwd(lambda a, x: f(x, y, a=a)))(a, x),
    "hessian": lambda f: (
        lambda x, y, a: vmap(func.hessian(lambda a, x: f(x, y, a=a).sum(), argnums=(0, 1)))(a, x)
    ),
    "tangents of a batch": lambda f: (
        lambda x, y, a: func.jvp(
            lambda x, a: vmap(lambda x, a: f(x, y, a=a))(x, a), (x, a), (torch.cos(x), torch.sin(a))
        )
    ),
}


@pytest.mark.parametrize(("name", "kind"), pairs(WITH_SCALARS, SMOOTH))
def test_transforms_over_batches_of_scalars(kind, name, device):
    a = torch.tensor([0.5, 1.0, 1.5, 2.0], device=device, dtype=torch.float64)
    got, want = (
        torch.utils._pytree.tree_leaves(WITH_SCALARS[name](f)(*smooth_operands(device), a))
        for f in (SMOOTH[kind], reference)
    )
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_batch_of_scalars_is_differentiated_in_another_thread(device):
    from concurrent.futures import ThreadPoolExecutor

    x, y = (value.requires_grad_() for value in smooth_operands(device))
    a = torch.tensor([0.5, 1.0, 1.5, 2.0], device=device, dtype=torch.float64, requires_grad=True)
    result = vmap(lambda x, a: SMOOTH["c++"](x, y, a=a))(x, a)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(torch.autograd.grad, result.sum(), (x, y, a)).result()
    wanted = torch.autograd.grad(reference(x, y, a[:, None]).sum(), (x, y, a))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("called", ["operator", "functor"])
def test_batches_of_raw_operands_and_of_functors_that_know_their_index(called, device):
    text = "template <class T, class I> T f(numjit::raw<T> table, I k) { return table[k]; }"
    gather = numjit.torch_op("numjit_tests::gather", text)
    ramp = numjit.torch_op("numjit_tests::ramp_2", lambda x: (x * numjit.index(), x > 1))
    if called == "functor":
        gather, ramp = gather.functor, ramp.functor
    table = torch.rand(5, 3, dtype=torch.float64, device=device)
    k = torch.tensor([[2, 0], [1, 1], [0, 2]], device=device)
    assert torch.equal(vmap(gather, in_dims=(None, 0))(table[0], k), table[0][k])
    assert torch.equal(vmap(gather, in_dims=(0, None))(table, k), table[:, k])
    assert torch.equal(vmap(gather, in_dims=(-2, None), out_dims=-1)(table, k), table[:, k].movedim(0, -1))
    assert torch.equal(
        vmap(gather, in_dims=(1, 0))(table, k), torch.stack([table.t()[n][k[n]] for n in range(3)])
    )
    product, large = vmap(ramp, in_dims=-1)(table)
    assert torch.equal(product, table.t() * torch.arange(5.0, device=device))
    assert torch.equal(large, table.t() > 1)
    whole = torch.rand(2, 5, 3, dtype=torch.float64, device=device)
    wanted = whole * torch.arange(3.0, device=device)
    assert torch.equal(vmap(vmap(lambda x: ramp(x)[0]))(whole), wanted)

    def squares(x):
        return (vmap(lambda x: ramp(x)[0])(x) ** 2).sum()

    wanted = 2 * whole * torch.arange(3.0, device=device) ** 2
    torch.testing.assert_close(vmap(func.grad(squares))(whole), wanted, rtol=1e-12, atol=0)


def test_a_batch_without_elements(device):
    x = torch.ones(0, 3, device=device)
    assert vmap(wave)(x, x).shape == (0, 3)
    numbered = numjit.torch_op("numjit_tests::numbered_2", lambda x, *, a=1: a * x + numjit.index())
    for call in (lambda x: numbered(x), lambda x: numbered.functor(x), lambda x: wave(2.0, x, alpha=x[0])):
        with pytest.raises(AutogradError, match=r"(<lambda>|_wave)\(\): .*batch without elements; pass one"):
            vmap(call)(x)


@pytest.mark.parametrize("recorded", ["autograd", "grad", "vjp", "jvp"])
@pytest.mark.parametrize("rule", [None, "inputs", "outputs"])
def test_a_variable_rebound_before_backward_is_an_error(recorded, rule, device):
    factor = 2.0
    operation = numjit.elementwise(lambda x: x * factor)
    if rule is not None:
        operation.backward(lambda g, kept: g * kept, save_for_backward=rule)
    scaled = numjit.torch_op("numjit_tests::scaled", operation)
    x = torch.ones(3, device=device, requires_grad=True)
    forward, plain = recorded == "jvp", x.detach()

    def rebound(x):
        nonlocal factor
        factor = 2.0
        result = scaled(x)
        factor = 3.0
        return result.sum()

    def differentiate():
        if recorded == "autograd":
            return torch.autograd.grad(rebound(x), x)[0]
        if recorded == "grad":
            return func.grad(rebound)(plain)
        if forward:  # at the time of the call
            return func.jvp(rebound, (plain,), (plain,))[1] * plain
        result, pullback = func.vjp(rebound, plain)
        return pullback(torch.ones_like(result))[0]

    if rule == "inputs" and not forward:  # what the functor means has no part in it
        assert differentiate().tolist() == [1.0] * 3
    elif forward and rule is None:
        assert differentiate().tolist() == [6.0] * 3
    elif forward:
        with pytest.raises(AutogradError, match="by hand has no forward mode"):
            differentiate()
    else:
        with pytest.raises(AutogradError, match=r"<lambda>\(\).*rebound.*pass it as a scalar"):
            differentiate()


@pytest.mark.parametrize("kind", ["python", "c++"])
def test_transforms_of_several_results(kind, device):
    text = "template <class T> void f(T x, T& s, bool& p, T& q) { s = std::sin(x); p = x > T(0); q = x * x; }"
    code = text if kind == "c++" else lambda x: (math.sin(x), x > 0, x * x)
    operation = numjit.torch_op(f"numjit_tests::three_{'cpp' if kind == 'c++' else kind}", code)
    x, y = smooth_operands(device)
    (_, positive, _), (first, none, second) = torch.func.jvp(operation, (x,), (x,))
    assert torch.equal(positive, x > 0)
    assert not none.any()
    torch.testing.assert_close((first, second), (torch.cos(x) * x, 2 * x * x), rtol=1e-12, atol=1e-12)
    for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
        torch.testing.assert_close(
            transform(lambda x: operation(x)[::2])(y),
            transform(lambda x: (torch.sin(x), x * x))(y),
            rtol=1e-12,
            atol=1e-12,
        )
    torch.testing.assert_close(
        torch.func.grad(lambda x: operation(x)[2].sum())(x), 2 * x, rtol=1e-12, atol=1e-12
    )


def test_what_transforms_cannot_do_says_so(device):
    concrete = numjit.torch_op("numjit_tests::concrete_2", "float concrete(float x) { return x * x; }")
    ones = torch.ones(3, device=device)
    with pytest.raises(AutogradError, match=r"concrete.*numjit\.differentiable"):
        torch.func.grad(lambda x: concrete(x).sum())(ones)
    with pytest.raises(AutogradError, match=r"concrete.*numjit\.differentiable"):
        torch.func.jvp(concrete, (ones,), (ones,))
    ramp = numjit.torch_op("numjit_tests::ramp", lambda x: x * x * numjit.index())
    assert torch.func.jvp(ramp, (ones,), (ones,))[1].tolist() == [0, 2, 4]
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        assert torch.equal(jacobian(ramp)(ones), torch.diag(2 * torch.arange(3.0, device=device)))
    hessian = torch.func.hessian(lambda x: (ramp(x) * x).sum())(ones)
    assert torch.equal(hessian, torch.diag(6 * torch.arange(3.0, device=device)))


@every_kind
def test_gradcheck_of_every_mode(kind, device):
    x, y = (value.requires_grad_() for value in smooth_operands(device))
    assert torch.autograd.gradcheck(
        SMOOTH[kind], (x, y), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert torch.autograd.gradgradcheck(
        SMOOTH[kind], (x, y), check_fwd_over_rev=True, check_batched_grad=True
    )


@pytest.mark.parametrize("operation", [axpy, axpy.functor], ids=["operator", "functor"])
def test_second_derivatives_asked_for_when_their_transforms_have_ended(operation, device):
    x, y = smooth_operands(device)
    pullback = torch.func.vjp(torch.func.grad(lambda y: (operation(x, y) * operation(y, y)).sum()), y)[1]
    with torch.no_grad():
        (found,) = pullback(torch.ones_like(y))
    torch.testing.assert_close(found, torch.full_like(y, 16.0))


def test_forward_mode_of_fake_tensors(device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = smooth_operands(device)
    with FakeTensorMode() as mode, forward_ad.dual_level():
        x, y = map(mode.from_tensor, real)
        tangent = forward_ad.unpack_dual(SMOOTH["c++"](forward_ad.make_dual(x, x + 1), y)).tangent
    assert (tangent.shape, tangent.device.type) == (x.shape, device)


@pytest.mark.parametrize(
    ("in_dims", "shapes"),
    [
        ((0, None), ((5, 3, 4), (4,))),
        ((1, 0), ((3, 5), (5, 2, 3))),
        ((None, 0), ((3,), (5,))),
        ((-1, 0), ((2, 5), (5,))),
    ],
    ids=["one", "ranks", "numbers", "last"],
)
@pytest.mark.parametrize("operation", [axpy, axpy.functor, wave], ids=["c++", "functor", "python"])
def test_vmap(operation, in_dims, shapes, device):
    x, y = (torch.rand(shape, dtype=torch.float64, device=device) for shape in shapes)
    found = torch.vmap(operation, in_dims)(x, y)
    slices = [
        operation(*(v if dim is None else v.select(dim, k) for v, dim in zip((x, y), in_dims, strict=True)))
        for k in range(5)
    ]
    torch.testing.assert_close(found, torch.stack(slices), rtol=1e-12, atol=1e-12)


def test_vmap_keeps_the_dtype_of_what_it_maps(device):
    x, y = torch.rand(5, device=device), torch.rand(5, 3, dtype=torch.float16, device=device)
    assert torch.vmap(axpy)(x, y).dtype == axpy(x[0], y[0]).dtype == torch.float16
    counts, small = torch.tensor([300, 301], device=device), torch.tensor([[44], [46]], device=device)
    total, greater = torch.vmap(both)(counts, small.to(torch.int8))
    assert total.dtype == torch.int8
    assert greater.tolist() == [[False], [False]]  # 300 is 44 to an int8


@pytest.mark.parametrize("directly", [True, False], ids=["torch.ops", "operator"])
def test_tensors_that_torch_resolves_before_the_kernel(directly, device):
    x, y = (value + 1j * value.flip(0) for value in operands(device))
    operation = torch.ops.numjit_tests.axpy if directly else axpy
    for given in ((x.conj(), y), (x, y.conj()), (x.conj().imag, y)):
        torch.testing.assert_close(operation(*given), given[0] + given[1], rtol=1e-12, atol=0)
    with torch.inference_mode():
        assert operation(x, y).is_inference()
    assert not operation(x, y).is_inference()
    assert operation(x.to("meta"), y.to("meta")).device.type == "meta"


# --------------------------------------------------------------------------------- the rest of torch


def test_out(device):
    x, y = operands(device)
    room = torch.empty(4, 3, dtype=torch.float64, device=device).t()
    assert wave(x, y, out=room) is room
    torch.testing.assert_close(room, wave(x, y), rtol=0, atol=0, check_stride=False)
    assert room.stride() == (1, 3)
    rooms = (torch.empty_like(x), torch.empty_like(x, dtype=torch.bool))
    assert both(x, y, out=rooms) is rooms
    assert torch.equal(rooms[1], x > y)

    def call(x, y):
        room = torch.empty_like(x)
        wave(x, y, out=room)
        return room

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, y), wave(x, y))


OUT = {
    "operator": lambda x, y, out: wave(x, y, out=out),
    "torch.ops": lambda x, y, out: torch.ops.numjit_tests.wave.out(x, y, out=out),
}


@pytest.mark.parametrize("call", OUT.values(), ids=OUT)
def test_given_outputs_take_nothing_to_differentiate(call, device):
    x, y = operands(device)

    def written(x, y):
        room = torch.empty_like(x)
        call(x, y, room)
        return room

    with pytest.raises(OutputError, match=r"'x', of shape .* and dtype torch.float64, requires grad"):
        written(x.clone().requires_grad_(), y)
    with pytest.raises(OutputError, match="requires grad"):
        call(x, y, torch.empty_like(x).requires_grad_())
    with pytest.raises(OutputError, match="requires grad"):
        torch.func.grad(lambda x: written(x, y).sum())(x)
    with pytest.raises(OutputError, match="tangent"):
        torch.func.jvp(written, (x, y), (x, y))
    with forward_ad.dual_level(), pytest.raises(OutputError, match="tangent"):
        written(forward_ad.make_dual(x, x), y)
    with torch.no_grad():
        assert torch.equal(written(x.clone().requires_grad_(), y), wave(x, y))


@pytest.mark.parametrize("operation", [axpy, axpy.functor], ids=["operator", "functor"])
def test_fake_tensors_have_the_real_ones_strides(operation, device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    for values in layouts(device).values():
        mode = FakeTensorMode()
        with mode:
            fake = operation(*map(mode.from_tensor, values))
        real = operation(*values)
        assert (fake.shape, fake.dtype, fake.device) == (real.shape, real.dtype, real.device)
        assert fake.stride() == real.stride() or not real.numel()


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx_records_the_operator(mode, device):
    from torch.fx.experimental.proxy_tensor import make_fx

    x, y = operands(device)
    for operation, name in ((axpy, "numjit_tests.axpy.default"), (axpy.functor, "numjit.axpy_")):
        graph = make_fx(functools.partial(operation, a=2.0), tracing_mode=mode)(x, y)
        assert any(str(node.target).startswith(name) for node in graph.graph.nodes)
        torch.testing.assert_close(graph(x, y), axpy(x, y, a=2.0))


def test_dispatch_modes_and_tensor_classes_see_the_operator(device):
    from torch.testing._internal.two_tensor import TwoTensor
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x, y = operands(device)
    seen = []
    with Log():
        axpy(x, y)
        axpy.functor(x, y)
    assert seen == [
        "numjit_tests.axpy.default",
        f"{opaque_op(axpy.functor.__numjit_operation__).name.replace('::', '.')}.default",
    ]
    for operation in (axpy, axpy.functor):
        result = operation(TwoTensor(x, x + 1), y)
        assert type(result) is TwoTensor
        torch.testing.assert_close(result.b, axpy(x + 1, y))


def test_flops_of_every_overload():
    operator = numjit.torch_op("numjit_tests::overloaded", lambda a, b, c, d: a + b * c - d, flops=3)
    x = torch.ones(5)
    for k in range(1, 16):
        with FlopCounterMode(display=False) as counter:
            operator(*(x if k >> place & 1 else 2.0 for place in range(4)))
        assert counter.get_total_flops() == 3 * x.numel()


def test_flops(device):
    x, y = operands(device)
    with FlopCounterMode(display=False) as counter:
        counted = numjit.torch_op("numjit_tests::counted", lambda x, y: x * y + 1, flops=2)
        counted(x, y)
        counted(x, 2.0)
    assert counter.get_total_flops() == 2 * 2 * x.numel()
    two = numjit.torch_op("numjit_tests::counted", lambda x, y: (x * y, x + y), flops=5)
    with FlopCounterMode(display=False) as counter:
        two(x, y)
    assert counter.get_total_flops() == 5 * x.numel()


@pytest.mark.parametrize("by", ["registration", "mapping"])
def test_a_user_s_flop_formula_wins(by, device):
    x, y = operands(device)
    operator = numjit.torch_op("numjit_tests::formula", lambda x, y: x * y + 1, flops=2)
    packet = torch.ops.numjit_tests.formula

    def formula(shape, *_, out_shape=None, **__):
        return 1000 * shape[0]

    mapping = {}
    if by == "mapping":
        mapping[packet] = formula
    else:
        register_flop_formula(packet)(formula)
    operator(x, 2.0)  # one more overload, which changes the packet's hash
    try:
        with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
            operator(x, y)
            operator(x, 3.0)
        assert counter.get_total_flops() == 2 * 1000 * x.shape[0]
    finally:
        operator.remove()


def test_profiler_shows_the_name(device):
    x, y = operands(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile() as profile:
            axpy(x, y)
    assert "numjit_tests::axpy" in {event.key for event in profile.key_averages()}


def test_autocast_policy(device):
    operation = numjit.torch_op("numjit_tests::precise", lambda x: x + 1, autocast=torch.float32)
    x = torch.ones(3, dtype=torch.bfloat16, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert operation(x).dtype == torch.float32
        assert axpy(x, x).dtype == torch.bfloat16
    assert operation(x).dtype == torch.bfloat16
    scaled = numjit.torch_op(
        "numjit_tests::precise", lambda x, *, a=1.0: x * a, autocast={device: torch.float32}
    )
    with torch.autocast(device, dtype=torch.bfloat16):
        assert scaled(x, a=2.0).dtype == torch.float32
    again = numjit.torch_op("numjit_tests::precise", lambda x, *, a=1.0: x * a)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert again(x, a=2.0).dtype == torch.bfloat16


class Layer(torch.nn.Module):
    def __init__(self, operation=wave):
        super().__init__()
        self.operation = operation
        self.weight = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))

    def forward(self, x):
        return self.operation(x, self.weight)


def test_modules_checkpoints_and_functional_calls(device):
    layer = Layer().to(device)
    x = operands(device)[0]
    layer(x).sum().backward()
    wanted = layer.weight.grad.clone()
    layer.weight.grad = None
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    torch.testing.assert_close(layer.weight.grad, wanted)
    weights = {"weight": torch.full((4,), 2.0, dtype=torch.float64, device=device)}
    torch.testing.assert_close(torch.func.functional_call(layer, weights, (x,)), wave(x, weights["weight"]))
    gradient = torch.func.grad(lambda w: torch.func.functional_call(layer, w, (x,)).sum())(weights)
    torch.testing.assert_close(gradient["weight"], wanted)


def test_deterministic_algorithms(device):
    x, y = operands(device)
    torch.use_deterministic_algorithms(True)
    try:
        torch.testing.assert_close(wave(x, y), wave.functor(x, y), rtol=0, atol=0)
    finally:
        torch.use_deterministic_algorithms(False)


def test_threads_share_one_operator(device):
    from concurrent.futures import ThreadPoolExecutor

    x, y = operands(device)
    wanted = axpy(x, y)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: axpy(x, y), range(64)):
            assert torch.equal(result, wanted)


def test_errors_without_memory_name_functor_and_arguments():
    """Fake and meta tensors are refused in the words of a call that computes."""
    from numjit.torch.meta import argument_types, empty_results

    functor = numjit.elementwise(lambda left, right: left + right)
    here, there = torch.zeros(3), torch.zeros(3, device="meta")
    with pytest.raises(DeviceError, match=r"'left' is on cpu but 'right' is on meta; move them"):
        empty_results(functor.__numjit_operation__, [here, there])
    with pytest.raises(ArgumentError, match=r"argument 'right' is a str; pass a tensor or a number"):
        argument_types(functor.functor, [here, "1"])
    with pytest.raises(ArgumentError, match=r"no tensor operand.*pass one"):
        empty_results(functor.__numjit_operation__, [1, 2])
