"""Views by ``__cuda_array_interface__``, and of Numba's device arrays."""

import ctypes
import sys
import types

import numpy as np
import pytest

from numjit import dtypes
from numjit.arrays import adapters
from numjit.arrays.adapters import view, writable_view
from numjit.arrays.cuda_interface import library_of
from numjit.arrays.view import cuda
from numjit.errors import DeviceError, OutputError, UnsupportedArrayError, UnsupportedDtypeError
from tests.support.array_producers import Dlpack, Interface


class TestCudaInterface:
    @pytest.fixture(autouse=True)
    def _addresses_are_made_up(self, monkeypatch):
        monkeypatch.setattr("numjit.runtime.devices.pointer_device", lambda pointer: 0)

    def test_device_is_that_of_the_pointer(self, monkeypatch):
        monkeypatch.setattr("numjit.runtime.devices.pointer_device", {0x7000: 1}.__getitem__)
        assert view(Interface()).device is cuda(1)

    def test_without_a_driver_the_call_will_say_so(self, monkeypatch):
        def no_driver(pointer):
            raise DeviceError("no NVIDIA driver")

        monkeypatch.setattr("numjit.runtime.devices.pointer_device", no_driver)
        assert view(Interface()).device is cuda(0)

    def test_contiguous(self):
        source = Interface(shape=(2, 3), strides=None)
        seen = view(source)
        assert (seen.pointer, seen.dtype, seen.shape, seen.strides) == (
            0x7000,
            dtypes.float32,
            (2, 3),
            (3, 1),
        )
        assert (seen.device.kind, seen.library, seen.stream, seen.readonly) == (
            "cuda",
            "interface",
            None,
            False,
        )
        assert seen.owner is source

    def test_stride_of_32_bytes(self):  # B35
        assert view(Interface(strides=(32,))).strides == (8,)

    def test_strided_bool(self):  # B36
        seen = view(Interface(typestr="|b1", strides=(3,)))
        assert (seen.dtype, seen.strides) == (dtypes.bool_, (3,))

    @pytest.mark.parametrize(
        ("typestr", "dtype"),
        [
            ("<f2", "float16"),
            ("<f8", "float64"),
            ("|i1", "int8"),
            ("<u8", "uint64"),
            ("<c8", "complex64"),
            ("<i4", "int32"),
        ],
    )
    def test_typestrings(self, typestr, dtype):
        assert view(Interface(typestr=typestr)).dtype is dtypes.from_name(dtype)

    def test_negative_strides_version_2_and_readonly(self):
        seen = view(Interface(version=2, data=(0x7010, True), strides=(-4,)))
        assert (seen.strides, seen.readonly) == ((-1,), True)
        with pytest.raises(OutputError, match="read-only"):
            writable_view(Interface(data=(0x7000, True)))

    def test_stream_entry(self):
        assert view(Interface(stream=2)).stream == 2
        assert view(Interface(stream=0xABC0)).stream == 0xABC0
        with pytest.raises(UnsupportedArrayError, match="stream 0"):
            view(Interface(stream=0))

    def test_no_elements(self):
        assert view(Interface(shape=(0, 3), data=(0, False))).pointer == 0
        assert view(Interface(shape=(0, 3), data=(None, False), strides=(12, 3))).pointer == 0

    @pytest.mark.parametrize(
        ("entries", "error", "text"),
        [
            ({"mask": object()}, UnsupportedArrayError, "mask"),
            ({"typestr": "<V2"}, UnsupportedDtypeError, "bfloat16"),
            ({"typestr": ">f4"}, UnsupportedDtypeError, "byte order"),
            ({"typestr": "<M8"}, UnsupportedDtypeError, "not supported"),
            ({"strides": (6,)}, UnsupportedArrayError, "contiguous copy"),
            ({"data": (0x7001, False)}, UnsupportedArrayError, "aligned"),
        ],
    )
    def test_refusals(self, entries, error, text):
        with pytest.raises(error, match=text):
            view(Interface(**entries))

    def test_library_by_module(self):
        for module, library in {
            "cupy": "cupy",
            "numba.cuda.cudadrv.devicearray": "numba",
            "jaxlib._jax": "jax",
        }.items():
            assert library_of(type("Array", (), {"__module__": module})) == library
        assert library_of(Interface) == ""

    def test_property_that_raises_attribute_error_falls_through(self):
        class OnCpu(Dlpack):
            @property
            def __cuda_array_interface__(self):
                raise AttributeError("not on a GPU")

        assert view(OnCpu(np.arange(3))).library == "dlpack"


class DeviceNDArray:
    """A Numba device array, as far as it is read."""

    def __init__(self, shape, strides, pointer=0x7000, dtype="f4", stream=0):
        self.shape, self.strides, self.dtype, self.stream = shape, strides, np.dtype(dtype), stream
        self.device_ctypes_pointer = ctypes.c_void_p(pointer)

    @property
    def __cuda_array_interface__(self):
        raise AssertionError("takes too long")


class TestNumba:
    @pytest.fixture(autouse=True)
    def _numba_is_there(self, monkeypatch):
        module = types.ModuleType("numba.cuda.cudadrv.devicearray")
        module.DeviceNDArray = DeviceNDArray
        monkeypatch.setattr(DeviceNDArray, "__module__", module.__name__)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(adapters, "_readers", {})
        monkeypatch.setattr("numjit.runtime.devices.pointer_device", {0x7000: 1}.__getitem__)

    def test_attributes_are_read(self):
        source = DeviceNDArray((2, 3), (4, 8))
        seen = view(source)
        assert seen[:6] == (0x7000, dtypes.float32, (2, 3), (1, 2), cuda(1), "numba")
        assert (seen.owner, seen.original, seen.stream, seen.readonly) == (source, source, None, False)

    def test_repeated_elements_are_not_taken_for_contiguous(self):
        """Numba's interface leaves out strides of which some are 0."""
        assert view(DeviceNDArray((3, 4), (0, 4))).strides == (0, 1)

    def test_streams(self):
        class Stream:
            def __int__(self):
                return 0x55

        assert view(DeviceNDArray((3,), (4,), stream=Stream())).stream == 0x55

    def test_without_elements(self):
        assert view(DeviceNDArray((0, 3), (12, 4), pointer=None)).pointer == 0

    @pytest.mark.parametrize(
        ("changes", "error", "text"),
        [
            ({"dtype": [("a", "f4")]}, UnsupportedDtypeError, "DLPack"),
            ({"dtype": "M8[s]"}, UnsupportedDtypeError, "not supported"),
            ({"strides": (6,)}, UnsupportedArrayError, "contiguous copy"),
            ({"pointer": 0x7001}, UnsupportedArrayError, "aligned"),
        ],
    )
    def test_refusals(self, changes, error, text):
        with pytest.raises(error, match=text):
            view(DeviceNDArray(**{"shape": (3,), "strides": (4,), **changes}))

    def test_derived_classes_are_asked_for_their_interface(self):
        class Managed(DeviceNDArray):
            __module__ = "numba.cuda.cudadrv.devicearray"

        with pytest.raises(UnsupportedArrayError, match="too long"):
            view(Managed((3,), (4,)))
