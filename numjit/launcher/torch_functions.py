"""Finds torch's functions that the launcher calls, and tries each of them before it is used.

A tensor's geometry is told by torch's stable C functions, which answer 0 where all went well; modes and
gradients by functions of its C++ libraries, which promise less. What they answer is compared with what
Python says.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from numjit.dtypes import ALL
from numjit.launcher.interface import Api
from numjit.launcher.offsets import Offsets
from numjit.launcher.tested import UnavailableError

__all__ = ["address_of", "item_sizes", "torch_functions"]

#: Stable C functions of a tensor (the address of an ``at::Tensor``), and where they put what they answer.
_GEOMETRY: dict[Api, tuple[str, Any]] = {
    Api.GET_DIM: ("aoti_torch_get_dim", ctypes.c_int64),
    Api.GET_SIZES: ("aoti_torch_get_sizes", ctypes.POINTER(ctypes.c_int64)),
    Api.GET_STRIDES: ("aoti_torch_get_strides", ctypes.POINTER(ctypes.c_int64)),
    Api.GET_DTYPE: ("aoti_torch_get_dtype", ctypes.c_int32),
    Api.GET_DEVICE: ("aoti_torch_get_device_index", ctypes.c_int32),
    Api.GET_START: ("aoti_torch_get_storage_offset", ctypes.c_int64),
    Api.GET_DATA: ("torch_get_const_data_ptr", ctypes.c_size_t),
    Api.GET_OUT_DATA: ("torch_get_mutable_data_ptr", ctypes.c_size_t),
}
_STREAM = "aoti_torch_get_current_cuda_stream"
#: C++ functions, and what each takes and answers; asking through Python takes far longer.
_STATE: dict[Api, tuple[str, list[Any], Any]] = {
    Api.MODE_COUNT: ("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", [], ctypes.c_int64),
    Api.FUNCTION_MODE: ("_ZN2at4impl27torch_function_mode_enabledEv", [], ctypes.c_bool),
    Api.KEY_INCLUDED: (
        "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE", [ctypes.c_uint16], ctypes.c_bool,
    ),
    Api.TRACING_STATE: ("_ZN5torch3jit6tracer15getTracingStateEv", [], ctypes.POINTER(ctypes.c_int64)),
    Api.DEFAULT_DTYPE: ("_ZN3c1031get_default_dtype_as_scalartypeEv", [], ctypes.c_uint8),
    Api.GRAD_ENABLED: ("_ZN3c108GradMode10is_enabledEv", [], ctypes.c_bool),
    Api.REQUIRES_GRAD: ("_ZNK3c1010TensorImpl13requires_gradEv", [ctypes.c_size_t], ctypes.c_bool),
}  # fmt: skip


def address_of(library: Any, name: str) -> int:
    """Return the address of a library's function; `UnavailableError` where it has none of that name."""
    try:
        return int(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
    except AttributeError:
        raise UnavailableError(f"there is no function {name}") from None


def torch_functions(torch: Any, offsets: Offsets) -> dict[Api, int]:
    """Return the addresses of torch's functions.

    Raises
    ------
    UnavailableError
        One is missing, or answers something else than it should.
    """
    library = ctypes.CDLL(torch._C.__file__)  # with the libraries that it needs
    names = {place: name for place, (name, *_) in (_GEOMETRY | _STATE).items()}
    found = {place: address_of(library, name) for place, name in names.items()}
    for place, right in (*_try_state(torch, found), *_try_geometry(torch, found, offsets)):
        if not right:
            raise UnavailableError(f"torch's {names[place]} answers otherwise than is known")
    return found | {Api.CURRENT_STREAM: address_of(library, _STREAM)}


def item_sizes(torch: Any, functions: dict[Api, int], offsets: Offsets) -> list[int]:
    """Return the bytes of an element by the number of its dtype, 0 for dtypes that numjit does not know."""
    sizes = [0] * 256
    number = _asked(functions, Api.GET_DTYPE)
    for dtype in ALL:
        kind = getattr(torch, dtype.name, None)
        if kind is not None:
            tensor = torch.empty(16, dtype=torch.uint8, device="cpu").view(kind)  # complex32 made anew warns
            sizes[number(id(tensor) + offsets.tensor)] = kind.itemsize
    if sum(size > 0 for size in sizes) != len([d for d in ALL if hasattr(torch, d.name)]):
        raise UnavailableError("torch's numbers of dtypes are not one each")
    return sizes


def _asked(functions: dict[Api, int], place: Api) -> Any:
    """Return a C function of a tensor as one that answers what it was asked for, None where it refuses."""
    kind = _GEOMETRY[place][1]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t, ctypes.POINTER(kind))(functions[place])

    def ask(tensor: int) -> Any:
        answer = kind()
        if function(tensor, ctypes.byref(answer)) != 0:
            return None
        return getattr(answer, "value", answer)

    return ask


