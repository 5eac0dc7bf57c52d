"""What the launcher assumes of torch's memory and functions: looked for, and done without where missing."""

import ctypes

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("torch has no DLPack exchange table", allow_module_level=True)

from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from numjit import dtypes
from numjit.launcher import offsets, process
from numjit.launcher.attach import FastCallable
from numjit.launcher.interface import Api
from numjit.launcher.offsets import find_offsets, word


def read(tensor, place):
    return word(tensor._cdata + place)


class TestOffsets:
    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_they_hold_for_other_tensors(self, device):
        found = find_offsets(FastCallable, torch)
        for sizes in [(), (4,), (2, 0, 3), (7, 6, 5, 4, 3, 2)]:
            tensor = torch.empty((2, *sizes), device=device)[1].requires_grad_()
            assert read(tensor, found.sizes) == tensor.dim()
            assert read(tensor, found.start) == tensor.storage_offset()
            assert read(tensor, found.keys) == torch._C._dispatch_keys(tensor).raw_repr()
            assert read(tensor, found.storage) == tensor.untyped_storage()._cdata
            assert read(tensor, found.meta) != 0

    def test_bytes_of_an_element(self):
        found = find_offsets(FastCallable, torch)
        for dtype in dtypes.ALL:
            tensor = torch.empty(16, dtype=torch.uint8).view(getattr(torch, dtype.name))
            assert found.item_sizes[read(tensor, found.type) & 0xFF] == dtype.itemsize
        unknown = torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8)
        assert found.item_sizes[read(unknown, found.type) & 0xFF] == 0

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("INLINE_RANK", 4),
            ("INLINE_RANK", 6),
            ("_DEVICES", {"cpu": 0x01FF00, "meta": 0x01FF0D}),
            ("_IMPL_WORDS", 12),
        ],
    )
    def test_tensors_that_are_laid_out_otherwise(self, monkeypatch, name, value):
        monkeypatch.setattr(offsets, name, value)
        assert find_offsets(FastCallable, torch) is None


class TestFunctions:
    def test_they_answer_what_torch_answers(self):
        addresses = process._torch_functions(torch)
        asked = {k: ctypes.CFUNCTYPE(process._TORCH[k][1])(address) for k, address in addresses.items()}
        assert asked[Api.MODE_COUNT]() == torch._C._len_torch_dispatch_stack() == 0
        with TorchDispatchMode(), TorchDispatchMode(), torch.no_grad():
            assert asked[Api.MODE_COUNT]() == 2
            assert not asked[Api.GRAD_ENABLED]()
        assert asked[Api.GRAD_ENABLED]()
        assert not asked[Api.FUNCTION_MODE]()
        with BaseTorchFunctionMode():
            assert asked[Api.FUNCTION_MODE]()
        above = torch._C.DispatchKey.PreDispatch
        assert not asked[Api.KEY_INCLUDED](ctypes.c_uint16(int(above)))
        with torch._C._IncludeDispatchKeyGuard(above):
            assert asked[Api.KEY_INCLUDED](ctypes.c_uint16(int(above)))
        traced = []
        torch.jit.trace(lambda x: traced.append(asked[Api.TRACING_STATE]()[0]) or x + 1, torch.ones(2))
        assert traced[0] != 0 == asked[Api.TRACING_STATE]()[0]
        number = asked[Api.DEFAULT_DTYPE]()
        torch.set_default_dtype(torch.float64)
        try:
            assert asked[Api.DEFAULT_DTYPE]() == number + 1  # torch numbers float32 and float64 6 and 7
        finally:
            torch.set_default_dtype(torch.float32)

    @pytest.mark.parametrize("place", process._TORCH, ids=lambda place: place.name)
    def test_without_one_there_is_no_table(self, monkeypatch, place):
        monkeypatch.setitem(process._TORCH, place, ("_ZN3c1012there_is_no_suchEv", ctypes.c_int64))
        assert process._torch_functions(torch) is None

    @pytest.mark.parametrize(
        "place",
        [Api.MODE_COUNT, Api.FUNCTION_MODE, Api.KEY_INCLUDED, Api.GRAD_ENABLED],
        ids=lambda place: place.name,
    )
    def test_one_that_answers_something_else(self, monkeypatch, place):
        monkeypatch.setitem(process._TORCH, place, process._TORCH[Api.DEFAULT_DTYPE])
        assert process._torch_functions(torch) is None
