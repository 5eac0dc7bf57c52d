"""The CUDA runtime without a GPU: a driver that records what it is told, packing, errors."""

import ctypes
import struct
import threading
import types

import pytest

from numjit.cache.elf import CUDA, elf_fault
from numjit.errors import DeviceError, LaunchError, UnsupportedArrayError
from numjit.runtime import devices, driver, launch, streams
from tests.support.threads import in_threads

#: The least that is taken for a cubin: an ELF header without tables.
IMAGE = struct.pack("<4sBB10xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 2, 190, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)


OK, FAILED = 0, 700
GLOBAL, RELAXED = 0, 2  # modes of a capture
NAMES = {
    0: b"CUDA_SUCCESS",
    700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
    209: b"CUDA_ERROR_NO_BINARY_FOR_GPU",
    906: b"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
    900: b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    999: b"CUDA_ERROR_UNKNOWN",
}


class FakeDriver:
    """Stands for the driver with two devices; launches copy their parameters at once."""

    def __init__(self):
        self.local = threading.local()
        self.calls, self.launches, self.code, self.kernels = [], [], OK, [90]
        self.sizes = []

    @property
    def stack(self):
        if not hasattr(self.local, "stack"):
            self.local.stack = [0]
        return self.local.stack

    def cuGetErrorName(self, code):
        return (OK, NAMES[code]) if code in NAMES else (1, None)

    def cuGetErrorString(self, code):
        return (OK, b"an explanation") if code in NAMES else (1, None)

    def cuDeviceGetCount(self):
        return OK, 2

    def cuDeviceGet(self, index):
        return OK, index

    def cuDevicePrimaryCtxRetain(self, device):
        self.calls.append(("retain", device))
        return OK, 1000 + device

    def cuCtxGetCurrent(self):
        return OK, self.stack[-1]

    def cuCtxPushCurrent(self, context):
        self.calls.append(("push", int(context)))
        self.stack.append(int(context))
        return (OK,)

    def cuCtxPopCurrent(self):
        return OK, self.stack.pop()

    def cuThreadExchangeStreamCaptureMode(self, mode):
        before = getattr(self.local, "mode", GLOBAL)
        self.local.mode = mode
        return OK, before

    def need_relaxed_mode(self):
        """As if a graph were captured: what loads code is refused in another mode."""
        assert getattr(self.local, "mode", None) == RELAXED, "loads while a graph may be captured"

    def cuLibraryLoadData(self, code):
        self.need_relaxed_mode()
        self.calls.append(("load", code))
        return self.code, 80

    def cuLibraryUnload(self, library):
        self.calls.append(("unload", int(library)))
        return (OK,)

    def cuLibraryGetKernelCount(self, library):
        return OK, len(self.kernels)

    def cuLibraryEnumerateKernels(self, count, library):
        return OK, self.kernels[:count]

    def cuLibraryGetKernel(self, library, name):
        return OK, 91

    def cuKernelGetName(self, kernel):
        return OK, b"entry_name"

    def cuKernelGetFunction(self, kernel):
        assert self.stack[-1], "needs a current context"
        self.need_relaxed_mode()
        self.calls.append(("function", self.stack[-1]))
        return OK, self.stack[-1] + 10

    def cuFuncSetAttribute(self, function, attribute, value):
        self.calls.append((attribute, value))
        return (OK,)

    def cuFuncGetAttribute(self, attribute, function):
        return OK, 32

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, table, extra):
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(table)
        values = [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, self.sizes, strict=True)]
        self.launches.append(
            types.SimpleNamespace(
                function=function,
                grid=(gx, gy, gz),
                block=(bx, by, bz),
                shared=shared,
                stream=stream,
                values=values,
                context=self.stack[-1],
                table=table,
            )
        )
        return self.code

    def cuEventCreate(self, flags):
        assert flags == 2
        self.calls.append(("event", self.stack[-1]))
        return OK, 70

    def cuEventRecord(self, event, stream):
        self.calls.append(("record", stream))
        return (self.code,)

    def cuStreamWaitEvent(self, stream, event, flags):
        self.calls.append(("wait", stream))
        return (OK,)

    def cuPointerGetAttribute(self, attribute, pointer):
        return (OK, 1) if (attribute, pointer) == (9, 0x5000) else (1, 0)

    def cuEventDestroy(self, event):
        self.calls.append(("destroy", int(event)))
        return (OK,)


@pytest.fixture
def fake(monkeypatch):
    made = FakeDriver()
    for module in (driver, launch, devices, streams):
        monkeypatch.setattr(module, "driver", lambda: made)
    monkeypatch.setattr(driver, "_contexts", {})
    return made


