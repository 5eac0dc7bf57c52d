"""Every scalar function of the table, in both languages, on one grid of edges: values and derivatives."""

from __future__ import annotations

import cmath
import itertools
import math

import pytest
import torch
from numba.core import config

from numjit import math as nm
from numjit.elementwise import Elementwise
from numjit.functor.cpp.derived import derive_cpp
from numjit.functor.derived_python import derive_python
from numjit.functor.python import PythonFunctor
from numjit.rules.table import ENTRIES
from tests.support.python_cpu import run
from tests.support.rule_rows import ALIKE, ELSEWHERE, ROWS, cpp_functor, grid, groups, plain, python_functor


def near_a_pole(x):
    return (x < 0) & ((x - x.round()).abs() < 1e-10)


def quotient_overflows(x, y):
    return (x / y).isinf() & x.isfinite()


def is_small(x):
    return (x.abs() < 1e-6) & (x != 0)


#: What is not compared, by expression and order of the derivative (0: the value), and why: (where, reason).
APART = {
    **{("math.gamma(x)", k): (lambda x: x <= 0, "the reference has the magnitude alone") for k in range(3)},
    ("math.cbrt(x)", 1): (lambda x: x == 0, "the reference divides 0 by 0"),
    ("math.cbrt(x)", 2): (lambda x: (x == 0) | x.isinf(), "0 divided by 0, or times infinity"),
    ("nm.fma(x, y, z)", 0): (lambda x, y, z: (x * y).isinf(), "the reference rounds twice"),
    ("nm.i0(x)", 0): (torch.isinf, "NaN in torch"),
    ("nm.i0(x)", 1): (torch.isinf, "NaN in torch"),
    ("nm.i0(x)", 2): (torch.isnan, "a number in torch"),
    ("tanh", 1): (lambda x: x.abs() > 5, "both cancel beside 1"),
    ("tanh", 2): (lambda x: x.abs() > 5, "both cancel beside 1"),
    ("nm.sinc(x)", 1): (lambda x: x.abs() < 1e-6, "torch's formula cancels"),
    ("nm.sinc(x)", 2): (lambda x: x.abs() < 1e-6, "torch's formula cancels, or divides 0 by 0"),
    ("lgamma", 2): (near_a_pole, "torch's trigamma is off there"),
    ("nm.digamma(x)", 1): (near_a_pole, "torch's trigamma is off there"),
    ("nm.digamma(x)", 2): (
        lambda x: near_a_pole(x) | (x == 0) | (x.abs() > 1e300),
        "no number: the sides differ in sign; its square overflows",
    ),
    ("nm.logit(x)", 2): (lambda x: (x < 1e-300) | (x >= 1), "torch multiplies by the NaN of outside"),
    ("nm.softplus(x)", 2): (lambda x: x == 20, "torch has the threshold itself beyond it"),
    ("log_ndtr", 1): (lambda x: x < -1e100, "torch multiplies infinities by 0"),
    ("log_ndtr", 2): (lambda x: x < -100, "torch's difference cancels"),
    ("atan2", 1): (lambda y, x: torch.hypot(x, y) < 1e-154, "torch's squares vanish"),
    ("copysign", 1): (lambda x, y: ~x.isfinite(), "torch divides infinities"),
    ("ldexp", 0): (lambda x, n: n.isinf(), "an infinite n is halved"),
    ("ldexp", 1): (lambda x, n: n.isinf(), "an infinite n is halved"),
    ("x % y", 0): (quotient_overflows, "torch has NaN"),
    ("remainder", 0): (quotient_overflows, "torch has NaN"),
    ("fmod", 0): (quotient_overflows, "torch has NaN"),
    ("asinh", 2): (lambda x: x.abs() > 1e154, "torch's squares overflow"),
    # numjit's formulas, written for what is beside 1, are less exact in the second derivative:
    ("asin", 2): (is_small, "sums of 1 and a small number"),
    ("acos", 2): (is_small, "sums of 1 and a small number"),
    ("atanh", 2): (is_small, "sums of 1 and a small number"),
    ("atan", 2): (lambda x: x.abs() > 1e154, "0 times infinity"),
    ("acosh", 2): (lambda x: x.abs() > 1e154, "0 times infinity"),
}


