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
    "the rest of a huge quotient is exact": (
        lambda x, y: x % y, [[-(2.0**61)] * 16, [-3 * 2.0**-100] * 16], torch.float32,
        [math.fmod(-(2.0**61), -3 * 2.0**-100)] * 16, lambda x, y: x % y),
    "a greatest common divisor is positive": (
        lambda x, y: nm.gcd(x, y), [[-(2**63)], [-5]], torch.int64, [1], torch.gcd),
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


def test_the_opposite_of_a_complex_number_has_zeros_of_the_other_sign(device):
    z = torch.full((32,), -3.5 + 0j)
    found = torch.view_as_real(numjit.elementwise(lambda z: -z)(z.to(device))).cpu()
    assert torch.signbit(found[:, 1]).all()
    assert not torch.signbit(torch.view_as_real(-z)[:, 1]).all()


def test_the_second_derivative_of_sinc_at_0_is_known(device):
    def second(f, x):
        first = torch.autograd.grad(f(x), x, create_graph=True)[0]
        return torch.autograd.grad(first, x)[0].item()

    x = torch.zeros((), dtype=torch.float64, device=device, requires_grad=True)
    assert second(numjit.elementwise(lambda x: nm.sinc(x)), x) == pytest.approx(-(math.pi**2) / 3)
    assert math.isnan(second(torch.sinc, x))