class TestDriver:
    def test_no_driver_and_no_gpu(self, monkeypatch):
        driver.driver.cache_clear()
        if devices.available():
            pytest.skip("there is a GPU")
        with pytest.raises(DeviceError, match=r"install|CPU"):
            devices.device_count()
        with pytest.raises(DeviceError):
            driver.primary_context(0)
        with pytest.raises(DeviceError):
            launch.load(IMAGE)
        assert not devices.available()

    def test_check(self, fake):
        assert driver.check((OK,), "x") is None
        assert driver.check((OK, 5), "x") == 5
        assert driver.check((OK, 5, 6), "x") == (5, 6)
        text = r"could not fly: CUDA_ERROR_ILLEGAL_ADDRESS \(an explanation\).*sanitizer"
        with pytest.raises(LaunchError, match=text):
            driver.check((FAILED,), "fly")
        with pytest.raises(LaunchError, match="before the capture"):
            driver.check((900,), "fly")
        with pytest.raises(LaunchError, match="CUDA_LAUNCH_BLOCKING"):
            driver.check((999,), "fly")
        with pytest.raises(LaunchError, match=r"could not fly: error 12345; "):
            driver.check((12345,), "fly")

    def test_contexts_are_retained_once(self, fake):
        driver.primary_context(1)
        driver.primary_context(1)
        assert fake.calls == [("retain", 1)]
        with pytest.raises(DeviceError, match="no device cuda:2"):
            driver.primary_context(2)

    def test_current_pushes_only_where_needed_and_restores(self, fake):
        with driver.Current(0):
            assert fake.stack == [0, 1000]
            with driver.Current(0):
                assert fake.stack == [0, 1000]
            with driver.Current(1):
                assert fake.stack == [0, 1000, 1001]
            assert fake.stack == [0, 1000]
        assert fake.stack == [0]

    def test_context_is_restored_after_an_error(self, fake):
        with pytest.raises(LaunchError), driver.Current(0):
            driver.check((FAILED,), "fly")
        assert fake.stack == [0]

    def test_pointer_device(self, fake):
        assert devices.pointer_device(0x5000) == 1
        with pytest.raises(UnsupportedArrayError, match="no CUDA memory"):
            devices.pointer_device(0x5001)


def compiled():
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        _, program = nvrtc.nvrtcCreateProgram(b"__global__ void f(float* x) { *x = 1; }", b"f.cu", 0, [], [])
    except RuntimeError as error:
        pytest.skip(f"no NVRTC: {error}")
    assert not nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])[0]
    cubin = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    assert not nvrtc.nvrtcGetCUBIN(program, cubin)[0]
    return cubin


class TestImage:
    def test_every_truncation_is_found(self):
        cubin = compiled()
        assert not elf_fault(cubin, CUDA)
        assert all(elf_fault(cubin[:size], CUDA) for size in range(len(cubin)))

    def test_the_driver_never_sees_damaged_bytes(self, fake):
        for damaged in (b"", b"garbage", b"\x7fELF" + bytes(100), IMAGE[:-1], IMAGE.replace(b"ELF", b"EFL")):
            with pytest.raises(LaunchError, match=r"is damaged.*cache folder"):
                launch.load(damaged)
        assert fake.calls == []


class TestLoad:
    def test_single_and_named(self, fake):
        assert launch.load(IMAGE).name == "entry_name"
        assert launch.load(IMAGE, "named").name == "named"
        fake.kernels.append(92)
        with pytest.raises(LaunchError, match="holds 2 kernels"):
            launch.load(IMAGE)
        fake.kernels.clear()
        with pytest.raises(LaunchError, match="64 bytes holds no kernel"):
            launch.load(IMAGE)
        assert fake.calls.count(("unload", 80)) == 2

    def test_ptx_is_no_damaged_cubin(self, fake):
        """It is text, which the driver wants to end with a zero."""
        given = []
        load = fake.cuLibraryLoadData
        fake.cuLibraryLoadData = lambda image: (given.append(image), load(image))[1]
        for text in (b".version 8.0", b".version 8.0\0"):
            assert launch.load(text, is_ptx=True).name == "entry_name"
        assert given == [b".version 8.0\0"] * 2

    def test_refused_image(self, fake):
        fake.code = 209
        with pytest.raises(LaunchError, match=r"load a cubin of 64 bytes.*another GPU"):
            launch.load(IMAGE)

    def test_function_is_found_once_a_device(self, fake):
        kernel = launch.load(IMAGE)
        assert [int(kernel.function(i)) for i in (0, 1, 0, 1)] == [1010, 1011, 1010, 1011]
        assert [c for c in fake.calls if c[0] == "function"] == [("function", 1000), ("function", 1001)]
        assert fake.stack == [0]
        assert kernel.attribute(0, "NUM_REGS") == 32

    def test_more_shared_memory_is_asked_for_once(self, fake):
        kernel = launch.load(IMAGE)
        for amount in (0, 1000, 48 << 10, 60000, 60000):
            kernel.function(0, amount)
        assert [c for c in fake.calls if c[0] == 8] == [(8, 60000)]

    def test_the_capture_mode_is_restored(self, fake):
        launch.load(IMAGE).function(0)
        assert fake.local.mode == GLOBAL
        fake.code = FAILED
        with pytest.raises(LaunchError):
            launch.load(IMAGE)
        assert fake.local.mode == GLOBAL

    def test_unload(self, fake):
        kernel = launch.load(IMAGE)
        kernel.function(0)
        kernel.unload()
        kernel.unload()
        assert fake.calls.count(("unload", 80)) == 1
        with pytest.raises(LaunchError, match="was unloaded"):
            kernel.function(0)


