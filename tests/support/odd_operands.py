"""Every odd operand after a plain one of the same layout, in each way in: a program.

Arguments: the device, and ``way/operand`` of those to leave out. It prints one line as it begins one of them
and one with the answers as it ends it, so that whoever runs it knows which one ended the process.
"""

from __future__ import annotations

import contextlib
import decimal
import enum
import fractions
import functools
import itertools
import re
import sys

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import numjit
from numjit.jiterator import create_jit_fn

N = 5


def ramp(device, **options):
    return torch.arange(1.0, N + 1, device=device, **options)


def resized(tensor):
    """Take a tensor's memory away, as FSDP does with parameters that it has sharded."""
    tensor.untyped_storage().resize_(0)
    return tensor


def misaligned(device):
    return (
        torch.empty(4 * N + 8, dtype=torch.uint8, device=device)[4:-4].view(torch.float32).copy_(ramp(device))
    )


class Subclass(torch.Tensor):
    """What `as_subclass` takes."""


class Bare(torch.Tensor):
    """A wrapper without memory."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError(str(function))


class Counting(TorchDispatchMode):
    """A mode that sees what torch's dispatcher is given."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Speaker:
    """Speaks one protocol for another array."""

    def __init__(self, array, **changes):
        self.array, self.changes = array, changes


class Exporter(Speaker):
    """Speaks DLPack."""

    def __dlpack__(self, **keywords):
        if "error" in self.changes:
            raise self.changes["error"]
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface(Speaker):
    """Speaks CUDA's array interface."""

    @property
    def __cuda_array_interface__(self):
        array = self.array
        told = {
            "shape": tuple(array.shape),
            "typestr": "<f4",
            "version": 3,
            "data": (array.data_ptr(), False),
        }
        return {**told, **self.changes}


class Whole(int):
    """A user's int."""


class Real(float):
    """A user's float."""


class Choice(enum.IntEnum):
    """A user's constants."""

    TWO = 2


# ------------------------------------------------------------------------------------------- operands
# Each takes what to call, with one operand, and the device; most only make the operand.


def _leak(transform):
    found = []
    transform(found.append)
    return found[0]


def _leaked_from_vmap(device):
    return _leak(lambda keep: torch.func.vmap(lambda x: (keep(x), x)[1])(torch.ones(3, N, device=device)))


def _leaked_from_grad(device):
    return _leak(lambda keep: torch.func.grad(lambda x: (keep(x), x.sum())[1])(ramp(device)))


def _fake(device):
    with FakeTensorMode() as mode:
        return mode.from_tensor(ramp(device))


def _inference(device):
    with torch.inference_mode():
        return ramp(device)


def _conj(device):
    return torch.complex(ramp(device), ramp(device)).conj()


