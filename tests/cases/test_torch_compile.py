"""Functors under torch.compile and torch.export: seen through, or one opaque operator."""

import math
import sys
import threading
import types
import warnings

import pytest

torch = pytest.importorskip("torch")

import numjit
from tests.cases import run_python


@numjit.elementwise
def gelu(x, *, scale=0.5):
    return scale * x * (1 + math.erf(x * 0.7071067811865476))


@numjit.elementwise
def gate(x, y, *, low=0.0):
    if x > low:
        return math.sqrt(x) * y
    return y


@numjit.elementwise
def both(x, y):
    return x + y, x > y


axpy = numjit.elementwise("template <typename T> T axpy(T x, T y, T a) { return a * x + y; }", a=1.0)
kept = numjit.elementwise(lambda x, y, *, a=1.0: a * x + y, opaque=True)
numbered = numjit.elementwise(lambda x, y: x + y + numjit.index())

SEEN = {"gelu": gelu, "gate": gate, "both": both}
OPAQUE = {"c++": axpy, "opaque=True": kept, "index": numbered}


class Graphs:
    """A backend that keeps the graphs it is given, and the aten graphs behind them."""

    def __init__(self):
        self.forward = []

    def __call__(self, graph, inputs):
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd

        def keep(aten, _):
            self.forward.append(aten)
            return make_boxed_func(aten.forward)

        return aot_autograd(fw_compiler=keep)(graph, inputs)

    @property
    def targets(self):
        nodes = [node for graph in self.forward for node in graph.graph.nodes]
        return [str(node.target) for node in nodes if node.op == "call_function"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    graphs = Graphs()
    return torch.compile(function, backend=graphs, fullgraph=True, **options), graphs


def operands(device):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(shape, generator=generator).to(device) for shape in ((4, 6), (6,)))
    return x, y


def arguments(operation, device):
    return operands(device)[: len(operation.functor.signature.operands)]


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    for a, b in zip(*(t if isinstance(t, tuple) else (t,) for t in (one, other)), strict=True):
        assert a.stride() == b.stride()


@pytest.mark.parametrize("name", SEEN)
def test_python_functors_are_seen_through(name, device):
    operation, values = SEEN[name], arguments(SEEN[name], device)
    assert operation.explain(*values) is None
    function, graphs = compiled(lambda *values: operation(*values))
    close(function(*values), operation(*values))
    assert graphs.targets
    assert all(target.startswith("aten.") for target in graphs.targets)


@pytest.mark.parametrize("name", OPAQUE)
def test_what_is_not_seen_through_is_one_operator(name, device):
    operation, values = OPAQUE[name], operands(device)
    reason = operation.explain(*values)
    assert reason
    assert {"c++": "C++", "opaque=True": "opaque", "index": "index"}[name] in reason
    function, graphs = compiled(lambda x, y: torch.relu(operation(x, y)))
    close(function(*values), torch.relu(operation(*values)))
    ours = [target for target in graphs.targets if target.startswith("numjit.")]
    assert len(ours) == 1
    assert sum(target.startswith("aten.") for target in graphs.targets) == 1


@pytest.mark.parametrize("kind", ["elementwise", "differentiable", "jiterator"])
def test_threads_may_import_while_code_is_traced(kind):
    operation = {
        "elementwise": kept,
        "differentiable": numjit.differentiable(gate, lambda grad, x, y: (grad, grad)),
        "jiterator": numjit.jiterator.create_jit_fn("template <typename T> T f(T x, T y) { return x * y; }"),
    }[kind]
    done = threading.Event()

    def come_and_go():
        names = [f"numjit_tests_passing_{k}" for k in range(50)]
        while not done.is_set():
            sys.modules.update({name: types.ModuleType(name) for name in names})
            for name in names:
                del sys.modules[name]

    thread, interval = threading.Thread(target=come_and_go), sys.getswitchinterval()
    thread.start()
    sys.setswitchinterval(1e-6)
    try:
        x = torch.rand(3)
        for _ in range(3):
            torch._dynamo.reset()
            function = torch.compile(lambda x: torch.relu(operation(x, x)), backend="eager", fullgraph=True)
            close(function(x), torch.relu(operation(x, x)))
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()


@pytest.mark.parametrize("operation", [gate, axpy], ids=["seen through", "opaque"])
def test_dynamic_shapes(operation, device):
    y = operands(device)[1]
    function, graphs = compiled(lambda x, y: operation(x * 2, y), dynamic=True)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 6, device=device)
        close(function(x, y), operation(x * 2, y))
    assert len(graphs.forward) == 1


