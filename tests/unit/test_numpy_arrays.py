"""Views of NumPy arrays: every dtype and stride, records, alignment, and those that are refused."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numjit import dtypes
from numjit.arrays import allocate
from numjit.arrays.adapters import view, writable_view
from numjit.arrays.numpy_arrays import to_numpy_dtype
from numjit.arrays.view import CPU
from numjit.errors import OutputError, UnsupportedArrayError, UnsupportedDtypeError
from tests.support.array_producers import strided


class TestNumpy:
    @pytest.mark.parametrize(
        "dtype", [d for d in dtypes.ALL if not d.name.startswith(("bfloat", "float8", "complex32"))], ids=str
    )
    def test_every_dtype_of_numpy(self, dtype):
        array = np.zeros((3, 4), to_numpy_dtype(dtype))
        seen = view(array)
        assert (seen.dtype, seen.shape, seen.strides, seen.device) == (dtype, (3, 4), (4, 1), CPU)
        assert (seen.pointer, seen.library, seen.readonly) == (array.ctypes.data, "numpy", False)

    @pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
    def test_ml_dtypes(self, name):
        ml_dtypes = pytest.importorskip("ml_dtypes")
        seen = view(np.zeros(3, getattr(ml_dtypes, name)))
        assert seen.dtype is dtypes.from_name(name)
        made, _ = allocate.empty("numpy", (3,), (1,), seen.dtype, CPU)
        assert made.dtype == getattr(ml_dtypes, name)

    def test_aliases_of_one_dtype(self):
        assert view(np.zeros(1, "longlong")).dtype is dtypes.int64
        assert view(np.zeros(1, "l")).dtype is dtypes.int64

    @given(st.data())
    @settings(max_examples=60, deadline=None)
    def test_strides(self, data):
        shape = data.draw(st.lists(st.integers(0, 4), max_size=4).map(tuple))
        array = np.arange(np.prod(shape, dtype=int), dtype="f4").reshape(shape)
        array = array.transpose(data.draw(st.permutations(range(len(shape)))))
        steps = data.draw(st.tuples(*[st.sampled_from([1, 2, -1, -2]) for _ in shape]))
        array = array[(..., *(slice(None, None, step) for step in steps))]
        seen = view(array)
        assert (seen.shape, not seen.copied) == (array.shape, True)
        if array.size:
            assert np.array_equal(strided(seen), array)
        else:
            assert seen.pointer == 0

    def test_broadcast_is_readonly_with_stride_zero(self):
        seen = view(np.broadcast_to(np.arange(3.0), (4, 3)))
        assert (seen.strides, seen.readonly) == ((0, 1), True)

    def test_field_of_a_record_is_copied(self):
        record = np.zeros(5, np.dtype([("a", "u1"), ("b", "f4")]))
        record["b"] = range(5)
        seen = view(record["b"])
        assert seen.copied
        assert strided(seen).tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(OutputError, match="not aligned"):
            writable_view(record["b"])

    def test_aligned_field_with_a_fitting_stride_is_not_copied(self):
        record = np.zeros(5, np.dtype([("a", "f4"), ("b", "f4")]))
        assert (view(record["b"]).copied, view(record["b"]).strides) == (False, (2,))

    def test_misaligned_buffer_is_copied(self):
        array = np.frombuffer(bytearray(17), np.uint8)[1:].view("f4")
        seen = view(array)
        assert (seen.copied, seen.pointer % 4) == (True, 0)

    def test_addresses_are_numpys(self):
        from numjit.arrays.numpy_arrays import _find_address_of, address_of

        class Subclass(np.ndarray): ...

        array = np.arange(60.0).reshape(3, 4, 5)
        fixed = array.copy()
        fixed.flags.writeable = False
        for one in (
            array,
            array[1:, ::2],
            array[::-1].T,
            fixed,
            array.view(Subclass),
            np.array(3.0),
        ):
            assert address_of(one) == one.ctypes.data
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.implementation, "name", "another")
            assert _find_address_of()(array) == array.ctypes.data

    @pytest.mark.parametrize("dtype", [">f4", ">i8", ">c16"])
    def test_foreign_byte_order_is_refused(self, dtype):
        with pytest.raises(UnsupportedDtypeError, match=r"byte order.*astype"):
            view(np.zeros(3, dtype))

    @pytest.mark.parametrize("dtype", ["M8[s]", "O", "U3", [("a", "f4")], "longdouble"])
    def test_other_dtypes_are_refused(self, dtype):
        with pytest.raises(UnsupportedDtypeError, match="not supported"):
            view(np.zeros(3, dtype))

    def test_masked_arrays_are_refused(self):
        with pytest.raises(UnsupportedArrayError, match="filled"):
            view(np.ma.masked_array([1.0, 2.0], [True, False]))

    def test_zero_dim_array_is_an_array_and_a_scalar_is_not(self):
        assert view(np.array(2.5)).shape == ()
        assert view(np.float64(2.5)) is None
