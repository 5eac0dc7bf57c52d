"""Calls prepared ahead: `Elementwise.prepare`."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.errors import ArgumentError, BroadcastError


@pytest.fixture
def axpy():
    return numjit.elementwise(lambda x, y, *, alpha=1.0: alpha * x + y)


def test_it_answers_as_the_operation_does(axpy, device):
    x, y = torch.randn(8, 4, device=device), torch.randn(4, device=device)
    prepared = axpy.prepare(x, y, alpha=2.0)
    for _ in range(3):
        x = torch.randn(8, 4, device=device)
        torch.testing.assert_close(prepared(x, y), 2 * x + y)
        torch.testing.assert_close(prepared(x, y, alpha=-1.5), -1.5 * x + y)
        torch.testing.assert_close(prepared(x, y=y), 2 * x + y)


def test_copies_of_what_holds_it(axpy, device):
    x = torch.randn(4, device=device)
    prepared = axpy.prepare(x, x)
    module = torch.nn.Module()
    module.step = prepared
    assert copy.copy(prepared) is copy.deepcopy(module).step is prepared


def test_nothing_is_computed_ahead(axpy, device):
    x = torch.randn(16, device=device)
    out = torch.full((16,), 7.0, device=device)
    prepared = axpy.prepare(x, x, out=out)
    assert bool((out == 7).all())
    assert prepared(x, x, out=out) is out
    torch.testing.assert_close(out, 2 * x)
    assert "float32 of shape (16,)" in repr(prepared)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: ((x.double(), x), {}), "'x' as torch float32.*float64"),
        (lambda x: ((x, x[:3]), {}), r"'y' as .*shape \(6,\).*shape \(3,\)"),
        (lambda x: ((x, torch.zeros(12, device=x.device)[::2]), {}), r"strides \(1,\).*strides \(2,\)"),
        (lambda x: ((x, x), {"alpha": 2}), "'alpha' as float number but got int number"),
        (lambda x: ((x, x), {"out": torch.zeros(6, 1, device=x.device)}), "'out'"),
    ],
    ids=["dtype", "shape", "strides", "scalar", "out"],
)
def test_other_arguments_are_refused(axpy, device, change, message):
    x = torch.zeros(6, device=device)
    prepared = axpy.prepare(x, x, out=torch.zeros(6, device=device))
    operands, keywords = change(x)
    with pytest.raises(ArgumentError, match=message):
        prepared(*operands, **keywords)


def test_it_refuses_what_the_operation_refuses(axpy, device):
    with pytest.raises(BroadcastError):
        axpy.prepare(torch.zeros(3, device=device), torch.zeros(4, device=device))
    with pytest.raises(ArgumentError, match="needs operands"):
        numjit.elementwise(lambda: 1.0).prepare()


def test_numpy(axpy):
    x = np.arange(5.0)
    prepared = axpy.prepare(x, x)
    np.testing.assert_array_equal(prepared(x + 1, x), 2 * x + 1)
    with pytest.raises(ArgumentError, match="numpy float64"):
        prepared(x.astype(np.float32), x)


def test_gradients(device):
    square = numjit.elementwise(lambda x: x * x)
    x = torch.ones(4, device=device, requires_grad=True)
    assert square.prepare(x)(x).requires_grad
