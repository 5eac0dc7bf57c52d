"""Autotuning on a card: results do not change, winners are remembered, `out=` and capture are left alone."""

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.call import tuning

pytestmark = pytest.mark.gpu


def test_a_tuned_functor_gives_the_same_and_tunes_once(monkeypatch):
    tried = []
    real = tuning._try
    monkeypatch.setattr(tuning, "_try", lambda k, f, s: tried.append(k) or real(k, f, s))
    tuned = numjit.elementwise(lambda x, y: x * 2 + y, autotune=True)
    for shape in ((1 << 20,), (1024, 1024)):
        x, y = torch.randn(*shape, device="cuda"), torch.randn(*shape, device="cuda")
        assert torch.equal(tuned(x, y), x * 2 + y)
    count = len(tried)
    assert count > 0
    for _ in range(3):
        tuned(x, y)
    assert len(tried) == count


def test_in_place_calls_are_right(monkeypatch):
    monkeypatch.setattr(tuning, "_winners", tuning.Memo(8))
    tuned = numjit.elementwise(lambda x: x + 1, autotune=True)
    x = torch.zeros(100_000, device="cuda")
    tuned(x, out=x)
    assert torch.equal(x, torch.ones_like(x))
    y = tuned(x)
    tuned(x, out=x)
    assert torch.equal(x, y)


def test_nothing_is_tuned_inside_a_capture():
    tuned = numjit.elementwise(lambda x: x - 1, autotune=True)
    x = torch.randn(4096, device="cuda")
    numjit.elementwise(lambda x: x - 1)(x)
    graph = torch.cuda.CUDAGraph()
    tuned(x, out=torch.empty_like(x))
    with torch.cuda.graph(graph):
        y = tuned(x)
    graph.replay()
    assert torch.equal(y, x - 1)


@pytest.mark.parametrize("knobs", tuning.ALTERNATIVES, ids=str)
def test_every_alternative_is_right_on_every_kind_of_shell(knobs, monkeypatch):
    monkeypatch.setattr(tuning, "best", lambda *a: knobs)
    tuned = numjit.elementwise(lambda x, y: x + y, autotune=True)
    for dtype in (torch.float32, torch.bfloat16, torch.uint8):
        x, y = (torch.randint(0, 99, (200, 210), device="cuda").to(dtype) for _ in range(2))
        for a, b in ((x, y), (x, y[:, :1]), (x[:, 1:], y[:, :-1]), (x.t(), x.t().contiguous())):
            assert torch.equal(tuned(a, b), a + b)


def test_streaming_kernels_are_resident_as_planned():
    from numjit.plan.choose import FAST_BLOCK, STREAM_BLOCK, STREAM_OCCUPANCY
    from numjit.runtime import devices
    from numjit.runtime.driver import check, driver

    fast = devices.has_fast_memory(0)
    block, occupancy = (FAST_BLOCK, 1.0) if fast else (STREAM_BLOCK, STREAM_OCCUPANCY)
    add = numjit.elementwise(lambda x, y: x + y)
    x = torch.randn(1 << 16, device="cuda")
    assert torch.equal(add(x, x), x + x)
    (plan,) = add.__numjit_operation__.planner.plans.values()
    launcher, cu = plan.kernel, driver()
    assert launcher.block == (block, 1, 1)
    resident = check(
        cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(launcher._function, block, launcher.shared_bytes),
        "ask for the occupancy",
    )
    threads = devices.properties(0).threads_per_multiprocessor
    assert resident == int(threads * occupancy) // block
