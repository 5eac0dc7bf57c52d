"""Functors over several processes: DTensor's placements, and training under FSDP2 and DDP.

Each test starts its processes once and makes all of its checks there.
"""

import datetime
import math
import os
import types

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist

if not (dist.is_available() and dist.is_gloo_available()):
    pytest.skip("this torch has no torch.distributed with gloo", allow_module_level=True)

from torch import multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel

import numjit
from numjit.errors import FunctorError, ToolchainError
from numjit.torch.sharding import pointwise_shardings, register_pointwise


def _wave(x, y, *, alpha=1.0):
    if x > 0:
        return alpha * math.sin(x) * y + math.sqrt(x)
    return y - x


def _leaky(x, *, slope=0.1):
    return x if x > 0 else slope * x


def _leaky_backward(grad, x, *, slope=0.1):
    return grad if x > 0 else slope * grad


def _gather(table: numjit.raw, k):
    return table[k]


AXPY = "template <typename T> T axpy(T x, T y, T a) { return a * x + y; }"


def operator(name, functor, **options):
    """Register a functor, and how it is sharded."""
    return register_pointwise(numjit.torch_op(f"numjit_sharded::{name}", functor), **options)


def many(results):
    return results if isinstance(results, tuple) else (results,)


def values(device, *shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(device) for shape in shapes]


# ------------------------------------------------------------------------------------------ processes


