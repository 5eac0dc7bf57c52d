"""The process's table for the launcher: where Python's, torch's and the driver's functions are."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from numjit.launcher.interface import Api
from numjit.launcher.offsets import Offsets
from numjit.launcher.tested import UnavailableError
from numjit.launcher.torch_functions import address_of, item_sizes, torch_functions

__all__ = ["ProcessTable", "process_table"]

_PYTHON = {
    Api.CALL: "PyObject_Call",
    Api.VECTORCALL: "PyObject_Vectorcall",
    Api.SAVE_THREAD: "PyEval_SaveThread",
    Api.RESTORE_THREAD: "PyEval_RestoreThread",
    Api.CLEAR_ERROR: "PyErr_Clear",
    Api.DICT_NEXT: "PyDict_Next",
    Api.DICT_GET: "PyDict_GetItemWithError",
    Api.LONG_VALUE: "PyLong_AsLongLongAndOverflow",
    Api.INCREF: "Py_IncRef",
    Api.DECREF: "Py_DecRef",
    Api.NEW_TUPLE: "PyTuple_New",
}
_DRIVER = {
    Api.GET_CONTEXT: "cuCtxGetCurrent",
    Api.SET_CONTEXT: "cuCtxSetCurrent",
    Api.LAUNCH: "cuLaunchKernel",
}


class ProcessTable:
    """The table and what it refers to."""

    def __init__(self, entries: dict[Api, int], objects: dict[Api, Any], sizes: list[int]) -> None:
        self._objects, self._item_sizes = objects, np.array(sizes, np.int64)
        self.slot_call = entries.get(Api.SLOT_CALL, 0)
        self.words = np.zeros(len(Api), np.int64)
        for place, value in entries.items():
            self.words[place] = value - (1 << 64) if value >> 63 else value
        for place, value in objects.items():
            self.words[place] = id(value)
        self.words[Api.ITEM_SIZES] = self._item_sizes.ctypes.data

    @property
    def address(self) -> int:
        """Where the table is."""
        return int(self.words.ctypes.data)


def process_table(torch: Any, offsets: Offsets, slot_call: int) -> ProcessTable:
    """Return the table for a GPU.

    Parameters
    ----------
    torch
        The module.
    offsets
        What `find_offsets` found.
    slot_call
        Address of the function that Python puts into the slot for calls.

    Raises
    ------
    UnavailableError
        torch lacks something, or there is no driver.
    """
    library = _driver_library()
    functions = torch_functions(torch, offsets)
    entries = {
        **functions,
        **{place: address_of(ctypes.pythonapi, name) for place, name in _PYTHON.items()},
        **{place: address_of(library, name) for place, name in _DRIVER.items()},
        Api.SLOT_CALL: slot_call,
        Api.RECORDED_ABOVE: int(torch._C.DispatchKey.PreDispatch),
        Api.RECORD_OFFSET: offsets.record,
        Api.TENSOR_OFFSET: offsets.tensor,
        Api.KEYS_OFFSET: offsets.keys,
        Api.OTHER_KEYS: offsets.other_keys,
        Api.ITEMS_OFFSET: offsets.items,
    }
    return ProcessTable(entries, _torch_objects(torch), item_sizes(torch, functions, offsets))


def _torch_objects(torch: Any) -> dict[Api, Any]:
    try:
        names = vars(torch.autograd.forward_ad), vars(torch.autograd.profiler)
        new, written = torch._C._dynamo.guards._empty_strided_cuda, torch._C._increment_version
    except AttributeError as error:
        raise UnavailableError(f"torch lacks what it uses: {error}") from None
    for held, name in zip(names, ("_current_level", "_is_profiler_enabled"), strict=True):
        if name not in held:
            raise UnavailableError(f"torch lacks what it uses: {name}")
    return {
        Api.TENSOR: torch.Tensor,
        Api.PARAMETER: torch.nn.Parameter,
        Api.FLOAT: float,
        Api.INT: int,
        Api.BOOL: bool,
        Api.COMPLEX: complex,
        Api.TRUE: True,
        Api.FALSE: False,
        Api.NONE: None,
        Api.OUT_NAME: sys.intern("out"),
        Api.FORWARD: names[0],
        Api.LEVEL_NAME: "_current_level",
        Api.NO_LEVEL: -1,
        Api.PROFILER: names[1],
        Api.PROFILING_NAME: "_is_profiler_enabled",
        Api.EMPTY: new,
        Api.WRITTEN: written,
    }


def _driver_library() -> Any:
    """Return the driver's library, which whoever has a CUDA tensor has loaded already."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise UnavailableError("there is no CUDA driver") from None
