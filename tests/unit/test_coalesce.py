"""Coalescing must visit the same tuples of addresses in as few dimensions as possible."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numjit.errors import ArgumentError, NumjitError
from numjit.plan.coalesce import MAX_COALESCED_RANK, Layout, coalesce
from numjit.semantics.broadcasting import broadcast_shapes, broadcast_strides
from numjit.semantics.overlap import has_internal_overlap
from numjit.semantics.strides import contiguous_strides, is_dense, output_strides
from tests.support.strategies import broadcast_views, layouts, shapes


def visits(shape, strides, offsets):
    """The offset of every operand, over all indices."""
    return [
        tuple(
            offset + sum(i * s for i, s in zip(index, steps, strict=True))
            for steps, offset in zip(strides, offsets, strict=True)
        )
        for index in itertools.product(*map(range, shape))
    ]


def check(shape, strides):
    """Check all promises about one layout, and return it."""
    layout = coalesce(shape, strides)
    assert layout.rank == len(layout.shape) >= 1
    assert all(len(steps) == layout.rank for steps in layout.strides)
    assert len(layout.strides) == len(layout.offsets) == len(strides)
    assert layout.numel == math.prod(shape)
    assert sorted(visits(layout.shape, layout.strides, layout.offsets)) == sorted(
        visits(shape, strides, [0] * len(strides))
    )
    if layout.shape not in {(0,), (1,)}:
        assert 1 not in layout.shape
    order = [tuple(map(abs, column)) for column in zip(*layout.strides, strict=True)]
    assert order == sorted(order)
    for inner, outer in itertools.pairwise(range(layout.rank)):
        assert any(steps[outer] != steps[inner] * layout.shape[inner] for steps in layout.strides)
    for column in zip(*layout.strides, strict=True):
        assert max(column, default=0) > 0 or min(column, default=0) == 0
    return layout


@settings(max_examples=500, deadline=None)
@given(shapes(max_rank=5, max_size=4), st.integers(1, 4), st.data())
def test_visits_the_same_addresses(shape, operands, data):
    check(shape, [data.draw(layouts(shape, negative=True)) for _ in range(operands)])


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 3).flatmap(lambda count: broadcast_views(count, max_rank=5)), st.sampled_from((1, 2, 4, 8))
)
def test_a_call_as_it_is_planned(drawn, itemsize):
    operand_shapes, operands = drawn
    shape = broadcast_shapes(*operand_shapes)
    output = output_strides(shape, [(view.shape, view.strides) for view in operands])
    expanded = [broadcast_strides(shape, view.shape, view.strides) for view in operands]
    layout = check(shape, [tuple(itemsize * s for s in steps) for steps in (output, *expanded)])
    assert layout.offsets == (0,) * (len(operands) + 1)
    if layout.numel > 1:
        assert layout.strides[0][0] == itemsize


@settings(max_examples=200, deadline=None)
@given(shapes(max_rank=6), st.lists(st.sampled_from((1, 2, 4, 8, 16)), min_size=1, max_size=4), st.data())
def test_one_dense_order_for_all_is_one_dimension(shape, itemsizes, data):
    order = data.draw(st.permutations(range(len(shape))))
    dense = [0] * len(shape)
    for dim, step in zip(order, contiguous_strides([shape[dim] for dim in order]), strict=True):
        dense[dim] = step
    layout = check(shape, [tuple(size * step for step in dense) for size in itemsizes])
    assert layout.shape == (math.prod(shape),)
    if layout.numel > 1:
        assert layout.strides == tuple((size,) for size in itemsizes)


@settings(max_examples=200, deadline=None)
@given(shapes(max_rank=5, min_size=1), st.data())
def test_a_dense_output_is_written_in_memory_order(shape, data):
    output = data.draw(layouts(shape, expand=False))
    layout = check(shape, [output, data.draw(layouts(shape))])
    assert not has_internal_overlap(layout.shape, layout.strides[0])
    if is_dense(shape, output) and layout.numel > 1:
        assert layout.strides[0] == tuple(itertools.accumulate((1, *layout.shape[:-1]), lambda a, b: a * b))


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((), [(), ()], Layout((1,), ((0,), (0,)), (0, 0))),
        ((1, 1), [(4, 4)], Layout((1,), ((0,),), (0,))),
        ((3, 0, 2), [(0, 8, 4)], Layout((0,), ((0,),), (0,))),
        ((2, 3), [(12, 4), (12, 4)], Layout((6,), ((4,), (4,)), (0, 0))),
        ((2, 1, 3), [(12, 99, 4), (12, 7, 4)], Layout((6,), ((4,), (4,)), (0, 0))),
        # A row for every column, and a column for every row.
        ((2, 3), [(12, 4), (0, 4)], Layout((3, 2), ((4, 12), (4, 0)), (0, 0))),
        ((2, 3), [(12, 4), (4, 0)], Layout((3, 2), ((4, 12), (0, 4)), (0, 0))),
        # A number for all.
        ((2, 3), [(12, 4), (0, 0)], Layout((6,), ((4,), (0,)), (0, 0))),
        # Transposed throughout, and transposed against a contiguous output.
        ((2, 3), [(4, 8), (4, 8)], Layout((6,), ((4,), (4,)), (0, 0))),
        ((2, 3), [(12, 4), (4, 8)], Layout((3, 2), ((4, 12), (8, 4)), (0, 0))),
        # Backwards in every operand, in all but one, and in one dimension only.
        ((2, 3), [(-12, -4), (-24, -8)], Layout((6,), ((4,), (8,)), (-20, -40))),
        ((5,), [(4,), (-4,)], Layout((5,), ((4,), (-4,)), (0, 0))),
        ((2, 3), [(12, -4), (0, -8)], Layout((3, 2), ((4, 12), (8, 0)), (-8, -16))),
        # A bias over the middle dimension: the two outer dimensions stay apart.
        ((2, 3, 4), [(48, 16, 4), (0, 4, 0)], Layout((4, 3, 2), ((4, 16, 48), (0, 4, 0)), (0, 0))),
        ((2, 3, 4), [(48, 16, 4), (16, 0, 4)], Layout((4, 3, 2), ((4, 16, 48), (4, 0, 16)), (0, 0))),
        # Ties of the first operand go by the second, ties of all by position, the last dimension first.
        ((2, 3), [(4, 4)], Layout((3, 2), ((4, 4),), (0,))),
        ((2, 3), [(0, 0), (4, 8)], Layout((6,), ((0,), (4,)), (0, 0))),
    ],
)
def test_examples(shape, strides, expected):
    assert coalesce(shape, strides) == expected


def unmergeable(rank):
    """A shape of `rank` 2s in which a second operand is expanded in every other dimension."""
    shape = (2,) * rank
    dense = contiguous_strides(shape)
    return shape, [dense, tuple(step * (dim % 2) for dim, step in enumerate(dense))]


def test_the_highest_rank_is_accepted():
    assert coalesce(*unmergeable(MAX_COALESCED_RANK)).rank == MAX_COALESCED_RANK == 25
    assert coalesce((1,) * 39 + (2,) * 25, [(0,) * 39 + contiguous_strides((2,) * 25)]).rank == 1


def test_more_dimensions_are_refused_with_the_limit():
    with pytest.raises(ArgumentError, match=r"need 26 nested loops.*at most 25.*contiguous") as caught:
        coalesce(*unmergeable(26))
    assert isinstance(caught.value, NumjitError)


def test_layouts_are_plain_values():
    layout = coalesce((2, 3), [[12, 4]])
    assert layout == Layout((6,), ((4,),), (0,))
    assert hash(layout) == hash(Layout((6,), ((4,),), (0,)))
    with pytest.raises(AttributeError):
        layout.shape = (7,)