def start(body, count, device):
    """Run ``body(rank, count, device)`` in processes that make up a group; what one raises is raised here."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # on a port that is free
    multiprocessing.spawn(_member, (count, store.port, device, body), count)


def _member(rank, count, port, device, body):
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=100),
    )
    try:
        body(rank, count, device)
    finally:
        dist.destroy_process_group()
    os._exit(0)  # at the interpreter's own end, threads that torch still has may abort


def on(count):
    """Parametrise a test over gloo's processes and, where there are so many GPUs, NCCL's."""
    gpus = torch.cuda.device_count() if torch.version.cuda else 0
    marks = [pytest.mark.gpu, pytest.mark.skipif(gpus < count, reason=f"needs {count} GPUs")]
    return pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=marks)])


# --------------------------------------------------------------------------------------------- DTensor


def compare(operation, mesh, tensors, placements, wanted=None, **scalars):
    """Check results and gradients of a sharded call against those of the same call of whole tensors.

    Nothing is communicated forward where `wanted`, the results' placements, is given.
    """
    whole = [tensor.clone().requires_grad_() for tensor in tensors]
    parts = [
        distribute_tensor(tensor, mesh, placement).requires_grad_()
        for tensor, placement in zip(tensors, placements, strict=True)
    ]
    expected = many(operation(*whole, **scalars))
    with CommDebugMode() as talk:
        results = many(operation(*parts, **scalars))
    if wanted is not None:
        assert talk.get_total_counts() == 0
        assert all(list(result.placements) == wanted for result in results), results
    for result, other in zip(results, expected, strict=True):
        assert result._spec.tensor_meta.dtype == other.dtype
        torch.testing.assert_close(result.full_tensor(), other)
    recorded = [k for k, result in enumerate(expected) if result.requires_grad]
    if not recorded:
        return
    sum((expected[k] ** 2).sum() for k in recorded).backward()
    sum((results[k] ** 2).sum() for k in recorded).backward()
    for part, tensor in zip(parts, whole, strict=True):
        torch.testing.assert_close(part.grad.full_tensor(), tensor.grad)


def check_dtensors(rank, count, device):
    mesh = init_device_mesh(device, (count,))
    wave = operator("wave", _wave)
    both = operator("both", lambda x, y: (x * y, x > y, x - y))
    same, row, column, one = values(device, (4, 6), (6,), (4, 1), (1, 6))
    whole, rows, columns = [Replicate()], [Shard(0)], [Shard(1)]

    for operation in (wave, both):
        compare(operation, mesh, [same, same + 1], [rows, rows], rows)
        compare(operation, mesh, [same, same + 1], [columns, columns], columns)
        compare(operation, mesh, [same, row], [rows, whole], rows)
        compare(operation, mesh, [same, row], [columns, rows], columns)
        compare(operation, mesh, [same, column], [columns, whole], columns)
        compare(operation, mesh, [one, column], [whole, rows], rows)
        compare(operation, mesh, [same, row], [whole, whole], whole)
        # What does not fit is redistributed.
        compare(operation, mesh, [same, same + 1], [rows, columns])
        compare(operation, mesh, [same, row], [rows, rows])
        compare(operation, mesh, [one, one + 1], [rows, rows])
    compare(wave, mesh, [same[:3], row], [rows, whole], rows, alpha=2)  # shards of different sizes

    # Overloads for numbers, which are made when they are first called, and numbers' part in promotion.
    compare(lambda x: wave(x, 2.0, alpha=3), mesh, [same], [columns], columns)
    scaled = operator("scaled", lambda x, y, *, a=1: x * y * a)
    flags = torch.tensor([True, False], device=device)
    sharded = distribute_tensor(flags, mesh, rows)
    for number in (True, 1, 1.0, 1, True):
        for operands, scalars in (((number,), {}), ((flags,), {"a": number})):
            result = scaled(sharded, *(sharded if x is flags else x for x in operands), **scalars)
            expected = scaled(flags, *operands, **scalars)
            assert result._spec.tensor_meta.dtype == result.to_local().dtype == expected.dtype
            assert torch.equal(result.full_tensor(), expected)

    # Without gradients: C++, elements' numbers, raw operands.
    with torch.no_grad():
        axpy = operator("axpy", numjit.elementwise(AXPY, a=1.0))
        numbered = operator("numbered", lambda x, y: x + y + numjit.index())
        parts = [distribute_tensor(x, mesh, p) for x, p in ((same, rows), (row, whole))]
        assert list(axpy(*parts).placements) == rows
        torch.testing.assert_close(axpy(*parts, a=2.0).full_tensor(), axpy(same, row, a=2.0))
        assert list(numbered(*parts).placements) == whole
        torch.testing.assert_close(numbered(*parts).full_tensor(), numbered(same, row))
        gather = operator("gather", _gather)
        at = torch.tensor([[3, 0, 5], [1, 2, 4]], device=device)
        table, places = distribute_tensor(row, mesh, rows), distribute_tensor(at, mesh, rows)
        assert list(gather(table, places).placements) == rows
        torch.testing.assert_close(gather(table, places).full_tensor(), row[at])

    check_partial(mesh, rank, same, row)
    check_tensor_parallel(mesh, device)
    # A functor that the compiler sees through needs no rule of its own.
    tensor = same.clone().requires_grad_()
    wave(tensor, row).sum().backward()
    for operation in (wave, wave.functor):
        compiled = torch.compile(lambda x, y, f=operation: f(x, y), backend="aot_eager", fullgraph=True)
        part = parts[0].detach().requires_grad_()
        result = compiled(part, parts[1])
        assert list(result.placements) == rows
        torch.testing.assert_close(result.full_tensor(), wave(same, row))
        result.sum().backward()
        torch.testing.assert_close(part.grad.full_tensor(), tensor.grad)
    fresh = numjit.elementwise(lambda x, y: x * y + 1)  # nobody registered it
    compare(fresh, mesh, [same, row], [rows, whole], rows)


def check_partial(mesh, rank, same, row):
    """Partial sums stay such where the functor was declared linear."""
    total = sum(range(1, mesh.size() + 1))
    partial = DTensor.from_local(same * (rank + 1), mesh, [Partial()])
    other = DTensor.from_local(row * (rank + 1), mesh, [Partial()])
    fixed = distribute_tensor(row, mesh, [Replicate()])
    scaled = operator("linear_x", lambda x, y, *, a=2.0: a * x * y, linear=("x",))
    mixed = operator("linear_both", lambda x, y: (x + 2 * y, x - y), linear=("x", "y"))
    nothing = operator("linear_none", lambda x, y: x * y)

    for operation, operands, whole, kept in (
        (scaled, (partial, fixed), (same * total, row), True),
        (scaled, (partial, 3.0), (same * total, 3.0), True),
        (scaled, (partial, other), (same * total, row * total), None),
        (scaled, (fixed, other), (row, row * total), False),
        (mixed, (partial, other), (same * total, row * total), True),
        (mixed, (partial, fixed), (same * total, row), None),
        (mixed, (partial, 3.0), (same * total, 3.0), False),
        (nothing, (partial, fixed), (same * total, row), False),
    ):
        for result, expected in zip(many(operation(*operands)), many(operation(*whole)), strict=True):
            torch.testing.assert_close(result.full_tensor(), expected)
            if kept is not None:
                assert (result.placements == (Partial(),)) == kept, (operation, result.placements)
    average = DTensor.from_local(same * (rank + 1), mesh, [Partial("avg")])
    assert scaled(average, fixed).placements == (Partial("avg"),)
    torch.testing.assert_close(scaled(average, fixed).full_tensor(), scaled(same * total / mesh.size(), row))

    # The same operator, declared otherwise.
    assert register_pointwise(scaled, linear=("x",)) is scaled
    assert scaled(partial, fixed).placements == (Partial(),)
    register_pointwise(scaled)
    assert scaled(partial, fixed).placements != (Partial(),)
    torch.testing.assert_close(scaled(partial, fixed).full_tensor(), scaled(same * total, row))


def check_tensor_parallel(mesh, device):
    """An activation between a layer sharded by columns and one sharded by rows."""
    leaky = operator("leaky_parallel", _leaky)
    x, first, second = values(device, (4, 6), (8, 6), (3, 8))

    def loss(x, first, second):
        return (torch.nn.functional.linear(leaky(torch.nn.functional.linear(x, first)), second) ** 2).sum()

    whole = [tensor.clone().requires_grad_() for tensor in (x, first, second)]
    loss(*whole).backward()
    parts = [
        distribute_tensor(tensor, mesh, [placement]).requires_grad_()
        for tensor, placement in ((x, Replicate()), (first, Shard(0)), (second, Shard(1)))
    ]
    loss(*parts).backward()
    for part, tensor in zip(parts, whole, strict=True):
        torch.testing.assert_close(part.grad.full_tensor(), tensor.grad)


@on(2)
def test_dtensors(device):
    start(check_dtensors, 2, device)


def check_two_dimensions(rank, count, device):
    mesh = init_device_mesh(device, (2, 2))
    wave = operator("wave", _wave)
    same, row, column = values(device, (4, 6), (6,), (4, 1))
    compare(wave, mesh, [same, same], [[Shard(0), Shard(1)]] * 2, [Shard(0), Shard(1)])
    compare(wave, mesh, [same, row], [[Shard(0), Shard(1)], [Replicate(), Shard(0)]], [Shard(0), Shard(1)])
    compare(wave, mesh, [same, column], [[Shard(0), Shard(0)]] * 2, [Shard(0), Shard(0)])
    compare(wave, mesh, [same, row], [[Shard(1), Replicate()], [Replicate(), Shard(0)]])
    scaled = operator("linear_x", lambda x, y: x * y, linear=("x",))
    partial = DTensor.from_local(same[:2] if rank < 2 else same[2:], mesh, [Shard(0), Partial()])
    fixed = distribute_tensor(row, mesh, [Replicate(), Replicate()])
    result = scaled(partial, fixed)
    assert result.placements == (Shard(0), Partial())
    torch.testing.assert_close(result.full_tensor(), 2 * same * row)


@on(4)
def test_a_mesh_of_two_dimensions(device):
    start(check_two_dimensions, 4, device)


# -------------------------------------------------------------------------------------------- training


class Perceptron(torch.nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.first = torch.nn.Linear(6, 8, dtype=torch.float64)
        self.second = torch.nn.Linear(8, 3, dtype=torch.float64)
        self.activation = activation

    def forward(self, x):
        return self.second(self.activation(self.first(x)))


def model(activation, device):
    torch.manual_seed(0)
    return Perceptron(activation).to(device)


def steps(module, batches):
    """Train; returns the parameters."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
    for batch in batches:
        (module(batch) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.full_tensor() if isinstance(p, DTensor) else p.detach() for p in module.parameters()]


