"""What torch would answer: dtype, shape, strides and overlap rules, as pure functions of plain values."""

from numjit.semantics.broadcasting import MAX_RANK, broadcast_shapes, broadcast_strides
from numjit.semantics.category import Category
from numjit.semantics.overlap import Extent, Overlap, bounds, classify, has_internal_overlap, walk
from numjit.semantics.promotion import can_cast, combine, promote_types, result_type
from numjit.semantics.strides import contiguous_strides, is_contiguous, is_dense, output_strides

__all__ = [
    "MAX_RANK",
    "Category",
    "Extent",
    "Overlap",
    "bounds",
    "broadcast_shapes",
    "broadcast_strides",
    "can_cast",
    "classify",
    "combine",
    "contiguous_strides",
    "has_internal_overlap",
    "is_contiguous",
    "is_dense",
    "output_strides",
    "promote_types",
    "result_type",
    "walk",
]
