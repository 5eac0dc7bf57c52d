"""torch's overrides and recorders: classes, objects, modes, torch.fx, make_fx see a functor's call as one."""

import copy
import itertools
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

import numjit
import numjit.jiterator
from tests.cases import KINDS, SCALED, SUM_AND_DIFFERENCE, run_python
from tests.support.tiers import pairs


class Subclass(torch.Tensor):
    """One that keeps itself, as torch's classes do by default."""


class Listed:
    """No tensor, but it has a say."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types, args, kwargs


class Unwilling(torch.Tensor):
    """A class that leaves every function to others."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Recorder(TorchFunctionMode):
    """Keeps what it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append((func, types, args, kwargs))
        return func(*args, **(kwargs or {}))


@numjit.elementwise
def importable(x, y, *, alpha=1):
    return alpha * x + y


imported = numjit.elementwise(
    "template <typename T> T imported(T x, T y, T alpha) { return alpha * x + y; }", alpha=1
)
FOR_PICKLES = {"python": importable, "c++": imported}


def operands(device, dtype=torch.float64):
    return [torch.rand(6, dtype=dtype, device=device) for _ in range(2)]


def warmed(function, device):
    """The function, after it has answered a plain call of the same layout twice."""
    for _ in range(2):
        function(*operands(device))
    return function


def callables(kind):
    """Everything that is called as a functor is, and what it computes."""
    functor = SCALED[kind]
    text = "template <typename T> T jitted(T x, T y, T alpha) { return alpha * x + y; }"
    return {
        "functor": (functor, lambda x, y: x + y),
        "by hand": (
            numjit.differentiable(functor, lambda grad, x, y: (grad * 2, grad * 3)),
            lambda x, y: x + y,
        ),
        "jiterator": (numjit.jiterator.create_jit_fn(text, alpha=1.0), lambda x, y: x + y),
        "value and gradient": (numjit.value_and_grad(functor, "x"), lambda x, y: (x + y, torch.ones_like(x))),
    }


@pytest.mark.parametrize("name", callables("python"))
@pytest.mark.parametrize("kind", KINDS)
def test_a_subclass_stays_itself(kind, name, device):
    function, wanted = callables(kind)[name]
    x, y = operands(device)
    cold = function(x.as_subclass(Subclass), y)
    warmed(function, device)
    for result in (cold, function(x.as_subclass(Subclass), y), function(x, y.as_subclass(Subclass))):
        for one, right in zip(
            *(r if isinstance(r, tuple) else (r,) for r in (result, wanted(x, y))), strict=True
        ):
            assert type(one) is Subclass
            torch.testing.assert_close(one.as_subclass(torch.Tensor), right)
    assert not isinstance(function(x, y), Subclass)


@pytest.mark.parametrize("kind", KINDS)
def test_a_subclass_as_scalar_and_as_output(kind, device):
    functor = warmed(SCALED[kind], device)
    x, y = operands(device)
    alpha = torch.tensor(2.0, dtype=torch.float64).as_subclass(Subclass)
    assert type(functor(x, y, alpha=alpha)) is Subclass
    for first, out in (
        (x, torch.empty_like(x).as_subclass(Subclass)),
        (x.as_subclass(Subclass), torch.empty_like(x)),
    ):
        result = functor(first, y, out=out, alpha=2.0)
        assert type(result) is Subclass
        torch.testing.assert_close(out.as_subclass(torch.Tensor), 2 * x + y)
    both = SUM_AND_DIFFERENCE[kind](x.as_subclass(Subclass), y)
    assert [type(one) for one in both] == [Subclass, Subclass]


@pytest.mark.parametrize("kind", KINDS)
def test_a_subclass_has_gradients_of_every_order(kind, device):
    def compute(functor, cls):
        x = torch.linspace(0.5, 2, 6, dtype=torch.float64, device=device)
        x = x.as_subclass(cls).requires_grad_()
        y = torch.full_like(x, 3.0)
        first = torch.autograd.grad(functor(x * x, y).sin().sum(), x, create_graph=True)[0]
        return first, torch.autograd.grad(first.sum(), x)[0]

    wanted = compute(lambda x, y: x + y, torch.Tensor)
    for found, right in zip(compute(SCALED[kind], Subclass), wanted, strict=True):
        torch.testing.assert_close(found.as_subclass(torch.Tensor), right)


@pytest.mark.parametrize("kind", KINDS)
def test_any_object_is_asked_with_what_was_called(kind, device):
    functor = warmed(SCALED[kind], device)
    x, y = operands(device)
    mine = Listed()
    func, types, args, kwargs = functor(mine, y)
    assert func is functor
    assert types == (Listed, torch.Tensor)  # torch names its own class too
    assert args[0] is mine
    assert args[1] is y
    assert kwargs == {}
    func, types, args, kwargs = functor(x, y, alpha=mine)
    assert func is functor
    assert set(types) == {Listed, torch.Tensor}
    assert len(args) == 2
    assert kwargs == {"alpha": mine}
    assert functor(x=mine, y=2.0)[2:] == ((), {"x": mine, "y": 2.0})
    assert functor(x, y, out=mine)[3] == {"out": mine}
    nothing = numjit.elementwise(lambda: 1.0)
    assert nothing(shape=(2,), like=mine) == (nothing, (Listed,), (), {"shape": (2,), "like": mine})


def test_a_class_that_leaves_it_to_others_has_torch_s_own_error(device):
    x, y = operands(device)
    with pytest.raises(TypeError, match=r"no implementation found for .*scaled"):
        SCALED["python"](x.as_subclass(Unwilling), y)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_plain_as_in_torch(kind, device):
    x, y = operands(device)
    assert type(SCALED[kind](torch.nn.Parameter(x), y)) is torch.Tensor


@pytest.mark.parametrize("name", callables("python"))
@pytest.mark.parametrize("kind", KINDS)
def test_a_mode_sees_one_call_and_no_look_at_tensors(kind, name, device):
    function, _ = callables(kind)[name]
    x, y = operands(device)
    for state in ("cold", "warm", "warm"):
        with Recorder() as mode:
            result = function(x, y)
        assert [func for func, *_ in mode.seen] == [function], state
        assert mode.seen[0][2][0] is x
        assert mode.seen[0][3] == {}
        assert not isinstance(result, Subclass)
        warmed(function, device)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mode_sees_nothing_of_out_gradients_and_nullary_calls_but_the_call(kind, device):
    functor = warmed(SCALED[kind], device)
    x, y = operands(device)
    out = torch.empty_like(x)
    with Recorder() as mode:
        functor(x, y, out=out)
    assert [(func, kwargs) for func, _, _, kwargs in mode.seen] == [(functor, {"out": out})]
    x.requires_grad_()
    total = functor(x, y).sum()
    grad = torch.ones_like(total)
    with Recorder() as mode:
        torch.autograd.grad(total, x, grad)
    assert [func for func, *_ in mode.seen if func is not torch.autograd.grad] == []
    nothing = numjit.elementwise(lambda: 1.0)
    with Recorder() as mode:
        nothing(shape=(2,), device=device, like=None)
    assert [(func, kwargs) for func, _, _, kwargs in mode.seen] == [
        (nothing, {"shape": (2,), "device": device})
    ]


class Watching(torch.Tensor):
    """Keeps what it is asked about."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        asked.append(func)
        return super().__torch_function__(func, types, args, kwargs)