def activations():
    functor = numjit.elementwise(_leaky)
    backward = numjit.elementwise(_leaky_backward)
    text = "template <typename T> T leaky(T x, T slope) { return x > T(0) ? x : slope * x; }"
    return {
        "operator": numjit.torch_op("numjit_sharded::leaky", _leaky),
        "functor": functor,
        "c++": numjit.elementwise(text, slope=0.1),
        "by hand": numjit.differentiable(functor, backward),
        "c++ by hand": numjit.differentiable(numjit.elementwise(text, slope=0.1), backward),
    }


def check_training(rank, count, device):
    mesh = init_device_mesh(device, (count,))
    batches = values(device, (8, 6), (8, 6))
    own = [batch.chunk(count)[rank] for batch in batches]
    wanted = steps(model(lambda x: torch.nn.functional.leaky_relu(x, 0.1), device), batches)
    before = list(model(None, device).parameters())
    assert not any(torch.allclose(one, other) for one, other in zip(wanted, before, strict=True))
    for activation in activations().values():
        sharded = model(activation, device)
        for part in (sharded.first, sharded.second, sharded):
            fully_shard(part, mesh=mesh)
        for module in (
            model(activation, device),
            sharded,
            DistributedDataParallel(model(activation, device)),
        ):
            alone = isinstance(module, Perceptron) and module is not sharded
            for found, expected in zip(steps(module, batches if alone else own), wanted, strict=True):
                torch.testing.assert_close(found, expected)
    with torch.no_grad():  # a functor alone, which is called as it is: its operands are whole tensors
        plain = model(numjit.elementwise(_leaky), device)
        expected = plain(own[0])
        torch.testing.assert_close(fully_shard(plain, mesh=mesh)(own[0]), expected)


