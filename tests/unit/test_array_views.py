"""Views of arrays: torch, NumPy and the two protocols, as operands and as outputs."""

import copy
import ctypes
import pickle
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from numjit import dtypes
from numjit.arrays import adapters, allocate, dlpack, streams
from numjit.arrays.adapters import view, writable_view
from numjit.arrays.cuda_interface import library_of
from numjit.arrays.numpy_arrays import to_numpy_dtype
from numjit.arrays.view import CPU, META, ArrayView, Device, as_device, cuda
from numjit.errors import DeviceError, OutputError, UnsupportedArrayError, UnsupportedDtypeError
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


class TestDevice:
    def test_is_interned_and_survives_pickle_and_copy(self):
        assert Device("cuda", 1) is cuda(1)
        assert pickle.loads(pickle.dumps(cuda(3))) is cuda(3)
        assert copy.deepcopy(CPU) is CPU
        assert len({CPU, META, cuda(0), cuda(1), cuda(0)}) == 4

    def test_reads_like_torch(self):
        for text in ("cpu", "meta", "cuda:1"):
            assert str(as_device(text)) == text
            assert as_device(torch.device(text)) is as_device(text)
        assert as_device(cuda(2)) is cuda(2)

    @pytest.mark.parametrize("bad", ["mps", "cuda:x", 3, "cuda:-1"])
    def test_others_are_refused(self, bad):
        with pytest.raises(DeviceError, match="no device"):
            as_device(bad)


class TestTorch:
    @pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
    def test_every_dtype(self, dtype):
        tensor = torch.zeros(3, 4, dtype=getattr(torch, dtype.name))
        seen = view(tensor)
        assert seen.dtype is dtype
        assert (seen.pointer, seen.shape, seen.strides) == (tensor.data_ptr(), (3, 4), (4, 1))
        assert (seen.device, seen.library) == (CPU, "torch")
        assert seen.owner is tensor
        assert seen.original is tensor
        assert not any((seen.conj, seen.neg, seen.readonly, seen.requires_grad, seen.fake, seen.copied))

    def test_strided_views(self):
        base = torch.arange(24.0).view(2, 3, 4)
        for tensor in (
            base.permute(2, 0, 1),
            base[:, ::2],
            base[1:, 2:, 3:],
            base[0, 0, 0],
            base.expand(5, 2, 3, 4),
        ):
            seen = view(tensor)
            assert (seen.shape, seen.strides, seen.pointer) == (
                tensor.shape,
                tensor.stride(),
                tensor.data_ptr(),
            )

    def test_conj_and_neg_bits(self):
        tensor = torch.tensor([1 + 2j, 3 - 4j])
        assert (view(tensor.conj()).conj, view(tensor.conj()).neg) == (True, False)
        assert (view(tensor.conj().imag).conj, view(tensor.conj().imag).neg) == (False, True)
        assert view(tensor.conj()).pointer == tensor.data_ptr()

    def test_requires_grad_and_parameter(self):
        assert view(torch.zeros(3, requires_grad=True)).requires_grad
        parameter = torch.nn.Parameter(torch.zeros(3))
        assert view(parameter).requires_grad
        assert view(parameter).pointer == parameter.data_ptr()

    def test_user_subclass(self):
        class Mine(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, classes, args=(), kwargs=None):
                raise AssertionError("a view runs no user code")

        tensor = torch.zeros(2, 3).as_subclass(Mine)
        assert view(tensor).strides == (3, 1)
        assert view(tensor).original is tensor

    def test_meta(self):
        seen = view(torch.empty(3, 4, device="meta").t())
        assert (seen.pointer, seen.device, seen.strides, seen.fake, seen.has_memory) == (
            0,
            META,
            (1, 4),
            False,
            False,
        )

    def test_fake_tensors_of_both_devices(self):
        with FakeTensorMode():
            fakes = [torch.empty(3, 4, dtype=torch.bfloat16, device=device) for device in ("cpu", "cuda:1")]
        for fake, device in zip(fakes, (CPU, cuda(1)), strict=True):
            seen = view(fake.t())
            assert (seen.pointer, seen.device, seen.strides, seen.fake) == (0, device, (1, 4), True)
            assert (seen.dtype, seen.has_memory, seen.library) == (dtypes.bfloat16, False, "torch")

    def test_no_elements(self):
        seen = view(torch.empty(4, 0, 3))
        assert (seen.pointer, seen.shape) == (0, (4, 0, 3))

    def test_zero_tensor_is_materialised(self):
        seen = view(torch._efficientzerotensor((3,)))
        assert seen.copied
        assert strided(seen).tolist() == [0, 0, 0]

    def test_misaligned_elements_are_copied(self):
        tensor = torch.frombuffer(
            bytearray(b"\0" + np.arange(4, dtype="f4").tobytes()), dtype=torch.float32, offset=1
        )
        if tensor.data_ptr() % 4 == 0:
            pytest.skip("the allocator put the odd bytes on an aligned address")
        seen = view(tensor)
        assert seen.copied
        assert seen.original is tensor
        assert strided(seen).tolist() == [0, 1, 2, 3]
        with pytest.raises(OutputError, match="not aligned"):
            writable_view(tensor)

    def test_complex_at_an_address_aligned_for_its_parts_is_no_copy(self):
        array = np.zeros(9).view(np.float64)[1:].view(np.complex128)
        tensor = torch.from_numpy(array)
        assert not view(tensor).copied

    def test_refusals_name_the_remedy(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = [
                (torch.eye(3).to_sparse(), "to_dense"),
                (torch.eye(3).to_sparse_csr(), "to_dense"),
                (torch.eye(3).to_mkldnn(), "to_dense"),
                (torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.quint8), "dequantize"),
                (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "to_padded_tensor"),
                (
                    torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
                    "to_padded",
                ),
            ]
        for tensor, remedy in cases:
            with pytest.raises(UnsupportedArrayError, match=remedy):
                view(tensor)
            with pytest.raises(TypeError):
                view(tensor)

    def test_wrapper_subclass_is_refused(self):
        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls):
                return torch.Tensor._make_wrapper_subclass(cls, (3,), dtype=torch.float32)

            @classmethod
            def __torch_dispatch__(cls, function, classes, args=(), kwargs=None):
                raise AssertionError("a view dispatches nothing")

        with pytest.raises(UnsupportedArrayError, match="Wrapper has no memory of its own"):
            view(Wrapper())

    def test_transforms_are_refused_and_recognised(self):
        def peek(tensor):
            from numjit.arrays.torch_arrays import is_transformed

            assert is_transformed(tensor)
            with pytest.raises(UnsupportedArrayError, match=r"torch\.func"):
                view(tensor)
            return tensor.sum()

        torch.vmap(peek)(torch.zeros(3, 2))
        torch.func.grad(peek)(torch.zeros(3))

    def test_unsupported_dtype_is_named(self):
        with pytest.raises(UnsupportedDtypeError, match="float8_e8m0fnu"):
            view(torch.empty(3, dtype=torch.float8_e8m0fnu))


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


