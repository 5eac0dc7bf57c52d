"""torch's own machinery on a real card: streams, CUDA graphs, devices, the profiler, mixed precision."""

import gc
import itertools
import math
import os
import threading

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F

import numjit
from tests.cases import run_python
from tests.support.trainable import Network

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

DEVICE = "cuda"
#: Elements of tensors in tests of order: enough that a kernel which came too early would be seen.
MANY = 1 << 20
CPP = "template <typename T> T blend(T x, T y, T a) { return a * x * y + x * x; }"


def gate(x, y, *, scale=0.5):
    if x > 0:
        return scale * math.sin(x) * y
    return x * y - scale


python = numjit.elementwise(gate)
cpp = numjit.elementwise(CPP, a=0.5)
operator = numjit.torch_op("numjit_tests::gpu_gate", numjit.elementwise(gate))
CALLS = {"functor": python, "c++": cpp, "operator": operator}


@pytest.fixture(params=[*CALLS, "compiled functor", "compiled c++"])
def way(request):
    """A functor, an operator or a compiled function of two operands, and what it is eagerly."""
    name = request.param.removeprefix("compiled ")
    operation = CALLS[name]
    if name == request.param:
        yield operation, operation
        return

    def plain(x, y):
        return operation(x, y) + 1

    torch._dynamo.reset()
    yield torch.compile(plain, fullgraph=True), plain
    torch._dynamo.reset()


def operands(seed, shape=(6, 8), device=DEVICE):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator).to(device) for size in (shape, shape[-1:])]


def train(call, x, y):
    """Return the result and the gradients of both operands."""
    result = call(x, y)
    weight = torch.linspace(1, 2, result.numel(), device=x.device).reshape(result.shape)
    return [result, *torch.autograd.grad(result, (x, y), weight)]


def leaves(tensors):
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def copies(tensors):
    return [tensor.detach().clone() for tensor in tensors]


