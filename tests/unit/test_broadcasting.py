"""Broadcasting of shapes and strides against torch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numjit.errors import BroadcastError, NumjitError
from numjit.semantics.broadcasting import MAX_RANK, broadcast_shapes, broadcast_strides
from tests.support import oracle
from tests.support.strategies import broadcast_views, broadcastable, shapes


@settings(max_examples=300, deadline=None)
@given(st.lists(shapes(max_rank=3, max_size=2), min_size=1, max_size=4) | broadcastable(3))
def test_shape_or_error_as_torch(drawn):
    try:
        # broadcast_tensors is infer_size over all of them, which TensorIterator uses too.
        expected = tuple(torch.broadcast_tensors(*(torch.empty(shape) for shape in drawn))[0].shape)
    except RuntimeError:
        expected = None
    if expected is None:
        with pytest.raises(BroadcastError):
            broadcast_shapes(*drawn)
    else:
        assert broadcast_shapes(*drawn) == expected


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        ([], ()),
        ([()], ()),
        ([(), ()], ()),
        ([(3,), ()], (3,)),
        ([(1,), (0,)], (0,)),
        ([(0,), (1,)], (0,)),
        ([(2, 1), (3,)], (2, 3)),
        ([(1,) * MAX_RANK, (5,)], (1,) * (MAX_RANK - 1) + (5,)),
        ([(2,) * 40], (2,) * 40),
    ],
)
def test_examples(drawn, expected):
    assert broadcast_shapes(*drawn) == expected


def test_accepts_torch_sizes():
    found = broadcast_shapes(torch.Size([2, 1]), torch.Size([3]))
    assert found == (2, 3)
    assert type(broadcast_shapes(torch.Size([2, 1]))) is tuple


def test_the_message_names_both_operands_their_shapes_and_the_dimension():
    with pytest.raises(BroadcastError) as caught:
        broadcast_shapes((1, 5), (4, 3, 1), (2, 5), names=("x", "y", "bias"))
    message = str(caught.value)
    assert "'y' of shape (4, 3, 1) and 'bias' of shape (2, 5)" in message
    assert "at dimension -2 their sizes are 3 and 2" in message
    assert isinstance(caught.value, NumjitError)
    assert isinstance(caught.value, ValueError)


def test_the_message_without_names_counts_operands():
    with pytest.raises(BroadcastError, match=r"operand 0 of shape \(0,\) and operand 1 of shape \(2,\)"):
        broadcast_shapes((0,), (2,))


@pytest.mark.parametrize("shape", [(1,) * 65, (2,) * 70])
def test_too_many_dimensions(shape):
    with pytest.raises(BroadcastError, match=rf"'y' of shape .* has {len(shape)} dimensions and at most 64"):
        broadcast_shapes((1,), shape, names=["x", "y"])
    with pytest.raises(BroadcastError, match="at most 64"):
        broadcast_shapes(shape, shape)


def found_strides(shape, view):
    return broadcast_strides(shape, view.shape, view.strides)


@settings(max_examples=300, deadline=None)
@given(broadcast_views(2))
def test_strides_as_torchs_expand(drawn):
    operand_shapes, views = drawn
    shape = broadcast_shapes(*operand_shapes)
    for view in views:
        expected = oracle.tensor(view).expand(shape).stride()
        added = len(shape) - len(view.shape)
        assert found_strides(shape, view)[added:] == expected[added:]
        # torch gives a dimension of size 1 that it adds in front a stride of its own.
        assert set(found_strides(shape, view)[:added]) <= {0}


def test_an_expanded_dimension_has_stride_0():
    assert broadcast_strides((2, 3, 4), (3, 1), (1, 7)) == (0, 1, 0)
    assert broadcast_strides((2, 1), (1, 1), (5, 7)) == (0, 7)
    assert broadcast_strides((0, 2), (1, 2), (2, 1)) == (0, 1)
    assert broadcast_strides((3,), (), ()) == (0,)


@pytest.mark.parametrize(("shape", "operand"), [((3,), (2,)), ((1,), (3,)), ((3,), (1, 3)), ((2, 3), (0, 3))])
def test_strides_of_a_shape_that_does_not_fit(shape, operand):
    with pytest.raises(BroadcastError, match="does not broadcast to"):
        broadcast_strides(shape, operand, (1,) * len(operand))
