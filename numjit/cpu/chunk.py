"""The compiled loop that the CPU path runs, whichever language its functor was written in."""

from __future__ import annotations

import dataclasses

__all__ = ["HostChunk"]


@dataclasses.dataclass(frozen=True)
class HostChunk:
    """Native code of a loop over part of a call's elements.

    The code has the C signature ``void (const int64_t *pointers, const int64_t *shape, const int64_t
    *strides, const void *values, int64_t rank, int64_t start, int64_t stop)``: base addresses with
    outputs first, sizes with the fastest dimension first, byte strides ``[operand][dimension]``, 16-byte
    slots of by-value arguments (of a raw operand: address and size), and the range of linear indices to
    process. Where the functor takes the element's number there is one operand more, the last, whose
    "address" is the number.

    Attributes
    ----------
    address
        Where the code starts.
    keepalive
        Owner of the code: the address is valid as long as this object lives.
    packed
        The file that `numjit.cpu.object_code` makes the same loop of in another process; empty where the
        loop came from one.
    """

    address: int
    keepalive: object
    packed: bytes = b""
