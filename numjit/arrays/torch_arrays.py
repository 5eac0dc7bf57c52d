"""Reads torch tensors through their own attributes; never imports torch itself.

Neither protocol will do for them: ``__dlpack__`` refuses requires_grad and conj and drops the neg bit,
``__cuda_array_interface__`` drops conj and neg and knows no bfloat16.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from numjit.arrays.foreign_errors import passes_through, refused
from numjit.arrays.view import CPU, META, ArrayView, Device, cuda
from numjit.dtypes import DType, from_name
from numjit.errors import UnsupportedArrayError, UnsupportedDtypeError

__all__ = ["LOW", "count_write", "is_nowhere", "is_transformed", "is_wrapped_number", "reader"]

# torch.dtype and torch.device of supported tensors, filled as they are met. A miss, like every RuntimeError
# of the attributes, leads to `_read_unusual`, so that the common tensor pays for no check (1.3 us in all).
_dtypes: dict[Any, DType] = {}
_devices: dict[Any, Device] = {}
_new = tuple.__new__

#: Addresses below this are looked at a second time, by `is_nowhere`: where a storage has no memory, a view's
#: address is its distance from 0. Heaps lie above on almost all platforms, so that the look costs nothing.
LOW = 1 << 40


def reader(cls: type) -> Callable[[Any], ArrayView] | None:
    """Return the function that views tensors of class `cls`; None where it is no torch tensor class."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)  # missing while torch is being imported
    if torch is None or tensor is None or not issubclass(cls, tensor):
        return None
    if cls is tensor or cls is torch.nn.Parameter:
        return _read
    fake_module = sys.modules.get("torch._subclasses.fake_tensor")
    if fake_module is not None and issubclass(cls, fake_module.FakeTensor):
        return _read_fake
    return _read_subclass


def is_transformed(tensor: Any) -> bool:
    """Whether a torch tensor belongs to a ``torch.func`` transform (vmap, grad, jvp) and so has no memory."""
    torch = sys.modules["torch"]
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def is_nowhere(tensor: Any) -> bool:
    """Whether there is no memory behind a torch tensor, whatever its address says.

    So it is with zero tensors, with wrappers of other tensors, and where a storage was resized to 0.
    """
    try:
        return not tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return True


def _read(tensor: Any) -> ArrayView:
    try:
        pointer = tensor.data_ptr()
        strides = tensor.stride()
        dtype = _dtypes[tensor.dtype]
        device = _devices[tensor.device]
    except (RuntimeError, KeyError):
        return _read_unusual(tensor)
    if pointer % dtype.itemsize or (pointer < LOW and is_nowhere(tensor)):
        return _read_unusual(tensor)
    conj, neg, grad = tensor.is_conj(), tensor.is_neg(), tensor.requires_grad
    fields = (pointer, dtype, tensor.shape, strides, device, "torch", tensor, tensor, conj, neg)
    return _new(ArrayView, (*fields, False, grad, False, False, None))


def _read_subclass(tensor: Any) -> ArrayView:
    """View a tensor of a user's class, past its ``__torch_function__`` and attributes of its own."""
    torch = sys.modules["torch"]
    base = torch.Tensor
    with torch._C.DisableTorchFunctionSubclass():
        try:
            seen = _read(tensor)
            own = seen.original is tensor and not seen.copied
            if (
                own
                and seen.pointer
                and (
                    seen.pointer != base.data_ptr(tensor)
                    or tuple(seen.shape) != tuple(base.size(tensor))
                    or seen.strides != base.stride(tensor)
                    or seen.dtype is not _dtypes.get(base.dtype.__get__(tensor))
                )
            ):
                raise UnsupportedArrayError(
                    f"{_name(tensor)} has attributes of its own that are not those of its memory; pass "
                    "x.as_subclass(torch.Tensor)"
                )
        except Exception as error:
            if passes_through(error):
                raise
            raise refused(tensor, "shape, stride() or dtype", error) from error
        return seen


def _read_fake(tensor: Any) -> ArrayView:
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunctionSubclass():
        _require_strided(tensor)
        view = _with_flags(0, tensor, _dtype_of(tensor), _device_of(tensor))
        return view._replace(fake=True)


def _with_flags(pointer: int, tensor: Any, dtype: DType, device: Device) -> ArrayView:
    return ArrayView(
        pointer,
        dtype,
        tensor.shape,
        tensor.stride(),
        device,
        "torch",
        owner=tensor,
        original=tensor,
        conj=tensor.is_conj(),
        neg=tensor.is_neg(),
        requires_grad=tensor.requires_grad,
    )