class TestLaunch:
    def test_slots(self, fake):
        fake.sizes = [8, 4, 16, 1]
        slots = struct.pack("=Qf4xdd?7x", 0xABC, 2.5, 1.0, -2.0, True)
        kernel, offsets = launch.load(IMAGE), (0, 8, 16, 32)
        how = {"stream": 77, "slots": slots, "slot_offsets": offsets, "shared_bytes": 128}
        launch.launch(kernel, 1, (5, 6, 7), (32, 2, 1), **how)
        (done,) = fake.launches
        assert (done.grid, done.block, done.shared, done.stream) == ((5, 6, 7), (32, 2, 1), 128, 77)
        assert (done.context, done.function, fake.stack) == (1001, 1011, [0])
        assert done.values == [
            struct.pack("Q", 0xABC), struct.pack("f", 2.5), struct.pack("dd", 1, -2), b"\1",
        ]  # fmt: skip

    def test_error_names_kernel_and_launch(self, fake):
        kernel = launch.load(IMAGE)
        fake.code = FAILED
        with pytest.raises(
            LaunchError, match=r"launch kernel entry_name on cuda:0 \(grid \(1, 1, 1\), block \(32, 1, 1\)\)"
        ):
            launch.launch(kernel, 0, (1, 1, 1), (32, 1, 1), stream=0, slots=b"", slot_offsets=())
        prepared = launch.BoundKernel(kernel, 0, (), (32, 1, 1))
        with pytest.raises(LaunchError, match="entry_name"):
            prepared(0, (1, 1, 1), ())
        fake.code = OK
        prepared(0, (1, 1, 1), ())
        assert fake.stack == [0]

    def test_launcher(self, fake):
        fake.sizes = [8, 4, 16]
        prepared = launch.BoundKernel(launch.load(IMAGE), 1, ("Q", "f4x", "dd"), (256, 1, 1), 64)
        prepared(3, (9, 1, 1), (0xABC, 2.5, 1.0, -2.0))
        prepared(4, (10, 1, 1), (0xDEF, 3.5, 2.0, -4.0))
        first, second = fake.launches
        assert first.values == [struct.pack("Q", 0xABC), struct.pack("f", 2.5), struct.pack("dd", 1, -2)]
        assert second.values == [struct.pack("Q", 0xDEF), struct.pack("f", 3.5), struct.pack("dd", 2, -4)]
        assert (first.stream, first.grid, first.block, first.shared) == (3, (9, 1, 1), (256, 1, 1), 64)
        assert first.table == second.table  # the scratch is used again
        assert first.context == second.context == 1001
        assert fake.stack == [0]

    def test_nothing_is_pushed_where_the_context_is_current(self, fake):
        prepared = launch.BoundKernel(launch.load(IMAGE), 0, (), (1, 1, 1))
        with driver.Current(0):
            fake.calls.clear()
            prepared(0, (1, 1, 1), ())
        assert fake.calls == []

    def test_layout_must_fill_slots(self, fake):
        with pytest.raises(ValueError, match="8-byte slots"):
            launch.BoundKernel(launch.load(IMAGE), 0, ("f",), (1, 1, 1))

    def test_reentrant_launch_has_a_scratch_of_its_own(self, fake):
        """A finaliser that launches the same kernel in the middle of a launch changes nothing."""
        fake.sizes = [8]
        prepared = launch.BoundKernel(launch.load(IMAGE), 0, ("q",), (1, 1, 1))
        real, inside = fake.cuCtxGetCurrent, []

        def interrupted():
            if not inside:
                inside.append(True)
                prepared(0, (1, 1, 1), (2,))
            return real()

        fake.cuCtxGetCurrent = interrupted
        prepared(0, (1, 1, 1), (1,))
        assert [done.values for done in fake.launches] == [[struct.pack("q", 2)], [struct.pack("q", 1)]]

    def test_threads(self, fake):
        fake.sizes = [8, 8]
        prepared = launch.BoundKernel(launch.load(IMAGE), 0, ("q", "q"), (1, 1, 1))

        def work(number):
            for round_ in range(300):
                prepared(number, (1, 1, 1), (number, round_))

        in_threads(work, range(8))
        seen = sorted((d.stream, *struct.unpack("=qq", b"".join(d.values))) for d in fake.launches)
        assert seen == [(number, number, round_) for number in range(8) for round_ in range(300)]


class TestStreams:
    def test_order(self, fake):
        streams.wait_for(0, 7, 1)
        assert fake.calls[1:] == [
            ("push", 1001), ("event", 1001), ("record", 7), ("wait", 1), ("destroy", 70),
        ]  # fmt: skip
        assert fake.stack == [0]

    def test_same_stream_needs_nothing(self, fake):
        streams.wait_for(0, 1, 0)
        streams.wait_for(9, 9, 0)
        assert fake.calls == []

    def test_event_is_destroyed_after_an_error(self, fake):
        fake.code = 906
        with pytest.raises(LaunchError, match="capture"):
            streams.wait_for(5, 7, 0)
        assert ("destroy", 70) in fake.calls
        assert fake.stack == [0]
