"""Right-aligned broadcasting of shapes and strides, as in torch and NumPy."""

from __future__ import annotations

from collections.abc import Sequence

from numjit.errors import BroadcastError

__all__ = ["MAX_RANK", "broadcast_shapes", "broadcast_strides"]

#: The highest rank of an array: torch's and NumPy's own limit.
MAX_RANK = 64


def broadcast_shapes(*shapes: tuple[int, ...], names: Sequence[str] | None = None) -> tuple[int, ...]:
    """Return the shape that all shapes broadcast to.

    Dimensions align at the right. A size of 1, or a missing dimension, meets any other size and gives
    that size (1 meets 0 is 0); two other sizes must be equal. No shapes give ``()``.

    Parameters
    ----------
    *shapes
        One shape per operand.
    names
        What the message calls each operand; one name per shape.

    Raises
    ------
    BroadcastError
        Two sizes differ and neither is 1, or a shape has more than 64 dimensions.
    """
    if not shapes:
        return ()
    first = shapes[0]
    rank = len(first)
    if rank <= MAX_RANK and all(shape == first for shape in shapes):
        return tuple(first)
    rank = max(map(len, shapes))
    if rank > MAX_RANK:
        at = next(index for index, shape in enumerate(shapes) if len(shape) > MAX_RANK)
        raise BroadcastError(
            f"{_describe(shapes, names, at)} has {len(shapes[at])} dimensions and at most {MAX_RANK} are "
            "supported; reshape it to fewer"
        )
    result = [1] * rank
    # Which operand decided the size of each dimension, for the message alone.
    deciders = [0] * rank
    for index, shape in enumerate(shapes):
        offset = rank - len(shape)
        for dim, size in enumerate(shape, start=offset):
            if size == 1 or size == result[dim]:
                continue
            if result[dim] != 1:
                before = deciders[dim]
                raise BroadcastError(
                    f"{_describe(shapes, names, before)} and {_describe(shapes, names, index)} do not "
                    f"broadcast: at dimension {dim - rank} their sizes are {result[dim]} and {size}; "
                    "make them equal, or one of them 1"
                )
            result[dim] = size
            deciders[dim] = index
    return tuple(result)


def _describe(shapes: Sequence[tuple[int, ...]], names: Sequence[str] | None, index: int) -> str:
    """Name one operand and its shape for a message."""
    who = f"operand {index}" if names is None else repr(names[index])
    return f"{who} of shape {tuple(shapes[index])}"


def broadcast_strides(
    shape: tuple[int, ...], operand_shape: tuple[int, ...], operand_strides: tuple[int, ...]
) -> tuple[int, ...]:
    """Return an operand's strides over a shape that it broadcasts to.

    Dimensions that the operand lacks or that expand its size of 1 get stride 0, all others keep theirs
    (in whatever unit: elements or bytes).

    Raises
    ------
    BroadcastError
        `operand_shape` does not broadcast to `shape`.
    """
    offset = len(shape) - len(operand_shape)
    if not offset and operand_shape == shape:  # tuples themselves compare members before lengths
        return tuple(operand_strides)
    strides = [0] * len(shape)
    fits = offset >= 0
    if fits:
        for dim, (size, stride) in enumerate(zip(operand_shape, operand_strides, strict=True), start=offset):
            if size == shape[dim]:
                strides[dim] = stride
            elif size != 1:
                fits = False
    if not fits:
        raise BroadcastError(
            f"shape {tuple(operand_shape)} does not broadcast to {tuple(shape)}; every size must be equal "
            "to the one it is aligned with at the right, or 1"
        )
    return tuple(strides)