TENSORS = {
    "zero tensor": lambda d: torch._efficientzerotensor(N, device=d),
    "part of a zero tensor": lambda d: torch._efficientzerotensor(N + 3, device=d)[3:],
    "storage resized to 0": lambda d: resized(ramp(d)),
    "part of a storage resized to 0": lambda d: resized(torch.ones(N + 2, device=d)[2:]),
    "parameter resized to 0": lambda d: resized(torch.nn.Parameter(ramp(d), requires_grad=False)),
    "functional tensor": lambda d: torch._to_functional_tensor(ramp(d)),
    "wrapper": lambda d: Bare(ramp(d)),
    "fake tensor": _fake,
    "meta tensor": lambda d: torch.empty(N, device="meta"),
    "on another device": lambda d: torch.empty(N, device="cpu" if d == "cuda" else "meta"),
    "sparse": lambda d: ramp(d).to_sparse(),
    "sparse rows": lambda d: ramp(d).reshape(1, N).to_sparse_csr(),
    "mkldnn": lambda d: ramp("cpu").to_mkldnn(),
    "quantised": lambda d: torch.quantize_per_tensor(ramp("cpu"), 0.1, 0, torch.quint8),
    "nested": lambda d: torch.nested.nested_tensor([ramp(d), ramp(d)]),
    "conj": _conj,
    "neg": lambda d: torch._neg_view(ramp(d)),
    "imaginary part of conj": lambda d: _conj(d).imag,
    "requires grad": lambda d: ramp(d).requires_grad_(),
    "parameter": lambda d: torch.nn.Parameter(ramp(d)),
    "parameter without grad": lambda d: torch.nn.Parameter(ramp(d), requires_grad=False),
    "subclass": lambda d: ramp(d).as_subclass(Subclass),
    "left vmap": _leaked_from_vmap,
    "left grad": _leaked_from_grad,
    "inference tensor": _inference,
    "lazy clone": lambda d: torch._lazy_clone(ramp(d)),
    "expanded": lambda d: torch.ones(1, device=d).expand(N),
    "overlapping": lambda d: torch.ones(N, device=d).as_strided((3, 3), (1, 1)),
    "not aligned to 16": misaligned,
    "0-dim": lambda d: torch.ones((), device=d),
    "empty": lambda d: torch.ones(0, device=d),
    "bool": lambda d: ramp(d) > 2,
}
#: Those that are more or less than sizes, strides and memory, or have none.
NOT_MEMORY = frozenset({
    "zero tensor", "part of a zero tensor", "functional tensor", "wrapper", "fake tensor", "meta tensor",
    "sparse", "sparse rows", "mkldnn", "quantised", "nested", "left vmap", "left grad",
})  # fmt: skip
NUMBERS = {
    "huge int": 2**70, "astronomic int": 10**400, "uint64 int": 2**63, "least int": -(2**63), "int": 3,
    "true": True, "complex": 1 + 2j, "nan": float("nan"), "int of a class": Whole(3),
    "float of a class": Real(2.5), "enumeration": Choice.TWO, "np.float64": np.float64(2.5),
    "np.float32": np.float32(2.5),
    "np.float16": np.float16(2.5), "np.longdouble": np.longdouble(2.5), "np.int8": np.int8(3),
    "np.uint64": np.uint64(2**63), "np.bool": np.bool_(1), "np.complex64": np.complex64(1 + 2j),
    "np.datetime64": np.datetime64(3, "s"), "np.str": np.str_("3"), "fraction": fractions.Fraction(1, 3),
    "decimal": decimal.Decimal("2.5"), "text": "3", "none": None, "list": [1.0], "class": int,
    "0-dim array": np.array(2.5), "0-dim tensor": torch.tensor(2.5), "0-dim int tensor": torch.tensor(3),
    "0-dim zero tensor": torch._efficientzerotensor(()), "0-dim resized": resized(torch.ones(3)[2]),
    "0-dim that requires grad": torch.tensor(2.5, requires_grad=True),
}  # fmt: skip


def _records(dtype):
    return np.zeros(N, [("a", "i1"), ("x", dtype)])


ARRAYS = {
    "plain": lambda: np.arange(N, dtype=np.float32),
    "read-only": lambda: _readonly(np.arange(N, dtype=np.float32)),
    "byte-swapped": lambda: np.arange(N, dtype=np.float32).astype(">f4"),
    "masked": lambda: np.ma.masked_array(np.arange(N, dtype=np.float32), [1, 0, 0, 0, 0]),
    "matrix": lambda: np.asmatrix(np.arange(N, dtype=np.float32)),
    "records": lambda: _records("f4"),
    "field of records": lambda: _records("f4")["x"],
    "object": lambda: np.arange(N, dtype=np.float32).astype(object),
    "text": lambda: np.array(["1"] * N),
    "dates": lambda: np.arange(N).astype("M8[s]"),
    "long double": lambda: np.arange(N, dtype=np.longdouble),
    "0-dim": lambda: np.float32(3).reshape(()),
    "reversed": lambda: np.arange(N, dtype=np.float32)[::-1],
    "not aligned": lambda: np.frombuffer(bytes(4 * N + 1), np.uint8)[1:].view(np.float32),
    "overlapping": lambda: np.lib.stride_tricks.as_strided(np.ones(N, np.float32), (3, 3), (4, 4)),
    "odd strides": lambda: np.lib.stride_tricks.as_strided(
        np.zeros(40, np.uint8).view(np.float32), (N,), (6,)
    ),
    "empty": lambda: np.ones(0, np.float32),
    "scalar": lambda: np.float32(3),
    "subclass": lambda: np.arange(N, dtype=np.float32).view(np.recarray),
    "tensor": lambda: ramp("cpu"),
    "list": lambda: [1.0] * N,
}


def _readonly(array):
    array.flags.writeable = False
    return array


def _scope(scope, device):
    """Return what calls in a scope, with a plain operand."""

    def use(call):
        with scope():
            return call(ramp(device))

    return use


