"""Hypothesis strategies for dtypes, shapes and memory layouts; nothing here imports torch.

Mutually broadcastable shapes are drawn from a hidden base shape, so that they shrink well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hypothesis import strategies as st

from numjit import dtypes
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category

NUMBER_DTYPES = (dtypes.bool_, dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128)
DEFAULT_DTYPES = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
ARRAY_CATEGORIES = (Category.ZERO_DIM, Category.DIM)

#: Every type that one argument of a call can have.
ARGUMENT_TYPES = tuple(
    [ArgumentType(dtype, Category.NUMBER) for dtype in NUMBER_DTYPES]
    + [ArgumentType(dtype, category) for category in ARRAY_CATEGORIES for dtype in dtypes.ALL]
)


def argument_types() -> st.SearchStrategy[ArgumentType]:
    """The type of any argument: a number, a 0-dim array or an array."""
    return st.sampled_from(ARGUMENT_TYPES)


@st.composite
def shapes(
    draw: st.DrawFn, *, min_rank: int = 0, max_rank: int = 6, min_size: int = 0, max_size: int = 4
) -> tuple[int, ...]:
    """Draw a shape. Few have a size of 0: without elements most rules have nothing to decide."""
    sizes = st.integers(max(min_size, 1), max_size)
    shape = draw(st.lists(sizes, min_size=min_rank, max_size=max_rank))
    if min_size == 0 and shape and draw(st.integers(0, 9)) == 9:
        shape[draw(st.integers(0, len(shape) - 1))] = 0
    return tuple(shape)


@st.composite
def broadcastable(
    draw: st.DrawFn, count: int, *, max_rank: int = 6, min_size: int = 0, max_size: int = 4
) -> tuple[tuple[int, ...], ...]:
    """Draw `count` shapes that broadcast together; each keeps the base shape half of the time."""
    base = draw(shapes(max_rank=max_rank, min_size=min_size, max_size=max_size))
    drawn = []
    for _ in range(count):
        shape = base
        if draw(st.booleans()):
            ones = draw(st.lists(st.booleans(), min_size=len(base), max_size=len(base)))
            kept = draw(st.integers(0, len(base)))
            shape = tuple(1 if one else size for one, size in zip(ones, base, strict=True))[
                len(base) - kept :
            ]
        drawn.append(shape)
    return tuple(drawn)


@dataclasses.dataclass(frozen=True)
class View:
    """One array as a view of a flat buffer; strides and offset count elements of the buffer."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def bounds(self) -> tuple[int, int]:
        """First element of the buffer, and the one after the last, that a non-empty view reaches."""
        low = high = self.offset
        for size, stride in zip(self.shape, self.strides, strict=True):
            step = stride * (max(size, 1) - 1)
            low, high = (low + step, high) if step < 0 else (low, high + step)
        return low, high + 1


@st.composite
def layouts(
    draw: st.DrawFn, shape: Sequence[int], *, expand: bool = True, negative: bool = False
) -> tuple[int, ...]:
    """Draw strides that permuting, padding, slicing and expanding give an array of this shape.

    Size-1 dimensions get strides that nothing else would tell; now and then (with `expand`) all strides
    are arbitrary, as ``as_strided`` and ``unfold`` make them.
    """
    rank = len(shape)
    if expand and rank and draw(st.integers(0, 9)) == 9:
        return tuple(draw(st.lists(st.integers(0, 7), min_size=rank, max_size=rank)))
    gappy, expanded, odd = draw(st.booleans()), expand and draw(st.integers(0, 2)) == 2, draw(st.booleans())
    strides = [0] * rank
    step = 1
    for dim in draw(st.permutations(range(rank))):
        size = shape[dim]
        if expanded and draw(st.integers(0, 2)) == 2:
            continue
        skip = draw(st.sampled_from((1, 1, 2))) if gappy else 1
        gap = draw(st.sampled_from((0, 0, 1))) if gappy else 0
        strides[dim] = draw(st.integers(0, 20)) if odd and size == 1 else step * skip
        step *= skip * max(size + gap, 1)
        if negative and draw(st.booleans()):
            strides[dim] = -strides[dim]
    return tuple(strides)


@st.composite
def views(draw: st.DrawFn, shape: Sequence[int], *, expand: bool = True, negative: bool = False) -> View:
    """Draw one view of this shape that starts at the first element it needs."""
    view = View(tuple(shape), draw(layouts(shape, expand=expand, negative=negative)))
    return dataclasses.replace(view, offset=-view.bounds[0])


@st.composite
def broadcast_views(
    draw: st.DrawFn, count: int, *, max_rank: int = 6, max_size: int = 4
) -> tuple[tuple[int, ...], tuple[View, ...]]:
    """Draw views that broadcast together; often all of one shape and sometimes of one layout."""
    drawn = draw(broadcastable(count, max_rank=max_rank, max_size=max_size))
    made: list[View] = []
    for shape in drawn:
        alike = [view for view in made if view.shape == shape]
        again = alike and draw(st.integers(0, 2)) == 0
        made.append(draw(st.sampled_from(alike)) if again else draw(views(shape)))
    return drawn, tuple(made)
