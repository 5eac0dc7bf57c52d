"""What the launcher assumes of Python and torch: looked for, tried, and done without where it is missing."""

import ctypes
import re

import pytest

torch = pytest.importorskip("torch")

from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from numjit import dtypes
from numjit.launcher import attach, offsets, process, tested, torch_functions
from numjit.launcher.attach import FastCallable
from numjit.launcher.interface import Api
from numjit.launcher.offsets import find_offsets, word
from numjit.launcher.tested import UnavailableError
from numjit.tools import info
from tests.support import fake_gpu, odd_operands

#: Odd operands that are nothing but memory all the same.
PLAIN = frozenset(odd_operands.TENSORS) - {
    "zero tensor", "part of a zero tensor", "functional tensor", "wrapper", "fake tensor", "meta tensor",
    "on another device", "sparse", "sparse rows", "mkldnn", "quantised", "nested", "left vmap", "left grad",
}  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return find_offsets(FastCallable, torch)


@pytest.fixture
def functions(monkeypatch, found):
    """torch's functions; the one that only torch with CUDA has is not looked for."""
    monkeypatch.setattr(torch_functions, "_STREAM", "aoti_torch_get_dim")
    return torch_functions.torch_functions(torch, found)


class TestOffsets:
    @pytest.mark.parametrize("name", odd_operands.TENSORS)
    def test_keys_tell_what_is_nothing_but_memory(self, found, name):
        tensor = odd_operands.TENSORS[name]("cpu")
        assert word(id(tensor) + found.tensor) == tensor._cdata
        keys = word(tensor._cdata + found.keys)
        assert keys == torch._C._dispatch_keys(tensor).raw_repr()
        assert (keys & found.other_keys == 0) == (name in PLAIN)

    def test_tensors_that_lost_and_found_their_object(self, found):
        """Where only C++ keeps a tensor, its object may be gone and come back."""
        leaf = torch.ones(3, requires_grad=True)
        leaf.grad = torch.ones(3)
        for _ in range(2):
            gone = leaf.grad
            assert word(id(gone) + found.tensor) == gone._cdata
            del gone
        other = torch.ones(5)
        torch.utils.swap_tensors(gone := torch.ones(3), other)
        assert word(id(gone) + found.tensor) == gone._cdata != other._cdata == word(id(other) + found.tensor)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("_TYPE_CALL", 120),
            ("_PLAIN_KEYS", offsets._PLAIN_KEYS[:-1]),
            ("_PLAIN_KEYS", (*offsets._PLAIN_KEYS, "Sparse")),
            ("_bits", lambda keys: int(keys.raw_repr()) + 1),
        ],
        ids=["slot", "a key less", "a key more", "other keys"],
    )
    def test_what_is_laid_out_otherwise(self, monkeypatch, name, value):
        monkeypatch.setattr(offsets, name, value)
        with pytest.raises(UnavailableError):
            find_offsets(FastCallable, torch)

    def test_nothing_is_read_beyond_an_object(self, monkeypatch):
        """Every word that is read for a search lies within the object's own memory."""
        usable = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(("malloc_usable_size", ctypes.CDLL(None)))
        searched = []

        def places(base, wanted, size):
            searched.append((base, size))
            return real(base, wanted, size)

        real = offsets._places
        monkeypatch.setattr(offsets, "_places", places)
        tensor = torch.ones(3)
        find_offsets(FastCallable, torch)
        sizes = {size for _, size in searched}
        assert torch.Tensor.__basicsize__ in sizes
        assert usable(tensor._cdata) in sizes
        assert max(sizes) < 1024


