"""Derived gradients of functors that people train, first and second, against torch's on the same formula."""

import pytest
import torch

from tests.cases import KINDS
from tests.support.tiers import mostly_slow
from tests.support.trainable import CASES, points

#: One C++ case of each form: its text's functions all have tests of their own (`test_derived_cpp_values`).
IN_CPP = {
    "gelu tanh",
    "prelu",
    "hardsigmoid",
    "bce with logits",
    "gaussian nll",
    "branches",
    "until",
    "polar",
}
PRODUCT = [(case, kind) for case in CASES for kind in KINDS]
cases_of_both_kinds = pytest.mark.parametrize(
    ("case", "kind"),
    mostly_slow(PRODUCT, lambda pair: pair[1] == "python" or pair[0].name in IN_CPP),
    ids=str,
)


def many(result):
    return result if isinstance(result, tuple) else (result,)


def weights(results):
    """Gradients that differ in every element and result."""
    return [torch.linspace(0.5 + k, 1.5 + k, r.numel()).to(r).reshape(r.shape) for k, r in enumerate(results)]


@cases_of_both_kinds
def test_first_and_second_derivatives(case, kind, device):
    operation, operands = case.operation(kind), points(case.domains, device)
    leaves = [x for x in operands if x.requires_grad]
    results, expected = many(operation(*operands)), many(case.torch(*operands))
    given = [w.requires_grad_() for w in weights(expected)]
    for got, want in zip(results, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    got = torch.autograd.grad(results, leaves, given, create_graph=True)
    want = torch.autograd.grad(expected, leaves, given, create_graph=True)
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)
    seconds = [torch.cos(3 * w.detach()) for w in weights(got)]
    got = torch.autograd.grad(got, [*leaves, *given], seconds)
    want = torch.autograd.grad(want, [*leaves, *given], seconds, allow_unused=True)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("case", "kind"), mostly_slow(PRODUCT, lambda pair: pair[0].name in IN_CPP), ids=str)
def test_gradcheck(case, kind, device):
    operation, operands = case.operation(kind), points(case.domains, device)
    assert torch.autograd.gradcheck(operation, operands)
    assert torch.autograd.gradgradcheck(operation, operands)
