"""Adapters and runtime on a real card: contexts, streams, threads, parameters, foreign libraries."""

import ctypes
import struct
import threading

import numpy as np
import pytest

from numjit import dtypes
from numjit.arrays import allocate, numbers
from numjit.arrays import streams as choice
from numjit.arrays.adapters import view, writable_view
from numjit.arrays.view import as_device, cuda
from numjit.errors import DeviceError, LaunchError, OutputError, UnsupportedArrayError
from numjit.runtime import devices, driver, launch, streams
from tests.support.packing import kernel_slot
from tests.support.threads import in_threads

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

SOURCE = """
extern "C" __global__ void affine(
    float* out, const float* in, float scale, double2 offset, bool minus, long long n
) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = scale * in[i] + (float)(minus ? offset.x - offset.y : offset.x + offset.y);
}
"""
LARGE = """
struct Many { long long values[1000]; };
extern "C" __global__ void last(long long* out, Many many) { *out = many.values[999]; }
"""
SHARED = """
extern "C" __global__ void shared(int* out, int n) {
    extern __shared__ int scratch[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) scratch[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) *out = scratch[n - 1];
}
"""
LAYOUT = ("Q", "Q", *map(numbers.slot_format, (dtypes.float32, dtypes.complex128, dtypes.bool_)), "q")
BLOCK = (256, 1, 1)