@on(2)
def test_fsdp_and_ddp_train_as_one_process_does(device):
    start(check_training, 2, device)


# ----------------------------------------------------------------------------------- rules and messages


def spec(*shape, placements=()):
    return types.SimpleNamespace(shape=shape, placements=placements)


def test_rules_of_one_mesh_dimension():
    rules = pointwise_shardings(2, raws=frozenset(), linear=frozenset(), whole=False)
    assert rules(spec(4, 6), spec(6), 2.0, spec(4, 1), spec(), a=1) == [
        ([Replicate()] * 2, [Replicate(), Replicate(), None, Replicate(), Replicate()]),
        ([Shard(0)] * 2, [Shard(0), Replicate(), None, Shard(0), Replicate()]),
        ([Shard(1)] * 2, [Shard(1), Shard(0), None, Replicate(), Replicate()]),
    ]
    rules = pointwise_shardings(1, raws=frozenset({0}), linear=frozenset({1}), whole=False)
    partial = spec(3, placements=(Shard(0), Partial()))
    assert rules(spec(7), partial, spec(3)) == [
        ([Replicate()], [Replicate()] * 3),
        ([Partial()], [Replicate(), Partial(), Replicate()]),
        ([Shard(0)], [Replicate(), Shard(0), Shard(0)]),
    ]
    assert [out for (out,), _ in rules(spec(7), 1.0, partial)] == [Replicate(), Shard(0)]
    whole = pointwise_shardings(1, raws=frozenset(), linear=frozenset(), whole=True)
    assert whole(spec(3)) == [([Replicate()], [Replicate()])]


def test_wrong_declarations(monkeypatch):
    operation = numjit.torch_op("numjit_sharded::wrong", lambda x, y, *, a=1: a * x * y)
    for linear in (("z",), ("x", "a"), "xy"):
        with pytest.raises(FunctorError, match="name some of x, y"):
            register_pointwise(operation, linear=linear)
    assert register_pointwise(operation, linear="x") is operation
    monkeypatch.setattr(dist, "is_available", lambda: False)
    with pytest.raises(ToolchainError, match=r"torch\.distributed"):
        register_pointwise(operation)