def test_numbers_as_operands_and_scalars(device):
    x, y = operands(device)
    function, _ = compiled(
        lambda x, y: (gate(x, 2, low=1), axpy(x, 3), axpy(2.5, y, a=2), axpy(x, y, a=y.sum()))
    )
    for one, other in zip(
        function(x, y), (gate(x, 2, low=1), axpy(x, 3), axpy(2.5, y, a=2), axpy(x, y, a=y.sum())), strict=True
    ):
        close(one, other)


def test_a_float_that_changes_compiles_twice_and_then_no_more(device):
    x, y = operands(device)
    function, graphs = compiled(lambda x, y, low: gate(x, y, low=low))
    for low in (0.1, 0.2, 0.3, 0.4):
        close(function(x, y, low), gate(x, y, low=low))
    assert len(graphs.forward) == 2


def test_dtypes_are_those_of_the_functor(device):
    x, _ = operands(device)
    for value in (x.half(), x.bfloat16(), x.to(torch.int32), x.to(torch.uint8)):
        function, _ = compiled(lambda x: gelu(x))
        result = function(value)
        assert result.dtype == gelu(value).dtype
        torch.testing.assert_close(
            result, gelu(value), rtol=1e-2 if value.is_floating_point() else 1e-6, atol=0
        )


def test_layouts_are_those_of_the_functor(device):
    x = torch.randn(2, 3, 4, 5, device=device).to(memory_format=torch.channels_last)
    bias = torch.randn(3, 1, 1, device=device)
    for operation in (gate, axpy):
        for values in ((x, bias), (bias, x), (x.transpose(1, 2), x.transpose(1, 2).contiguous())):
            torch._dynamo.reset()
            function, _ = compiled(lambda x, y, operation=operation: operation(x, y))
            close(function(*values), operation(*values))


def test_out(device):
    x, y = operands(device)

    def call(x, y):
        out = torch.empty_like(x)
        assert gate(x, y, out=out) is out
        return out

    function, _ = compiled(call)
    close(function(x, y), gate(x, y))


FACTOR = 2.0


def test_a_captured_number_that_is_rebound_is_seen(device):
    global FACTOR
    operation = numjit.elementwise(lambda x: x * FACTOR)
    x = operands(device)[0]
    function, _ = compiled(lambda x: operation(x))
    try:
        for factor in (2.0, 3.0, 4.0, 5.0):
            FACTOR = factor
            close(function(x), x * factor)
    finally:
        FACTOR = 2.0


def test_gradients_are_those_of_the_torch_form(device):
    def run(function):
        x, y = (t.double().requires_grad_() for t in operands(device))
        function(x, y).sum().backward()
        return x.grad, y.grad

    function, _ = compiled(lambda x, y: gate(x, y))
    x_grad, y_grad = run(function)
    x, y = (t.double() for t in operands(device))
    positive = x > 0
    wanted = torch.where(positive, y / (2 * x.abs().sqrt()), 0.0)
    torch.testing.assert_close(x_grad, wanted)
    torch.testing.assert_close(y_grad, torch.where(positive, x.abs().sqrt(), 1.0).sum(0))
    assert x_grad.isfinite().all()


@pytest.mark.parametrize("operation", [gelu, axpy], ids=["seen through", "opaque"])
def test_inductor(operation, device):
    values = arguments(operation, device)
    function = torch.compile(lambda *values: torch.relu(operation(*values)) + 1, fullgraph=True)
    close(function(*values), torch.relu(operation(*values)) + 1)


def test_inductor_trains(device):
    x, y = (t.requires_grad_() for t in operands(device))
    function = torch.compile(lambda x, y: gate(x, y).sum(), fullgraph=True)
    function(x, y).backward()
    torch.testing.assert_close(y.grad, torch.where(x > 0, x.detach().abs().sqrt(), 1.0).sum(0))


def test_gradients_by_hand_compile(device):
    swish = numjit.elementwise(
        "template <typename T> T swish(T x, T b) { return x / (1 + exp(-b * x)); }", b=1.0
    )

    @numjit.elementwise
    def backward(grad, x, *, b=1.0):
        s = 1 / (1 + math.exp(-b * x))
        return grad * (s + b * x * s * (1 - s))

    trainable = numjit.differentiable(swish, backward)
    x = operands(device)[0].requires_grad_()
    function, graphs = compiled(lambda x: trainable(x, b=1.5).sum())
    function(x).backward()
    (wanted,) = torch.autograd.grad((x * torch.sigmoid(1.5 * x)).sum(), x)
    torch.testing.assert_close(x.grad, wanted)
    assert any(target.startswith("numjit.swish") for target in graphs.targets)