def _try_state(torch: Any, functions: dict[Api, int]) -> Iterator[tuple[Api, bool]]:
    """Yield functions that say what is on in a thread, and whether they say so, on and off."""
    ask = {
        place: ctypes.CFUNCTYPE(answer, *takes)(functions[place])
        for place, (_, takes, answer) in _STATE.items()
    }
    key = torch._C.DispatchKey.PreDispatch
    above = int(key)
    with torch.enable_grad():
        yield Api.GRAD_ENABLED, ask[Api.GRAD_ENABLED]() is True
    with torch.no_grad():
        yield Api.GRAD_ENABLED, ask[Api.GRAD_ENABLED]() is False
    before = ask[Api.MODE_COUNT]()
    with torch.utils._python_dispatch.TorchDispatchMode():
        yield Api.MODE_COUNT, ask[Api.MODE_COUNT]() == before + 1
    yield Api.MODE_COUNT, ask[Api.MODE_COUNT]() == before == torch._C._len_torch_dispatch_stack()
    with torch.overrides.BaseTorchFunctionMode():
        yield Api.FUNCTION_MODE, ask[Api.FUNCTION_MODE]() is True
        with torch._C.DisableTorchFunction():
            yield Api.FUNCTION_MODE, ask[Api.FUNCTION_MODE]() is False
    with torch._C._IncludeDispatchKeyGuard(key):
        yield Api.KEY_INCLUDED, ask[Api.KEY_INCLUDED](above) is True
    yield Api.KEY_INCLUDED, ask[Api.KEY_INCLUDED](above) is False
    yield Api.TRACING_STATE, ask[Api.TRACING_STATE]()[0] == 0
    with torch.inference_mode(mode=False), torch.enable_grad():
        leaf = torch.empty(3, device="cpu", requires_grad=True)
        probes = [leaf, leaf * 2, leaf.detach(), torch.empty(3, device="cpu"), leaf[1:], leaf.detach()[1:]]
    for tensor in (*probes, leaf.requires_grad_(False), leaf.requires_grad_()):
        yield Api.REQUIRES_GRAD, ask[Api.REQUIRES_GRAD](tensor._cdata) is tensor.requires_grad


def _try_geometry(torch: Any, functions: dict[Api, int], offsets: Offsets) -> Iterator[tuple[Api, bool]]:
    """Yield functions of tensors, and whether they answer what Python does of tensors that differ in all."""
    memory = torch.zeros(1 << 12, dtype=torch.uint8, device="cpu")
    tensors = [
        memory.view(dtype).as_strided(sizes, tuple(range(2, 2 + len(sizes))), 7 * len(sizes))
        for dtype in (torch.uint8, torch.float32, torch.complex128)
        for sizes in ((), (3,), (4, 2, 3), (2,) * 7)
    ]
    tensors.append(torch.empty((2, 0), dtype=torch.int64, device="cpu"))
    ask = {place: _asked(functions, place) for place in _GEOMETRY}
    numbers: dict[int, Any] = {}
    for tensor in tensors:
        answers = {place: function(id(tensor) + offsets.tensor) for place, function in ask.items()}
        rank = tensor.dim()
        yield Api.GET_DIM, answers[Api.GET_DIM] == rank
        yield Api.GET_SIZES, answers[Api.GET_SIZES][:rank] == list(tensor.shape)
        yield Api.GET_STRIDES, answers[Api.GET_STRIDES][:rank] == list(tensor.stride())
        yield Api.GET_DEVICE, answers[Api.GET_DEVICE] == -1
        yield Api.GET_START, answers[Api.GET_START] == tensor.storage_offset()
        number = answers[Api.GET_DTYPE]
        yield Api.GET_DTYPE, 0 <= number < 256 and numbers.setdefault(number, tensor.dtype) is tensor.dtype
        for place in (Api.GET_DATA, Api.GET_OUT_DATA):
            yield place, answers[place] == tensor.data_ptr()
    yield Api.GET_DTYPE, len(numbers) == len({tensor.dtype for tensor in tensors})
    default = torch.get_default_dtype()
    number = ctypes.CFUNCTYPE(ctypes.c_uint8)(functions[Api.DEFAULT_DTYPE])()
    probe = torch.empty(0, dtype=default, device="cpu")
    same = number == ask[Api.GET_DTYPE](id(probe) + offsets.tensor)
    yield Api.DEFAULT_DTYPE, same or torch.get_default_dtype() is not default  # another thread's doing
    meta = torch.empty(3, device="meta")
    yield Api.GET_DATA, ask[Api.GET_DATA](id(meta) + offsets.tensor) == 0
    first = torch.zeros(3, device="cpu")
    second = torch._lazy_clone(first)  # shares memory until one is written to
    handles = [id(tensor) + offsets.tensor for tensor in (first, second)]
    before, shared = map(ask[Api.GET_DATA], handles)
    yield Api.GET_DATA, before == shared and torch._C._is_cow_tensor(second)
    yield (
        Api.GET_OUT_DATA,
        ask[Api.GET_OUT_DATA](handles[1]) != before and not torch._C._is_cow_tensor(second),
    )