class TestDlpack:
    @pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if "8_" not in d.name], ids=str)
    def test_torch_producer(self, dtype):
        tensor = torch.zeros(4, 6, dtype=getattr(torch, dtype.name))[1:, ::2].t()
        seen = view(Dlpack(tensor))
        assert (seen.dtype, seen.shape, seen.strides, seen.device) == (dtype, (3, 3), (2, 6), CPU)
        assert (seen.pointer, seen.library, seen.stream) == (tensor.data_ptr(), "dlpack", None)

    @pytest.mark.parametrize("dtype", [dtypes.float8_e4m3fn, dtypes.float8_e5m2], ids=str)
    def test_float8(self, dtype):
        assert view(Dlpack(torch.zeros(3, dtype=getattr(torch, dtype.name)))).dtype is dtype

    def test_numpy_producer_zero_dim_and_empty(self):
        assert view(Dlpack(np.array(2.5))).shape == ()
        seen = view(Dlpack(np.zeros((2, 0, 3))))
        assert (seen.pointer, seen.shape) == (0, (2, 0, 3))

    def test_negative_strides(self):
        array = np.arange(6)[::-1]
        assert np.array_equal(strided(view(Dlpack(array))), array)

    @pytest.mark.parametrize("versioned", [True, False])
    def test_version_is_asked_for_where_known(self, versioned):
        producer = Dlpack(np.arange(3.0), versioned=versioned)
        assert strided(view(producer)).tolist() == [0, 1, 2]
        assert producer.asked[0] == {"max_version": (1, 0)}
        assert len(producer.asked) == (1 if versioned else 2)

    def test_readonly(self):  # B37
        array = np.arange(3.0)
        array.flags.writeable = False
        seen = view(Dlpack(array))
        assert seen.readonly
        assert strided(seen).tolist() == [0, 1, 2]
        with pytest.raises(OutputError, match="read-only"):
            writable_view(Dlpack(array), "out")
        assert writable_view(Dlpack(np.arange(3.0))).pointer

    def test_jax_arrays_are_never_written_and_go_by_dlpack(self):
        class Array(Dlpack):
            __module__ = "jaxlib._jax"

            @property
            def __cuda_array_interface__(self):
                raise AssertionError("not asked for")

        seen = view(Array(torch.zeros(3, dtype=torch.bfloat16)))
        assert (seen.library, seen.readonly, seen.dtype) == ("jax", True, dtypes.bfloat16)

    def test_jax_arrays_on_the_cpu_are_seen_as_numpy_sees_them(self):
        class Array:
            __module__ = "jaxlib._jax"

            def __init__(self, array, deleted=False):
                self.array, self.deleted = array, deleted

            def is_deleted(self):
                return self.deleted

            def platform(self):
                assert not self.deleted, "JAX crashes"
                return "cpu"

            def __array__(self, dtype=None, copy=None):
                if self.deleted:
                    raise RuntimeError("Array has been deleted")
                return self.array

        array = np.arange(6.0).reshape(2, 3).T
        source = Array(array)
        seen = view(source)
        assert seen[:6] == (array.ctypes.data, dtypes.float64, (3, 2), (1, 3), CPU, "jax")
        assert (seen.original, seen.readonly, seen.copied) == (source, True, False)
        with pytest.raises(OutputError, match="read-only"):
            writable_view(source)
        with pytest.raises(UnsupportedArrayError, match="JAX refused: Array has been deleted"):
            view(Array(array, deleted=True))

    @pytest.mark.parametrize("state", ["ready", "busy", "bfloat16"])
    def test_jax_arrays_on_a_gpu_are_read_by_the_interface_or_in_order(self, state, monkeypatch):
        class Array(Dlpack):
            __module__ = "jaxlib._jax"

            def is_deleted(self):
                return False

            def is_ready(self):
                return state != "busy"

            def platform(self):
                return "gpu"

            def __array__(self, dtype=None, copy=None):
                raise AssertionError("would be copied to the host")

            @property
            def __cuda_array_interface__(self):
                if state == "bfloat16":
                    raise RuntimeError("no such type")
                data = (self.source.data_ptr(), True)
                return {"shape": (3,), "typestr": "<f4", "data": data, "version": 2}

        tensor = torch.arange(3, dtype=torch.bfloat16 if state == "bfloat16" else torch.float32)
        monkeypatch.setattr("numjit.runtime.devices.has_one_device", lambda: False)
        monkeypatch.setattr("numjit.runtime.devices.pointer_device", {tensor.data_ptr(): 1}.__getitem__)
        source = Array(tensor, device=(2, 1))
        seen = view(source)
        assert (seen.library, seen.device, seen.pointer) == ("jax", cuda(1), tensor.data_ptr())
        assert (seen.shape, seen.strides, seen.readonly) == ((3,), (1,), True)
        assert seen.dtype.name == str(tensor.dtype).removeprefix("torch.")
        assert (seen.stream, bool(source.asked)) == ((None, False) if state == "ready" else (1, True))

    def test_a_producer_that_does_not_know_its_device_is_told_of(self):
        class Array(Dlpack):
            def __dlpack_device__(self):
                raise TypeError("object of type 'NoneType' has no len()")

        with pytest.raises(UnsupportedArrayError, match=r"Array\.__dlpack_device__ refused: .* has no len"):
            view(Array(np.arange(3.0)))

    def test_memory_lives_until_the_view_dies(self):
        buffer = bytearray(np.arange(1000.0).tobytes())  # cannot be resized while anybody holds it
        producer = Dlpack(np.frombuffer(buffer))
        seen = view(producer)
        producer.source = None
        with pytest.raises(BufferError):
            buffer.extend(b"more")
        assert strided(seen)[999] == 999
        seen = seen.owner
        with pytest.raises(BufferError):
            buffer.extend(b"more")
        del seen
        buffer.extend(b"more")

    def test_cuda_producer_gets_a_stream_that_the_protocol_allows(self):
        producer = Dlpack(np.arange(3.0), device=(2, 1))
        seen = view(producer)
        assert producer.asked == [{"max_version": (1, 0), "stream": 1}]
        assert (seen.device, seen.stream) == (cuda(1), 1)

    @pytest.mark.parametrize("device", [(10, 0), (8, 0), (14, 0)])
    def test_other_devices_are_refused(self, device):
        with pytest.raises(UnsupportedArrayError, match="device type"):
            view(Dlpack(np.arange(3.0), device=device))
        assert view(Dlpack(np.arange(3.0), device=(3, 0))).device is CPU  # pinned memory

    def test_refusal_of_the_producer(self):
        with pytest.raises(UnsupportedArrayError, match="refused"):
            view(Dlpack(torch.zeros(3, requires_grad=True)))

    def test_used_capsule_is_refused(self):
        array = np.arange(3.0)
        capsule = array.__dlpack__()
        torch.from_dlpack(capsule)

        class Again:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **keywords):
                return capsule

        with pytest.raises(UnsupportedArrayError, match="no fresh DLPack capsule"):
            view(Again())


