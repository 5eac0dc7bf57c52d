"""What SEMANTICS says of ``out=``, of in-place calls, and that nothing is written before an error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import numjit
from numjit.errors import BroadcastError, OutputError, OverlapError
from tests.cases import (
    ADD,
    IDENTITY,
    INCREMENT,
    KINDS,
    SQUARE,
    SUM_AND_DIFFERENCE,
    both_kinds,
    build,
    check_out,
    exact,
    fill,
    holds,
    operand,
    operands,
    out_views,
    same,
)
from tests.support.strategies import views

kinds = st.sampled_from(KINDS)


@both_kinds
def test_out_is_returned_and_keeps_its_strides(kind, device):
    x = torch.arange(6.0, device=device).view(2, 3)
    for out in (
        torch.zeros(2, 3),
        torch.zeros(3, 2).t(),
        torch.zeros(4, 9)[::2, ::3],
        torch.zeros(7)[1:].view(2, 3),
    ):
        target = out.to(device) if out.is_contiguous() else torch.empty_strided(
            out.shape, out.stride(), device=device
        )  # fmt: skip
        strides = target.stride()
        assert ADD[kind](x, 1, out=target) is target
        assert target.stride() == strides
        assert torch.equal(target, x + 1)


@both_kinds
def test_several_outputs_where_none_means_allocate(kind, device):
    x = torch.arange(3.0, device=device)
    out = torch.zeros(3, device=device)
    first, second = SUM_AND_DIFFERENCE[kind](x, 1, out=(None, out))
    assert second is out
    same(first, x + 1)
    same(out, x - 1)
    first, second = SUM_AND_DIFFERENCE[kind](x, 2, out=(out, None))
    assert first is out
    same(out, x + 2)
    same(second, x - 2)
    pair_of = torch.zeros(3, device=device), torch.zeros(3, device=device)
    results = SUM_AND_DIFFERENCE[kind](x, 3, out=pair_of)
    assert results[0] is pair_of[0]
    assert results[1] is pair_of[1]
    results = SUM_AND_DIFFERENCE[kind](x, 3, out=(None, None))
    same(results[1], x - 3)


@both_kinds
def test_the_number_of_outs_must_fit(kind, device):
    x, out = torch.ones(3, device=device), torch.zeros(3, device=device)
    for wrong in (out, (out,), (out, out.clone(), out.clone())):
        with pytest.raises(OutputError, match="2 outputs"):
            SUM_AND_DIFFERENCE[kind](x, x, out=wrong)
    with pytest.raises(OutputError):
        ADD[kind](x, x, out=(out, out.clone()))
    assert not out.any()


@both_kinds
def test_a_tuple_of_one_is_fine(kind, device):
    x, out = torch.ones(3, device=device), torch.zeros(3, device=device)
    assert ADD[kind](x, x, out=(out,)) is out
    holds(out, [2.0] * 3, torch.float32)


@both_kinds
def test_given_outputs_take_part_in_the_strides_of_new_ones(kind, device):
    x = torch.arange(6.0, device=device).view(2, 3)
    out = torch.zeros(3, 2, device=device).t()
    _, second = SUM_AND_DIFFERENCE[kind](x, 1, out=(out, None))
    assert torch.equal(second, x - 1)
    assert second.stride() == (1, 2)


# ------------------------------------------------------------------------------- refusals write nothing


def _refusals(device):
    """Yield a name, operands, an out filled with 7, and the error that the call must raise."""
    x = torch.ones(2, 3, device=device)

    def sevens(*shape, dtype=torch.float32):
        return torch.full(shape, 7, device=device).to(dtype)

    yield "wrong shape", (x, x), sevens(3, 2), OutputError, r"\(2, 3\)"
    yield "out would broadcast", (x, x), sevens(1, 3), OutputError, r"\(2, 3\)"
    yield "out is larger", (x[:1], x[:1]), sevens(2, 3), OutputError, r"\(1, 3\)"
    yield "empty out", (x, x), sevens(0), OutputError, r"\(2, 3\)"
    yield "float into int", (x, x), sevens(2, 3, dtype=torch.int64), OutputError, "int64"
    yield "complex into float", (x, 1j), sevens(2, 3), OutputError, "complex64"
    yield "int into bool", (x.int(), 1), sevens(2, 3, dtype=torch.bool), OutputError, "bool"
    yield "float into bool", (x, 1), sevens(2, 3, dtype=torch.bool), OutputError, "bool"
    yield "out overlaps itself", (x, x), sevens(4).as_strided((2, 3), (1, 1)), OverlapError, "share"
    yield "expanded out", (x, x), sevens(1, 3).expand(2, 3), OverlapError, "share"
    yield "shapes", (x, torch.ones(2, device=device)), sevens(2, 3), BroadcastError, r"\(2,\)"
    yield "conj out", (x, 1j), sevens(2, 3, dtype=torch.complex64).conj(), OutputError, "conj"
    yield "neg out", (x, 1), torch._neg_view(sevens(2, 3)), OutputError, "neg"
    yield "missing operand", (x,), sevens(2, 3), TypeError, "'y'"
    yield "a list", (x, [1.0]), sevens(2, 3), TypeError, "'y'"


@both_kinds
@pytest.mark.parametrize("case", range(15))
def test_errors_come_before_anything_is_written(kind, case, device):
    _, tensors, out, error, match = list(_refusals(device))[case]
    before = out.clone()
    with pytest.raises(error, match=match):
        ADD[kind](*tensors, out=out)
    assert torch.equal(exact(out), exact(before))
    good = torch.zeros(2, 3, device=device)
    same(ADD[kind](torch.ones(2, 3, device=device), 1, out=good), torch.full_like(good, 2.0))


@both_kinds
def test_a_broken_functor_writes_nothing(kind, device):
    broken = {
        "python": numjit.elementwise(lambda x: x.nothing),
        "c++": numjit.elementwise("template <typename T> T f(T x) { return x.nothing; }"),
    }[kind]
    out = torch.full((3,), 7.0, device=device)
    with pytest.raises(numjit.NumjitError, match="nothing"):
        broken(torch.ones(3, device=device), out=out)
    assert out.tolist() == [7.0] * 3


@both_kinds
def test_a_bad_second_out_leaves_the_first_alone(kind, device):
    x, good = torch.ones(3, device=device), torch.full((3,), 7.0, device=device)
    for bad in (
        torch.zeros(2, device=device),
        torch.zeros(3, dtype=torch.int32, device=device),
        good,
        good[:1].expand(3),
    ):
        with pytest.raises(OutputError, match=r"out\[1\]"):
            SUM_AND_DIFFERENCE[kind](x, x, out=(good, bad))
    assert good.tolist() == [7.0] * 3


@both_kinds
def test_outs_that_overlap_each_other_are_refused(kind, device):
    x = torch.ones(3, device=device)
    memory = torch.full((6,), 7.0, device=device)
    with pytest.raises(OverlapError):
        SUM_AND_DIFFERENCE[kind](x, x, out=(memory[:3], memory[2:5]))
    assert memory.tolist() == [7.0] * 6
    SUM_AND_DIFFERENCE[kind](x, x, out=(memory[::2], memory[1::2]))
    assert memory.tolist() == [2.0, 0.0] * 3


@both_kinds
def test_out_that_requires_grad(kind, device):
    leaf = torch.full((3,), 7.0, device=device, requires_grad=True)
    x = torch.ones(3, device=device)
    with pytest.raises((OutputError, RuntimeError), match="grad"):
        ADD[kind](x, 1, out=leaf)
    assert leaf.tolist() == [7.0] * 3
    with torch.no_grad():
        assert ADD[kind](x, 1, out=leaf) is leaf
    assert leaf.tolist() == [2.0] * 3
    out = torch.full((3,), 7.0, device=device)
    with pytest.raises((OutputError, RuntimeError), match="grad"):
        ADD[kind](torch.ones(3, device=device, requires_grad=True), 1, out=out)
    assert out.tolist() == [7.0] * 3


@both_kinds
def test_out_that_requires_grad_of_a_numpy_call(kind):
    array = np.full(3, 7.0, np.float32)
    array.flags.writeable = False
    with pytest.raises(OutputError, match="read-only"):
        ADD[kind](np.ones(3, np.float32), 1, out=array)
    assert array.tolist() == [7.0] * 3


def test_castable_outs_are_those_of_torch(device):
    dtypes = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.float64, torch.complex64)
    for source in dtypes:
        x = torch.tensor([1, 0, 1], device=device).to(source)
        for target in dtypes:
            out = torch.zeros(3, device=device).to(target)
            if torch.can_cast(source, target):
                IDENTITY["python"](x, out=out)
                same(out, x.to(target))
            else:
                with pytest.raises(OutputError):
                    IDENTITY["python"](x, out=out)
                assert not exact(out).any()


# ----------------------------------------------------------------------------------------------- overlap


@both_kinds
def test_in_place(kind, device):
    x = torch.arange(12.0, device=device)
    wanted = x * x
    assert SQUARE[kind](x, out=x) is x
    assert torch.equal(x, wanted)
    y = torch.arange(12.0, device=device).view(3, 4).t()
    wanted = y + y
    ADD[kind](y, y, out=y)
    assert torch.equal(y, wanted)
    z = torch.arange(12.0, device=device)[::2]
    wanted = z + 1
    INCREMENT[kind](z, out=z)
    assert torch.equal(z, wanted)


@both_kinds
def test_overlap_with_an_input_is_refused(kind, device):
    memory = torch.arange(12.0, device=device)
    before = memory.clone()
    square = memory[:9].view(3, 3)
    for x, out in (
        (memory[:-1], memory[1:]),
        (memory[1:], memory[:-1]),
        (square, square.t()),
        (memory[:1].expand(12), memory),
        (memory[::2], memory[:6]),
    ):
        with pytest.raises(OverlapError, match="operand 'x'"):
            INCREMENT[kind](x, out=out)
        assert torch.equal(memory, before)
    with pytest.raises(OverlapError):
        INCREMENT[kind](memory.view(torch.int16)[:12], out=memory)
    assert torch.equal(memory, before)
    whole = memory.view(
        torch.int32
    )  # the same places, another dtype: each element is read before it is written
    wanted = (whole + 1).float()
    INCREMENT[kind](whole, out=memory)
    assert torch.equal(memory, wanted)


@both_kinds
def test_interleaved_views_are_allowed(kind, device):
    memory = torch.arange(12.0, device=device)
    INCREMENT[kind](memory[::2], out=memory[1::2])
    assert memory.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    grid = torch.arange(12.0, device=device).view(3, 4)
    INCREMENT[kind](grid[:, :2], out=grid[:, 2:])
    assert torch.equal(grid[:, 2:], grid[:, :2] + 1)


@settings(max_examples=150)
@given(kind=kinds, data=st.data())
def test_any_two_views_of_one_buffer_give_the_right_answer_or_an_error(kind, data, device):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    source, target = data.draw(views(shape)), data.draw(views(shape, expand=False))
    shift = data.draw(st.integers(-6, 6))
    size = max(source.bounds[1], target.bounds[1]) + 20
    memory = fill(torch.empty(size, device=device), 3, special=False)
    before = memory.clone()
    x = memory.as_strided(shape, source.strides, source.offset + 8)
    out = memory.as_strided(shape, target.strides, target.offset + 8 + shift)
    expected = before.clone()
    expected.as_strided(out.shape, out.stride(), out.storage_offset()).copy_(x.clone() + 1)
    try:
        INCREMENT[kind](x, out=out)
    except OverlapError:
        shared = torch.zeros(size, dtype=torch.int8, device=device)
        shared.as_strided(shape, x.stride(), x.storage_offset()).fill_(1)
        assert shared.as_strided(out.shape, out.stride(), out.storage_offset()).any(), "they are disjoint"
        assert torch.equal(memory, before)
    else:
        assert torch.equal(memory, expected)


@settings(max_examples=100)
@given(kind=kinds, drawn=operands(2), data=st.data(), target=st.sampled_from([torch.float32, torch.float16]))
def test_out_over_random_layouts(kind, drawn, data, target, device):
    x, y = build(drawn, (torch.float32, torch.float32), device, special=False)
    expected = x + y
    check_out(ADD[kind], (x, y), data.draw(out_views(expected.shape)), target, expected, device)


@settings(max_examples=80)
@given(kind=kinds, data=st.data())
def test_in_place_over_random_layouts(kind, data, device):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=4)))
    x = operand(data.draw(out_views(shape)), torch.int32, device, 1, offset=data.draw(st.integers(0, 3)))
    wanted = x + 1
    assert INCREMENT[kind](x, out=x) is x
    assert torch.equal(x, wanted)


@both_kinds
def test_results_that_overlap_nothing_are_new_memory(kind, device):
    x = torch.ones(3, device=device)
    result = IDENTITY[kind](x)
    assert result.data_ptr() != x.data_ptr()
    empty = ADD[kind](torch.ones(0, 3, device=device), 1, out=torch.ones(0, 3, device=device))
    assert empty.shape == (0, 3)


def test_a_write_to_out_is_seen_by_graphs_that_saved_it(device):
    """torch counts writes, so that a backward pass does not use what was overwritten since."""
    add = numjit.elementwise(lambda x, y: x + y)
    x = torch.ones(4, device=device, requires_grad=True)
    out = torch.ones(4, device=device)
    product = x * out  # saves out
    for _ in range(2):
        version = out._version
        add(torch.ones(4, device=device), out, out=out)
        assert out._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        add(torch.ones(4, device=device), torch.ones(4, device=device), out=torch.empty(4, device=device))