def _read_unusual(tensor: Any) -> ArrayView:
    """View a tensor that `_read` stumbled over: a new dtype or device, no memory, or none numjit can read."""
    _require_strided(tensor)
    dtype = _dtype_of(tensor)
    device = _device_of(tensor)
    if is_transformed(tensor):
        raise UnsupportedArrayError(
            "a tensor inside a torch.func transform (vmap, grad, jvp) has no memory to read; "
            "call the functor through numjit's torch operator, or outside the transform"
        )
    try:
        pointer, shape, strides = tensor.data_ptr(), tensor.shape, tensor.stride()
        empty = device is META or tensor.numel() == 0
    except RuntimeError as error:
        raise UnsupportedArrayError(
            f"{_name(tensor)} has no memory that can be read ({error}); pass a plain tensor"
        ) from error
    if empty:
        return _with_flags(0, tensor, dtype, device)
    if is_nowhere(tensor):
        if not tensor._is_zerotensor():
            raise UnsupportedArrayError(
                f"{_name(tensor)} has no memory of its own; pass the tensor it wraps, or give its storage "
                "memory again"
            )
        torch = sys.modules["torch"]
        zeros = torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device).zero_()
        return _read_copy(zeros, tensor)
    if pointer % _alignment(dtype, device):
        return _read_copy(tensor.detach().clone(), tensor)
    return _with_flags(pointer, tensor, dtype, device)


def _alignment(dtype: DType, device: Device) -> int:
    """Bytes that an element's address must be a multiple of: on a GPU a complex value is one access."""
    return dtype.real.itemsize if device is CPU else dtype.itemsize


def _read_copy(copy: Any, tensor: Any) -> ArrayView:
    return _read(copy)._replace(copied=True, owner=copy, original=tensor, requires_grad=tensor.requires_grad)


def _require_strided(tensor: Any) -> None:
    torch = sys.modules["torch"]
    if tensor.is_nested:
        raise UnsupportedArrayError(
            "nested tensors are not supported; use torch.nested.to_padded_tensor(x, 0)"
        )
    if tensor.is_quantized:
        raise UnsupportedArrayError("quantised tensors are not supported; use x.dequantize() or x.int_repr()")
    if tensor.layout is not torch.strided:
        raise UnsupportedArrayError(f"tensors of layout {tensor.layout} are not supported; use x.to_dense()")


def _dtype_of(tensor: Any) -> DType:
    found = _dtypes.get(tensor.dtype)
    if found is None:
        name = str(tensor.dtype).removeprefix("torch.")
        try:
            found = _dtypes[tensor.dtype] = from_name(name)
        except UnsupportedDtypeError as error:
            raise UnsupportedDtypeError(f"a tensor of {error}") from None
    return found


def _device_of(tensor: Any) -> Device:
    torch_device = tensor.device
    found = _devices.get(torch_device)
    if found is None:
        kinds = {"cpu": CPU, "meta": META, "cuda": cuda(torch_device.index or 0)}
        found = kinds.get(torch_device.type)
        if found is None:
            raise UnsupportedArrayError(
                f"tensors on device {torch_device} are not supported; move them with x.to('cuda') or x.cpu()"
            )
        _devices[torch_device] = found
    return found


def _name(tensor: Any) -> str:
    return f"a tensor of class {type(tensor).__module__}.{type(tensor).__qualname__}"


#: dtypes that torch wraps Python numbers in, each with a narrower one of its kind.
_NARROWER = {"int64": "int8", "float64": "float16", "complex128": "complex64"}
_probes: dict[str, Any] = {}


def is_wrapped_number(view: ArrayView) -> bool:
    """Whether a 0-dim CPU tensor is a Python number that torch's dispatcher wrapped (``x + 2``).

    Python cannot see that flag, but promotion can: beside a narrower 0-dim tensor of its kind a
    wrapped number does not count.

    Parameters
    ----------
    view
        A 0-dim array on the CPU.
    """
    if view.library != "torch" or view.fake:
        return False
    narrower = _NARROWER.get(view.dtype.name)
    if narrower is None:
        return False
    torch = sys.modules["torch"]
    probe = _probes.get(narrower)
    if probe is None:
        probe = _probes[narrower] = torch.empty((), dtype=getattr(torch, narrower))
    return bool(torch.result_type(probe, view.original) == probe.dtype)


def count_write(tensor: Any) -> None:
    """Tell torch that a tensor's elements were written, so that a graph which saved them says so."""
    if not tensor.is_inference():  # those are not counted
        sys.modules["torch"].autograd.graph.increment_version(tensor)
