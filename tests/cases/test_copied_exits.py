"""What comes after two branches of different dtypes is computed in what both promote to, on every Python.

CPython 3.12 and later copy a short end of a function into the branches that lead to it.
"""

import dis
import sys

import pytest
import torch

import numjit
import numjit.math as nm
from numjit.functor.copied_exits import with_one_exit
from tests.support.everywhere import ways
from tests.support.tiers import pairs


def in_a_call(c, x, y):
    return nm.sqrt(x if c else y)


def in_a_call_the_other_way(c, x, y):
    return nm.sqrt(y if c else x)


def in_an_operation(c, x, y):
    return (x if c else y) / 3


def of_a_number(c, x, y):
    return nm.sqrt(x if c else 2.5)


def of_two_numbers(c, x, y):
    return x * ((2 if c else 0.5) + 1)


def by_a_variable(c, x, y):
    if c:  # noqa: SIM108 - the form that is tested
        z = x
    else:
        z = y
    return nm.sqrt(z)


def by_a_chain(c, x, y):
    return abs(x if c else y if x > y else 0.25)


def in_a_helper(c, x, y):
    return _root(c, x, y)


def _root(c, x, y):
    return nm.sqrt(y if c else x)


FORMS = [
    in_a_call, in_a_call_the_other_way, in_an_operation, of_a_number, of_two_numbers, by_a_variable,
    by_a_chain, in_a_helper,
]  # fmt: skip


def answer(form, c, x, y):
    """The same by torch's operations, which promote in where()."""
    where, sqrt = torch.where, torch.sqrt
    return {
        in_a_call: lambda: sqrt(where(c, x, y)),
        in_a_call_the_other_way: lambda: sqrt(where(c, y, x)),
        in_an_operation: lambda: where(c, x, y) / 3,
        of_a_number: lambda: sqrt(where(c, x, 2.5)),
        of_two_numbers: lambda: (
            x * where(c, 3.0, 1.5).to(x.dtype if x.is_floating_point() else torch.float32)
        ),
        by_a_variable: lambda: sqrt(where(c, x, y)),
        by_a_chain: lambda: abs(where(c, x, where(x > y, y, 0.25))),
        in_a_helper: lambda: sqrt(where(c, y, x)),
    }[form]()


DTYPES = [
    (torch.float32, torch.float64), (torch.float64, torch.float32), (torch.int32, torch.float64),
    (torch.int8, torch.int64), (torch.float32, torch.int64),
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "dtypes"), pairs(FORMS, DTYPES), ids=lambda v: getattr(v, "__name__", str(v))
)
def test_the_branches_promote_before_what_follows(form, dtypes, device):
    left, right = dtypes
    c = torch.tensor([True, False, True, False], device=device)
    x = torch.tensor([3.0, 5.0, 7.0, 11.0], device=device).to(left)
    y = torch.tensor([2.3, 13.7, 17.1, 19.9], dtype=torch.float64, device=device).to(right)
    if form is by_a_chain:
        c = c & (x > 4)
    expected = answer(form, c, x, y)
    compiled = left is torch.float32
    for way, found in ways(form, (c, x, y), compiled=compiled):
        assert found.dtype == expected.dtype, way
        torch.testing.assert_close(
            found, expected, rtol=1e-15 if found.dtype == torch.float64 else 3e-7, atol=0
        )


def test_a_complex_element_or_a_number_is_a_complex_number(device):
    z = torch.tensor([1.5 - 3j, 2 + 1j], dtype=torch.complex128, device=device)
    c = torch.tensor([True, False], device=device)
    expected = torch.log10(torch.where(c, z, -2.5))
    for _, found in ways(lambda c, z: nm.log10(z if c else -2.5), (c, z), compiled=False):
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


def test_calls_that_are_written_twice_stay_two(device):
    """Each is of its own branch's dtype, as two operations of torch's would be."""

    def functor(c, x, y):
        if c:
            return nm.sqrt(x)
        return nm.sqrt(y)

    c = torch.tensor([True, False], device=device)
    x = torch.tensor([3.0, 5.0], device=device)
    y = torch.tensor([2.3, 13.7], dtype=torch.float64, device=device)
    expected = torch.where(c, torch.sqrt(x), torch.sqrt(y))
    for _, found in ways(functor, (c, x, y), compiled=False):
        torch.testing.assert_close(found, expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("form", [*FORMS, _root], ids=lambda form: form.__name__)
def test_python_runs_the_code_that_is_left_as_before(form):
    merged = with_one_exit(form)
    for c in (True, False):
        for x, y in ((4.0, 9.0), (16.0, 1.0)):
            assert merged(c, x, y) == form(c, x, y)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 copies nothing")
def test_no_copy_of_a_call_is_left():
    def calls(function):
        listed = list(dis.get_instructions(function))
        reached, where = set(), [0]
        by_offset = {i.offset: k for k, i in enumerate(listed)}
        while where:
            k = where.pop()
            if k in reached or k >= len(listed):
                continue
            reached.add(k)
            instruction = listed[k]
            if instruction.opcode in {*dis.hasjrel, *dis.hasjabs}:
                where.append(by_offset[instruction.argval])
            if not instruction.opname.startswith(("RETURN", "JUMP_FORWARD")):
                where.append(k + 1)
        return sum(listed[k].opname == "CALL" for k in reached)

    assert calls(in_a_call) == 2
    assert calls(with_one_exit(in_a_call)) == 1
    assert numjit.elementwise(in_a_call)(True, 4.0, torch.ones(1)).item() == 2.0