def apart(row, order):
    own = row.python.partition("(")[0].rpartition(".")[2]
    where, _ = APART.get((row.python, order)) or APART.get((own, order)) or (None, "")
    return where


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    """Leave LLVM's optimiser out: these tests are about meaning."""
    monkeypatch.setattr(config, "OPT", config._OptLevel(0))


def test_every_entry_with_a_derivative_is_in_a_row():
    rows = {id(row.entry) for row in ROWS}
    for entry in ENTRIES:
        names = {rule.name for rule in entry.rules.values()}
        if entry.derivative.formula is not None and names and not names & ELSEWHERE:
            assert id(entry) in rows, names


def moves(count):
    """Yield which operands move, and how often a derivative is taken."""
    for place in range(count):
        yield (place,), 1
    yield tuple(range(count)), 2


def operands_of(count, order):
    return grid(count) if count == 1 or order < 2 else plain(count)


def tangents(functor, operands, active, order):
    """Return the derivatives of a Python functor's results where some operands move by 1."""
    ones = [torch.ones_like(operands[0])] * len(active)
    for _ in range(order):
        functor = derive_python(functor, "jvp", active)
    return run(functor, *operands, *ones * order)


def cpp_tangents(functor, operands, active, order):
    ones = [torch.ones_like(operands[0])] * len(active)
    outputs = (True,) * len(functor.signature.outputs)
    for _ in range(order):
        functor = derive_cpp(functor, "jvp", active, outputs)
    found = Elementwise(functor, {"autotune": False})(*operands, *ones * order)
    return found if isinstance(found, tuple) else (found,)


def torch_tangent(function, operands, active, order):
    leaves = [operand.clone().requires_grad_(place in active) for place, operand in enumerate(operands)]
    moving = [leaves[place] for place in active]
    found = function(*leaves)
    for _ in range(order):
        if not found.requires_grad:
            return torch.zeros_like(operands[0])
        slopes = torch.autograd.grad(
            found, moving, torch.ones_like(found), create_graph=True, materialize_grads=True
        )
        found = sum(slopes)
    return found.detach()


def differences(text, operands, found, wanted, tolerance, besides=None, size=None):
    """Compare to a tolerance relative to a size, infinities and NaN exactly; return what differs, as text."""
    near = (found - wanted).abs() <= tolerance * (wanted.abs() if size is None else size) + 1e-300
    good = (found == wanted) | (found.isnan() & wanted.isnan()) | near
    good = good if besides is None else good | besides
    wrong = (~good).nonzero().flatten().tolist()
    shown = [(tuple(o[k].item() for o in operands), found[k].item(), wanted[k].item()) for k in wrong[:5]]
    return [f"{text}: {shown} of {len(wrong)}"] if wrong else []


@pytest.mark.parametrize("rows", groups(ROWS), ids=lambda rows: rows[0].python)
def test_values_and_derivatives_are_torchs(rows):
    count = rows[0].count
    functor = python_functor(rows)
    wrong = []
    for active, order in [((), 0), *moves(count)]:
        operands = operands_of(count, order)
        found = tangents(functor, operands, active, order)
        for row, own in zip(rows, found, strict=True):
            wanted = torch_tangent(row.reference, operands, active, order)
            where = apart(row, order)
            besides = None if where is None else where(*operands)
            shown = f"{row.python} {active} {order}"
            wrong += differences(shown, operands, own, wanted, (2e-12, 1e-9, 1e-7)[order], besides)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("rows", groups(ALIKE), ids=lambda rows: rows[0].python)
def test_cpp_answers_as_python(rows):
    count = rows[0].count
    texts = [(row, text) for row in rows for text in row.cpp]
    python = python_functor([row for row, _ in texts])
    cpp = cpp_functor([text for _, text in texts], count)
    wrong = []
    for active, order in [((), 0), *moves(count)]:
        operands = operands_of(count, order)
        wanted = tangents(python, operands, active, order)
        found = cpp_tangents(cpp, operands, active, order)
        for (_, text), own, theirs in zip(texts, found, wanted, strict=True):
            # Python's max and min propagate NaN, which C++'s have no rule for.
            is_choice = text.startswith(("max", "min", "std::"))
            besides = sum(operand.isnan() for operand in operands).bool() if is_choice else None
            shown = f"{text} {active} {order}"
            wrong += differences(shown, operands, own, theirs, (1e-12, 1e-12, 1e-9)[order], besides)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("rows", groups(ROWS), ids=lambda rows: rows[0].python)
