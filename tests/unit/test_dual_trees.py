"""Random expressions: their derivatives against torch's autograd in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

from numjit.functor.derived_python import derive_python
from numjit.functor.python import PythonFunctor
from tests.support.dual_gradients import NAMES
from tests.support.python_cpu import run

#: Python's spelling and torch's; all are smooth or have the same conventions at kinks.
UNARY = [
    ("math.sin({})", "torch.sin({})"),
    ("math.tanh({})", "torch.tanh({})"),
    ("math.atan({})", "torch.atan({})"),
    ("nm.sigmoid({})", "torch.sigmoid({})"),
    ("math.log1p(abs({}))", "torch.log1p(torch.abs({}))"),
    ("math.sqrt(1.0 + {0} * {0})", "torch.sqrt(1.0 + {0} * {0})"),
    ("(-{})", "(-{})"),
    ("abs({})", "torch.abs({})"),
    ("({}) ** 2", "({}) ** 2"),
    ("math.erf({})", "torch.erf({})"),
    ("math.floor({})", "torch.floor({})"),
    ("nm.clamp({}, -1.0, 1.0)", "torch.clamp({}, -1.0, 1.0)"),
]
BINARY = [
    ("({} + {})", "({} + {})"),
    ("({} - {})", "({} - {})"),
    ("({} * {})", "({} * {})"),
    ("({} / (2.0 + math.cos({})))", "({} / (2.0 + torch.cos({})))"),
    ("max({}, {})", "torch.maximum({}, {})"),
    ("min({}, {})", "torch.minimum({}, {})"),
    ("math.atan2({}, {})", "torch.atan2({}, {})"),
    ("math.hypot({}, 1.0 + abs({}))", "torch.hypot({}, 1.0 + torch.abs({}))"),
    ("nm.where({0} > {1}, {0} * {1}, {1})", "torch.where({0} > {1}, {0} * {1}, {1})"),
    ("({0} if {0} > {1} else {1} * 0.5)", "torch.where({0} > {1}, {0}, {1} * 0.5)"),
]
LEAVES = [("x", "x"), ("y", "y"), ("z", "z"), ("(0.5 + 0 * x)", "(0.5 + 0 * x)")]

trees = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(lambda form, a: tuple(f.format(p) for f, p in zip(form, a, strict=True)),
                  st.sampled_from(UNARY), inner),
        st.builds(lambda form, a, b: tuple(f.format(p, q) for f, p, q in zip(form, a, b, strict=True)),
                  st.sampled_from(BINARY), inner, inner),
    ),
    max_leaves=6,
)  # fmt: skip
numbers = st.floats(-2, 2).map(lambda value: round(value, 3))
points = st.lists(st.tuples(numbers, numbers, numbers), min_size=4, max_size=4)


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    monkeypatch.setattr(config, "OPT", config._OptLevel(0))


@settings(max_examples=40, deadline=None)
@given(tree=trees, points=points, active=st.sampled_from([(0,), (1, 2), (0, 1, 2)]))
def test_gradients_and_tangents(tree, points, active):
    python, torchs = tree
    scope = dict(NAMES)
    exec(f"def f(x, y, z): return {python}", scope)
    functor = PythonFunctor(scope["f"])
    arguments = list(torch.tensor(points, dtype=torch.float64).T.contiguous())
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    x, y, z = leaves
    result = eval(torchs, {"torch": torch, "x": x, "y": y, "z": z})
    gradient = torch.linspace(0.5, 1.5, 4, dtype=torch.float64)
    wanted = torch.autograd.grad(result, leaves, gradient, allow_unused=True)
    (value,) = run(functor, *arguments)
    torch.testing.assert_close(value, result.detach(), rtol=1e-12, atol=1e-12)
    found = run(derive_python(functor, "vjp", active), *arguments, gradient)
    for own, place in zip(found, active, strict=True):
        torchs_own = torch.zeros_like(own) if wanted[place] is None else wanted[place]
        torch.testing.assert_close(own, torchs_own, rtol=1e-9, atol=1e-10)
    (pushed,) = run(derive_python(functor, "jvp", active), *arguments, *[gradient] * len(active))
    torch.testing.assert_close(pushed, sum(found), rtol=1e-9, atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(tree=trees, points=points)
def test_forward_over_reverse_is_symmetric(tree, points):
    """The second derivatives by x and y are the same in either order."""
    scope = dict(NAMES)
    exec(f"def f(x, y, z): return {tree[0]}", scope)
    arguments = list(torch.tensor(points, dtype=torch.float64).T.contiguous())
    ones = torch.ones(4, dtype=torch.float64)
    functor = PythonFunctor(scope["f"])
    by_x = derive_python(derive_python(functor, "vjp", (0,)), "jvp", (1,))
    by_y = derive_python(derive_python(functor, "jvp", (1,)), "vjp", (0,))
    (first,) = run(by_x, *arguments, ones, ones)
    (second,) = run(by_y, *arguments, ones, ones)
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-10)
