"""The n-th allocation or launch fails, once and from then on: torch's own error, and right again after."""

import pytest
import torch

import numjit
from numjit.errors import LaunchError
from tests.cases import KINDS, SUM_AND_DIFFERENCE, pair

POLYNOMIAL = pair(
    lambda x, y: x * y + x, "template <typename T> T polynomial(T x, T y) { return x * y + x; }"
)


class _Failing:
    """Stands in for a function: its n-th call raises, or, from then on, every one."""

    def __init__(self, function, n, *, forever, error):
        self.function, self.n, self.forever, self.error, self.calls = function, n, forever, error, 0

    def __call__(self, *arguments, **keywords):
        self.calls += 1
        if self.calls == self.n or (self.forever and self.calls > self.n):
            raise self.error
        return self.function(*arguments, **keywords)


def fresh(functor):
    """The functor as if it had never been called: it is planned and allocates the cold way."""
    return numjit.elementwise(functor.source, **functor.options)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_runs_out_is_torchs_error_and_the_next_call_is_right(
    kind, n, forever, warm, device, monkeypatch
):
    functor = fresh(SUM_AND_DIFFERENCE[kind])
    x, y = torch.randn(2, 1000, device=device)
    expected = (x + y, x - y)
    if warm:
        functor(x, y)
        functor(x, y)
    error = torch.OutOfMemoryError("out of memory")
    with monkeypatch.context() as patched:
        failing = _Failing(torch.empty_strided, n, forever=forever, error=error)
        patched.setattr(torch, "empty_strided", failing)
        before = x.clone(), y.clone()
        found = results = None
        try:
            results = functor(x, y)
        except torch.OutOfMemoryError as raised:
            found = raised
        if results is None:
            assert found is error
        else:  # the launcher allocates by torch's own C function, which did not fail
            assert device == "cuda"
            assert failing.calls < n
            assert all(map(torch.equal, results, expected))
        assert torch.equal(x, before[0])
        assert torch.equal(y, before[1])
    for _ in range(2):
        assert all(map(torch.equal, functor(x, y), expected))


@pytest.mark.parametrize("n", range(1, 4))
@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_runs_out_in_backward(kind, n, device, monkeypatch):
    functor = fresh(POLYNOMIAL[kind])
    x, y = (torch.randn(100, device=device, dtype=torch.float64, requires_grad=True) for _ in range(2))
    error = torch.OutOfMemoryError("out of memory")
    with monkeypatch.context() as patched:
        patched.setattr(torch, "empty_strided", _Failing(torch.empty_strided, n, forever=False, error=error))
        found = None
        try:
            functor(x, y).sum().backward()
        except torch.OutOfMemoryError as raised:
            found = raised
        assert found in (None, error)
    x.grad = y.grad = None
    functor(x, y).sum().backward()
    torch.testing.assert_close(x.grad, y.detach() + 1)
    torch.testing.assert_close(y.grad, x.detach())


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_larger_than_any_memory(kind, device):
    functor = fresh(POLYNOMIAL[kind])
    small = torch.ones(4, device=device)
    huge = torch.ones(1, device=device).expand(2**46)
    wanted = torch.OutOfMemoryError if device == "cuda" else RuntimeError
    for _ in range(2):
        with pytest.raises(wanted, match="memory"):
            functor(huge, huge)
        assert functor(small, small).tolist() == [2.0] * 4


@pytest.mark.gpu
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_launch_that_the_driver_refuses(kind, forever, warm, monkeypatch):
    from numjit.runtime.driver import driver

    functor = fresh(POLYNOMIAL[kind])
    x, y = torch.randn(2, 1000, device="cuda")
    if warm:
        functor(x, y)

    class Refuses:
        calls = 0

        def __call__(self, *arguments):
            self.calls += 1
            return 2 if self.calls == 1 or forever else original(*arguments)

    original, refusing = driver().cuLaunchKernel, Refuses()
    with monkeypatch.context() as patched:
        patched.setattr(driver(), "cuLaunchKernel", refusing)
        # A scalar that is a tensor of no dimensions keeps the call off the compiled launcher.
        with pytest.raises(LaunchError, match="OUT_OF_MEMORY") as caught:
            functor(x, torch.tensor(2.0))
        assert "free memory" in str(caught.value)
        if forever:
            with pytest.raises(LaunchError):
                functor(x, torch.tensor(3.0))
    torch.testing.assert_close(functor(x, torch.tensor(2.0)), x * 2 + x)
    torch.testing.assert_close(functor(x, y), x * y + x)
