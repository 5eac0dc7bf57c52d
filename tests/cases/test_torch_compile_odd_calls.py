"""Under ``torch.compile`` a call that has no graph is made as an eager one: same answer, same error."""

import warnings

import numpy as np
import pytest
import torch

import numjit
from numjit.errors import NumjitError
from tests.cases import KINDS, both_kinds
from tests.support.tiers import pairs

TEXT = "template <typename T> T f(T x, T y) { return x * T(2) + y; }"


def functor(kind):
    return numjit.elementwise(TEXT) if kind == "c++" else numjit.elementwise(lambda x, y: x * 2 + y)


def ramp(kind):
    if kind == "c++":
        return numjit.elementwise("float f(numjit::index i) { return i; }")
    return numjit.elementwise(lambda: numjit.index() * 1.0)


#: By name: what makes the call, given the functor and a tensor of three ones.
CALLS = {
    "an array as an operand": lambda f, x: f(x, np.full(3, 2.0, np.float32)),
    "arrays alone": lambda f, x: f(np.ones(3, np.float32), np.ones(3, np.float32)),
    "a NumPy number": lambda f, x: f(x, np.float64(2)),
    "a list": lambda f, x: f(x, [1, 2, 3]),
    "text": lambda f, x: f(x, "2"),
    "numbers alone": lambda f, x: f(1.0, 2.0),
    "an array as out": lambda f, x: f(x, x, out=np.empty(3, np.float32)),
    "a list as out": lambda f, x: f(x, x, out=[x]),
    "out of another shape": lambda f, x: f(x, x, out=torch.empty(4, device=x.device)),
    "out of a dtype that takes no floats": lambda f, x: f(x, x, out=x.to(torch.int32)),
    "two outs": lambda f, x: f(x, x, out=(torch.empty_like(x), torch.empty_like(x))),
    "an operand too few": lambda f, x: f(x),
    "an operand too many": lambda f, x: f(x, x, x),
    "an unknown keyword": lambda f, x: f(x, x, gamma=1),
}  # fmt: skip


def outcome(call, f, x):
    """Return what a call answers or raises, in a form that can be compared."""
    try:
        result = call(f, x)
    except NumjitError as error:
        return type(error).__name__, str(error)
    return type(result).__name__, str(result.dtype), result.tolist()


@pytest.mark.parametrize(("name", "kind"), pairs(CALLS, KINDS))
def test_a_call_without_a_graph_is_an_eager_one(name, kind, device):
    if device == "cuda" and "array" in name:
        pytest.skip("NumPy's arrays are on the CPU")
    call, f, x = CALLS[name], functor(kind), torch.ones(3, device=device)
    expected = outcome(call, f, x)
    torch._dynamo.reset()
    compiled = torch.compile(lambda f, x: call(f, x * 1), backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert outcome(compiled, f, x) == expected


@both_kinds
def test_a_functor_without_operands_is_called_as_it_is(kind, device):
    f = ramp(kind)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: f(shape=4, device=device) + x, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert compiled(torch.ones(4, device=device)).tolist() == [1, 2, 3, 4]


@both_kinds
def test_a_functor_compiled_by_itself_is_traced(kind, device):
    seen = []

    def backend(graph, _):
        seen.append(graph)
        return graph.forward

    torch._dynamo.reset()
    f, x = functor(kind), torch.ones(3, device=device)
    with pytest.raises(NumjitError):
        torch.compile(lambda f, x: f(x, x, out=[x]), backend="eager")(f, x)
    for call in (f, f.__call__):
        torch._dynamo.reset()
        assert torch.compile(call, backend=backend, fullgraph=True)(x, x).tolist() == [3, 3, 3]
    assert len(seen) == 2


@both_kinds
def test_the_code_around_such_a_call_stays_compiled(kind, device):
    graphs = []

    def backend(graph, _):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op.startswith("call")])
        return graph.forward

    f = functor(kind)
    torch._dynamo.reset()

    def around(x):
        made = f((x + 1).sin(), np.float64(2))
        return made.cos() * 2

    result = torch.compile(around, backend=backend)(torch.ones(3, device=device))
    assert torch.allclose(result, around(torch.ones(3, device=device)))
    assert len(graphs) == 2, graphs


@both_kinds
def test_fullgraph_says_which_argument(kind, device):
    f = functor(kind)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="numjit has no graph of a call"):
        torch.compile(lambda x: f(x, [1]), backend="eager", fullgraph=True)(torch.ones(3, device=device))
