"""A small network with numjit's activation and loss learns as the same network of torch's."""

import math

import torch
import torch.nn.functional as F

from tests.cases import both_kinds, pair
from tests.support.trainable import Network

SWIGLU = pair(
    lambda x, gate: x / (1 + math.exp(-x)) * gate,
    "template <typename T> T swiglu(T x, T gate) { return x / (T(1) + std::exp(-x)) * gate; }",
)
HUBER = pair(
    lambda x, y, *, delta=1.0: (
        0.5 * (x - y) * (x - y) if abs(x - y) < delta else delta * (abs(x - y) - 0.5 * delta)
    ),
    "template <typename T> T huber(T x, T y, T delta) { T d = std::abs(x - y);"
    "return d < delta ? T(0.5) * d * d : delta * (d - T(0.5) * delta); }",
    delta=1.0,
)


def losses(activation, loss, device, steps=60):
    """Train and return the loss of every step."""
    torch.manual_seed(0)
    network = Network(activation).to(device)
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(1)).to(device)
    y = torch.sin(x.sum(1, keepdim=True)) * 2
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.02)
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        value = loss(network(x), y).mean()
        value.backward()
        optimiser.step()
        found.append(value.item())
    return found


@both_kinds
def test_a_network_reaches_torch_s_loss_curve(kind, device):
    got = losses(SWIGLU[kind], HUBER[kind], device)
    want = losses(lambda x, gate: F.silu(x) * gate, lambda x, y: F.huber_loss(x, y, reduction="none"), device)
    assert want[-1] < want[0] / 4  # it learns
    for a, b in zip(got, want, strict=True):
        assert math.isclose(a, b, rel_tol=2e-3, abs_tol=1e-5)


@both_kinds
def test_mixed_precision(kind, device):
    """Under autocast the activation computes on what the layers give, bfloat16, with float32 parameters."""
    torch.manual_seed(0)
    network = Network(SWIGLU[kind]).to(device)
    x = torch.randn(16, 6, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        result = network(x)
    HUBER[kind](result.float(), torch.zeros(16, 1, device=device)).sum().backward()
    torch.manual_seed(0)
    reference = Network(lambda x, gate: F.silu(x) * gate).to(device)
    F.huber_loss(reference(x), torch.zeros(16, 1, device=device), reduction="sum").backward()
    for a, b in zip(network.parameters(), reference.parameters(), strict=True):
        assert a.grad.dtype is torch.float32
        torch.testing.assert_close(a.grad, b.grad, rtol=0.1, atol=0.05)


@both_kinds
def test_gradient_scaling(kind, device):
    """Steps with ``torch.amp.GradScaler`` are those without, also where a scaled gradient overflows."""

    def weights(scaled):
        torch.manual_seed(0)
        network = Network(SWIGLU[kind]).to(device)
        optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=2.0**10, enabled=scaled)
        x = torch.linspace(-1, 1, 96, device=device).reshape(16, 6)
        for factor in (1.0, float("inf") if scaled else None, 1.0):
            if factor is None:
                continue
            optimiser.zero_grad()
            value = HUBER[kind](network(x), torch.zeros(16, 1, device=device)).sum()
            scaler.scale(value * factor).backward()
            scaler.step(optimiser)  # skips the step whose gradients are infinite
            scaler.update()
        return list(network.parameters())

    for got, want in zip(weights(True), weights(False), strict=True):
        torch.testing.assert_close(got, want)
