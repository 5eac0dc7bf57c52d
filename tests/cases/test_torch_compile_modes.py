"""torch.compile's modes: compiled code answers as an eager call does, also from a replayed CUDA graph."""

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.torch.operator import opaque_op
from numjit.torch.watched import derived
from tests.cases import run_python
from tests.support.tiers import mostly_slow

#: Whether torch records CUDA graphs in a mode, on a GPU.
MODES = {"default": False, "reduce-overhead": True, "max-autotune-no-cudagraphs": False, "max-autotune": True}
#: Shapes of the calls: the first call runs as it is, the second is recorded, the others are replayed.
STATIC, DYNAMIC = ((6, 8),) * 5, ((6, 8),) * 4 + ((10, 8),) * 4


@numjit.elementwise
def seen(x, y, *, scale=0.5):
    if x > 0:
        return scale * math.sin(x) * y
    return x * y - scale


kept = numjit.elementwise(lambda x, y, *, a=1.5: a * x * y + math.cos(x), opaque=True)
cpp = numjit.elementwise("template <typename T> T blend(T x, T y, T a) { return a * x * y + x * x; }", a=0.5)
registered = numjit.torch_op("numjit_tests::modes", lambda x, y, *, a=0.5: x * y * y - a * x)


def chain(x, y):
    return registered(cpp(kept(seen(x, y), y), y), y)


OPERATIONS = {"seen through": seen, "opaque": kept, "c++": cpp, "operator": registered}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def layer(operation):
    return lambda x, y: torch.relu(operation(x * 2, y)) + 1


def inputs(shape, seed, device, *, requires_grad):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(size, generator=generator).to(device).requires_grad_(requires_grad)
        for size in (shape, shape[-1:])
    ]


def answers(function, x, y):
    """Return copies of result and gradients, if there are any: a replay writes the same memory."""
    result = function(x, y)
    if not x.requires_grad:
        return [result.clone()]
    weight = torch.linspace(1, 2, result.numel(), device=x.device).reshape(result.shape)
    gradients = torch.autograd.grad(result, (x, y), weight)
    return [tensor.detach().clone() for tensor in (result, *gradients)]


def check(operation, mode, device, *, training, dynamic):
    """Call with new data each time, and compare with eager calls; nothing may break the graph."""
    counters = torch._dynamo.utils.counters
    eager = layer(operation)
    compiled = torch.compile(eager, mode=mode, fullgraph=True, dynamic=dynamic)
    for seed, shape in enumerate(DYNAMIC if dynamic else STATIC):
        x, y = inputs(shape, seed, device, requires_grad=training)
        torch.compiler.cudagraph_mark_step_begin()
        found = answers(compiled, x, y)
        torch.testing.assert_close(found, answers(eager, x, y), rtol=1e-4, atol=1e-4)
    assert counters["stats"]["unique_graphs"] == 1
    if device == "cuda" and MODES[mode]:
        assert counters["inductor"]["cudagraph_skips"] == 0
        assert recorded_graphs() >= (1 + training) * (1 + dynamic)


def recorded_graphs():
    """How many graphs torch has recorded; where it cannot, it does not always count that as skipped."""
    from torch._inductor.cudagraph_trees import get_container

    manager = get_container(torch.cuda.current_device()).tree_manager
    return 0 if manager is None else manager.new_graph_id().id


@pytest.mark.parametrize(
    ("name", "mode", "training", "dynamic"),
    mostly_slow(
        list(itertools.product(OPERATIONS, ["default", "reduce-overhead"], [False, True], [False, True])),
        lambda given: (
            given[1:] == ("default", True, True) or given == ("opaque", "reduce-overhead", True, False)
        ),
    ),
)
def test_modes(mode, name, training, dynamic, device):
    check(OPERATIONS[name], mode, device, training=training, dynamic=dynamic)


@pytest.mark.parametrize(
    ("mode", "dynamic"),
    mostly_slow(
        [
            (mode, dynamic)
            for mode in ("max-autotune", "max-autotune-no-cudagraphs")
            for dynamic in (False, True)
        ],
        lambda given: given == ("max-autotune", False),
    ),
)
def test_tuned_modes(mode, dynamic, device):
    """All kinds of functors in one graph, forward and backward: tuning takes its time for every kernel."""
    check(chain, mode, device, training=True, dynamic=dynamic)


# ---------------------------------------------------------------------------------------- dynamic shapes