def test_float32_is_computed_in_float32(rows):
    """Values and derivatives in float32 are near those of float64, in both languages."""
    count = rows[0].count
    wide = [torch.cat([operand, operand + 1]) for operand in plain(count)]
    operands = [operand.float() for operand in wide]
    alike = [(row, text) for row in rows for text in row.cpp]
    active = tuple(range(count))
    found = tangents(python_functor(rows), operands, active, 1)
    wanted = tangents(python_functor(rows), [operand.double() for operand in operands], active, 1)
    texts = [row.python for row in rows]
    if alike:
        texts += [text for _, text in alike]
        cpp = cpp_functor([text for _, text in alike], count)
        found = [*found, *cpp_tangents(cpp, operands, active, 1)]
        wanted = [*wanted, *(wanted[rows.index(row)] for row, _ in alike)]
    for text, own, exact in zip(texts, found, wanted, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(
            own.double(),
            exact,
            rtol=2e-5,
            atol=2e-6,
            equal_nan=True,
            msg=lambda said, text=text: f"{text}: {said}",
        )


# ------------------------------------------------------------------------------------ complex numbers

#: Functions of complex numbers of both languages, by their name in C++.
COMPLEX = {entry.complex_cpp: entry for entry in ENTRIES if entry.complex_cpp.isidentifier()}
PYTHONS = {"abs": "abs(x)", "arg": "cmath.phase(x)", "log2": "nm.log2(x)", "pow": "x ** (0.5 - 2j)"}
CPPS = {"pow": "std::pow(x, T(0.5, -2))"}


def complex_functors():
    scope = {"cmath": cmath, "nm": nm}
    exec(f"def f(x): return ({', '.join(PYTHONS.get(n, f'cmath.{n}(x)') for n in COMPLEX)},)", scope)
    texts = [CPPS.get(name, f"T(std::{name}(x))") for name in COMPLEX]
    return PythonFunctor(scope["f"], outputs=len(COMPLEX)), cpp_functor(texts, 1)


@pytest.mark.parametrize("tangent", [1, 1j])
def test_complex_functions_answer_alike(tangent):
    """Values and two derivatives at all combinations of edges of real and imaginary part."""
    parts = [0.0, -0.0, 0.5, 1.0, -1.0, -2.0, 1e200, math.inf, -math.inf, math.nan]
    x = torch.tensor([complex(*pair) for pair in itertools.product(parts, parts)], dtype=torch.complex128)
    python, cpp = complex_functors()
    wrong = []
    for order in (0, 1, 2):
        moving = [torch.full_like(x, tangent)] * order
        wanted = run(python, x, *moving)
        found = Elementwise(cpp, {"autotune": False})(x, *moving)
        for name, own, theirs in zip(COMPLEX, found, wanted, strict=True):
            besides = x.abs() == 0 if name == "pow" and order == 2 else None
            for part in ("real", "imag") if theirs.is_complex() else ("real",):
                pair = getattr(own, part), getattr(theirs, part) if theirs.is_complex() else theirs
                wrong += differences(f"{name} {order} {part}", [x], *pair, 1e-9, besides, theirs.abs())
        python = derive_python(python, "jvp", (0,))
        cpp = derive_cpp(cpp, "jvp", (0,), (True,) * len(COMPLEX))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_the_sign_of_a_zero_says_on_which_side_of_a_cut_a_number_is(name):
    """There the derivative is the one beside it, of which torch's formulas lose the sign."""
    sides = [(a, b) for a in (-2.0, 2.0, -0.5, 0.5) for b in (0.0, -0.0)]
    sides += [(b, a) for a, b in sides]
    z = torch.tensor([complex(*pair) for pair in sides], dtype=torch.complex128)
    step = 1e-9
    beside = torch.tensor(
        [complex(*(math.copysign(step, part) if part == 0 else part for part in pair)) for pair in sides],
        dtype=torch.complex128,
    )
    python, _ = complex_functors()
    found = tangents(python, [z], (0,), 1)[list(COMPLEX).index(name)]
    leaf = beside.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(getattr(torch, name)(leaf), leaf, torch.ones_like(leaf))
    torch.testing.assert_close(found, wanted.conj().resolve_conj(), rtol=1e-6, atol=1e-6)
