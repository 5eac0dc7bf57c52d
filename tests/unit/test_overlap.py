"""Memory overlap against the sets of bytes that arrays really occupy."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numjit.semantics import overlap
from numjit.semantics.overlap import Extent, Overlap, classify, has_internal_overlap
from tests.support.strategies import layouts, shapes, views

ADDRESS = 0x7F00_0000_0000


def item_addresses(extent):
    """Address of every element, in C order."""
    return [
        extent.pointer + sum(i * s for i, s in zip(index, extent.strides, strict=True))
        for index in itertools.product(*map(range, extent.shape))
    ]


def occupied(extent):
    """Every byte of the array; as many times as elements hold it."""
    return [address + byte for address in item_addresses(extent) for byte in range(extent.itemsize)]


def extent(tensor):
    size = tensor.element_size()
    return Extent(tensor.data_ptr(), tuple(tensor.shape), tuple(s * size for s in tensor.stride()), size)


@st.composite
def extents(draw, *, max_rank=3, max_size=4, spread=12):
    """Small arrays that may sit at any byte of a small area, in or out of step with their itemsize."""
    itemsize = draw(st.sampled_from((1, 2, 3, 4)))
    shape = draw(shapes(max_rank=max_rank, max_size=max_size))
    if draw(st.booleans()):
        strides = tuple(s * itemsize for s in draw(layouts(shape, negative=True)))
    else:
        strides = tuple(draw(st.lists(st.integers(-9, 9), min_size=len(shape), max_size=len(shape))))
    return Extent(ADDRESS + draw(st.integers(0, spread)), shape, strides, itemsize)


@settings(max_examples=800, deadline=None)
@given(extents(max_rank=4))
def test_internal_overlap_is_exact(drawn):
    bytes_ = occupied(drawn)
    assert has_internal_overlap(drawn.shape, drawn.strides, drawn.itemsize) == (
        len(set(bytes_)) < len(bytes_)
    )


@settings(max_examples=300, deadline=None)
@given(shapes(max_rank=6).flatmap(lambda shape: views(shape, expand=False, negative=True)))
def test_no_view_made_by_slicing_and_permuting_overlaps_itself(view):
    assert not has_internal_overlap(view.shape, view.strides)


@settings(max_examples=800, deadline=None)
@given(extents(), extents())
def test_classification_is_exact(a, b):
    found = classify(a, b)
    assert found is classify(b, a)
    shared = set(occupied(a)) & set(occupied(b))
    assert (found is Overlap.NONE) == (not shared)
    if found is Overlap.SAME:
        assert a.itemsize == b.itemsize
        assert item_addresses(a) == item_addresses(b)
    elif a.shape == b.shape and a.itemsize == b.itemsize and shared:
        assert item_addresses(a) != item_addresses(b)


@settings(max_examples=300, deadline=None)
@given(extents(), st.lists(st.integers(-40, 40), max_size=2), st.data())
def test_strides_of_size_1_and_leading_ones_do_not_matter(a, extra, data):
    strides = tuple(
        stride if size > 1 else data.draw(st.integers(-9, 9))
        for size, stride in zip(a.shape, a.strides, strict=True)
    )
    b = a._replace(shape=(1,) * len(extra) + a.shape, strides=(*extra, *strides))
    assert classify(a, b) is (Overlap.NONE if 0 in a.shape else Overlap.SAME)


X = torch.zeros(12, 12)
FLAT = torch.zeros(24)
COMPLEX = torch.zeros(6, dtype=torch.complex64)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (X, X, Overlap.SAME),
        (X, X.view(1, 12, 12), Overlap.SAME),
        (X.t(), X.t(), Overlap.SAME),
        (X[:, :1], X[:, :1].clone(), Overlap.NONE),
        (FLAT[::2], FLAT[1::2], Overlap.NONE),
        (FLAT[::2], FLAT[::2], Overlap.SAME),
        (FLAT[::2], FLAT[::3], Overlap.PARTIAL),
        (FLAT[1::4], FLAT[::2], Overlap.NONE),
        (X[:, :4], X[:, 4:8], Overlap.NONE),
        (X[:, :5], X[:, 4:8], Overlap.PARTIAL),
        (X[::2, ::2], X[1::2, 1::2], Overlap.NONE),
        (X[::2, 1::2], X[1::2, ::2], Overlap.NONE),
        (X[:6], X[6:], Overlap.NONE),
        (X[:, :6].t(), X[:, 6:].t(), Overlap.NONE),
        (X, X.t(), Overlap.PARTIAL),
        (FLAT[1:], FLAT[:-1], Overlap.PARTIAL),
        (X, X[:1].expand(12, 12), Overlap.PARTIAL),
        (X[:1, :1], X[0, 0], Overlap.SAME),
        (COMPLEX.real, COMPLEX.imag, Overlap.NONE),
        (COMPLEX, COMPLEX.real, Overlap.PARTIAL),
        (FLAT, FLAT.view(torch.int32), Overlap.SAME),
        (FLAT, FLAT.view(torch.uint8)[:24], Overlap.PARTIAL),
        (FLAT[:0], FLAT, Overlap.NONE),
        (FLAT[3], FLAT, Overlap.PARTIAL),
        (X.diagonal(), X, Overlap.PARTIAL),
        (X.diagonal(), X.diagonal(1), Overlap.NONE),
    ],
)
def test_torch_views(a, b, expected):
    assert classify(extent(a), extent(b)) is expected
    assert classify(extent(b), extent(a)) is expected


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (FLAT.as_strided((2, 3), (3, 2)), False),
        (FLAT.as_strided((3, 2), (2, 3)), False),
        (FLAT.as_strided((2, 4), (3, 2)), False),
        (FLAT.as_strided((3, 4), (3, 2)), True),
        (FLAT.as_strided((3, 3), (1, 3)), False),
        (FLAT.as_strided((4, 3), (1, 3)), True),
        (FLAT.unfold(0, 4, 4), False),
        (FLAT.unfold(0, 4, 3), True),
        (FLAT.expand(1, 24), False),
        (FLAT.expand(2, 24), True),
        (FLAT[:1].expand(5), True),
        (FLAT[:0].expand(5, 0), False),
        (X.t(), False),
        (X[::3, 1::5].t(), False),
        (FLAT[0], False),
    ],
)
def test_torch_views_of_one_tensor(view, expected):
    size = view.element_size()
    assert has_internal_overlap(view.shape, view.stride()) is expected
    assert has_internal_overlap(view.shape, [s * size for s in view.stride()], size) is expected


def test_negative_strides():
    base = np.zeros((6, 8))
    backwards = base[::-1, ::-2]
    a = Extent(base.ctypes.data, base.shape, base.strides, 8)
    b = Extent(backwards.ctypes.data, backwards.shape, backwards.strides, 8)
    others = base[:, ::2]
    c = Extent(others.ctypes.data, others.shape, others.strides, 8)
    assert classify(a, b) is Overlap.PARTIAL
    assert classify(b, c) is Overlap.NONE
    assert classify(b, b) is Overlap.SAME
    assert not has_internal_overlap(backwards.shape, backwards.strides, 8)


def test_addresses_are_never_read():
    # Nothing is mapped here; the top of the address space, too, only takes part in sums.
    for pointer in (16, 2**63, 2**64 - 4096):
        a = Extent(pointer, (4, 5), (80, 16), 8)
        assert classify(a, a._replace(pointer=pointer + 8)) is Overlap.NONE
        assert classify(a, a._replace(pointer=pointer + 4)) is Overlap.PARTIAL
        assert classify(a, a) is Overlap.SAME


def test_shapes_beyond_the_address_space():
    huge = Extent(ADDRESS, (2**40, 2**40), (0, 0), 4)
    assert classify(huge, huge._replace(pointer=ADDRESS + 4)) is Overlap.NONE
    assert classify(huge, Extent(ADDRESS, (2,), (4,), 4)) is Overlap.PARTIAL
    assert has_internal_overlap((2**40, 2**40), (1, 1))
    assert not has_internal_overlap((2**40, 2**20), (2**20, 1))


def test_a_problem_that_is_too_hard_counts_as_overlap(monkeypatch):
    # Disjoint, which takes the solver more than one step to see.
    a = Extent(ADDRESS + 18, (2, 6), (3, 19), 1)
    b = Extent(ADDRESS, (8, 8), (27, 38), 1)
    assert classify(a, b) is Overlap.NONE
    monkeypatch.setattr(overlap, "_MAX_WORK", 1)
    assert classify(a, b) is Overlap.PARTIAL


def test_the_bound_holds_the_time():
    generator = np.random.default_rng(0)
    worst = 0.0
    for _ in range(40):
        a, b = (
            Extent(
                ADDRESS,
                tuple(map(int, generator.integers(2, 50, 9))),
                tuple(map(int, generator.integers(1, 10**6, 9))),
                1,
            )
            for _ in range(2)
        )
        before = time.perf_counter()
        classify(a, b._replace(pointer=ADDRESS + 54321))
        worst = max(worst, time.perf_counter() - before)
    assert worst < 1.0
