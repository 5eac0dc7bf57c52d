"""The warm path answers exactly what the general path does, whatever changes between two calls."""

import math
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.errors import NumjitError
from tests.cases import Exporter


def fresh():
    """A functor without any warm entry."""
    return numjit.elementwise(lambda x, y, *, alpha=1: alpha * x + y)


@pytest.fixture
def operation():
    return fresh()


def calls(device):
    """Calls that differ in one thing that a kernel, a dtype or a stride depends on."""
    x = torch.arange(1.0, 65.0, device=device).reshape(8, 8)
    y = torch.full((8, 8), 3.0, device=device)
    z = torch.arange(64, device=device).reshape(8, 8).to(torch.complex64) * (1 + 2j)
    flat = torch.arange(80.0, device=device)
    return {
        "plain": ((x, y), {}),
        "int scalar": ((x, y), {"alpha": 2}),
        "float scalar": ((x, y), {"alpha": 2.5}),
        "bool scalar": ((x, y), {"alpha": True}),
        "complex scalar": ((x, y), {"alpha": 1j}),
        "transposed": ((x.t(), y), {}),
        "both transposed": ((x.t(), y.t()), {}),
        "sliced": ((x[:, 1:], y[:, :-1]), {}),
        "row": ((x, y[0]), {}),
        "column": ((x, y[:, :1]), {}),
        "aligned": ((flat[:64].reshape(8, 8), y), {}),
        "misaligned": ((flat[1:65].reshape(8, 8), y), {}),
        "misaligned more": ((flat[2:66].reshape(8, 8), y), {}),
        "float64": ((x.double(), y), {}),
        "int32": ((x.int(), y.int()), {}),
        "int32 and float scalar": ((x.int(), y.int()), {"alpha": 0.5}),
        "half": ((x.half(), y.half()), {}),
        "complex": ((z, y), {}),
        "conj": ((z.conj(), y), {}),
        "imag of conj": ((z.conj().imag, y), {}),
        "number": ((x, 2), {}),
        "float number": ((x, 2.5), {}),
        "0-dim": ((x, torch.tensor(2.5, device=device)), {}),
        "0-dim float64": ((x, torch.tensor(2.5, device=device, dtype=torch.float64)), {}),
        "0-dim cpu": ((x, torch.tensor(2.5)), {}),
        "empty": ((x[:0], y[:0]), {}),
        "expanded": ((x, y[:1].expand(8, 8)), {}),
        "parameter": ((torch.nn.Parameter(x.clone(), requires_grad=False), y), {}),
    }


def same(got, want):
    assert type(got) is type(want)
    assert (got.dtype, got.shape, got.stride(), got.device) == (
        want.dtype,
        want.shape,
        want.stride(),
        want.device,
    )
    assert torch.equal(got.resolve_conj(), want.resolve_conj())


def test_calls_in_any_order_answer_as_a_fresh_functor(operation, device):
    expected = {name: fresh()(*operands, **scalars) for name, (operands, scalars) in calls(device).items()}
    for _ in range(3):  # the second and third time through are warm
        for name, (operands, scalars) in calls(device).items():
            same(operation(*operands, **scalars), expected[name])


def test_the_warm_path_is_taken(operation, device, monkeypatch):
    x = torch.ones(16, device=device)
    operation(x, x)
    module = sys.modules["numjit.call.operation"]
    monkeypatch.setattr(module, "read_arguments", lambda *a: pytest.fail("the general path ran"))
    same(operation(x, x), x + x)
    same(operation(x * 3, x, alpha=5), x * 3 * 5 + x)


def test_new_contents_and_new_values_are_seen(operation, device):
    x = torch.zeros(100, device=device)
    for k in range(5):
        x.fill_(k)
        same(operation(x, x, alpha=k), x * k + x)


def test_the_default_dtype_is_part_of_the_key(operation, device):
    x = torch.arange(4, device=device)
    same(operation(x, x, alpha=0.5), 0.5 * x + x)
    torch.set_default_dtype(torch.float64)
    try:
        assert operation(x, x, alpha=0.5).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert operation(x, x, alpha=0.5).dtype is torch.float32


def test_gradients_are_not_lost_on_a_warm_functor(operation, device):
    x = torch.ones(8, device=device, requires_grad=True)
    with torch.no_grad():
        operation(x, x)
        assert not operation(x, x).requires_grad
    result = operation(x, x)
    assert result.requires_grad
    result.sum().backward()
    same(x.grad, torch.full_like(x, 2))


