"""Arrays as other libraries would offer them, and what a view of one leads to."""

import ctypes

import numpy as np

from numjit import dtypes
from numjit.arrays import dlpack
from numjit.arrays.view import CPU, ArrayView
from numjit.semantics import contiguous_strides


class Interface:
    """A producer that knows nothing but ``__cuda_array_interface__``."""

    def __init__(self, **entries):
        self.__cuda_array_interface__ = {
            "data": (0x7000, False),
            "typestr": "<f4",
            "shape": (4,),
            "version": 3,
        } | entries


class Dlpack:
    """A producer that knows nothing but ``__dlpack__``, as another library's array would."""

    def __init__(self, source, device=(1, 0), versioned=True):
        self.source, self.device, self.versioned, self.asked = source, device, versioned, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.asked.append(dict(keywords))
        if not self.versioned and "max_version" in keywords:
            raise TypeError("unexpected keyword argument 'max_version'")
        keywords.pop("stream", None)
        capsule = self.source.__dlpack__(**keywords)
        tensor, _ = dlpack._open(capsule)
        tensor.device_type, tensor.device_id = self.device
        return capsule


def strided(seen):
    """Values that pointer, strides and shape of a CPU view lead to, read by NumPy."""
    itemsize = seen.dtype.itemsize
    reach = [(size - 1) * stride * itemsize for size, stride in zip(seen.shape, seen.strides, strict=True)]
    low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
    raw = ctypes.string_at(seen.pointer + low, high - low + itemsize)
    strides = [stride * itemsize for stride in seen.strides]
    return np.ndarray(seen.shape, seen.dtype.name, raw, -low, strides)


def fake_view(library, device=CPU, shape=(3,), stream=None):
    return ArrayView(
        1, dtypes.float32, shape, contiguous_strides(shape), device, library, None, None, stream=stream
    )
