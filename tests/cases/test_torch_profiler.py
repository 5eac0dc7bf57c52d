"""What torch's profiler shows of numjit: calls of functors by name, on the host, whoever answers them."""

import math
import warnings

import pytest

torch = pytest.importorskip("torch")

import numpy as np

import numjit
from numjit import jiterator
from numjit.launcher import attach


@numjit.elementwise
def profiled_gate(x, y, *, scale=1.0):
    return scale * x * math.exp(-y)


SEEN = "numjit::profiled_gate"
seen_cpp = numjit.elementwise("template <typename T> T profiled_cpp(T x) { return x * x; }")
jitted = jiterator.create_jit_fn("template <typename T> T profiled_twice(T x) { return x + x; }")


@pytest.fixture
def operands(device):
    found = [torch.rand(4, 6, device=device) for _ in range(2)]
    for _ in range(3):  # the launcher, where there is one, knows the call
        profiled_gate(*found)
        if device == "cuda":
            attach.wait()
    return found


def events(work, **options):
    """The events of some work, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as profile:
            work()
    found = {}
    for event in profile.events():
        found.setdefault(event.name, []).append(event)
    return found


def test_every_call_is_shown(operands):
    x, y = operands

    def work():
        for _ in range(3):
            profiled_gate(x, y)
        profiled_gate(x, y, scale=2.0, out=torch.empty_like(x))
        profiled_gate(y=y, x=x)

    assert len(events(work)[SEEN]) == 5
    assert SEEN not in events(lambda: None)


def test_calls_after_the_profiler_are_as_before(operands):
    x, y = operands
    record = profiled_gate._fast.record
    before = None if record is None else record.hits
    events(lambda: profiled_gate(x, y))
    assert record is None or record.hits == before  # the launcher has no name to show
    torch.testing.assert_close(profiled_gate(x, y), x * torch.exp(-y))
    assert record is None or record.hits == before + 1


def test_other_kinds_of_calls(operands):
    x, y = operands
    prepared = profiled_gate.prepare(x, y)

    def work():
        prepared(x, y)
        seen_cpp(x)
        profiled_gate(x.cpu().numpy(), np.float32(2))
        numjit.value_and_grad(seen_cpp, wrt="x")(x)
        jitted(x)

    found = events(work)
    assert len(found[SEEN]) == 2
    ours = sorted(name for name in found if name.startswith("numjit::") and name != SEEN)
    assert ours == ["numjit::profiled_cpp", "numjit::profiled_cpp_value_and_grad", "numjit::profiled_twice"]


def test_shapes_of_operands(operands):
    x, y = operands
    found = events(lambda: profiled_gate(x, y[0], scale=2.0), record_shapes=True)
    assert found[SEEN][0].input_shapes[:2] == [[4, 6], [6]]


def test_a_derivative_is_shown_within_its_node(operands):
    x, y = operands
    leaf = x.clone().requires_grad_()
    found = events(lambda: profiled_gate(leaf, y).sum().backward())
    assert len(found[SEEN]) == 1
    (derivative,) = found[f"{SEEN}_vjp"]
    assert "NumjitFunctionBackward" in derivative.cpu_parent.name


def test_errors_end_the_event(operands):
    x, y = operands

    def work():
        with pytest.raises(numjit.errors.BroadcastError):
            profiled_gate(x, torch.rand(7, device=x.device))
        profiled_gate(x, y)

    first, second = events(work)[SEEN]
    assert first.cpu_parent is second.cpu_parent is None


def test_opaque_calls_in_compiled_code_are_operators_with_a_name(operands):
    """Seen through, a call is whatever the compiler made of it."""
    x, y = operands
    opaque = numjit.elementwise(lambda x, y: x - y, opaque=True)
    compiled = torch.compile(lambda x, y: opaque(x, y), backend="aot_eager", fullgraph=True)
    compiled(x, y)
    found = events(lambda: compiled(x, y))
    assert any(name.startswith("numjit::") for name in found)