@contextlib.contextmanager
def _default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def _deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def scopes(device):
    """Calls with plain operands in surroundings that change what they mean."""
    forward = torch.autograd.forward_ad

    def dual(call):
        with forward.dual_level():
            return forward.unpack_dual(call(forward.make_dual(ramp(device), ramp(device)))).tangent

    def traced(call):
        return torch.jit.trace(call, (ramp(device),), check_trace=False)(2 * ramp(device))

    return {
        "vmap": lambda call: torch.func.vmap(call)(torch.ones(3, N, device=device)),
        "vmap over elements": lambda call: torch.func.vmap(call)(torch.ones(N, 3, device=device)),
        "grad": lambda call: torch.func.grad(lambda x: call(x).sum())(ramp(device)),
        "jvp": lambda call: torch.func.jvp(call, (ramp(device),), (ramp(device),)),
        "functionalize": lambda call: torch.func.functionalize(call)(ramp(device)),
        "dual tensor": dual,
        "torch.jit.trace": traced,
        "make_fx": lambda call: torch.fx.experimental.proxy_tensor.make_fx(call)(ramp(device))(
            2 * ramp(device)
        ),
        "inference mode": _scope(torch.inference_mode, device),
        "no grad": _scope(torch.no_grad, device),
        "fake mode": _scope(FakeTensorMode, device),
        "dispatch mode": _scope(Counting, device),
        "autocast": _scope(lambda: torch.autocast(device, dtype=torch.bfloat16), device),
        "default dtype": _scope(_default_dtype, device),
        "default device": _scope(lambda: torch.device("meta"), device),
        "deterministic": _scope(_deterministic, device),
        "hooks": _scope(lambda: torch.autograd.graph.save_on_cpu(), device),
    }


def exporters(device):
    """Objects that speak a protocol, well and badly."""
    found = {
        "exporter": lambda: Exporter(ramp(device)),
        "exporter without memory": lambda: Exporter(resized(ramp(device))),
        "part without memory": lambda: Exporter(resized(torch.ones(N + 2, device=device)[2:])),
        "exporter of a zero tensor": lambda: Exporter(torch._efficientzerotensor(N, device=device)),
        "exporter that requires grad": lambda: Exporter(ramp(device).requires_grad_()),
        "exporter of conj": lambda: Exporter(_conj(device)),
        "exporter that refuses": lambda: Exporter(ramp(device), error=BufferError("gone")),
        "exporter of read-only": lambda: Exporter(_readonly(np.arange(N, dtype=np.float32))),
        "exporter of byte-swapped": lambda: Exporter(np.arange(N, dtype=np.float32).astype(">f4")),
        "empty exporter": lambda: Exporter(torch.ones(0, device=device)),
        "0-dim exporter": lambda: Exporter(torch.ones((), device=device)),
    }
    if device == "cuda":
        found |= {
            "interface": lambda: Interface(ramp(device)),
            "interface at 0": lambda: Interface(ramp(device), data=(0, False)),
            "interface at none": lambda: Interface(ramp(device), data=(None, False)),
            "interface of host memory": lambda: Interface(ramp("cpu")),
            "read-only interface": lambda: Interface(ramp(device), data=(ramp(device).data_ptr(), True)),
            "byte-swapped interface": lambda: Interface(ramp(device), typestr=">f4"),
            "void interface": lambda: Interface(ramp(device), typestr="|V4"),
            "interface with a mask": lambda: Interface(ramp(device), mask=ramp(device)),
            "interface with stream 0": lambda: Interface(ramp(device), stream=0),
        }
    return found


# ----------------------------------------------------------------------------------------------- ways


def twice(x, y):
    return x * 2 + y


def twice_by(x, *, y=1.0):
    return x * 2 + y


_serial = itertools.count()
_CPP = "template <typename T> T twice(T x, T y) { return x * T(2) + y; }"