def graph_inputs(operation, *values):
    """The shapes of what goes into the graph of a call with dynamic shapes; a number has none."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    found = []

    def keep(graph, inputs):
        found.extend(tuple(value.shape) if isinstance(value, torch.Tensor) else None for value in inputs)
        return make_boxed_func(graph.forward)

    compiled = torch.compile(operation, backend=aot_autograd(fw_compiler=keep), fullgraph=True, dynamic=True)
    torch.testing.assert_close(compiled(*values), operation(*values))
    return found


DEFAULTS = {"float": 1.5, "int": 3, "bool": True, "numpy": np.float64(2.5), "numpy int": np.int32(7)}


@pytest.mark.parametrize("opaque", [False, True], ids=["seen through", "opaque"])
@pytest.mark.parametrize("kind", DEFAULTS)
def test_defaults_are_constants_of_the_graph(kind, opaque, device):
    """As an input a float would be a tensor on the CPU, which no CUDA graph can hold."""
    operation = numjit.elementwise(lambda x, y, *, a: x * y + a, opaque=opaque, a=DEFAULTS[kind])
    x, y = inputs((6, 8), 0, device, requires_grad=False)
    shapes = graph_inputs(lambda x, y: operation(x, y), x, y)
    assert [shape for shape in shapes if shape is not None] == [(6, 8), (8,)]
    assert len(shapes) == 4  # and the two sizes


LAYOUTS = {
    "transposed": lambda n: (torch.randn(n, 8).t(), torch.randn(n, 8).t()),
    "transposed and not": lambda n: (torch.randn(n, 8).t(), torch.randn(8, n)),
    "row": lambda n: (torch.randn(n, 8), torch.randn(8)),
    "permuted": lambda n: tuple(torch.randn(n, 5, 6).permute(2, 0, 1) for _ in range(2)),
    "channels last": lambda n: (
        torch.randn(2, n, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(n, 1, 1),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("functor", [lambda x, y: x * y, lambda x, y: x], ids=["new", "an operand"])
def test_layouts_with_dynamic_shapes(functor, layout, device):
    operation = numjit.elementwise(functor)
    compiled = torch.compile(lambda x, y: operation(x, y), backend="aot_eager", fullgraph=True, dynamic=True)
    for size in (10, 11):
        values = [value.to(device) for value in LAYOUTS[layout](size)]
        found, wanted = compiled(*values), operation(*values)
        torch.testing.assert_close(found, wanted)
        assert found.stride() == wanted.stride()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


# ------------------------------------------------------------------------------------ torch's cache on disk

TRAIN = """
import sys
import torch
import numjit

text = "template <typename T> T kept(T x, T y, T a) { return a * x * y + x * x; }"
cpp = numjit.elementwise(text, a=0.5)
python = numjit.elementwise(lambda x, y, *, a=1.5: a * x * y - 7 * x, opaque=True)
operator = numjit.torch_op("numjit_tests::kept", lambda x, y: x * y * y)
both = numjit.elementwise("template <typename T> void both(T x, T& s, T& d) { s = x * x; d = x - 1; }")
by_hand = numjit.elementwise(lambda x: x * x, opaque=True)
by_hand.backward(numjit.elementwise(lambda grad, x: 5 * grad * x, opaque=True))

def layer(x, y, a):
    return operator(python(cpp(x, y, a=a), 2.0) + cpp(x, 3.0), y) + both(x)[0] + by_hand(y)

compiled = torch.compile(layer, fullgraph=True)
tensors = [torch.linspace(-1, k, 5, device=sys.argv[1]).requires_grad_() for k in (1, 2)]
tensors.append(torch.tensor(2.0, device=sys.argv[1], requires_grad=True))
found, wanted = (torch.autograd.grad(f(*tensors).sum(), tensors) for f in (compiled, layer))
torch.testing.assert_close(found, wanted)
print("hits", torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""


@pytest.mark.slow
def test_a_backward_from_torch_s_cache(device, tmp_path):
    """It names operators of gradients, which the process that takes it from the disk has not made."""
    folders = {"TORCHINDUCTOR_CACHE_DIR": tmp_path, "TORCHINDUCTOR_AUTOGRAD_CACHE": 1}
    first, second = (run_python(TRAIN, device, **folders).stdout.split() for _ in range(2))
    assert first == ["hits", "0"]
    if second == first:
        pytest.skip("this torch keeps no compiled backward")
    assert second == ["hits", "1"]


def test_what_is_no_gradient_is_still_missing():
    for name in ("nothing", "kept_vjp_0123456789abcdef", "modes_vjp_01_2", "_private"):
        assert not hasattr(torch.ops.numjit, name)


def größe(a, b, c, d, e):  # noqa: PLC2401 - torch's operators have no such names
    return a * b + c, d * e


WIDE = {
    "python": lambda: größe,
    "c++": lambda: (
        "template <class T> void wide(T a, T b, T c, T d, T e, T& s, T& t) { s = a * b; t = c * d * e; }"
    ),
}


@pytest.mark.parametrize("kind", WIDE)
def test_the_gradient_that_a_name_tells_is_the_only_one_that_is_derived(kind):
    operation, other = (numjit.elementwise(WIDE[kind]()) for _ in range(2))
    wanted = opaque_op(derived(other.__numjit_operation__, "vjp", (0, 4), (True, False)))
    name = wanted.name.rpartition(":")[2]
    wanted.remove()
    opaque_op(operation.__numjit_operation__)
    places = f"_{0b01:x}_{0b10001:x}_"
    assert places in name
    for missing in (name.replace(places, "_"), name[:-16] + "0" * 16, name.replace(places, "_1_ff_")):
        assert not hasattr(torch.ops.numjit, missing)
    assert getattr(torch.ops.numjit, name).default._schema.name == f"numjit::{name}"
    assert len(operation.__numjit_operation__.derivatives) <= 2  # by (0, 4), and by all that there is of ff


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*:DeprecationWarning")
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("training", [False, True])
def test_torch_jit_trace(name, training, device):
    """Also of calls that the launcher answers otherwise, which are those that were made before."""
    from numjit.launcher.attach import wait

    function = layer(OPERATIONS[name])
    x, y = inputs((6, 8), 0, device, requires_grad=training)
    for _ in range(4):
        function(x, y)
    if device == "cuda":
        assert wait()
        for _ in range(3):
            function(x, y)
    traced = torch.jit.trace(function, (x, y))
    assert sum("numjit" in node.kind() for node in traced.graph.nodes()) == 1
    for seed, shape in ((1, (6, 8)), (2, (3, 8))):
        x, y = inputs(shape, seed, device, requires_grad=training)
        torch.testing.assert_close(answers(traced, x, y), answers(function, x, y))
