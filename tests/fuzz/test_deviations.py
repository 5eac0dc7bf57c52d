"""Where numjit and torch differ on purpose: all that the fuzzer's reference does not take from torch."""

import math

import pytest
import torch

import numjit
import numjit.math as nm

#: Each: what it says, the functor, its operands, numjit's answer, torch's (None where it raises).
DEVIATIONS = {
    "an integer divided by 0 gives 0": (
        lambda x, y: x // y, [[7, -7], [0, 0]], torch.int64, [0, 0], None),
    "the rest of an integer divided by 0 is 0": (
        lambda x, y: x % y, [[7, -7], [0, 0]], torch.int64, [0, 0], None),
    "i0 of infinity is infinite": (
        lambda x: nm.i0(x), [[math.inf]], torch.float32, [math.inf], torch.i0),
    "ldexp overflows only where the result does": (
        lambda x, n: nm.ldexp(x, n), [[2.0**-100], [200.0]], torch.float32, [2.0**100], torch.ldexp),
    "float16 is not rounded between operations": (
        lambda x: x + 1 - 2048, [[2048.0]], torch.float16, [1.0], lambda x: x + 1 - 2048),
    "float16 does not overflow between operations": (
        lambda x: x * 4 / 4, [[60000.0]], torch.float16, [60000.0], lambda x: x * 4 / 4),
    "a number divided by an element is divided once": (
        lambda x: 1000.0 / x, [[3.0, 7.0, 11.0, 13.0, 49.0]], torch.float64,
        [1000.0 / v for v in (3.0, 7.0, 11.0, 13.0, 49.0)], lambda x: 1000.0 / x),
}  # fmt: skip


@pytest.mark.parametrize("name", DEVIATIONS)
def test_a_stated_deviation_holds_and_is_one(name, device):
    function, values, dtype, ours, torchs = DEVIATIONS[name]
    operands = [torch.tensor(v, dtype=dtype) for v in values]
    functor = numjit.elementwise(function)
    for _ in range(2):
        assert functor(*(o.to(device) for o in operands)).tolist() == ours
    if torchs is None:
        with pytest.raises(RuntimeError, match="ZeroDivision"):
            function(*operands)
    else:
        assert torchs(*operands).tolist() != ours


def test_float8_e4m3fn_saturates(device):
    x = torch.tensor([400.0, -400.0], device=device).to(torch.float8_e4m3fn)
    doubled = numjit.elementwise(lambda x: x * 2)(x)
    assert doubled.dtype == torch.float8_e4m3fn
    assert doubled.float().tolist() == [448.0, -448.0]
