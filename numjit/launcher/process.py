"""The process's table for the launcher: where Python's, torch's and the driver's functions are."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from numjit.launcher.interface import Api
from numjit.launcher.offsets import Offsets, word

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
    Api.GET_ATTRIBUTE: "PyObject_GetAttr",
}
#: C++ functions of torch, and what each answers; asking through Python takes far longer.
_TORCH = {
    Api.MODE_COUNT: ("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", ctypes.c_int64),
    Api.FUNCTION_MODE: ("_ZN2at4impl27torch_function_mode_enabledEv", ctypes.c_bool),
    Api.KEY_INCLUDED: ("_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE", ctypes.c_bool),
    Api.TRACING_STATE: ("_ZN5torch3jit6tracer15getTracingStateEv", ctypes.POINTER(ctypes.c_int64)),
    Api.DEFAULT_DTYPE: ("_ZN3c1031get_default_dtype_as_scalartypeEv", ctypes.c_uint8),
    Api.GRAD_ENABLED: ("_ZN3c108GradMode10is_enabledEv", ctypes.c_bool),
}
#: Places of DLPack's exchange table (version 1.3), in words from its start.
_EXCHANGE = {Api.READ_TENSOR: 5, Api.CURRENT_STREAM: 6}


class ProcessTable:
    """The table and what it refers to."""

    def __init__(self, entries: dict[Api, int], objects: dict[Api, Any], item_sizes: Any) -> None:
        self._objects, self._item_sizes = objects, item_sizes
        self.slot_call = entries.get(Api.SLOT_CALL, 0)
        self.words = np.zeros(len(Api), np.int64)
        for place, value in entries.items():
            self.words[place] = value - (1 << 64) if value >> 63 else value
        for place, value in objects.items():
            self.words[place] = id(value)
        self.words[Api.ITEM_SIZES] = item_sizes.ctypes.data

    def use_cupy(self, cupy: Any) -> None:
        """Let the launcher know CuPy's arrays."""
        if Api.CUPY_ARRAY not in self._objects:
            self._objects[Api.CUPY_STREAM] = cupy.cuda.get_current_stream
            self._objects[Api.CUPY_ARRAY] = cupy.ndarray
            for place in (Api.CUPY_STREAM, Api.CUPY_ARRAY):
                self.words[place] = id(self._objects[place])

    @property
    def address(self) -> int:
        """Where the table is."""
        return int(self.words.ctypes.data)


def process_table(torch: Any, offsets: Offsets, slot_call: int) -> ProcessTable | None:
    """Return the table for a GPU, or None where torch lacks something or there is no driver.

    Parameters
    ----------
    torch
        The module.
    offsets
        What `find_offsets` found.
    slot_call
        Address of the function that Python puts into the slot for calls.
    """
    entries = {place: _address(ctypes.pythonapi, name) for place, name in _PYTHON.items()}
    exchange = _exchange_table(torch)
    objects = _torch_objects(torch)
    functions = _torch_functions(torch)
    library = _driver_library()
    if exchange is None or objects is None or functions is None or library is None:
        return None
    entries |= functions
    entries |= {place: word(exchange + 8 * k) for place, k in _EXCHANGE.items()}
    entries |= {
        Api.GET_CONTEXT: _address(library, "cuCtxGetCurrent"),
        Api.SET_CONTEXT: _address(library, "cuCtxSetCurrent"),
        Api.LAUNCH: _address(library, "cuLaunchKernel"),
        Api.SLOT_CALL: slot_call,
        Api.RECORDED_ABOVE: int(torch._C.DispatchKey.PreDispatch),
        Api.RECORD_OFFSET: offsets.record,
        Api.IMPL_OFFSET: offsets.impl,
        Api.KEYS_OFFSET: offsets.keys,
        Api.META_OFFSET: offsets.meta,
        Api.STORAGE_OFFSET: offsets.storage,
        Api.DATA_OFFSET: offsets.data,
        Api.START_OFFSET: offsets.start,
        Api.TYPE_OFFSET: offsets.type,
        Api.SIZES_OFFSET: offsets.sizes,
    }
    return ProcessTable(entries, objects, np.array(offsets.item_sizes, np.int64))


def _address(library: Any, name: str) -> int:
    return int(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)


def _exchange_table(torch: Any) -> int | None:
    """Return the address of torch's DLPack exchange table (torch 2.11 and later)."""
    capsule = torch.Tensor.__dict__.get("__dlpack_c_exchange_api__")
    if capsule is None:
        return None
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    address = get(capsule, b"dlpack_exchange_api")
    major, minor = (ctypes.c_uint32 * 2).from_address(address)
    filled = all(word(address + 8 * k) for k in _EXCHANGE.values())
    return int(address) if major == 1 and minor >= 3 and filled else None


def _torch_functions(torch: Any) -> dict[Api, int] | None:
    """Return the addresses of torch's functions, or None where one is missing or answers something else."""
    library = ctypes.CDLL(torch._C.__file__)  # with the libraries that it needs
    try:
        found = {place: getattr(library, name) for place, (name, _) in _TORCH.items()}
    except AttributeError:
        return None
    for place, (_, answer) in _TORCH.items():
        found[place].restype, found[place].argtypes = answer, []
    with torch.enable_grad():
        right = found[Api.GRAD_ENABLED]() is True
    with torch.no_grad():
        right &= found[Api.GRAD_ENABLED]() is False
    before = found[Api.MODE_COUNT]()
    with torch.utils._python_dispatch.TorchDispatchMode():
        right &= found[Api.MODE_COUNT]() == before + 1
    right &= found[Api.TRACING_STATE]()[0] == 0
    with torch.overrides.BaseTorchFunctionMode():
        right &= found[Api.FUNCTION_MODE]() is True
        with torch._C.DisableTorchFunction():
            right &= found[Api.FUNCTION_MODE]() is False
    key = torch._C.DispatchKey.PreDispatch
    with torch._C._IncludeDispatchKeyGuard(key):
        right &= found[Api.KEY_INCLUDED](ctypes.c_uint16(int(key))) is True
    right &= found[Api.KEY_INCLUDED](ctypes.c_uint16(int(key))) is False
    return {place: _address(library, name) for place, (name, _) in _TORCH.items()} if right else None


def _torch_objects(torch: Any) -> dict[Api, Any] | None:
    try:
        names = vars(torch.autograd.forward_ad), vars(torch.autograd.profiler)
        if "_current_level" not in names[0] or "_is_profiler_enabled" not in names[1]:
            return None
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
            Api.GRAD_NAME: sys.intern("requires_grad"),
            Api.FORWARD: names[0],
            Api.LEVEL_NAME: "_current_level",
            Api.NO_LEVEL: -1,
            Api.PROFILER: names[1],
            Api.PROFILING_NAME: "_is_profiler_enabled",
            Api.NO_ARGUMENTS: (),
            Api.DATA_NAME: "data",
            Api.DTYPE_NAME: "dtype",
            Api.SHAPE_NAME: "shape",
            Api.STRIDES_NAME: "strides",
            Api.ADDRESS_NAME: "ptr",
            Api.DEVICE_NAME: "device_id",
            Api.EMPTY: torch._C._dynamo.guards._empty_strided_cuda,
            Api.WRITTEN: torch._C._increment_version,
        }
    except AttributeError:
        return None


def _driver_library() -> Any:
    """Return the driver's library, which whoever has a CUDA tensor has loaded already."""
    for name in ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1",):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
