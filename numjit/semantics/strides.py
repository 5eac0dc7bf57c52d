"""The strides of a new result: what one ``at::TensorIterator`` over the operands would allocate.

The source of the rule is ``aten/src/ATen/TensorIterator.cpp``: ``compute_fast_setup_type``,
``reorder_dimensions`` and ``allocate_or_resize_outputs``. Strides here count elements, though any unit
that is constant within one operand gives the same answer: an operand's strides are compared only with
each other, except by the contiguous and dense tests, which need elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from numjit.semantics.broadcasting import broadcast_strides

__all__ = ["contiguous_strides", "is_contiguous", "is_dense", "output_strides", "slowest_first"]

# Dimensions of a channels_last (NHWC) tensor, fastest first.
_CHANNELS_LAST_ORDER = (1, 3, 2, 0)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return C-order strides in elements; size 0 counts as 1, as in torch."""
    strides = [1] * len(shape)
    step = 1
    for dim in range(len(shape) - 1, -1, -1):
        strides[dim] = step
        step *= shape[dim] or 1
    return tuple(strides)


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie in C order without gaps; strides of size-1 dimensions do not matter."""
    return 0 in shape or _follows(shape, strides, range(len(shape) - 1, -1, -1))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie without gaps or overlap in some order (``is_non_overlapping_and_dense``)."""
    if 0 in shape:
        return True
    return _follows(shape, strides, slowest_first(strides)[::-1])


def slowest_first(strides: Sequence[int]) -> list[int]:
    """Return the dimensions in the order of their strides, the largest first; equal ones keep their order.

    Compares and does not sort, because under torch.compile strides may be symbols, which are no keys.
    """
    order: list[int] = []
    for dim in range(len(strides)):
        place = len(order)
        while place and strides[order[place - 1]] < strides[dim]:
            place -= 1
        order.insert(place, dim)
    return order


def _is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a 4-dim array lies in NHWC order without gaps.

    TensorIterator has no such test for 5 dimensions: channels_last_3d comes out of its rule for equal
    dense strides and of the general one.
    """
    return len(shape) == 4 and _follows(shape, strides, _CHANNELS_LAST_ORDER)


def _follows(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Whether elements lie without gaps with the dimensions in `order`, fastest first."""
    expected = 1
    for dim in order:
        size = shape[dim]
        if size != 1:
            if strides[dim] != expected:
                return False
            expected *= size
    return True


def output_strides(
    shape: tuple[int, ...], operands: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
) -> tuple[int, ...]:
    """Return the element strides of a new result.

    Operands of one shape that are all contiguous, all channels_last, or all dense with equal strides
    hand their layout on. Otherwise the result is dense, with its dimensions in the order of the operands'
    strides: the first operand with an unambiguous answer decides for each pair of dimensions, expanded
    dimensions (stride 0) do not vote, size-1 dimensions do, and equal strides put the smaller size first.

    Negative strides, which torch does not have, count by magnitude: a reversed NumPy array keeps the
    order of its dimensions.

    Parameters
    ----------
    shape
        The broadcast shape of all operands.
    operands
        Shape and element strides of every operand in order, as they are before broadcasting. Numbers and
        0-dim arrays take part, as ``((), ())``: they count as operands of another shape.
    """
    if not operands:
        return contiguous_strides(shape)
    # Lengths first: tuples compare members before lengths, and a symbolic size keeps every comparison.
    if all(len(own) == len(shape) and own == shape for own, _ in operands):
        if all(is_contiguous(shape, strides) for _, strides in operands):
            return contiguous_strides(shape)
        if all(_is_channels_last(shape, strides) for _, strides in operands):
            return _dense_strides(shape, _CHANNELS_LAST_ORDER)
        last = operands[-1][1]
        if is_dense(shape, last) and all(strides == last for _, strides in operands):
            return tuple(last)
    rank = len(shape)
    order = _sorted_dimensions(
        shape, [broadcast_strides(shape, *operand) for operand in operands if operand[0]]
    )
    if order == list(range(rank - 1, -1, -1)):
        return contiguous_strides(shape)
    return _dense_strides(shape, order)


def _dense_strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return gapless strides with the dimensions in `order`, fastest first."""
    strides = [1] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def _sorted_dimensions(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[int]:
    """Return the dimensions, fastest first, in the order that the operands' strides suggest.

    An insertion sort, as in ATen: the comparison is neither total nor transitive, so that another
    sorting algorithm would answer differently.
    """
    magnitudes = [[abs(stride) for stride in operand] for operand in strides]
    order = list(range(len(shape) - 1, -1, -1))
    for start in range(1, len(order)):
        moving = start
        for other in range(start - 1, -1, -1):
            comparison = _compare(shape, magnitudes, order[other], order[moving])
            if comparison > 0:
                order[other], order[moving] = order[moving], order[other]
                moving = other
            elif comparison < 0:
                break
    return order


def _compare(shape: Sequence[int], magnitudes: Sequence[Sequence[int]], dim0: int, dim1: int) -> int:
    """Return 1 if `dim0` is to be slower than `dim1`, -1 if faster, 0 if no operand can tell."""
    for strides in magnitudes:
        stride0, stride1 = strides[dim0], strides[dim1]
        if stride0 == 0 or stride1 == 0:
            continue
        if stride0 != stride1:
            return 1 if stride0 > stride1 else -1
        if shape[dim0] > shape[dim1]:
            return 1
    return 0
