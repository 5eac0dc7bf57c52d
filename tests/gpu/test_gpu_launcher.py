"""The compiled launcher on a GPU: it answers, it answers right, and it knows when not to."""

import gc
import itertools
import os
import pathlib
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")

import numjit
import numjit.jiterator
from numjit.launcher import attach
from numjit.launcher.tested import UnavailableError, require_tested

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def launcher():
    try:
        require_tested(torch.__version__)
    except UnavailableError as error:
        pytest.skip(str(error))
    torch.zeros(1, device="cuda")
    assert attach.wait(), attach.obstacle()


@pytest.fixture
def axpy():
    return numjit.elementwise(lambda x, y, *, alpha=1.0: alpha * x + y)


def hits(operation):
    record = operation._call.warm.fast.record
    return 0 if record is None else record.hits


def launched(operation, *operands, **keywords):
    """Call twice, so that the second time the launcher answers; return that answer."""
    operation(*operands, **keywords)
    before = hits(operation)
    result = operation(*operands, **keywords)
    assert hits(operation) == before + 1
    return result


LAYOUTS = {
    "contiguous": lambda x, y: (x, y),
    "transposed": lambda x, y: (x.t(), y),
    "row": lambda x, y: (x, y[0]),
    "column": lambda x, y: (x, y[:, :1]),
    "sliced": lambda x, y: (x[:, 1:], y[:, :-1]),
    "negated": lambda x, y: (x._neg_view(), y),
    "expanded": lambda x, y: (x, y[:1].expand(32, 32)),
    "0-dim": lambda x, y: (x, y[0, 0]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.int32]
)
def test_layouts_and_dtypes(axpy, layout, dtype):
    make = torch.randn if dtype.is_floating_point or dtype.is_complex else None
    x, y = (
        make(32, 32, device="cuda", dtype=dtype)
        if make
        else torch.randint(0, 9, (32, 32), device="cuda", dtype=dtype)
        for _ in range(2)
    )
    operands = LAYOUTS[layout](x, y)
    alpha = 3 if dtype is torch.int32 else 2.5
    want = numjit.elementwise(axpy.source)(*operands, alpha=alpha)
    got = launched(axpy, *operands, alpha=alpha)
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    assert torch.equal(got, want)
    torch.testing.assert_close(got, alpha * operands[0] + operands[1], rtol=2e-2, atol=2e-2)


def test_scalars_and_numbers(axpy):
    x = torch.randn(100, device="cuda")
    for number in (2, 2.5, True):
        for alpha in (3, -1.5, False):
            torch.testing.assert_close(launched(axpy, x, number, alpha=alpha), alpha * x + number)
    z = torch.randn(100, device="cuda", dtype=torch.complex64)
    torch.testing.assert_close(launched(axpy, z, 2.0, alpha=1 - 2j), (1 - 2j) * z + 2)


