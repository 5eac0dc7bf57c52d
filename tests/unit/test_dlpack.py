"""Views by ``__dlpack__``: versions, devices, streams, lifetimes, arrays of JAX, and what is refused."""

import numpy as np
import pytest
import torch

from numjit import dtypes
from numjit.arrays.adapters import view, writable_view
from numjit.arrays.view import CPU, cuda
from numjit.errors import OutputError, UnsupportedArrayError
from tests.support.array_producers import Dlpack, strided


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
