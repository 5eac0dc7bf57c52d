"""What ``f.inspect`` and ``f.derivative`` show: dtypes, kernels, code, and why there is none."""

import numpy as np
import pytest
import torch

import numjit
from numjit.errors import AutogradError, DeviceError
from tests.cases import both_kinds
from tests.cases.test_by_hand import FORMULA, leaf, straight_through


@both_kinds
def test_inspect_shows_dtypes_and_code(kind, device):
    x = torch.ones(4, 3, device=device, dtype=torch.float16)
    found = FORMULA[kind].inspect(x, x.t().reshape(4, 3), a=2)
    assert found.language == {"python": "Python", "c++": "C++"}[kind]
    assert found.outputs == ("float32 > float16",)
    assert found.inputs["x"] == "float16 > float32"
    assert (found.shape, found.strides) == ((4, 3), (3, 1))
    assert "tanh" in found.source
    assert found.name in repr(found)
    if device == "cpu":
        assert (found.variant, found.grid, found.block) == ("loop", None, None)
        assert "tanh" in found.code
        with pytest.raises(DeviceError, match=r"look at \.code"):
            _ = found.ptx
    else:
        assert found.code == found.ptx
        assert ".entry" in found.ptx
        assert found.grid[0] >= 1
        assert f"block {found.block}" in repr(found)


@both_kinds
def test_derivative_shows_the_one_kernel_of_a_backward(kind, device):
    x, y = leaf(device), leaf(device).detach()
    found = FORMULA[kind].derivative(x, y, a=2.0)
    assert list(found.inputs) == ["x", "y", "grad_0", "a"]
    assert len(found.outputs) == 1  # x alone requires grad
    assert "tanh" in found.source
    both = FORMULA[kind].derivative(x.detach(), y, a=2.0)
    assert both.outputs == ("float64", "float64")
    assert both.code != found.code


def test_derivative_of_numpy_arrays_and_of_gradients_by_hand():
    x = np.ones(3, np.float32)
    assert FORMULA["python"].derivative(x, 2.0).outputs == ("float32",)
    step, gradient = straight_through()
    assert step.derivative(x, width=2.0).name == gradient.functor.name
    step.backward(lambda grad, x, width: grad, tensors=True)
    with pytest.raises(AutogradError, match="whole tensors"):
        step.derivative(x)


def test_derivative_explains_what_has_none():
    cut = numjit.elementwise(lambda x: 0.5 * int(x))
    with pytest.raises(AutogradError, match=r"numjit\.differentiable"):
        cut.derivative(np.ones(3, np.float32))
    with pytest.raises(AutogradError, match="nothing to differentiate"):
        cut.derivative(np.ones(3, np.int32))