def test_out_and_in_place(axpy):
    x, y = (torch.randn(64, 64, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    assert launched(axpy, x, y, out=out) is out
    torch.testing.assert_close(out, x + y)
    want = y + 2 * y.clone()
    axpy(y, y, out=y, alpha=2.0)
    torch.testing.assert_close(y, want)
    version = out._version
    launched(axpy, x, y, out=out)
    assert out._version == version + 2


def test_several_outputs():
    both = numjit.elementwise(lambda x: (x + 1, x > 0))
    x = torch.randn(1000, device="cuda")
    plus, positive = launched(both, x)
    assert torch.equal(plus, x + 1)
    assert torch.equal(positive, x > 0)


def test_cpp_functors_and_the_jiterator_module():
    text = "template <typename T> T f(T x, T y, T alpha) { return x + alpha * y; }"
    x, y = (torch.randn(100, device="cuda") for _ in range(2))
    torch.testing.assert_close(launched(numjit.elementwise(text, alpha=2.0), x, y), x + 2 * y)
    jitted = numjit.jiterator.create_jit_fn(text, alpha=2.0)
    leaf = x.clone().requires_grad_()
    result = launched(jitted, leaf, y, alpha=3.0)
    assert not result.requires_grad
    torch.testing.assert_close(result, x + 3 * y)


def test_prepared_calls_are_launched_from_the_first_on(axpy):
    x = torch.randn(100, device="cuda")
    prepared = axpy.prepare(x, x)
    torch.testing.assert_close(prepared(x, x), 2 * x)
    assert hits(prepared) == 1
    out = torch.empty_like(x)
    prepared = axpy.prepare(x, x, out=out)
    assert prepared(x, x, out=out) is out
    assert hits(prepared) == 1


def test_the_current_stream(axpy):
    x = torch.randn(1 << 22, device="cuda")
    launched(axpy, x, x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        before = hits(axpy)
        torch.cuda._sleep(20_000_000)
        result = axpy(x, x)
        done = torch.cuda.Event()
        done.record()
        assert hits(axpy) == before + 1
    assert not done.query()  # behind the sleep, so on its stream
    side.synchronize()
    assert torch.equal(result, 2 * x)


def test_a_cuda_graph(axpy):
    x = torch.randn(1000, device="cuda")
    launched(axpy, x, x)
    graph = torch.cuda.CUDAGraph()
    before = hits(axpy)
    with torch.cuda.graph(graph):
        result = axpy(axpy(x, x), x, alpha=2.0)
    assert hits(axpy) == before + 2
    for k in range(3):
        x.fill_(k)
        graph.replay()
        assert bool((result == 5 * k).all())


def test_operands_freed_while_queued(axpy):
    launched(axpy, torch.zeros(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda"))
    torch.cuda.synchronize()
    torch.cuda._sleep(50_000_000)
    results = []
    for k in range(20):
        x = torch.full((1 << 20,), float(k), device="cuda")
        results.append(axpy(x, x))
        del x
    for k, result in enumerate(results):
        assert bool((result == 2 * k).all())


def test_gradients_and_modes(axpy):
    x = torch.randn(100, device="cuda")
    launched(axpy, x, x)
    leaf = x.clone().requires_grad_()
    assert axpy(leaf, x).requires_grad
    with torch.no_grad():
        assert not launched(axpy, leaf, x).requires_grad
    with torch.inference_mode():
        assert axpy(x, x).is_inference()

    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = axpy(mode.from_tensor(x), mode.from_tensor(x))
    assert type(fake).__name__ == "FakeTensor"


def test_threads_of_one_operation(axpy):
    """Eight threads, each with its shapes and stream; NUMJIT_STRESS_SECONDS=60 makes it a minute."""
    failures = []
    end = time.monotonic() + float(os.environ.get("NUMJIT_STRESS_SECONDS", "2"))

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for k in itertools.count():
                    if time.monotonic() > end:
                        return
                    x = torch.full((seed * 37 + k % 5 + 1,), float(k % 1000), device="cuda")
                    if not bool((axpy(x, x, alpha=float(seed)) == (seed + 1) * (k % 1000)).all()):
                        failures.append((seed, k))
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def resident():
    """Bytes of this process that are in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow(axpy):
    """Over a million calls. What grows with them grows in each quarter, what other threads load does not."""
    x = torch.randn(64, device="cuda")
    out = torch.empty_like(x)

    def calls(count):
        for _ in range(count):
            axpy(x, x, alpha=2.0)
            axpy(x, x, out=out)
        torch.cuda.synchronize()
        gc.collect()

    calls(2000)
    references = [sys.getrefcount(o) for o in (x, out, axpy)]
    on_device, on_host = torch.cuda.memory_allocated(), [resident()]
    for _ in range(4):
        calls(125_000)
        on_host.append(resident())
    assert torch.cuda.memory_allocated() == on_device
    assert [sys.getrefcount(o) for o in (x, out, axpy)] == references
    grown = [after - before for before, after in itertools.pairwise(on_host)]
    assert min(grown) < 1 << 20, grown  # 4 bytes a call


@pytest.mark.skipif(not torch.cuda.is_available() or torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_devices(axpy):
    operands = [torch.randn(100, device=f"cuda:{k}") for k in range(2)]
    for x in operands:
        with torch.cuda.device(x.device):
            torch.testing.assert_close(launched(axpy, x, x), 2 * x)
    for x in operands:  # one of the two is not the current device
        for _ in range(3):
            result = axpy(x, x)
            assert result.device == x.device
            torch.testing.assert_close(result, 2 * x)


def test_a_thread_that_has_not_used_cuda_yet(axpy):
    """As torch's own threads of backward: without a context, on device 0."""
    x, y = torch.rand(64, device="cuda"), torch.rand(64, device="cuda")
    expected = launched(axpy, x, y, alpha=2.0)
    before, results = hits(axpy), []
    thread = threading.Thread(target=lambda: results.append(axpy(x, y, alpha=2.0)))
    thread.start()
    thread.join()
    assert torch.equal(results[0], expected)
    assert hits(axpy) == before + 1


# ---------------------------------------------------------- CuPy's arrays, which Python's warm path answers


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "complex64", "bool"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "row", "column", "sliced", "reversed"])
def test_cupy_s_arrays(cupy, axpy, kind, layout):
    x = (cupy.arange(1024).reshape(32, 32) % 7).astype(kind)
    y = (cupy.arange(1024)[::-1].reshape(32, 32) % 5).astype(kind)
    views = {
        "contiguous": (x, y),
        "transposed": (x.T, y),
        "row": (x, y[0]),
        "column": (x, y[:, :1]),
        "sliced": (x[:, 1:], y[:, :-1]),
        "reversed": (x[::-1], y[:, ::-1]),
    }
    a, b = views[layout]
    for _ in range(3):
        result = axpy(a, b, alpha=2.0)
    assert type(result) is cupy.ndarray
    assert hits(axpy) == 0
    assert result.flags.c_contiguous or layout in ("transposed", "reversed")
    expected = axpy(torch.from_dlpack(a.copy()), torch.from_dlpack(b.copy()), alpha=2.0)
    assert torch.equal(torch.from_dlpack(result), expected)


def test_cupy_s_results_in_another_order_are_python_s(cupy, axpy):
    x = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)
    for _ in range(3):
        result = axpy(x.T, x.T)
        cupy.testing.assert_array_equal(result, 2 * x.T)
        assert result.strides == x.T.strides
    out = cupy.zeros((3, 4), cupy.float32)
    for _ in range(3):
        assert axpy(x, x, out=out) is out
    assert hits(axpy) == 0


def test_cupy_s_current_stream(cupy, axpy):
    x = cupy.zeros(1 << 16, cupy.float32)
    axpy(x, x)
    side, torch_side = cupy.cuda.Stream(non_blocking=True), torch.cuda.Stream()
    for k in range(1, 4):
        torch.cuda.synchronize()
        with side:
            with torch.cuda.stream(torch.cuda.ExternalStream(side.ptr)):
                torch.cuda._sleep(50_000_000)
            x.fill(k)
            with torch.cuda.stream(torch_side):  # torch's says nothing here
                result = axpy(x, x)
        side.synchronize()
        cupy.testing.assert_array_equal(result, cupy.full(1 << 16, 2 * k, cupy.float32))


def test_cupy_s_arrays_on_another_device(cupy, axpy):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    with cupy.cuda.Device(1):
        x = cupy.arange(64, dtype=cupy.float32)
        for _ in range(2):
            result = axpy(x, x)
            assert result.device.id == 1
            cupy.testing.assert_array_equal(result, 2 * x)
    result = axpy(x, x)  # the current device is another one
    assert result.device.id == 1
    with cupy.cuda.Device(1):
        cupy.testing.assert_array_equal(result, 2 * x)


def test_cupy_and_torch_and_threads_share_a_functor(cupy, axpy):
    x = torch.arange(100.0, device="cuda")
    a = cupy.arange(100, dtype=cupy.float32)
    launched(axpy, x, x)
    axpy(a, a)
    failures = []

    def work(seed):
        for k in range(200):
            alpha = float(seed + k)
            if seed % 2:
                right = torch.equal(axpy(x, x, alpha=alpha), alpha * x + x)
            else:
                right = bool((axpy(a, a, alpha=alpha) == cupy.float32(alpha) * a + a).all())
            if not right:
                failures.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_cupy_s_arrays_leave_no_memory(cupy, axpy):
    a = cupy.arange(1 << 12, dtype=cupy.float32)
    for _ in range(3):
        axpy(a, a)
    pool = cupy.get_default_memory_pool()
    gc.collect()
    before, held = pool.used_bytes(), sys.getrefcount(a)
    for _ in range(2000):
        axpy(a, a)
    gc.collect()
    assert (pool.used_bytes(), sys.getrefcount(a)) == (before, held)