def ways(device):  # noqa: C901 - a table of small functions
    """Return what makes a fresh operation in each way, called with one odd operand; and the operands."""
    other = torch.full((N,), 0.5, device=device)
    if device == "cuda":
        torch.cuda.synchronize()

    def plain():
        operation = numjit.elementwise(twice)
        return lambda x: operation(x, other)

    def cpp():
        operation = numjit.elementwise(_CPP)
        return lambda x: operation(x, other)

    def alone():
        return numjit.elementwise(lambda x: x * 2 + 1)

    def detached():
        operation = numjit.elementwise(twice).__numjit_operation__
        return lambda x: operation(x, other)

    def prepared():
        call = numjit.elementwise(twice).prepare(ramp(device), other)
        return lambda x: call(x, other)

    def registered():
        operator = numjit.torch_op(f"numjit_tests::odd_{next(_serial)}", numjit.elementwise(twice))
        return lambda x: operator(x, other)

    def jiterator():
        jitted = create_jit_fn(_CPP)
        return lambda x: jitted(x, other)

    def with_out():
        operation = numjit.elementwise(twice)
        return lambda x: operation(x, other, out=torch.zeros(N, device=device))

    def into():
        operation = numjit.elementwise(twice)
        return lambda out: operation(other, other, out=out)

    def gradient():
        operation = numjit.elementwise(twice)

        def call(grad):
            leaf = ramp(device).requires_grad_()
            return torch.autograd.grad(operation(leaf, other), leaf, grad)

        return call

    def number():
        operation = numjit.elementwise(twice)
        return lambda y: operation(other, y)

    def keyword():
        operation = numjit.elementwise(twice_by)
        return lambda y: operation(other, y=y)

    def array():
        operation = numjit.elementwise(twice)
        return lambda x: operation(x, np.full(N, 0.5, np.float32))

    def array_into():
        operation = numjit.elementwise(twice)
        halves = np.full(N, 0.5, np.float32)
        return lambda out: operation(halves, halves, out=out)

    def kinds(make, plain, *, traced=True):
        odd = {
            name: functools.partial(_with, functools.partial(value, device))
            for name, value in TENSORS.items()
        }
        odd |= scopes(device)
        if not traced:  # nothing records it there
            del odd["torch.jit.trace"], odd["make_fx"]
        return make, [lambda: ramp(device), *plain], odd

    def numbers(make):
        odd = {name: functools.partial(_with, lambda value=value: value) for name, value in NUMBERS.items()}
        return make, [lambda: 1.5, lambda: 2, lambda: False, lambda: 1j], odd

    def arrays(make):
        odd = {name: functools.partial(_with, value) for name, value in ARRAYS.items()}
        return make, [ARRAYS["plain"]], odd

    complexes = [lambda: torch.complex(ramp(device), ramp(device))]
    speakers = {name: functools.partial(_with, value) for name, value in exporters(device).items()}
    return {
        "call": kinds(plain, complexes), "C++": kinds(cpp, complexes),
        "detached": kinds(detached, complexes, traced=False), "prepared": kinds(prepared, []),
        "operator": kinds(registered, complexes), "jiterator": kinds(jiterator, complexes, traced=False),
        "out": kinds(with_out, []), "into": kinds(into, []),
        "gradient": kinds(gradient, []), "number": numbers(number), "keyword": numbers(keyword),
        "array": arrays(array), "array out": arrays(array_into),
        "protocol": (alone, [lambda: Exporter(ramp(device))], speakers),
        "protocol beside a tensor": (plain, [lambda: Exporter(ramp(device))], speakers),
    }  # fmt: skip


def _with(make, call):
    return call(make())


# -------------------------------------------------------------------------------------------- answers


def answer(use, call):
    """Return what a call gives, as text that two calls can be compared by."""
    try:
        return shown(use(call))
    except Exception as error:  # noqa: BLE001 - whatever it is, both calls must agree
        text = re.sub(r"numjit(_tests)?(\.|::)\w+|0x[0-9a-f]+", "_", str(error))
        return f"{type(error).__name__}: {text.splitlines()[0][:300] if text else ''}"


def shown(result):
    """Return a result's type, dtype, shape, strides and values."""
    if isinstance(result, tuple | list):
        return f"({', '.join(map(shown, result))})"
    if isinstance(result, np.ndarray):
        return f"numpy {result.dtype} {result.shape} {result.strides} {result.tolist()}"
    if not isinstance(result, torch.Tensor):
        return f"{type(result).__name__} {result}"
    about = (
        f"{type(result).__name__} {result.dtype} {tuple(result.shape)} {result.device} {result.requires_grad}"
    )
    fake = type(result).__name__ == "FakeTensor" or result.device.type == "meta"
    if fake or result.layout is not torch.strided:
        return about
    values = result.detach().resolve_conj().resolve_neg().tolist()
    return f"{about} {result.stride()} {result.is_inference()} {values}"


def main():
    """Run every way over all its operands but those named."""
    device, *done = sys.argv[1:]
    for way, (make, plain, odd) in ways(device).items():
        warm = make()
        for name, use in odd.items():
            if f"{way}/{name}" in done:
                continue
            print(f"begin\t{way}/{name}", flush=True)
            cold = answer(use, make())
            for operand in plain * 3:
                with contextlib.suppress(Exception):
                    warm(operand())
            again = [answer(use, warm) for _ in range(2)]
            print("end", f"{way}/{name}", cold, *again, sep="\t", flush=True)


if __name__ == "__main__":
    main()
