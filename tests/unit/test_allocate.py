"""New arrays of each library: strides, dtypes, and which library holds a result."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from numjit import dtypes
from numjit.arrays import allocate
from numjit.arrays.adapters import view
from numjit.arrays.view import CPU, META, cuda
from numjit.errors import DeviceError, UnsupportedDtypeError
from tests.support.array_producers import fake_view, strided


class TestAllocate:
    @given(
        st.lists(st.integers(0, 4), max_size=4).map(tuple),
        st.data(),
        st.sampled_from(["numpy", "torch"]),
        st.sampled_from([dtypes.float32, dtypes.complex128, dtypes.bool_]),
    )
    @settings(max_examples=60, deadline=None)
    def test_dense_permuted(self, shape, data, library, dtype):
        order = data.draw(st.permutations(range(len(shape))))
        strides, step = [0] * len(shape), 1
        for axis in order:
            strides[axis], step = step, step * max(shape[axis], 1)
        array, seen = allocate.empty(library, shape, tuple(strides), dtype, CPU)
        again = view(array)
        assert (again.shape, again.pointer, again.dtype) == (shape, seen.pointer, dtype)
        assert (again.device, again.library, again.fake) == (seen.device, seen.library, seen.fake)
        if 0 not in shape:
            assert again.strides == tuple(strides)
            assert not again.readonly

    @pytest.mark.parametrize("library", ["numpy", "torch"])
    def test_strides_with_gaps(self, library):
        array, seen = allocate.empty(library, (3, 2), (8, 2), dtypes.int16, CPU)
        assert view(array).strides == seen.strides == (8, 2)
        array[...] = 7
        assert strided(seen).tolist() == [[7, 7]] * 3

    @pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
    def test_torch_dtypes_on_meta(self, dtype):
        tensor, seen = allocate.empty("torch", (2, 3), (1, 2), dtype, META)
        assert (tensor.dtype, tensor.stride(), tensor.device.type) == (
            getattr(torch, dtype.name),
            (1, 2),
            "meta",
        )
        assert seen.device is META

    def test_fake(self):
        with FakeTensorMode() as mode:
            like = torch.empty(3, device="cuda")
        tensor, seen = allocate.empty("torch", (2, 3), (1, 2), dtypes.float16, cuda(0), like=like)
        assert (tensor.fake_mode, str(tensor.device), tensor.stride()) == (mode, "cuda:0", (1, 2))
        assert (seen.fake, seen.pointer) == (True, 0)

    @pytest.mark.parametrize("strides", [(3, 1), (1, 2), (8, 2)])
    def test_array_after_array(self, strides):
        make = allocate.allocator("numpy", (2, 3), strides, dtypes.int16, CPU)
        (one, first), (other, second) = make(0), make(0)
        assert one.shape == other.shape == (2, 3)
        assert one.dtype == other.dtype == np.int16
        assert view(one).strides == view(other).strides == strides
        assert (first, second) == (one.ctypes.data, other.ctypes.data)
        assert first != second

    def test_what_numpy_cannot_hold(self):
        with pytest.raises(UnsupportedDtypeError, match="complex32"):
            allocate.empty("numpy", (3,), (1,), dtypes.complex32, CPU)
        with pytest.raises(DeviceError, match="NumPy has no arrays on cuda:0"):
            allocate.empty("numpy", (3,), (1,), dtypes.float32, cuda(0))
        with pytest.raises(DeviceError, match="cupy has no arrays on cpu"):
            allocate.empty("cupy", (3,), (1,), dtypes.float32, CPU)

    def test_bfloat16_without_ml_dtypes(self, monkeypatch):
        from numjit.arrays import numpy_arrays

        monkeypatch.setattr(numpy_arrays, "_numpy_dtypes", {})
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
        with pytest.raises(UnsupportedDtypeError, match="ml_dtypes"):
            allocate.empty("numpy", (3,), (1,), dtypes.bfloat16, CPU)


class TestOutputLibrary:
    def test_first_array_operand_decides(self):
        assert allocate.output_library([fake_view("numpy"), fake_view("torch")]) == "numpy"
        assert allocate.output_library([fake_view("cupy", cuda(0)), fake_view("torch", cuda(0))]) == "cupy"
        assert allocate.output_library([fake_view("numba", cuda(0))]) == "numba"

    def test_by_value_arrays_do_not(self):
        zero_dim = fake_view("numpy", shape=())
        assert allocate.output_library([zero_dim, fake_view("cupy", cuda(0))]) == "cupy"
        assert allocate.output_library([zero_dim, fake_view("torch", cuda(0), ())]) == "torch"
        assert allocate.output_library([zero_dim]) == "numpy"

    def test_protocol_only(self, monkeypatch):
        gpu, cpu = fake_view("interface", cuda(0)), fake_view("jax")
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        assert allocate.output_library([gpu]) == allocate.output_library([cpu]) == "torch"
        monkeypatch.setattr(torch.version, "cuda", None)
        assert allocate.output_library([cpu]) == "torch"
        assert allocate.output_library([gpu]) in ("cupy", "numba")
        monkeypatch.delitem(sys.modules, "torch")
        assert allocate.output_library([cpu]) == allocate.output_library([]) == "numpy"
        monkeypatch.setattr(allocate.importlib.util, "find_spec", lambda name: None)
        assert allocate.output_library([gpu]) == "numba"
        monkeypatch.setattr(allocate.importlib.util, "find_spec", lambda name: object())
        assert allocate.output_library([gpu]) == "cupy"