def test_errors_are_the_same_on_a_warm_functor(operation, device):
    x = torch.ones(8, device=device)
    operation(x, x)
    with pytest.raises(NumjitError, match="broadcast"):
        operation(x, x[:3])
    with pytest.raises(NumjitError, match="alpha"):
        operation(x, x, alpha="2")
    with pytest.raises(NumjitError, match="int64"):
        operation(x, x, alpha=1 << 70)
    same(operation(x, x), x + x)


def test_a_rebound_global_reaches_a_warm_functor(device):
    scope = {"numjit": numjit, "factor": 2.0}
    exec("f = numjit.elementwise(lambda x: x * factor)", scope)
    x = torch.ones(8, device=device)
    for _ in range(2):
        same(scope["f"](x), x * 2)
    scope["factor"] = 3.0
    for _ in range(2):
        same(scope["f"](x), x * 3)


def test_several_outputs(device):
    both = numjit.elementwise(lambda x: (x + 1, x > 0))
    x = torch.linspace(-1, 1, 50, device=device)
    for _ in range(3):
        plus, positive = both(x)
        same(plus, x + 1)
        same(positive, x > 0)


def test_fake_tensors_after_a_warm_call(operation, device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.ones(4, 8, device=device)
    operation(x, x)
    with FakeTensorMode() as mode:
        fake = operation(mode.from_tensor(x), mode.from_tensor(x))
    assert fake.shape == (4, 8)


def test_entries_are_bounded(operation, monkeypatch, device):
    monkeypatch.setattr(operation.__numjit_operation__.warm.plans, "limit", 4)
    for n in range(1, 12):
        x = torch.ones(n, device=device)
        same(operation(x, x), x + x)
    assert len(operation.__numjit_operation__.warm.plans) <= 4


def test_nan_scalars_arrive(operation, device):
    x = torch.ones(3, device=device)
    for _ in range(2):
        assert operation(x, x, alpha=math.nan).isnan().all()
        same(operation(x, x, alpha=-0.0), -0.0 * x + x)


def test_numbers_that_the_dispatcher_wrapped_and_0_dim_tensors_never_take_it(operation):
    x = torch.ones(4)
    warm = operation.__numjit_operation__.warm
    assert warm.key("f", [x, 2.5]) is not None
    assert warm.key("f", [x, torch.tensor(2.5)]) is None


def array_calls():
    """Calls on NumPy arrays that differ in one thing that a plan depends on."""
    x = np.arange(1.0, 65.0, dtype=np.float32).reshape(8, 8)
    y = np.full((8, 8), 3.0, np.float32)
    flat = np.arange(80.0, dtype=np.float32)
    return {
        "plain": ((x, y), {}),
        "int scalar": ((x, y), {"alpha": 2}),
        "float scalar": ((x, y), {"alpha": 2.5}),
        "transposed": ((x.T, y), {}),
        "both transposed": ((x.T, y.T), {}),
        "row": ((x, y[0]), {}),
        "reversed": ((x[::-1], y), {}),
        "misaligned": ((flat[1:65].reshape(8, 8), y), {}),
        "float64": ((x.astype(np.float64), y), {}),
        "int32": ((x.astype(np.int32), y.astype(np.int32)), {}),
        "complex": ((x * np.complex64(1j), y), {}),
        "number": ((x, 2.5), {}),
        "0-dim": ((x, np.array(2.5)), {}),
        "NumPy scalar": ((x, np.float64(2.5)), {}),
        "read-only": ((np.broadcast_to(x[0], (8, 8)), y), {}),
        "empty": ((x[:0], y[:0]), {}),
    }


def test_numpy_calls_in_any_order_answer_as_a_fresh_functor(operation):
    expected = {name: fresh()(*operands, **scalars) for name, (operands, scalars) in array_calls().items()}
    for _ in range(3):
        for name, (operands, scalars) in array_calls().items():
            got, want = operation(*operands, **scalars), expected[name]
            assert (type(got), got.dtype, got.shape, got.strides) == (
                type(want), want.dtype, want.shape, want.strides,
            )  # fmt: skip
            np.testing.assert_array_equal(got, want)


def test_the_warm_path_is_taken_by_numpy_arrays(operation, monkeypatch):
    x = np.ones(16, np.float32)
    operation(x, x)
    module = sys.modules["numjit.call.operation"]
    monkeypatch.setattr(module, "read_arguments", lambda *a: pytest.fail("the general path ran"))
    np.testing.assert_array_equal(operation(x * 3, x, alpha=5), x * 16)


def test_numpy_arrays_and_tensors_do_not_meet_on_the_warm_path(operation):
    x = np.ones(16, np.float32)
    assert isinstance(operation(x, x), np.ndarray)
    assert isinstance(operation(torch.ones(16), x), torch.Tensor)
    assert isinstance(operation(x, torch.ones(16)), np.ndarray)
    assert isinstance(operation(x, x), np.ndarray)


@pytest.mark.gpu
def test_cupy_calls_are_warm_and_on_cupy_s_stream(operation, monkeypatch):
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(1, 65, dtype=cupy.float32).reshape(8, 8)
    for _ in range(3):
        for a, b in (
            (x, x),
            (x.T, x),
            (x[:, 1:], x[:, :-1]),
            (x, x[0]),
            (x, 2.0),
            (x.astype(cupy.float64), x),
        ):
            got = operation(a, b, alpha=2)
            assert isinstance(got, cupy.ndarray)
            cupy.testing.assert_array_equal(got, 2 * a + b)
            assert got.dtype == (2 * a + b).dtype
    module = sys.modules["numjit.call.operation"]
    monkeypatch.setattr(module, "read_arguments", lambda *a: pytest.fail("the general path ran"))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        y = cupy.full((8, 8), 5, cupy.float32)
        got = operation(y, y, alpha=2)
    stream.synchronize()
    cupy.testing.assert_array_equal(got, cupy.full((8, 8), 15, cupy.float32))


# ---------------------------------------------------------------------------- arrays of a protocol


def exporters(operands):
    return [Exporter(x) if isinstance(x, torch.Tensor) else x for x in operands]


def test_exporters_in_any_order_answer_as_a_fresh_functor(operation, device):
    given = {
        name: (operands, scalars)
        for name, (operands, scalars) in calls(device).items()
        if not any(isinstance(x, torch.Tensor) and (x.is_conj() or x.is_neg()) for x in operands)
    }
    expected = {name: fresh()(*exporters(operands), **scalars) for name, (operands, scalars) in given.items()}
    for _ in range(3):
        for name, (operands, scalars) in given.items():
            same(operation(*exporters(operands), **scalars), expected[name])


def test_exporters_take_the_warm_path_and_are_read_once(operation, device, monkeypatch):
    x, y = torch.arange(16.0, device=device), torch.full((16,), 3.0, device=device)
    operation(Exporter(x), Exporter(y))
    module = sys.modules["numjit.call.operation"]
    monkeypatch.setattr(module, "read_arguments", lambda *a: pytest.fail("the general path ran"))
    first, second = Exporter(x), Exporter(y)
    same(operation(first, second), x + y)
    same(operation(second, first, alpha=5), y * 5 + x)
    assert first.count == second.count == 2


def test_what_is_never_warm_reads_an_exporter_once(operation, device):
    numbered = numjit.elementwise(lambda x: x + numjit.index())
    raw = numjit.elementwise(
        "template <typename T> T at(T i, numjit::raw<T> table) { return table[(int)i]; }"
    )
    x = torch.rand(4, device=device)
    mixed, counted, looked, up = (
        Exporter(x),
        Exporter(x),
        Exporter(torch.tensor([2.0], device=device)),
        Exporter(x),
    )
    for _ in range(3):
        same(operation(mixed, x), x + x)
        same(numbered(counted), x + torch.arange(4, device=device))
        same(raw(looked, up), x[2:3])
    assert (mixed.count, counted.count, looked.count, up.count) == (3, 3, 3, 3)


def test_an_exporter_that_refuses_later_is_told_of(operation, device):
    exporter = Exporter(torch.ones(4, device=device))
    for _ in range(2):
        operation(exporter, exporter)
    exporter.array = torch.ones(4, device=device, requires_grad=True)
    with pytest.raises(NumjitError, match=r"argument 'x'.*refused"):
        operation(exporter, exporter)


class Interface:
    """Speaks ``__cuda_array_interface__`` and nothing else."""

    def __init__(self, tensor, **more):
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **more}


