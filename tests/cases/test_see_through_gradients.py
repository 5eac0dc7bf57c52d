"""What torch.compile sees of a Python functor answers as eager does, values and gradients, on every edge."""

import math

import pytest
import torch

import numjit
from numjit import dtypes
from numjit import math as nm
from numjit.torch.meta import argument_types
from numjit.torch.see_through.lowering import lower_with_gradients
from tests.support.scalar_tables import BINARY, CHOICES, EDGES, UNARY, blocks, product, same

#: Where torch's vectorised kernels are off: large sinh and cosh (Sleef), remainders of large quotients.
TORCH_IS_OFF = {"nm.sinh", "nm.cosh", "fmod", "%", "nm.remainder"}


def results_and_gradients(call, values):
    leaves = [value.clone().requires_grad_() for value in values]
    results = call(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    sums = [result.sum() for result in results if result.requires_grad]
    return [r.detach() for r in results], torch.autograd.grad(sums, leaves)


def differences(table, grid, folder):
    found = []
    for names, function in blocks(table, folder, size=12 // len(grid)):
        operation = numjit.elementwise(function)
        values = list(grid) * len(names)
        kinds = argument_types(operation.functor, values)
        form = lower_with_gradients(operation.functor, kinds, dtypes.float32, tuple(range(len(values))))
        eager, slopes = results_and_gradients(operation, values)
        written, own = results_and_gradients(form.build(), values)
        for k, name in enumerate(names):
            if name not in TORCH_IS_OFF:
                agree = same(written[k], eager[k], 1e-6)
                found += [(name, *(g[i].item() for g in grid), "value") for i in (~agree).nonzero().flatten()]
            for j in range(k * len(grid), (k + 1) * len(grid)):
                agree = same(own[j], slopes[j], 1e-6)
                if name in {"nm.sinh", "nm.cosh"}:
                    agree |= grid[0].abs() > 700
                found += [
                    (name, *(g[i].item() for g in grid), own[j][i].item(), slopes[j][i].item())
                    for i in (~agree).nonzero().flatten()
                ]
    return found


def test_values_and_gradients_of_one_operand_are_the_eager_ones(tmp_path):
    assert differences(UNARY | CHOICES, [torch.tensor(EDGES, dtype=torch.float64)], tmp_path) == []


def test_values_and_gradients_of_two_operands_are_the_eager_ones(tmp_path):
    edges = [x for x in EDGES if abs(x) not in (10.0, 20.0, 89.0, 100.0, 745.0, 1e-310)]
    assert differences(BINARY, product(edges), tmp_path) == []


def _torch_has(name):
    if name == "nm.softplus":
        return torch.nn.functional.softplus
    return getattr(torch, name[3:], None) or getattr(torch.special, name[3:])


#: Edges where torch's own formula is off, or where there is no answer: (operand that it is by, where).
OFF_IN_TORCH = {
    ("nm.sinc", 0): lambda x: x.abs() < 1e-6,  # cancels
    ("nm.digamma", 0): lambda x: (x < 0) & x.isfinite(),  # beside its poles
    ("nm.erfcx", 0): lambda x: x.abs() > 20,  # where terms near 1 cancel, or overflow
    ("nm.log_ndtr", 0): lambda x: x < -1e20,  # torch multiplies infinities by 0
    ("nm.i0", 0): torch.isinf,
    ("nm.tanh", 0): lambda x: x.abs() > 9,
    ("nm.atan2", 0): lambda y, x: (y.abs() < 1e-300) & (x.abs() < 1e-300),  # squares vanish
    ("nm.atan2", 1): lambda y, x: (y.abs() < 1e-300) & (x.abs() < 1e-300),
    ("nm.copysign", 0): lambda x, y: x.isinf() | x.isnan() | y.isnan(),
    ("nm.ldexp", 1): lambda x, n: n.isinf(),
}


@pytest.mark.parametrize("count", [1, 2])
def test_derivatives_are_torchs_on_every_edge(count, tmp_path):
    table = {name: text for name, text in (UNARY if count == 1 else BINARY).items() if name[:3] == "nm."}
    grid = [torch.tensor(EDGES, dtype=torch.float64)] if count == 1 else list(product(EDGES))
    off = []
    for names, function in blocks(table, tmp_path):
        operation = numjit.elementwise(function)
        values = grid * len(names)
        kinds = argument_types(operation.functor, values)
        form = lower_with_gradients(operation.functor, kinds, dtypes.float32, tuple(range(len(values))))
        _, slopes = results_and_gradients(form.build(), values)
        for k, name in enumerate(names):
            leaves = [g.clone().requires_grad_() for g in grid]
            try:
                result = _torch_has(name)(*leaves)
                (result.sum() if result.requires_grad else leaves[0].sum() * 0).backward()
            except RuntimeError:  # torch has no derivative: nextafter
                continue
            for j, leaf in enumerate(leaves):
                found = slopes[k * count + j]
                agree = same(found, torch.zeros_like(found) if leaf.grad is None else leaf.grad, 1e-9)
                if (name, j) in OFF_IN_TORCH:
                    agree |= OFF_IN_TORCH[name, j](*grid)
                off += [
                    (name, j, *(g[i].item() for g in grid), found[i].item())
                    for i in (~agree).nonzero().flatten()
                ]
    assert off == []


def test_slopes_that_cancel_or_overflow_in_their_formula_are_exact(device):
    """By mpmath: a functor, its operands, and its derivative by the first."""
    cases = [
        (lambda x: nm.sinc(x), [1e-30], -3.2898681336964528e-30),
        (lambda x: nm.sinc(x), [1e-8], -3.2898681336964524e-08),
        (lambda x: nm.sinc(x), [0.25], -0.7728381398822342),
        (lambda x: nm.asinh(x), [1e200], 1e-200),
        (lambda y, x: nm.atan2(y, x), [1e-200, 1e-200], 5e199),
        (lambda x: nm.softplus(x, 1.0, 1e4), [800.0], 1.0),
        (lambda x: nm.log10(x), [1.7e308], 2.554673422960306e-309),
    ]
    for functor, numbers, wanted in cases:
        operation = numjit.elementwise(functor)
        values = [torch.tensor([n], dtype=torch.float64, device=device, requires_grad=True) for n in numbers]
        (found,) = torch.autograd.grad(operation(*values).sum(), values[:1])
        assert found.item() == pytest.approx(wanted, rel=1e-12, abs=0), numbers


# -------------------------------------------------------------------------- the compiler's whole way


def _kept_apart(x):
    root = nm.sqrt(x)
    return root if x > 0 else 2 * x


def _by_steps(x):
    if x > 1:
        y = nm.log(x - 1)
    elif x > 0:
        y = nm.sqrt(x)
    else:
        y = -x
    for k in range(2):
        y = y * x + k
    return y


FUNCTORS = {
    "where": lambda x: nm.where(x > 0, nm.sqrt(x), x),
    "where of a variable": _kept_apart,
    "if": _by_steps,
    "logit": lambda x: nm.logit(x),
    "extrema": lambda x: max(nm.sqrt(x), min(x, 1.0)),
    "helper": lambda x: _kept_apart(x) * x,
    "power": lambda x: x**x,
    "integer": lambda x: x * math.floor(x) + (x > 1),
}


def _eager_and_compiled(call, values, backend="aot_eager"):
    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend=backend)
    return results_and_gradients(call, values), results_and_gradients(compiled, values)


def assert_alike(one, other):
    for first, second in zip((*one[0], *one[1]), (*other[0], *other[1]), strict=True):
        assert first.dtype == second.dtype
        torch.testing.assert_close(second, first, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_compiled_gradient_is_the_eager_one(device, backend):
    names = FUNCTORS if backend == "aot_eager" else ["where", "where of a variable", "power"]
    operations = {name: numjit.elementwise(FUNCTORS[name]) for name in names}
    x = torch.tensor([-1.0, 0.0, 0.25, 1.0, 2.0, 4.0], device=device)

    def call(*values):
        return tuple(f(value) for f, value in zip(operations.values(), values, strict=True))

    assert_alike(*_eager_and_compiled(call, [x] * len(operations), backend))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_operands_that_are_broadcast_or_narrow_have_their_gradient(device, dtype):
    operation = numjit.elementwise(lambda x, w, *, n=2.0: nm.where(x > w, nm.sqrt(x - w) * n, x))
    x = torch.tensor([[-1.0, 0.0, 3.0], [4.0, 2.5, 0.5]], device=device).to(dtype)
    for w in (torch.tensor([0.5, -1.0, 3.0], device=device).to(dtype), torch.tensor(0.5, dtype=dtype)):
        assert_alike(*_eager_and_compiled(lambda x, w: operation(x, w, n=3.0), [x, w]))


def test_a_scalar_that_is_a_tensor_has_its_gradient(device):
    operation = numjit.elementwise(lambda x, *, a: nm.where(x > a, nm.log(x - a), a))
    x, a = torch.tensor([-1.0, 1.0, 3.0], device=device), torch.tensor(1.0, device=device)
    assert_alike(*_eager_and_compiled(lambda x, a: operation(x, a=a), [x, a]))


def test_clamp_with_tensors_as_bounds_passes_the_gradient_on_as_eager_does(device):
    operation = numjit.elementwise(lambda x, low, high: nm.clamp(x, low, high))
    values = [[1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 4.0, 1.0], [2.0, 2.0, 3.5, 0.5]]
    assert_alike(*_eager_and_compiled(operation, [torch.tensor(v, device=device) for v in values]))


def test_a_result_that_is_not_used_has_no_part_in_the_gradient(device):
    """Neither where the compiler sees that it is not, nor where it is returned and left aside."""
    operation = numjit.elementwise(lambda x: (nm.sqrt(x), nm.where(x > 0, nm.sqrt(x), x), x > 0))
    torch._dynamo.reset()
    compiled = torch.compile(operation.__call__, fullgraph=True, backend="aot_eager")
    inside = torch.compile(lambda x: operation(x)[1], fullgraph=True, backend="aot_eager")
    for call in (lambda x: operation(x)[1], lambda x: compiled(x)[1], inside):
        x = torch.tensor([-1.0, 0.0, 4.0], device=device, requires_grad=True)
        call(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.tensor([1.0, 1.0, 0.25], device=device))


@pytest.mark.parametrize("transform", ["grad", "vmap of grad"])
def test_transforms_inside_of_what_is_compiled(device, transform):
    operation = numjit.elementwise(lambda x: nm.where(x > 0, nm.sqrt(x), x * x))
    x = torch.tensor([-1.0, -0.5, 4.0], device=device)
    call = {
        "grad": torch.func.grad(lambda x: operation(x).sum()),
        "vmap of grad": torch.vmap(torch.func.grad(lambda x: operation(x))),
    }[transform]
    torch._dynamo.reset()
    found = torch.compile(call, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(found, torch.tensor([-2.0, -1.0, 0.25], device=device))