def close(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.detach().cpu(), other.detach().cpu(), rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------ streams


def test_a_call_comes_after_its_producer(way):
    """Also its backward, which torch runs on the stream of the forward."""
    call, plain = way
    x, y = leaves([torch.zeros(MANY, device=DEVICE), torch.ones(MANY, device=DEVICE)])
    early = copies(train(call, x, y))  # compiled and loaded now
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        with torch.no_grad():
            x.fill_(2.0)
            y.fill_(3.0)
        found = train(call, x, y)
    torch.cuda.current_stream().wait_stream(side)
    close(found, train(plain, *leaves([x, y])))
    for one, stale in zip(found, early, strict=True):
        assert bool((one != stale).all())


def test_memory_of_another_stream_is_not_reused_before_the_call(way):
    """With `record_stream`, as torch demands of whoever uses a tensor on a stream that is not its own."""
    call, _ = way
    ones = torch.ones(MANY, device=DEVICE)
    x = torch.full((MANY,), 2.0, device=DEVICE)
    wanted = call(x, ones).clone()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    results = []
    for _ in range(3):
        x = torch.full((MANY,), 2.0, device=DEVICE)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            results.append(call(x, ones))
        x.record_stream(side)
        del x
        for value in range(4):  # would be written where x was
            torch.full((MANY,), -float(value), device=DEVICE)
    side.synchronize()
    for result in results:
        assert torch.equal(result, wanted)


def test_a_result_of_a_side_stream_used_on_another(way):
    call, _ = way
    x, y = torch.full((MANY,), 2.0, device=DEVICE), torch.ones(MANY, device=DEVICE)
    wanted = call(x, y).clone()
    torch.cuda.synchronize()
    side, current = torch.cuda.Stream(), torch.cuda.current_stream()
    sums = []
    for _ in range(3):
        with torch.cuda.stream(side):
            result = call(x, y)
        current.wait_stream(side)
        torch.cuda._sleep(20_000_000)
        sums.append(result + 1)
        result.record_stream(current)
        del result
        with torch.cuda.stream(side):  # would be written where the result was
            torch.full((MANY,), -1.0, device=DEVICE)
    torch.cuda.synchronize()
    for found in sums:
        assert torch.equal(found, wanted + 1)


# ------------------------------------------------------------------------------------------------- graphs


def captured(work, *tensors, warm=True):
    """Capture ``work(*tensors)`` after calls on a side stream, as torch's documentation demands."""
    if warm:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                work(*tensors)
        torch.cuda.current_stream().wait_stream(side)
    gc.collect()  # what is freed during a capture would be part of it
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work(*tensors)
    return graph, results


def replayed(graph, results, work, tensors):
    """Replay with new data, and compare with eager calls."""
    for seed in range(4):
        values = operands(seed + 10)
        with torch.no_grad():
            for tensor, value in zip(tensors, values, strict=True):
                tensor.copy_(value)
        graph.replay()
        close(results, work(*leaves(values)))


@pytest.mark.parametrize("name", CALLS)
def test_a_captured_inference(name):
    tensors = operands(0)

    def work(x, y):
        with torch.no_grad():
            return [CALLS[name](CALLS[name](x, y), y)]

    graph, results = captured(work, *tensors)
    replayed(graph, results, work, tensors)


@pytest.mark.parametrize("name", CALLS)
def test_a_captured_forward_and_backward(name):
    def work(x, y):
        return train(CALLS[name], x, y)

    tensors = leaves(operands(0))
    graph, results = captured(work, *tensors)
    replayed(graph, results, work, tensors)


_serial = itertools.count()


def cold(name):
    """A call that no process has made: nothing is compiled, on disk or loaded."""
    number = float(f"{os.getpid()}.{next(_serial)}5")
    if name == "c++":
        text = f"template <typename T> T cold(T x, T y) {{ return T({number}) * x * y + x * x; }}"
        return numjit.elementwise(text)

    def functor(x, y):
        return x * y * number - x

    made = numjit.elementwise(functor)
    if name == "functor":
        return made
    return numjit.torch_op(f"numjit_tests::cold_{next(_serial)}", made)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", CALLS)
def test_a_first_call_inside_a_capture(name, training):
    """Compiling and loading touch no stream, so that the capture goes on and its replays are right."""
    operation = cold(name)

    def work(x, y):
        return train(operation, x, y) if training else [operation(x.detach(), y.detach())]

    tensors = leaves(operands(0))
    train(torch.mul, *tensors)  # torch's own kernels are loaded, and so are cuBLAS and the like
    graph, results = captured(work, *tensors, warm=False)
    replayed(graph, results, work, tensors)


def test_the_first_call_of_a_process_inside_a_capture():
    done = run_python(
        """
        import torch
        import numjit

        x = torch.arange(8.0, device="cuda")
        python = numjit.elementwise(lambda x: x * 3 + 1)
        cpp = numjit.elementwise("template <typename T> T square(T x) { return x * x; }")
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = cpp(python(x))
        for k in range(3):
            x.fill_(float(k))
            graph.replay()
            assert y.tolist() == [(3.0 * k + 1) ** 2] * 8, y
        print("replayed")
        """
    )
    assert "replayed" in done.stdout


def test_loading_beside_another_thread_s_capture():
    """A capture forbids loading in every thread of the process."""
    x = torch.arange(100.0, device=DEVICE)
    python(x, x)
    operation, found = cold("functor"), []

    def work():
        try:
            found.append(operation.prepare(x, x))
        except Exception as error:  # noqa: BLE001 - shown by the assertion below
            found.append(error)

    gc.collect()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = python(x, x)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert not isinstance(found[0], Exception), found
    graph.replay()
    close([result, operation(x, x)], [python(x, x), found[0](x, x)])


def network(activation):
    torch.manual_seed(0)
    return Network(activation).to(DEVICE)


@pytest.mark.parametrize("name", CALLS)
def test_graphed_callables(name):
    sample = torch.randn(16, 6, device=DEVICE)
    gc.collect()  # a graph of another test that died within the capture would free memory there, and end it
    graphed = torch.cuda.make_graphed_callables(network(CALLS[name]), (sample,))
    plain = network(CALLS[name])
    for seed in range(4):
        x = torch.randn(16, 6, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
        found = []
        for module in (graphed, plain):
            module.zero_grad()
            result = module(x)
            result.square().sum().backward()
            found.append(copies([result, *(parameter.grad for parameter in module.parameters())]))
        close(*found)


def test_a_graph_of_a_whole_step():
    """Forward, loss, backward and the optimiser's step in one graph, as torch's documentation has it."""
    module, plain = network(operator), network(operator)
    optimisers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (module, plain)]
    loss = numjit.elementwise(lambda x, y: (x - y) * (x - y))
    x, y = torch.randn(16, 6, device=DEVICE), torch.randn(16, 1, device=DEVICE)
    start = copies(module.parameters())

    def step(network, optimiser, x, y):
        optimiser.zero_grad(set_to_none=True)
        value = loss(network(x), y).mean()
        value.backward()
        optimiser.step()
        return value.detach()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(module, optimisers[0], x, y)
    torch.cuda.current_stream().wait_stream(side)
    optimisers[0].zero_grad(set_to_none=True)
    gc.collect()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = step(module, optimisers[0], x, y)
    with torch.no_grad():
        for parameter, first in zip(module.parameters(), start, strict=True):
            parameter.copy_(first)
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        x.copy_(torch.randn(16, 6, generator=generator))
        y.copy_(torch.randn(16, 1, generator=generator))
        graph.replay()
        wanted = step(plain, optimisers[1], x, y)
        close([value, *module.parameters()], [wanted, *plain.parameters()])


# ------------------------------------------------------------------------------------------------ devices


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")
@pytest.mark.parametrize("current", [0, 1])
def test_tensors_of_a_device_that_is_not_current(way, current):
    """Forward and backward run where the tensors are, and leave the current device as it is."""
    call, plain = way
    other = f"cuda:{1 - current}"
    with torch.cuda.device(current):
        tensors = leaves(operands(0, device=other))
        for _ in range(3):
            found = train(call, *tensors)
            assert all(str(tensor.device) == other for tensor in found)
            assert torch.cuda.current_device() == current
    close(found, train(plain, *leaves(operands(0, device="cpu"))))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")
@pytest.mark.parametrize("name", CALLS)
def test_a_capture_on_the_second_device(name):
    def work(x, y):
        return train(CALLS[name], x, y)

    with torch.cuda.device(1):
        tensors = leaves(operands(0, device="cuda:1"))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work(*tensors)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # The stream that torch would choose by itself belongs to the device of the first capture.
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            results = work(*tensors)
        for seed in range(3):
            values = operands(seed, device="cuda:1")
            with torch.no_grad():
                for tensor, value in zip(tensors, values, strict=True):
                    tensor.copy_(value)
            graph.replay()
            close(results, work(*leaves(values)))


# ------------------------------------------------------------------------------------- profiler, precision


def test_the_profiler_shows_operator_and_kernel():
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    x, y = operands(0, (64, 64))
    operator(x, y)
    torch.relu(x)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        operator(x, y)
        torch.relu(x)
        torch.cuda.synchronize()
    events = profiled.events()
    kernels = [event.name for event in events if event.device_type == DeviceType.CUDA]
    assert "numjit_tests::gpu_gate" in {event.name for event in events}
    if not any("elementwise" in name for name in kernels):
        pytest.skip("the profiler sees no kernels on this machine, torch's neither")
    assert any("numjit" in name for name in kernels), kernels


SWIGLU = numjit.elementwise(lambda x, gate: x / (1 + math.exp(-x)) * gate)
SWIGLU_CPP = numjit.elementwise(
    "template <typename T> T swiglu(T x, T gate) { return x / (T(1) + std::exp(-x)) * gate; }"
)
SWIGLU_OP = numjit.torch_op("numjit_tests::gpu_swiglu", SWIGLU)
HUBER = numjit.elementwise(
    lambda x, y, *, delta=1.0: (
        0.5 * (x - y) * (x - y) if abs(x - y) < delta else delta * (abs(x - y) - 0.5 * delta)
    )
)


def scaled_losses(activation, loss, steps=12):
    """Train in float16 with scaled gradients; the loss of every step, and the scale at the end."""
    module = network(activation)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**10)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 6, generator=generator).to(DEVICE)
    y = torch.sin(x.sum(1, keepdim=True)) * 2
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        with torch.autocast(device_type=DEVICE, dtype=torch.float16):
            result = module(x)
            value = loss(result.float(), y).mean()
        assert result.dtype is torch.float16
        scaler.scale(value).backward()
        scaler.step(optimiser)
        scaler.update()
        found.append(value.item())
    return found, scaler.get_scale()


@pytest.mark.parametrize("activation", [SWIGLU, SWIGLU_CPP, SWIGLU_OP], ids=["python", "c++", "operator"])
def test_float16_with_scaled_gradients(activation):
    found, scale = scaled_losses(activation, HUBER)
    wanted, wanted_scale = scaled_losses(
        lambda x, gate: F.silu(x) * gate, lambda x, y: F.huber_loss(x, y, reduction="none")
    )
    assert scale == wanted_scale == 2.0**10  # no step was skipped
    assert wanted[-1] < wanted[0]
    for a, b in zip(found, wanted, strict=True):
        assert math.isclose(a, b, rel_tol=2e-2, abs_tol=1e-3)


@pytest.mark.parametrize("name", CALLS)
def test_deterministic_training(name):
    tensors = leaves(operands(0, (300, 70)))
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (train(CALLS[name], *tensors) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