asked = []


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_is_asked_about_the_call_and_not_about_its_gradient(kind, device):
    x, y = operands(device)
    x.requires_grad_()
    watching = x.as_subclass(Watching)
    asked.clear()
    result = SCALED[kind](watching, y, alpha=3.0)
    assert asked == [SCALED[kind]]
    plain = result.as_subclass(torch.Tensor)
    asked.clear()
    assert torch.autograd.grad(plain.sum(), x)[0].tolist() == [3.0] * 6
    assert asked == []


@pytest.mark.parametrize("kind", KINDS)
def test_modes_within_modes_each_see_the_call(kind, device):
    functor = warmed(SCALED[kind], device)
    x, y = operands(device)
    with Recorder() as outer, Recorder() as inner:
        torch_function = functor(x, y.as_subclass(Subclass))
    assert [func for func, *_ in inner.seen] == [functor]
    assert [func for func, *_ in outer.seen] == [functor]
    assert Subclass in inner.seen[0][1]
    assert type(torch_function) is Subclass


def test_an_operator_is_seen_by_its_overload(device):
    operator = numjit.torch_op("numjit_tests::overridden", SCALED["python"])
    x, y = operands(device)
    assert type(operator(x.as_subclass(Subclass), y)) is Subclass
    with Recorder() as mode:
        operator(x, y)
    assert [func for func, *_ in mode.seen] == [operator.op]
    assert operator(Listed(), y)[0] is operator.op
    assert operator(x, y, alpha=Listed())[0] is operator.op


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_device_changes_no_answer(kind, device):
    functor = warmed(SCALED[kind], device)
    x, y = operands(device)
    with torch.device("meta"):
        torch.testing.assert_close(functor(x, y), x + y)
        torch.testing.assert_close(functor(x, y, out=x.new_empty(6)), x + y)
    array = np.float32([1, 2])
    with torch.device("meta"):
        np.testing.assert_array_equal(functor(array, array), array + array)


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_tensor_says_itself_that_it_cannot(kind, device):
    from torch.masked import masked_tensor

    x, y = operands(device)
    masked = masked_tensor(x, x > 0.5)
    with pytest.raises((TypeError, NotImplementedError, AttributeError, ValueError)):
        SCALED[kind](masked, y)
    torch.testing.assert_close(SCALED[kind](x, y), x + y)


@pytest.mark.parametrize("kind", KINDS)
def test_a_subclass_under_torch_compile(kind, device):
    functor = SCALED[kind]
    compiled = torch.compile(lambda x, y: functor(x, y) * 2, fullgraph=True, backend="eager")
    x, y = operands(device)
    result = compiled(x.as_subclass(Subclass), y)
    assert type(result) is Subclass
    torch.testing.assert_close(result.as_subclass(torch.Tensor), 2 * (x + y))