class TestDispatch:
    @pytest.mark.parametrize(
        "obj", [1, 2.5, True, 1j, None, "a", b"a", [1], (1,), {}, np.int8(1), object(), torch.Tensor, np]
    )
    def test_what_is_no_array(self, obj):
        assert view(obj) is None

    def test_output_that_is_no_array(self):
        with pytest.raises(UnsupportedArrayError, match="result is a list"):
            writable_view([1.0], "result")

    def test_types_do_not_pile_up(self):
        for _ in range(adapters._MOST_READERS + 10):
            view(type("Fleeting", (), {})())
        assert len(adapters._readers) <= adapters._MOST_READERS

    def test_outputs_of_torch(self):
        leaf = torch.zeros(3, requires_grad=True)
        with pytest.raises(OutputError, match="requires grad"):
            writable_view(leaf)
        with torch.no_grad():
            assert writable_view(leaf).original is leaf
        with pytest.raises(OutputError, match="conj bit"):
            writable_view(torch.zeros(3, dtype=torch.complex64).conj())

    def test_torch_is_not_imported(self):
        code = (
            "import sys, numpy\n"
            "from numjit.arrays import adapters, allocate, numbers, streams\n"
            "from numjit.runtime import devices, driver, launch, streams\n"
            "assert adapters.view(numpy.zeros(3)).library == 'numpy'\n"
            "assert adapters.view(object()) is None and adapters.view(2.0) is None\n"
            "assert not {'torch', 'numba', 'cuda', 'cupy', 'ml_dtypes'} & set(sys.modules)\n"
            "import torch\n"
            "assert adapters.view(torch.zeros(3)).library == 'torch'\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


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


def fake_view(library, device=CPU, shape=(3,), stream=None):
    return ArrayView(
        1, dtypes.float32, shape, contiguous_strides(shape), device, library, None, None, stream=stream
    )


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


class TestStreams:
    @pytest.fixture(autouse=True)
    def _torch_stream(self, monkeypatch):
        monkeypatch.setattr(streams, "torch_stream", lambda index: 0x1000 + index)

    def test_torch_operand_or_output(self):
        operands = [fake_view("interface", cuda(1), stream=7), fake_view("torch", cuda(1))]
        assert streams.launch_stream(operands, 1) == 0x1001
        assert streams.launch_stream(operands[:1], 1, "torch") == 0x1001

    def test_stream_entry_of_the_first(self):
        operands = [fake_view("numpy", shape=()), fake_view("interface", cuda(0), stream=7)]
        operands.append(fake_view("interface", cuda(0), stream=9))
        assert streams.launch_stream(operands, 0, "numba") == 7
        assert streams.launch_stream([fake_view("interface", cuda(0))], 0, "numba") == 1
        assert streams.launch_stream([], 0) == 1

    def test_cupy(self, monkeypatch):
        class Where:
            def __init__(self, index):
                self.index = index

            def __enter__(self):
                where.append(self.index)

            def __exit__(self, *error):
                where.pop()

        where = []
        current = types.SimpleNamespace(
            Device=Where, get_current_stream=lambda: types.SimpleNamespace(ptr=40 + where[-1])
        )
        monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=current))
        assert streams.launch_stream([fake_view("cupy", cuda(2), stream=9)], 2, "cupy") == 42

    def test_producers(self):
        views = [
            fake_view("torch", cuda(0)),
            *(fake_view("interface", cuda(0), stream=s) for s in (7, 9, 7, 1)),
        ]
        assert streams.producers(views, 7) == (9, 1)
        assert streams.producers(views, 0) == (7, 9)  # torch's 0 is the legacy stream, 1
        assert streams.producers(views[:1], 5) == ()