@pytest.mark.gpu
def test_an_interface_waits_for_its_stream_in_every_call(operation):
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    for k in range(3):
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)
            x.fill_(k)
        foreign = Interface(x, stream=side.cuda_stream, version=3)
        result = operation(foreign, foreign)
        torch.cuda.synchronize()
        same(result, torch.full_like(x, 2 * k))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_jax_arrays_are_warm_and_answer_tensors(operation, dtype, device, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    try:
        place = jax.devices({"cuda": "gpu"}.get(device, device))[0]
    except RuntimeError as error:
        pytest.skip(f"JAX has no such device: {error}")
    x = jax.device_put(jax.numpy.arange(12, dtype=dtype).reshape(3, 4), place)
    operation(x, x)
    module = sys.modules["numjit.call.operation"]
    monkeypatch.setattr(module, "read_arguments", lambda *a: pytest.fail("the general path ran"))
    for k in range(3):
        expected = torch.arange(12, device=device).reshape(3, 4) * (k + 1)
        same(operation(x, x + 0, alpha=k), expected.to(getattr(torch, dtype)))


@pytest.mark.gpu
def test_work_of_jax_comes_first(operation, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    numpy = pytest.importorskip("jax.numpy")
    ones = numpy.ones((4096, 4096))
    if ones.device.platform != "gpu":
        pytest.skip("JAX sees no GPU")
    unready = 0
    for k in range(6):
        product = (ones * k) @ ones @ ones / 4096
        unready += not product.is_ready()
        same(operation(product, product), torch.full((4096, 4096), 8192.0 * k, device="cuda"))
    assert unready


@pytest.mark.gpu
def test_numba_arrays_are_warm_and_answer_numba_arrays(operation, monkeypatch):
    cuda = pytest.importorskip("numba.cuda")
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = cuda.to_device(host)
    operation(x, x)
    module = sys.modules["numjit.call.operation"]
    monkeypatch.setattr(module, "read_arguments", lambda *a: pytest.fail("the general path ran"))
    for k in range(3):
        result = operation(x, x, alpha=k)
        assert type(result) is type(x)
        np.testing.assert_array_equal(result.copy_to_host(), host * k + host)


@pytest.mark.gpu
def test_numba_arrays_that_repeat_elements(operation):
    cuda = pytest.importorskip("numba.cuda")
    row = torch.arange(4.0, device="cuda")
    x = cuda.as_cuda_array(row.expand(3, 4))
    assert x.strides == (0, 4)
    expected = (2 * row).expand(3, 4).cpu().numpy()
    for _ in range(3):
        np.testing.assert_array_equal(operation(x, x).copy_to_host(), expected)


@pytest.mark.gpu
def test_numba_kernels_take_numba_results(operation):
    """Also on streams of Numba's, whose work comes before whatever gets the memory next."""
    cuda = pytest.importorskip("numba.cuda")
    x = cuda.to_device(np.arange(1 << 16, dtype=np.float32))
    operation(x, x)
    stream = cuda.stream()
    sums = []
    for k in range(20):
        result = operation(x, x, alpha=k)
        kept = cuda.device_array_like(x)
        torch.cuda._sleep(1_000_000)
        kept.copy_to_device(result, stream=stream)
        del result  # while the copy of it is queued
        torch.full((1 << 16,), -1.0, device="cuda")
        sums.append(kept)
    stream.synchronize()
    for k, kept in enumerate(sums):
        np.testing.assert_array_equal(kept.copy_to_host(), (k + 1) * x.copy_to_host())


# -------------------------------------------------------------------------------------- given outputs


TWO = numjit.elementwise(lambda x, y: (x + y, x * y))


def many(results):
    return results if isinstance(results, tuple) else (results,)


def only_the_warm_path(monkeypatch):
    module = sys.modules["numjit.call.operation"]
    monkeypatch.setattr(module, "read_arguments", lambda *a: pytest.fail("the general path ran"))


def out_calls(device):
    """Calls with ``out=``, of one output and of two, each new arrays of the layouts that it had before."""
    x, y = (torch.linspace(-1, 2, 60, device=device).reshape(6, 10) for _ in range(2))
    one = axpy_of(x, y)
    return {
        "one": lambda: (one, torch.empty(6, 10, device=device)),
        "of another dtype": lambda: (one, torch.empty(6, 10, device=device, dtype=torch.float64)),
        "transposed": lambda: (one, torch.empty(10, 6, device=device).T),
        "both": lambda: (two_of(x, y), tuple(torch.empty(6, 10, device=device) for _ in range(2))),
        "the second": lambda: (two_of(x, y), (None, torch.empty(6, 10, device=device))),
    }


def axpy_of(x, y):
    operation = fresh()
    return lambda out=None: operation(x, y, alpha=3, out=out)


def two_of(x, y):
    return lambda out=None: TWO(x, y, out=out)


@pytest.mark.parametrize("name", ["one", "of another dtype", "transposed", "both", "the second"])
def test_given_outputs_take_the_warm_path(name, device, monkeypatch):
    call, out = out_calls(device)[name]()
    wanted = call()
    call(out=out)
    only_the_warm_path(monkeypatch)
    outs = [None if t is None else torch.full_like(t, math.nan) for t in many(out)]
    versions = [t._version for t in outs if t is not None]
    results = many(call(out=tuple(outs) if isinstance(out, tuple) else outs[0]))
    for made, passed, want in zip(results, outs, many(wanted), strict=True):
        assert passed is None or made is passed
        torch.testing.assert_close(made.to(want.dtype), want, rtol=0, atol=0)
    assert [t._version for t in outs if t is not None] == [version + 1 for version in versions]


@pytest.mark.parametrize("kind", ["python", "c++"])
def test_given_outputs_are_checked_on_a_warm_functor(kind, device):
    text = "template <typename T> T doubled(T x) { return x + x; }"
    f = numjit.elementwise({"python": lambda x: x + x, "c++": text}[kind])
    memory = torch.arange(40.0, device=device)
    for _ in range(3):  # cold, then warm
        same(f(memory[:8], out=memory[20:28]), 2 * torch.arange(8.0, device=device))
    x = memory[:8].clone()
    for _ in range(3):  # the operand itself
        wanted = x + x
        assert f(x, out=x) is x
        same(x, wanted)
    before = memory.clone()
    for _ in range(2):
        with pytest.raises(numjit.errors.OverlapError, match="part of its memory"):
            f(memory[:8], out=memory[4:12])
        same(memory, before)
    steps = memory[:16]
    assert torch.equal(f(steps[::2], out=steps[1::2]), 2 * before[:16:2])  # side by side, not on each other
    leaf = torch.ones(8, device=device, requires_grad=True)
    for _ in range(2):
        with pytest.raises(numjit.errors.OutputError, match="requires grad"):
            f(memory[:8], out=leaf)
        with pytest.raises(numjit.errors.OutputError, match="shape"):
            f(memory[:8], out=memory[:9])


def test_two_outputs_on_each_other_are_refused_on_a_warm_functor(device):
    x = torch.ones(8, device=device)
    memory = torch.zeros(24, device=device)
    for _ in range(3):
        TWO(x, x, out=(memory[:8], memory[8:16]))
    with pytest.raises(numjit.errors.OverlapError, match="shares memory with"):
        TWO(x, x, out=(memory[:8], memory[4:12]))


def test_numpy_outputs_take_the_warm_path(monkeypatch):
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    outs = np.empty((3, 4), np.float32), np.empty((3, 4), np.float32)
    TWO(x, x, out=outs)
    with monkeypatch.context() as patched:
        only_the_warm_path(patched)
        for array in outs:
            array.fill(math.nan)
        first, second = TWO(x, x, out=outs)
    assert (first is outs[0], second is outs[1]) == (True, True)
    np.testing.assert_array_equal(first, x + x)
    np.testing.assert_array_equal(second, x * x)
    outs[1].flags.writeable = False
    with pytest.raises(numjit.errors.OutputError, match="read-only"):
        TWO(x, x, out=outs)


# ------------------------------------------------------------------------------------------ many shapes


def test_more_shapes_than_are_kept_still_find_most_of_theirs(monkeypatch):
    """In rotation over somewhat more shapes than there is room for, most calls find their plan."""
    f = numjit.elementwise(lambda x: x + 1)
    warm = f.__numjit_operation__.warm
    monkeypatch.setattr(warm.plans, "limit", 64)
    xs = [torch.ones(n) for n in range(1, 71)]
    cold = []
    remember = warm.remember
    monkeypatch.setattr(warm, "remember", lambda *call: (cold.append(call), remember(*call)))
    turns = 20
    for _ in range(turns):
        for x in xs:
            f(x)
    assert len(warm.plans) <= 64
    assert len(cold) < 0.5 * turns * len(xs)