def test_jiterator_compiles_and_detaches(device):
    from numjit.jiterator import create_jit_fn

    operation = create_jit_fn("template <typename T> T f(T x, T y, T a) { return a * x + y; }", a=1)
    x, y = operands(device)
    function, _ = compiled(lambda x, y: operation(x, y, a=3) * 2)
    close(function(x.requires_grad_(), y).detach(), operation(x, y, a=3) * 2)
    assert not function(x, y).requires_grad


# --------------------------------------------------------------------------------------------- export


class Module(torch.nn.Module):
    def __init__(self, operation):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(6))
        self.operation = operation

    def forward(self, x):
        return self.operation(x, self.weight)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("operation", [gate, kept], ids=["seen through", "opaque"])
def test_export(operation, strict, device):
    module = Module(operation).to(device)
    x = operands(device)[0]
    rows = torch.export.Dim("rows", min=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module, (x,), dynamic_shapes=({0: rows},), strict=strict)
    targets = {str(node.target) for node in exported.graph.nodes if node.op == "call_function"}
    assert any(target.startswith("numjit.") for target in targets) == (operation is kept)
    for value in (x, torch.randn(9, 6, device=device)):
        close(exported.module()(value), module(value).detach())
    lowered = exported.run_decompositions()
    close(lowered.module()(x), module(x).detach())


# --------------------------------------------------------------------------------- what explain answers


FIRST = """
import math, sys
import torch
import numjit

@numjit.elementwise
def gate(x, y):
    if x > 0:
        return x * y
    return y - x

class Module(torch.nn.Module):
    def forward(self, x, y):
        return gate(x, y) + 1

x, y = torch.tensor([-1.0, 2.0]), torch.tensor([3.0, 1.0])
rows = torch.export.Dim("rows", min=2)
shapes = ({0: rows}, {0: rows})
exported = torch.export.export(Module(), (x, y), dynamic_shapes=shapes, strict=sys.argv[1] == "True")
power = numjit.elementwise(lambda x, y: math.pow(max(x, y), 2.0))
print([call(x, y).tolist() for call in (exported.module(), gate, power)])
"""


@pytest.mark.parametrize("strict", [True, False])
def test_an_export_may_be_the_first_thing_that_happens(strict, tmp_path):
    """torch.export replaces functions of Python, also while numjit's compilers are first imported."""
    program = tmp_path / "program.py"  # a functor is seen through where its source is found
    program.write_text(FIRST, encoding="utf-8")
    done = run_python(
        "import runpy, sys; runpy.run_path(sys.argv.pop(1))", program, strict, NUMJIT_CACHE_DIR=tmp_path
    )
    assert done.stdout.strip() == "[[5.0, 3.0], [4.0, 2.0], [9.0, 4.0]]"


def test_explain_checks_the_arguments():
    with pytest.raises(numjit.errors.ArgumentError):
        gelu.explain()
    assert "raw" in numjit.elementwise(_gather).explain(torch.ones(3), torch.ones(3))
    assert "no operand" in gelu.explain(2.0)


def _gather(x, table: numjit.raw):
    return table[int(x)]


def test_a_call_without_tensors_breaks_the_graph_and_answers():
    ramp = numjit.elementwise(lambda *, step=1.0: step * numjit.index())
    function = torch.compile(lambda x: x + ramp(shape=3), backend="eager")
    assert function(torch.zeros(3)).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ["c++", "opaque=True", "operator"])
def test_opaque_operators_train_under_the_compiler(name, dynamic, device):
    """The backward is a derived operator in the compiled graph, without a graph break either."""
    operation = OPAQUE.get(name) or numjit.torch_op("numjit_tests::trained", axpy)
    torch._dynamo.reset()
    x, y = (torch.randn(5, device=device, requires_grad=True) for _ in range(2))
    compiled = torch.compile(
        lambda x, y: torch.relu(operation(x * 2, y)) + 1, fullgraph=True, backend="aot_eager", dynamic=dynamic
    )
    result, wanted = compiled(x, y), torch.relu(x * 2 + y) + 1
    torch.testing.assert_close(result, wanted)
    weight = torch.linspace(1, 2, 5, device=device)
    for got, want in zip(
        torch.autograd.grad(result, (x, y), weight), torch.autograd.grad(wanted, (x, y), weight), strict=True
    ):
        torch.testing.assert_close(got, want)