def compiled(source):
    """Compile CUDA C++ to a cubin for the device that is there."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    major, minor = devices.compute_capability(0)
    code, program = nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], [])
    assert not code
    options = [f"--gpu-architecture=sm_{major}{minor}".encode()]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert not code
    code, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = b" " * size
    (code,) = nvrtc.nvrtcGetCUBIN(program, cubin)
    assert not code
    return cubin


@pytest.fixture(scope="module")
def cubin():
    return compiled(SOURCE)


@pytest.fixture(scope="module")
def kernel(cubin):
    return launch.load(cubin)


def run(launcher, source, out, stream, scale=2.0, offset=(0.5, 0.25), minus=False):
    """Launch ``out = scale * source + offset`` over views."""
    n = int(np.prod(source.shape))
    launcher(stream, (-(-n // 256), 1, 1), (out.pointer, source.pointer, scale, *offset, minus, n))


def launcher_of(kernel, index=0):
    return launch.BoundKernel(kernel, index, LAYOUT, BLOCK)


class TestLaunch:
    def test_launcher_on_the_current_stream(self, kernel):
        source = torch.arange(1000.0, device="cuda")
        out = torch.empty_like(source)
        seen = view(source)
        run(launcher_of(kernel), seen, view(out), choice.launch_stream([seen], 0))
        assert torch.equal(out, 2 * source + 0.75)
        run(launcher_of(kernel), seen, view(out), choice.launch_stream([seen], 0), minus=True)
        assert torch.equal(out, 2 * source + 0.25)

    def test_plain_launch(self, kernel):
        source = torch.arange(1000.0, device="cuda")
        out = torch.empty_like(source)
        slots = struct.pack("=QQ", out.data_ptr(), source.data_ptr()) + b"".join(
            kernel_slot(value, dtype)
            for value, dtype in (
                (3.0, dtypes.float16),
                (1 + 2j, dtypes.complex128),
                (True, dtypes.bool_),
                (1000, dtypes.int64),
            )
        )
        launch.launch(kernel, 0, (4, 1, 1), BLOCK, stream=0, slots=slots, slot_offsets=(0, 8, 16, 24, 40, 48))
        assert torch.equal(out, 3 * source - 1)

    def test_side_stream(self, kernel):
        launcher = launcher_of(kernel)
        side = torch.cuda.Stream()
        source = torch.zeros(1 << 16, device="cuda")
        out = torch.empty_like(source)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for value in range(20):
                torch.cuda._sleep(200_000)
                source.fill_(value)
                stream = choice.launch_stream([view(source)], 0)
                assert stream == side.cuda_stream
                run(launcher, view(source), view(out), stream)
                assert bool((out == 2 * value + 0.75).all())

    def test_cuda_graph(self, kernel):
        launcher = launcher_of(kernel)
        source = torch.zeros(1000, device="cuda")
        out = torch.empty_like(source)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run(launcher, view(source), view(out), choice.launch_stream([view(source)], 0))
        for value in (3, 5):
            source.fill_(value)
            graph.replay()
            assert bool((out == 2 * value + 0.75).all())

    def test_threads_without_a_context_of_their_own(self, kernel):
        launcher = launcher_of(kernel)

        def work(number):
            out = torch.empty(512, device="cuda")
            source = torch.full((512,), float(number), device="cuda")
            torch.cuda.current_stream().synchronize()
            for round_ in range(200):
                run(launcher, view(source), view(out), 0, scale=float(round_), offset=(number, 0))
                assert bool((out == number * round_ + number).all())

        in_threads(work, range(8))

    def test_fresh_thread_that_never_saw_cuda(self, kernel):
        launcher = launcher_of(kernel)
        source, out = torch.ones(256, device="cuda"), torch.empty(256, device="cuda")
        seen, written = view(source), view(out)
        torch.cuda.synchronize()
        left = []

        def work():
            run(launcher, seen, written, 0)
            left.append(int(driver.driver().cuCtxGetCurrent()[1]))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        torch.cuda.synchronize()
        assert left == [0]  # the thread has no context afterwards either
        assert bool((out == 2.75).all())

    @pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")
    def test_other_device_than_the_current(self, kernel):
        source = torch.arange(1000.0, device="cuda:1")
        out = torch.empty_like(source)
        with torch.cuda.device(0):
            for _ in range(2):
                run(launcher_of(kernel, 1), view(source), view(out), choice.launch_stream([view(source)], 1))
            assert torch.cuda.current_device() == 0
            assert torch.zeros(1, device="cuda").device.index == 0
        assert torch.equal(out, 2 * source + 0.75)
        assert view(source).device is cuda(1)
        assert devices.pointer_device(source.data_ptr()) == 1

    @pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")
    def test_stream_order_on_another_device(self):
        with torch.cuda.device(1):
            producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
            source = torch.zeros(1 << 16, device="cuda")
            torch.cuda.synchronize()
            with torch.cuda.stream(producer):
                torch.cuda._sleep(200_000_000)
                source.fill_(1)
        streams.wait_for(consumer.cuda_stream, producer.cuda_stream, 1)
        with torch.cuda.stream(consumer):
            seen = source.clone()
        consumer.synchronize()
        assert bool((seen == 1).all())

    def test_parameters_beyond_4_kib(self):
        if devices.max_parameter_bytes(0) < 8008:
            pytest.skip("the driver takes 4 KiB of parameters")
        out = torch.zeros(1, dtype=torch.int64, device="cuda")
        prepared = launch.BoundKernel(launch.load(compiled(LARGE)), 0, ("Q", "1000q"), (1, 1, 1))
        prepared(0, (1, 1, 1), (out.data_ptr(), *range(1000)))
        assert out.item() == 999

    def test_dynamic_shared_memory_beyond_48_kib(self):
        out = torch.zeros(1, dtype=torch.int32, device="cuda")
        kernel = launch.load(compiled(SHARED), "shared")
        prepared = launch.BoundKernel(kernel, 0, ("Q", "i4x"), (128, 1, 1), 60000)
        prepared(0, (1, 1, 1), (out.data_ptr(), 15000))
        assert out.item() == 14999

    def test_errors_leave_everything_usable(self, kernel, cubin):
        for damaged in (b"garbage", b"\x7fELF" + bytes(100), cubin[: len(cubin) // 2]):
            with pytest.raises(LaunchError, match="is damaged"):
                launch.load(damaged)
        with pytest.raises(LaunchError, match="find kernel nothing"):
            launch.load(cubin, "nothing")
        with pytest.raises(LaunchError, match=r"affine.*block"):
            launch.BoundKernel(kernel, 0, LAYOUT, (4096, 1, 1))(0, (1, 1, 1), (0, 0, 0, 0, 0, 0, 0))
        with pytest.raises(DeviceError, match="no device"):
            driver.primary_context(99)
        self.test_launcher_on_the_current_stream(kernel)

    def test_unload(self, cubin):
        mine = launch.load(cubin)
        self.test_launcher_on_the_current_stream(mine)
        mine.unload()
        with pytest.raises(LaunchError, match="unloaded"):
            launcher_of(mine)

    def test_attributes(self, kernel):
        assert kernel.name == "affine"
        assert 0 < kernel.attribute(0, "NUM_REGS") < 64
        assert kernel.attribute(0, "LOCAL_SIZE_BYTES") == 0


class TestDevices:
    def test_properties_agree_with_torch(self):
        found, theirs = devices.properties(0), torch.cuda.get_device_properties(0)
        assert found.name == theirs.name == devices.device_name(0)
        assert found.compute_capability == (theirs.major, theirs.minor)
        assert found.multiprocessors == theirs.multi_processor_count
        assert found.memory_bytes >= theirs.total_memory
        assert found.memory_bandwidth is None or 5e10 < found.memory_bandwidth < 5e13
        assert devices.device_count() == torch.cuda.device_count()
        assert devices.driver_version() >= (12, 0)
        assert devices.available()

    def test_current_device(self):
        torch.zeros(1, device="cuda")
        assert devices.current_device() == torch.cuda.current_device()
        assert as_device("cuda") is cuda(torch.cuda.current_device())


class TestOrder:
    def test_wait_orders_after_a_producer(self, kernel):
        launcher = launcher_of(kernel)
        producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
        source = torch.zeros(1 << 16, device="cuda")
        out = torch.empty_like(source)
        torch.cuda.synchronize()
        for value in range(1, 20):
            with torch.cuda.stream(producer):
                torch.cuda._sleep(500_000)
                source.fill_(value)
            streams.wait_for(consumer.cuda_stream, producer.cuda_stream, 0)
            run(launcher, view(source), view(out), consumer.cuda_stream)
            consumer.synchronize()
            assert bool((out == 2 * value + 0.75).all())

    def test_interface_stream_entry(self, kernel):
        producer = torch.cuda.Stream()
        base = torch.zeros(256, device="cuda")

        class Foreign:
            __cuda_array_interface__ = {
                "version": 3, "shape": (256,), "typestr": "<f4", "data": (base.data_ptr(), False),
                "stream": producer.cuda_stream,
            }  # fmt: skip

        torch.cuda.synchronize()
        with torch.cuda.stream(producer):
            torch.cuda._sleep(5_000_000)
            base.fill_(4)
        seen = view(Foreign())
        assert (seen.device, seen.stream) == (cuda(0), producer.cuda_stream)
        array, out = allocate.empty("torch", seen.shape, seen.strides, seen.dtype, seen.device)
        stream = choice.launch_stream([seen], 0, "torch")
        for other in choice.producers([seen], stream):
            streams.wait_for(stream, other, 0)
        run(launcher_of(kernel), seen, out, stream)
        assert bool((array == 8.75).all())


class TestViews:
    @pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
    def test_torch(self, dtype):
        tensor = torch.empty(4, 6, dtype=getattr(torch, dtype.name), device="cuda")[1:, ::2].t()
        seen = view(tensor)
        assert (seen.dtype, seen.device, seen.strides, seen.pointer) == (
            dtype,
            cuda(0),
            (2, 6),
            tensor.data_ptr(),
        )
        array, made = allocate.empty("torch", (4, 3), (1, 4), dtype, cuda(0))
        assert view(array)._replace(owner=None, original=None) == made._replace(owner=None, original=None)

    def test_interface_of_host_memory(self):
        host = np.zeros(4, np.float32)

        class Foreign:
            __cuda_array_interface__ = {
                "version": 3, "shape": (4,), "typestr": "<f4", "data": (host.ctypes.data, False),
            }  # fmt: skip

        with pytest.raises(UnsupportedArrayError, match="no CUDA memory"):
            view(Foreign())

    def test_dlpack_gets_our_stream(self):
        asked = []

        class Foreign:
            tensor = torch.ones(3, device="cuda")

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

            def __dlpack__(self, **keywords):
                asked.append(keywords["stream"])
                return self.tensor.__dlpack__(**keywords)

        assert view(Foreign()).stream == 1
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            seen = view(Foreign())
        assert asked == [1, side.cuda_stream]
        assert (seen.pointer, seen.device, seen.stream) == (
            Foreign.tensor.data_ptr(),
            cuda(0),
            side.cuda_stream,
        )


class TestForeign:
    def test_cupy(self, kernel):
        cupy = pytest.importorskip("cupy")
        source = cupy.arange(24, dtype="f4").reshape(2, 3, 4).transpose(2, 0, 1)
        seen = view(source)
        assert (seen.library, seen.device, seen.strides, seen.stream) == ("cupy", cuda(0), (1, 12, 4), 1)
        assert allocate.output_library([seen]) == "cupy"
        side = cupy.cuda.Stream(non_blocking=True)
        with side:
            array, out = allocate.empty("cupy", seen.shape, seen.strides, seen.dtype, seen.device)
            stream = choice.launch_stream([view(source)], 0, "cupy")
            assert stream == side.ptr
            run(launcher_of(kernel), seen, out, stream)
            assert bool((array == 2 * source + cupy.float32(0.75)).all())
        assert view(array)[:6] == out[:6]
        empty, _ = allocate.empty("cupy", (0, 3), (3, 1), dtypes.complex64, cuda(0))
        assert empty.shape == (0, 3)
        assert view(empty).pointer == 0

    def test_numba(self, kernel):
        numba_cuda = pytest.importorskip("numba.cuda")
        source = numba_cuda.to_device(np.arange(12, dtype="f4").reshape(3, 4))
        seen = view(source)
        assert (seen.library, seen.device, seen.strides) == ("numba", cuda(0), (4, 1))
        array, out = allocate.empty("numba", (3, 4), (4, 1), dtypes.float32, cuda(0))
        run(launcher_of(kernel), seen, out, choice.launch_stream([seen], 0, "numba"))
        assert np.array_equal(array.copy_to_host(), 2 * source.copy_to_host() + 0.75)
        assert view(array)[:6] == out[:6]
        transposed, made = allocate.empty("numba", (3, 4), (1, 3), dtypes.int16, cuda(0))
        assert view(transposed)[:6] == made[:6]

    def test_jax(self, kernel, monkeypatch):
        monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        jax = pytest.importorskip("jax")
        source = jax.numpy.arange(1000, dtype="float32")
        if source.device.platform != "gpu":
            pytest.skip("JAX sees no GPU")
        seen = view(source)
        assert (seen.library, seen.device, seen.shape, seen.strides) == ("jax", cuda(0), (1000,), (1,))
        with pytest.raises(OutputError, match="read-only"):
            writable_view(source)
        array, out = allocate.empty(
            allocate.output_library([seen]), seen.shape, seen.strides, seen.dtype, seen.device
        )
        run(launcher_of(kernel), seen, out, choice.launch_stream([seen], 0, "torch"))
        assert torch.equal(array, 2 * torch.arange(1000.0, device="cuda") + 0.75)
        assert view(jax.numpy.zeros(3, "bfloat16")).dtype is dtypes.bfloat16

    def test_pinned_memory_is_the_cpu(self):
        pinned = torch.arange(3.0).pin_memory()
        assert view(pinned).device.kind == "cpu"
        assert ctypes.c_float.from_address(view(pinned).pointer + 4).value == 1


def test_ptx_is_compiled_by_the_driver(tmp_path, monkeypatch):
    """As for a GPU that is newer than the installed NVRTC."""
    import numjit
    from numjit.call import build

    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path))
    cc = devices.compute_capability(0)
    monkeypatch.setattr(build, "compile_target", lambda asked: (cc, True))
    x = torch.arange(7.0, device="cuda")
    for functor in (lambda x: x * 5 + 3, "template <typename T> T f(T x) { return x * T(5) + T(3); }"):
        assert torch.equal(numjit.elementwise(functor)(x), x * 5 + 3)
    assert len(list(tmp_path.rglob("*.ptx"))) == 2
    assert not list(tmp_path.rglob("*.cubin"))
