"""Strides of new results against one real TensorIterator of torch's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from numjit.semantics.broadcasting import broadcast_shapes
from numjit.semantics.strides import contiguous_strides, is_contiguous, is_dense, output_strides
from tests.support import oracle
from tests.support.strategies import View, broadcast_views, layouts, shapes, views

# Ops that are one plain TensorIterator over all operands. Operands have one dtype (but for where's
# condition): the CPU kernels copy those of another dtype first, which may change their strides.
UNARY = (torch.neg, torch.sin)
BINARY = (torch.add, torch.eq)
TERNARY = (torch.addcmul, torch.lerp)

often = settings(max_examples=400, deadline=None)


def geometry(value):
    """Shape and strides of a tensor; a number is an operand without dimensions."""
    if not isinstance(value, torch.Tensor):
        return (), ()
    return tuple(value.shape), tuple(value.stride())


def numjit_answer(*operands):
    described = [geometry(operand) for operand in operands]
    shape = broadcast_shapes(*(shape for shape, _ in described))
    return shape, output_strides(shape, described)


def check(op, *operands):
    assert numjit_answer(*operands) == geometry(op(*operands))


@often
@given(shapes().flatmap(views), st.sampled_from(UNARY))
@example(View((5, 3, 1, 1), (3, 1, 3, 3)), torch.neg)
@example(View((5, 3, 1, 1), (3, 1, 1, 1)), torch.neg)
@example(View((2, 1, 1, 1), (7, 7, 7, 7)), torch.neg)
@example(View((1, 3, 2), (1, 2, 1)), torch.neg)
@example(View((3, 2, 2), (1, 1, 1)), torch.neg)
def test_one_operand(view, op):
    check(op, oracle.tensor(view))


@often
@given(broadcast_views(2), st.sampled_from(BINARY))
def test_two_operands(drawn, op):
    check(op, *map(oracle.tensor, drawn[1]))


@often
@given(broadcast_views(3), st.sampled_from(TERNARY))
def test_three_operands(drawn, op):
    check(op, *map(oracle.tensor, drawn[1]))


@often
@given(broadcast_views(3))
def test_three_operands_of_two_itemsizes(drawn):
    condition, *values = drawn[1]
    check(torch.where, oracle.tensor(condition, torch.bool), *map(oracle.tensor, values))


@often
@given(broadcast_views(3), st.sampled_from(TERNARY), st.integers(0, 2), st.integers(1, 2))
def test_an_operand_given_again_changes_nothing(drawn, op, which, times):
    # No CPU op of torch's is one iterator over four or five inputs; a repeated one never votes anew.
    operands = list(map(oracle.tensor, drawn[1]))
    repeated = operands[: which + 1] + [operands[which]] * times + operands[which + 1 :]
    assert numjit_answer(*repeated) == geometry(op(*operands))


@often
@given(shapes().flatmap(views), st.booleans())
def test_a_number_is_an_operand_without_dimensions(view, zero_dim):
    check(torch.add, oracle.tensor(view), torch.tensor(2.0) if zero_dim else 2.0)


@often
@given(broadcast_views(2), st.booleans())
def test_a_number_among_three_operands(drawn, last):
    condition = oracle.tensor(drawn[1][0], torch.bool)
    value = oracle.tensor(drawn[1][1])
    check(torch.where, condition, *((value, 2.0) if last else (2.0, value)))


@settings(max_examples=200, deadline=None)
@given(shapes(min_rank=4, max_rank=5, min_size=1, max_size=3), st.integers(1, 3), st.data())
def test_channels_last(shape, count, data):
    kind = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    op = {1: torch.neg, 2: torch.add, 3: torch.addcmul}[count]
    operands = []
    for _ in range(count):
        made = torch.zeros(shape)
        if data.draw(st.integers(0, 3)):
            made = made.to(memory_format=kind)
        if data.draw(st.integers(0, 5)) == 0:
            made = made[:, :1]
        # A size of 1 can have any stride in a channels_last tensor; the result's is canonical.
        strides = [
            stride if size > 1 or data.draw(st.booleans()) else data.draw(st.integers(0, 20))
            for size, stride in zip(made.shape, made.stride(), strict=True)
        ]
        operands.append(made.as_strided(made.shape, strides))
    check(op, *operands)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        # Dense in another order: the strides of size-1 dimensions are handed on as they are.
        (View((2, 1, 3), (1, 50, 2)), (1, 50, 2)),
        (View((2, 3, 1), (1, 2, 0)), (1, 2, 0)),
        # channels_last: they are not.
        (View((2, 3, 1, 2), (6, 1, 17, 3)), (6, 1, 6, 3)),
        # channels_last_3d is only dense.
        (View((2, 3, 1, 2, 1), (6, 1, 17, 3, 19)), (6, 1, 17, 3, 19)),
        # Contiguous.
        (View((2, 1, 3, 1), (3, 50, 1, 0)), (3, 3, 1, 1)),
    ],
)
def test_strides_of_size_1_dimensions(view, expected):
    assert numjit_answer(oracle.tensor(view))[1] == torch.neg(oracle.tensor(view)).stride() == expected


def t(*shape):
    return torch.zeros(shape)


def channels_last(*shape):
    return t(*shape).to(memory_format=torch.channels_last)


STATED = [
    ([t(3, 4).t()], (1, 4)),
    ([t(2, 3, 4).permute(2, 0, 1)], (1, 12, 4)),
    ([t(4, 6).t()[::2]], (1, 3)),
    ([t(4, 3), t(3, 4).t()], (3, 1)),
    ([t(3, 4).t(), t(4, 3)], (1, 4)),
    ([t(1, 3, 1, 1), channels_last(2, 3, 4, 5)], (60, 1, 15, 3)),
    ([t(2, 3, 4, 5), channels_last(2, 3, 4, 5)], (60, 20, 5, 1)),
    ([t(3), t(3, 4).t()], (1, 4)),
    ([channels_last(2, 3, 4, 5)] * 2, (60, 1, 15, 3)),
    ([t(2, 3), t(2, 3)], (3, 1)),
    ([t(3, 2).t()] * 3, (1, 2)),
    ([t(), t()], ()),
    ([], ()),
]


@pytest.mark.parametrize(("operands", "expected"), STATED)
def test_stated_examples(operands, expected):
    assert numjit_answer(*operands)[1] == expected
    if operands:
        op = {1: torch.neg, 2: torch.add, 3: torch.addcmul}[len(operands)]
        assert op(*operands).stride() == expected


def test_a_number_can_change_the_sort():
    # Alone, the tensor counts as contiguous; beside a number its dimensions are sorted, those of size 1 too.
    x = torch.zeros(15).as_strided((5, 3, 1, 1), (3, 1, 3, 3))
    assert numjit_answer(x)[1] == torch.neg(x).stride() == (3, 1, 1, 1)
    assert numjit_answer(x, 1.0)[1] == torch.add(x, 1.0).stride() == (3, 1, 3, 3)


def test_without_operands_the_result_is_contiguous():
    assert output_strides((2, 3, 4), []) == (12, 4, 1)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 4).flatmap(broadcast_views))
def test_a_result_is_dense_whatever_the_operands(drawn):
    shape = broadcast_shapes(*drawn[0])
    assert is_dense(shape, output_strides(shape, [(view.shape, view.strides) for view in drawn[1]]))


@settings(max_examples=200, deadline=None)
@given(shapes(max_rank=4, min_size=2).flatmap(lambda shape: views(shape, expand=False, negative=True)))
def test_negative_strides_count_by_magnitude(view):
    # As in NumPy, whose result strides keep the order of dimensions of one dense or gappy operand.
    base = np.zeros(view.bounds[1], np.int8)
    array = np.lib.stride_tricks.as_strided(base[view.offset :], view.shape, view.strides)
    assert output_strides(view.shape, [(view.shape, view.strides)]) == np.positive(array).strides


@settings(max_examples=200, deadline=None)
@given(shapes().flatmap(lambda shape: st.tuples(st.just(shape), layouts(shape))))
def test_contiguous_and_dense_as_torch(drawn):
    shape, strides = drawn
    made = oracle.tensor(View(shape, strides))
    assert is_contiguous(shape, strides) == made.is_contiguous()
    assert is_dense(shape, strides) == torch.ops.aten.is_non_overlapping_and_dense(made)


@given(shapes())
def test_contiguous_strides_as_torch(shape):
    assert contiguous_strides(shape) == torch.empty(shape).stride()
    assert math.prod(shape) == 0 or is_contiguous(shape, contiguous_strides(shape))