class TestFunctions:
    def test_geometry(self, found, functions):
        sizes = torch_functions.item_sizes(torch, functions, found)
        asked = {place: torch_functions._asked(functions, place) for place in torch_functions._GEOMETRY}
        for dtype in dtypes.ALL:
            kind = getattr(torch, dtype.name)
            tensor = torch.empty(96, dtype=torch.uint8).view(kind)[1:3].reshape(2, 1)
            answers = {place: ask(id(tensor) + found.tensor) for place, ask in asked.items()}
            assert sizes[answers[Api.GET_DTYPE]] == dtype.itemsize
            assert (answers[Api.GET_DIM], answers[Api.GET_START], answers[Api.GET_DEVICE]) == (2, 1, -1)
            assert answers[Api.GET_DATA] == tensor.data_ptr()
            assert (answers[Api.GET_SIZES][:2], answers[Api.GET_STRIDES][:2]) == (
                [2, 1],
                list(tensor.stride()),
            )
        unknown = torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8)
        assert sizes[asked[Api.GET_DTYPE](id(unknown) + found.tensor)] == 0

    def test_what_has_no_memory_is_refused(self, found, functions):
        """By a status, not by an exception that leaves C."""
        ask = torch_functions._asked(functions, Api.GET_DATA)
        for tensor in (torch.ones(3).to_sparse(), odd_operands.TENSORS["left vmap"]("cpu")):
            assert ask(id(tensor) + found.tensor) is None

    def test_state_is_what_torch_says(self, functions):
        asked = {
            place: ctypes.CFUNCTYPE(answer, *takes)(functions[place])
            for place, (_, takes, answer) in torch_functions._STATE.items()
        }
        assert asked[Api.MODE_COUNT]() == torch._C._len_torch_dispatch_stack() == 0
        with TorchDispatchMode(), TorchDispatchMode(), torch.no_grad():
            assert asked[Api.MODE_COUNT]() == 2
            assert not asked[Api.GRAD_ENABLED]()
        assert asked[Api.GRAD_ENABLED]()
        assert not asked[Api.FUNCTION_MODE]()
        with BaseTorchFunctionMode():
            assert asked[Api.FUNCTION_MODE]()
        above = torch._C.DispatchKey.PreDispatch
        assert not asked[Api.KEY_INCLUDED](int(above))
        with torch._C._IncludeDispatchKeyGuard(above):
            assert asked[Api.KEY_INCLUDED](int(above))
        traced = []
        torch.jit.trace(lambda x: traced.append(asked[Api.TRACING_STATE]()[0]) or x + 1, torch.ones(2))
        assert traced[0] != 0 == asked[Api.TRACING_STATE]()[0]
        number = asked[Api.DEFAULT_DTYPE]()
        torch.set_default_dtype(torch.float64)
        try:
            assert asked[Api.DEFAULT_DTYPE]() == number + 1  # torch numbers float32 and float64 6 and 7
        finally:
            torch.set_default_dtype(torch.float32)

    ALL = (*torch_functions._GEOMETRY, *torch_functions._STATE)

    @pytest.mark.parametrize("place", ALL, ids=lambda place: place.name)
    def test_without_one_there_is_no_launcher(self, monkeypatch, found, functions, place):
        held = torch_functions._GEOMETRY if place in torch_functions._GEOMETRY else torch_functions._STATE
        monkeypatch.setitem(held, place, ("there_is_no_such_function", *held[place][1:]))
        with pytest.raises(UnavailableError, match="there_is_no_such_function"):
            torch_functions.torch_functions(torch, found)

    #: Not where an address is answered that is then followed.
    @pytest.mark.parametrize(
        "place", [place for place in ALL if place is not Api.TRACING_STATE], ids=lambda place: place.name
    )
    def test_one_that_answers_something_else(self, monkeypatch, found, functions, place):
        pairs = [
            (Api.GET_SIZES, Api.GET_STRIDES), (Api.GET_DIM, Api.GET_START), (Api.GET_DTYPE, Api.GET_DEVICE),
            (Api.GET_DATA, Api.GET_OUT_DATA), (Api.DEFAULT_DTYPE, Api.MODE_COUNT),
        ]  # fmt: skip
        others = {one: another for pair in pairs for one, another in (pair, pair[::-1])}
        other = others.get(place, Api.DEFAULT_DTYPE)
        held = torch_functions._GEOMETRY if place in torch_functions._GEOMETRY else torch_functions._STATE
        monkeypatch.setitem(held, place, (held[other][0], *held[place][1:]))
        with pytest.raises(UnavailableError, match="answers otherwise"):
            torch_functions.torch_functions(torch, found)


class TestWhyThereIsNone:
    @pytest.fixture
    def fresh(self, monkeypatch):
        """A process that has not asked for the launcher yet."""
        monkeypatch.setattr(attach, "_process", attach._Process())

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (("TORCH", ((2, 1),)), "not tested with torch"),
            (("PYTHON", ((3, 1), (3, 2))), r"not tested with Python \d+.\d+ \(but with 3.1, 3.2\)"),
        ],
        ids=["torch", "Python"],
    )
    def test_another_version(self, monkeypatch, fresh, caplog, change, reason):
        monkeypatch.setattr(tested, *change)
        with caplog.at_level("INFO", logger="numjit"):
            assert attach.wait() is False
            assert attach.wait() is False
        assert re.search(reason, attach.obstacle())
        (record,) = caplog.records  # once a process
        assert record.getMessage() == f"the launcher is off: {attach.obstacle()}"
        assert attach.obstacle() in info._launcher(False).value

    def test_no_driver(self, monkeypatch, fresh):
        def load(name):
            raise OSError(name)

        monkeypatch.setattr(process.ctypes, "CDLL", load)
        with pytest.raises(UnavailableError, match="no CUDA driver"):
            process._driver_library()

    def test_the_setting(self, monkeypatch, fresh):
        monkeypatch.setenv("NUMJIT_LAUNCHER", "0")
        assert attach.request() is None
        assert "NUMJIT_LAUNCHER" in attach.obstacle()
        assert "NUMJIT_LAUNCHER" in info._launcher(True).value

    def test_a_fault_of_its_own(self, monkeypatch, fresh, caplog):
        monkeypatch.setattr(tested, "require_tested", lambda version: 1 / 0)
        with caplog.at_level("INFO", logger="numjit"):
            assert attach.wait() is False
        assert attach.obstacle() == "ZeroDivisionError: division by zero"
        assert caplog.records[0].exc_info is not None

    def test_it_is_on(self, monkeypatch, fresh, caplog):
        gpu = fake_gpu.FakeGpu()
        gpu.table(monkeypatch)  # what `build` asks for is there
        own = fake_gpu.load().table
        monkeypatch.setattr(attach, "_subclasses", lambda cls: [])
        try:
            with caplog.at_level("INFO", logger="numjit"):
                assert attach.wait()
            assert caplog.records[-1].getMessage().startswith("the launcher is on: torch 2.")
            assert attach.obstacle() == ""
            assert info._launcher(True).value == "on"
        finally:
            fake_gpu.load().use(own)

    def test_a_machine_without_a_gpu(self):
        assert info._launcher(False).value == "off, Python does its work: there is no GPU"
