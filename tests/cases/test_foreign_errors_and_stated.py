"""Other libraries' arrays that say what cannot be, raise or lie: told as numjit's errors, nothing read."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
import torch

import numjit
from numjit.arrays import dlpack
from numjit.errors import NumjitError, UnsupportedArrayError, UnsupportedDtypeError
from tests.cases import ADD, KINDS
from tests.cases.test_errors_and_checks import CURE

# -------------------------------------------------------------------- __cuda_array_interface__

GOOD = {
    "data": (0x7000, False),
    "typestr": "<f4",
    "shape": (4,),
    "strides": None,
    "version": 3,
    "stream": None,
}
#: What each entry may not be.
WRONG = {
    "data": [
        None, 5, (), (1,), (1, 2, 3), ("a", False), (1.5, False), (-16, False), (1 << 64, False),
        (1 << 70, False), (None, False), (0, False), ([], False), b"ab", {}, object(),
    ],
    "typestr": [
        None, 4, b"<f4", "", "<f3", "<q9", "O", "|O", "<U4", "<M8[s]", "|V2", ">f4", "<f16", "<c32",
        "nonsense", ["<f4"], ("<f4",), "<f4,<f4", "a" * 4000, object(),
    ],
    "shape": [
        None, 4, "44", (4.0,), (None,), ("4",), (-4,), (4, -1), [[4]], (1 << 62,), (1 << 63,), (1 << 70,),
        (1 << 40, 1 << 40), (1,) * 65, {4: 4}, object(), 1j,
    ],
    "strides": [
        4, (), (4, 4), (4.0,), ("4",), (None,), (3,), (1 << 62,), (1 << 70,), (-(1 << 70),), object(), [[4]],
    ],
    "version": [None, 0, 1, -3, 4, 1000, "3", 3.5, [], object()],
    "stream": [0, -1, 1 << 64, 1 << 70, "s", 1.5, [], object()],
    "mask": [1, True, object(), np.ones(4, bool)],
}  # fmt: skip


class Interface:
    """Speaks ``__cuda_array_interface__`` and nothing else."""

    def __init__(self, interface):
        self.__cuda_array_interface__ = interface


def _is_accepted(key, value):
    # A dict gives its keys, as a shape that a producer may well keep so.
    return (key, value) in (("shape", {4: 4}), ("version", 3.0))


INTERFACES = [
    pytest.param({**GOOD, key: value}, id=f"{key}-{number}")
    for key, values in WRONG.items()
    for number, value in enumerate(values)
    if not _is_accepted(key, value)
]
INTERFACES += [
    pytest.param({k: v for k, v in GOOD.items() if k != key}, id=f"without {key}")
    for key in ("data", "typestr", "shape", "version")
]
INTERFACES += [
    pytest.param(value, id=f"is {type(value).__name__}") for value in (5, "x", [], (), b"", 1.5, object())
]


@pytest.fixture(scope="module")
def operations():
    """The sum in both languages, called before: warm."""
    for kind in KINDS:
        ADD[kind](torch.ones(3), torch.ones(3))
        ADD[kind](np.ones(3), np.ones(3))
    return ADD


def refused(call, *words, errors=(UnsupportedArrayError, UnsupportedDtypeError)):
    """Assert that a call is refused by an error that names the argument and says what to do."""
    with pytest.raises(NumjitError) as caught:
        call()
    assert isinstance(caught.value, errors), caught.value
    text = str(caught.value)
    for word in words:
        assert word in text
    assert CURE.search(text), text
    return text


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_malformed_cuda_array_interface(interface, operations):
    for kind in KINDS:
        out = torch.full((3,), 7.0)
        refused(lambda kind=kind: operations[kind](Interface(interface), 1.0), "()", "'x'")
        refused(lambda kind=kind: operations[kind](torch.ones(3), Interface(interface)), "()", "'y'")
        refused(lambda kind=kind, out=out: operations[kind](Interface(interface), out, out=out), "'x'")
        refused(lambda kind=kind: operations[kind](1.0, 2.0, out=Interface(interface)), "()", "out")
        assert out.tolist() == [7.0] * 3
        assert operations[kind](torch.ones(3), torch.ones(3)).tolist() == [2.0] * 3


# --------------------------------------------------------------------------------------- DLPack

_new = ctypes.pythonapi.PyCapsule_New
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_MEMORY = (ctypes.c_float * 64)()
_KEPT = []


def capsule(name=b"dltensor_versioned", **changes):
    """Return a capsule over 4 floats, with what `changes` say in its fields."""
    shape, strides = changes.pop("shape", (4,)), changes.pop("strides", None)
    kind = dlpack._Versioned if name == b"dltensor_versioned" else dlpack._Tensor
    made = kind()
    tensor = made.tensor if kind is dlpack._Versioned else made
    if kind is dlpack._Versioned:
        made.major, made.minor = changes.pop("version", (1, 0))
    tensor.data = ctypes.addressof(_MEMORY)
    tensor.device_type, tensor.ndim = 1, len(shape)
    tensor.code, tensor.bits, tensor.lanes = 2, 32, 1
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor.shape = sizes
    if strides is not None:
        steps = (ctypes.c_int64 * len(strides))(*strides)
        tensor.strides = steps
        _KEPT.append(steps)
    for field, value in changes.items():
        setattr(tensor, field, value)
    text = ctypes.create_string_buffer(name)
    _KEPT.extend((made, sizes, text))
    return _new(ctypes.addressof(made), ctypes.cast(text, ctypes.c_char_p), None)


class Export:
    """Speaks ``__dlpack__`` and nothing else."""

    def __init__(self, made, device=(1, 0)):
        self.made, self.device = made, device

    def __dlpack__(self, **_):
        return self.made() if callable(self.made) else self.made

    def __dlpack_device__(self):
        return self.device() if callable(self.device) else self.device


def _raise(error):
    def raising(*_, **__):
        raise error

    return raising


DLPACK = {
    "version 0": lambda: Export(capsule(version=(0, 9))),
    "version 2": lambda: Export(capsule(version=(2, 0))),
    "version huge": lambda: Export(capsule(version=(2**32 - 1, 0))),
    "used": lambda: Export(capsule(b"used_dltensor")),
    "used versioned": lambda: Export(capsule(b"used_dltensor_versioned")),
    "foreign capsule": lambda: Export(capsule(b"something")),
    "no capsule": lambda: Export(5),
    "none": lambda: Export(None),
    "text": lambda: Export("dltensor"),
    "bytes": lambda: Export(b"dltensor"),
    "a tensor": lambda: Export(torch.ones(3)),
    "negative rank": lambda: Export(capsule(ndim=-1)),
    "rank 65": lambda: Export(capsule(shape=(1,) * 65)),
    "huge rank": lambda: Export(capsule(ndim=2**31 - 1)),
    "negative size": lambda: Export(capsule(shape=(-4,))),
    "negative among": lambda: Export(capsule(shape=(2, -2))),
    "huge size": lambda: Export(capsule(shape=(2**62,))),
    "huge product": lambda: Export(capsule(shape=(2**40, 2**40))),
    "huge stride": lambda: Export(capsule(strides=(2**62,))),
    "no address": lambda: Export(capsule(data=None)),
    "offset past the end": lambda: Export(capsule(byte_offset=2**64 - 4)),
    "no address but an offset": lambda: Export(capsule(data=None, byte_offset=1 << 20)),
    "no shape": lambda: Export(capsule(shape=(4,), shape_=None)) if False else Export(_no_shape()),
    "misaligned": lambda: Export(capsule(byte_offset=1)),
    "lanes": lambda: Export(capsule(lanes=4)),
    "no lanes": lambda: Export(capsule(lanes=0)),
    "opaque": lambda: Export(capsule(code=3)),
    "code 99": lambda: Export(capsule(code=99)),
    "odd bits": lambda: Export(capsule(bits=33)),
    "no bits": lambda: Export(capsule(bits=0)),
    "128 bits": lambda: Export(capsule(bits=128)),
    "unversioned, negative rank": lambda: Export(capsule(b"dltensor", ndim=-1)),
    "unversioned, negative size": lambda: Export(capsule(b"dltensor", shape=(-4,))),
    "unversioned, no address": lambda: Export(capsule(b"dltensor", data=None)),
    "lies: cuda said, cpu given": lambda: Export(capsule(), (2, 0)),
    "lies: cpu said, cuda given": lambda: Export(capsule(device_type=2)),
    "lies: managed": lambda: Export(capsule(device_type=13)),
    "lies: vulkan": lambda: Export(capsule(device_type=7)),
    "device 7": lambda: Export(capsule(), (7, 0)),
    "device 0": lambda: Export(capsule(), (0, 0)),
    "negative device": lambda: Export(capsule(), (-1, 0)),
    "huge device": lambda: Export(capsule(), (10**30, 0)),
    "device text": lambda: Export(capsule(), ("cpu", 0)),
    "device None": lambda: Export(capsule(), None),
    "device of one": lambda: Export(capsule(), (1,)),
    "device of three": lambda: Export(capsule(), (1, 0, 0)),
    "device fraction": lambda: Export(capsule(), (1.5, 0)),
    "device raises": lambda: Export(capsule(), _raise(RuntimeError("no device today"))),
    "export raises BufferError": lambda: Export(_raise(BufferError("no export today"))),
    "export raises its own": lambda: Export(_raise(type("Own", (Exception,), {})("no export today"))),
    "export raises TypeError": lambda: Export(_raise(TypeError("no export today"))),
    "export raises RecursionError": lambda: Export(_raise(RecursionError("no export today"))),
    "export raises StopIteration": lambda: Export(_raise(StopIteration())),
    "no method": lambda: type("Odd", (), {"__dlpack__": 5, "__dlpack_device__": 6})(),
}


def _no_shape():
    made = capsule()
    tensor = _KEPT[-3].tensor
    tensor.shape = ctypes.POINTER(ctypes.c_int64)()
    return made


@pytest.mark.parametrize("name", DLPACK)
def test_a_malformed_dlpack_export(name, operations):
    for kind in KINDS:
        out = torch.full((4,), 7.0)
        refused(lambda kind=kind: operations[kind](DLPACK[name](), 1.0), "()", "'x'")
        refused(lambda kind=kind, out=out: operations[kind](torch.ones(4), DLPACK[name](), out=out), "'y'")
        refused(lambda kind=kind: operations[kind](1.0, 2.0, out=DLPACK[name]()), "()", "out")
        assert out.tolist() == [7.0] * 4
        assert operations[kind](Export(capsule()), torch.ones(4)).tolist() == [v + 1 for v in _MEMORY[:4]]


def test_a_good_export_is_taken():
    _MEMORY[:4] = (1.0, 2.0, 3.0, 4.0)
    for made in (capsule(), capsule(b"dltensor"), capsule(strides=(1,)), capsule(shape=(2, 2))):
        assert ADD["python"](Export(made), 1.0).reshape(-1).tolist() == [2.0, 3.0, 4.0, 5.0]
    assert ADD["python"](Export(capsule(shape=(0,), data=None)), 1.0).tolist() == []


# ---------------------------------------------------------------------- both, neither, and lies


class _Broken:
    """Raises for one attribute."""

    def __init_subclass__(cls, attribute, error, **more):
        super().__init_subclass__(**more)
        setattr(cls, attribute, property(_raise(error)))


ERRORS = {
    kind.__name__: kind("not today")
    for kind in (RuntimeError, ValueError, KeyError, ZeroDivisionError, OSError, ImportError, ReferenceError)
}


@pytest.mark.parametrize("attribute", ["__cuda_array_interface__", "__dlpack__", "__dlpack_device__"])
@pytest.mark.parametrize("error", ERRORS)
def test_an_attribute_that_raises(attribute, error, operations):
    broken = type("Broken", (_Broken,), {"__dlpack__": 1, "__dlpack_device__": 1} | {attribute: 1},
                  attribute=attribute, error=ERRORS[error])  # fmt: skip
    for kind in KINDS:
        text = refused(lambda kind=kind: operations[kind](broken(), torch.ones(3)), "()", "'x'")
        assert "Broken" in text
        refused(lambda kind=kind: operations[kind](torch.ones(3), 1.0, out=broken()), "()", "out")


def test_both_protocols_broken(operations):
    class Both(Export):
        __cuda_array_interface__ = {"shape": (4,)}

    text = refused(lambda: operations["python"](Both(_raise(BufferError("no export today"))), 1.0), "'x'")
    assert "__cuda_array_interface__" in text


class _Raises(np.ndarray):
    shape = property(_raise(RuntimeError("not today")))


class _Lies(np.ndarray):
    shape = property(lambda _: (1000,))
    strides = property(lambda _: (4096,))


@pytest.mark.parametrize("cls", [_Raises, _Lies])
def test_classes_of_numpy_arrays_are_read_past_their_own_attributes(cls, operations):
    array = np.arange(3.0).view(cls)
    for kind in KINDS:
        assert operations[kind](array, np.ones(3)).tolist() == [1.0, 2.0, 3.0]
        out = np.zeros(3).view(cls)
        assert operations[kind](np.ones(3), np.ones(3), out=out) is out
        assert np.asarray(out).tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "attributes",
    [
        {"shape": property(_raise(RuntimeError("not today")))},
        {"shape": property(_raise(KeyError("not today")))},
        {"shape": property(lambda _: (1000,))},
        {"stride": lambda _: (4096,)},
        {"dtype": torch.float64},
        {"data_ptr": lambda _: 16},
        {"data_ptr": _raise(ValueError("not today"))},
        {"device": 5},
        {"requires_grad": property(_raise(ValueError("not today")))},
    ],
    ids=lambda attributes: next(iter(attributes)),
)
def test_classes_of_tensors_that_lie_are_refused(attributes, device):
    made = torch.ones(3, device=device).as_subclass(type("Odd", (torch.Tensor,), attributes))
    plain = torch.ones(3, device=device)
    for kind in KINDS:
        ADD[kind](plain, plain)
        with torch.no_grad():
            refused(lambda kind=kind: ADD[kind](made, 1.0), "'x'")
            refused(lambda kind=kind: ADD[kind](plain, plain, out=made), "out")
        assert ADD[kind](plain, plain).tolist() == [2.0] * 3


# --------------------------------------------------------------------------- what passes through


class OutOfMemory(torch.OutOfMemoryError):
    """As torch raises it."""


@pytest.mark.parametrize("error", [MemoryError("none left"), OutOfMemory("none left"), KeyboardInterrupt()])
@pytest.mark.parametrize("warm", [False, True])
def test_a_lack_of_memory_and_an_interrupt_pass_through_a_protocol(error, warm):
    operation = numjit.elementwise(lambda x, y: x + y)
    if warm:
        operation(Export(capsule()), torch.ones(4))
    with pytest.raises(type(error)) as caught:
        operation(Export(_raise(error)), torch.ones(4))
    assert caught.value is error
    interface = type("Held", (), {"__cuda_array_interface__": property(_raise(error))})
    with pytest.raises(type(error)) as caught:
        operation(interface(), torch.ones(4))
    assert caught.value is error


@pytest.mark.parametrize("error", [MemoryError("none left"), OutOfMemory("none left"), KeyboardInterrupt()])
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_lack_of_memory_and_an_interrupt_pass_through_the_allocation(kind, error, warm, monkeypatch):
    for x in (torch.ones(3), np.ones(3)):
        call = numjit.elementwise(ADD[kind].source)
        with monkeypatch.context() as patched:
            if isinstance(x, np.ndarray):
                patched.setattr("numjit.arrays.allocate._empty_numpy", _raise(error))
            else:
                if warm:
                    call(x, x)
                patched.setattr(torch, "empty_strided", _raise(error))
            with pytest.raises(type(error)) as caught:
                call(x, x)
            assert caught.value is error
        assert call(x, x).tolist() == [2.0] * 3


# ------------------------------------------------------------------------------- other containers


@pytest.mark.parametrize(
    ("made", "cure"),
    [
        (lambda: [1.0, 2.0], "np.asarray(x)"),
        (lambda: (1.0, 2.0), "np.asarray(x)"),
        (lambda: range(3), "np.asarray(x)"),
        (lambda: {1.0, 2.0}, "np.asarray(list(x))"),
        (lambda: iter([1.0]), "np.asarray(list(x))"),
        (lambda: {"a": [1.0]}, "its values"),
        (lambda: type("Series", (), {"to_numpy": lambda _: 1, "__module__": "pandas"})(), "x.to_numpy()"),
        (lambda: type("DataFrame", (), {"to_numpy": lambda _: 1, "__module__": "polars"})(), "x.to_numpy()"),
        (lambda: type("DataArray", (), {"to_numpy": lambda _: 1, "__module__": "xarray"})(), "x.to_numpy()"),
        (lambda: type("Eager", (), {"numpy": lambda _: 1})(), "x.numpy()"),
        (lambda: type("Matrix", (), {"toarray": lambda _: 1})(), "x.toarray()"),
        (lambda: type("Like", (), {"__array__": lambda _: 1})(), "np.asarray(x)"),
        (lambda: type("Like", (), {"__array_interface__": {}})(), "np.asarray(x)"),
        (lambda: None, "pass an array"),
        (lambda: "text", "an array of numbers"),
    ],
)
def test_the_message_says_how_another_container_becomes_an_array(made, cure, operations):
    for kind in KINDS:
        with pytest.raises(TypeError, match=re.escape(cure)) as caught:
            operations[kind](made(), torch.ones(3))
        assert isinstance(caught.value, numjit.NumjitError)


# ------------------------------------------------------------------------------------------ sizes


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(torch.ones(1).expand(2**40, 1), torch.ones(1).expand(1, 2**40)),
        lambda f: f(torch.ones(1).expand(2**62), 1.0),
        lambda f: f(torch.empty(2**40, 1, device="meta"), torch.empty(1, 2**40, device="meta")),
        lambda f: f(np.broadcast_to(np.float32(1), (2**40, 1)), np.broadcast_to(np.float32(1), (1, 2**30))),
        lambda f: f(torch.ones([1] * 65), 1.0),
        lambda f: f(torch.ones([1] * 64), torch.ones([1] * 65)),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_results_that_no_array_holds(call, kind, operations):
    refused(lambda: call(operations[kind]), "()", errors=ValueError)


def test_a_result_that_memory_does_not_hold_is_the_librarys_own_error(operations):
    with pytest.raises(MemoryError):
        operations["python"](np.broadcast_to(np.float32(1), (2**45,)), 1.0)
    with pytest.raises(RuntimeError, match="memory"):
        operations["python"](torch.ones(1).expand(2**45), 1.0)


@pytest.mark.parametrize("shape", [2**62, 10**30, (2**40, 2**40), (1,) * 65, -1, (2, -1), (2**63,)])
@pytest.mark.parametrize("like", [None, np.ones(3), torch.ones(3)])
def test_shapes_that_no_array_has(shape, like):
    ramp = numjit.elementwise(lambda *, s=1.0: s * numjit.index())
    refused(lambda: ramp(shape=shape, like=like), "<lambda>()", errors=(ValueError, TypeError))