# ----------------------------------------------------------------------------------------- torch.fx


@pytest.mark.parametrize("kind", KINDS)
def test_symbolic_trace_records_the_functor(kind, device):
    functor = FOR_PICKLES[kind]
    x, y = operands(device)
    traced = torch.fx.symbolic_trace(lambda x, y: functor(x, y, alpha=2.0) + 1)
    calls = [node for node in traced.graph.nodes if node.op == "call_function"]
    assert calls[0].target is functor
    for module in (traced, pickle.loads(pickle.dumps(traced)), copy.deepcopy(traced)):
        torch.testing.assert_close(module(x, y), 2 * x + y + 1)
    x.requires_grad_()
    assert torch.autograd.grad(traced(x, y).sum(), x)[0].tolist() == [2.0] * 6


def test_symbolic_trace_records_a_lambda(device):
    functor = numjit.elementwise(lambda x: x * 2)
    x, _ = operands(device)
    traced = torch.fx.symbolic_trace(lambda x: functor(x) + 1)
    assert functor in [node.target for node in traced.graph.nodes]
    torch.testing.assert_close(traced(x), 2 * x + 1)


def test_symbolic_trace_records_an_operator_s_overload_of_tensors(device):
    operator = numjit.torch_op("numjit_tests::traced", FOR_PICKLES["python"])
    x, y = operands(device)
    traced = torch.fx.symbolic_trace(lambda x, y: operator(x, y, alpha=2.0) + 1)
    calls = [node for node in traced.graph.nodes if node.op == "call_function"]
    assert calls[0].target is operator.op
    for module in (traced, pickle.loads(pickle.dumps(traced))):
        torch.testing.assert_close(module(x, y), 2 * x + y + 1)


# ------------------------------------------------------------------------------------------ make_fx

_SHAPES = pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
_PRE_DISPATCH = pytest.mark.parametrize("pre_dispatch", [False, True], ids=["", "pre_dispatch"])


def recorded(graph):
    """The operators of numjit's in a graph; there is no empty tensor that nothing has filled."""
    targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert torch.ops.aten.empty_strided.default not in targets
    return [target for target in targets if getattr(target, "namespace", "").startswith("numjit")]


@pytest.mark.parametrize(
    ("form", "way"),
    pairs(
        ["one", "several", "scalar", "out", "operator", "jiterator"],
        list(itertools.product(KINDS, ["real", "fake", "symbolic"], [False, True])),
    ),
    ids=str,
)
def test_make_fx_records_the_call(form, way, device):
    kind, mode, pre_dispatch = way
    operator = numjit.torch_op(f"numjit_tests::recorded_{kind[0]}", SCALED[kind])
    jitted = callables(kind)["jiterator"][0]
    functions = {
        "one": lambda x, y: SCALED[kind](x, y) * 2,
        "several": lambda x, y: SUM_AND_DIFFERENCE[kind](x, y)[1] * 2,
        "scalar": lambda x, y: SCALED[kind](x, y, alpha=2.5) * 2,
        "out": lambda x, y: SCALED[kind](x, y, out=torch.zeros_like(x)) * 2,
        "operator": lambda x, y: operator(x, y) * 2,
        "jiterator": lambda x, y: jitted(x, y) * 2,
    }
    function = functions[form]
    for _ in range(2):  # as cold, so warm
        graph = make_fx(function, tracing_mode=mode, pre_dispatch=pre_dispatch)(*operands(device))
        assert len(recorded(graph)) == 1
        x, y = operands(device)
        torch.testing.assert_close(graph(x, y), function(x, y))


@_PRE_DISPATCH
@_SHAPES
@pytest.mark.parametrize("kind", KINDS)
def test_make_fx_records_a_gradient(kind, mode, pre_dispatch, device):
    def gradient(x, y):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((SCALED[kind](x * x, y) ** 2).sum(), x)[0]

    warmed(SCALED[kind], device)
    graph = make_fx(gradient, tracing_mode=mode, pre_dispatch=pre_dispatch)(*operands(device))
    assert len(recorded(graph)) == 2
    x, y = operands(device)
    torch.testing.assert_close(graph(x, y), 4 * x * (x * x + y))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_program_gives_the_answer(kind, strict, device):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return SCALED[kind](x, y, alpha=2.0) + 1

    x, y = operands(device)
    program = torch.export.export(Model(), (x, y), strict=strict)
    x, y = operands(device)
    torch.testing.assert_close(program.module()(x, y), 2 * x + y + 1)


def test_without_torch_nobody_is_asked():
    code = """
        import sys
        sys.modules["torch"] = None
        import numpy as np, numjit
        class Listed:
            __array_interface__ = np.ones(2).__array_interface__
            __torch_function__ = classmethod(lambda *a: 1 / 0)
        f = numjit.elementwise(lambda x, y: x + y)
        print(f(np.ones(2), np.ones(2)))
    """
    assert run_python(code).stdout.strip() == "[2. 2.]"
