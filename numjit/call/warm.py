"""The warm path: calls that were made before, without looking at their operands in full.

A call that went the general way leaves an entry under a key that is finer than the plan's: the
functor's identity, the default dtype, and of each argument its type and, for arrays, everything
that a plan depends on (arrays of others than torch: `warm_arrays`). Whatever is unusual (several
libraries, gradients to record, ``out=``, 0-dim CPU tensors, transforms, errors) answers None here and
goes the general way, which explains it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numjit.arrays.numbers import chunk_slot, convert
from numjit.arrays.torch_arrays import LOW, is_nowhere
from numjit.call import warm_arrays
from numjit.call.warm_arrays import INT64, NUMBERS
from numjit.torch.dispatch import is_recorded_above

if TYPE_CHECKING:
    from numjit.launcher.attach import FastCalls

__all__ = ["Entry", "WarmPath"]


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Entry:
    """What a warm call does.

    Attributes
    ----------
    shape, strides, outputs, device
        The results: sizes, element strides, torch dtypes, torch device.
    memory
        Which arguments are read from memory, in order.
    values
        Which are passed by value, each with the dtype it is taken as.
    offsets
        Bytes to add to each pointer, outputs first; empty where all are 0.
    launcher, grid, extents, device_index
        The kernel and what follows pointers and values; None on the CPU.
    runner
        The CPU loop; None on a GPU.
    library, results
        Whose arrays the operands and the results are.
    fast
        Whether the launcher answers such calls; None while that is not known.
    generation
        How often the launcher had forgotten its plans when it took this one.
    fingerprint
        The functor's when the call was planned.
    allocation
        How calls on arrays of others than torch allocate the results; made at the first repetition.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    outputs: tuple[Any, ...]
    device: Any
    memory: tuple[int, ...]
    values: tuple[tuple[int, Any], ...]
    offsets: tuple[int, ...]
    launcher: Any
    grid: tuple[int, int, int]
    extents: tuple[int, ...]
    device_index: int
    runner: Any
    library: str = "torch"
    results: str = "torch"
    fast: bool | None = None
    generation: int = 0
    fingerprint: str = ""
    allocation: Any = None

    def compute(self, pointers: Sequence[int], bound: Sequence[Any]) -> None:
        """Run the CPU loop on addresses, outputs first, and the call's numbers."""
        self.runner(pointers, b"".join(chunk_slot(bound[k], dtype) for k, dtype in self.values))

    def launch(self, pointers: Sequence[int], bound: Sequence[Any], stream: int) -> None:
        """Launch the kernel on addresses, outputs first, and the call's numbers."""
        numbers: list[float] = list(pointers)
        if self.offsets:
            numbers = [p + o for p, o in zip(pointers, self.offsets, strict=True)]
        for k, dtype in self.values:
            numbers += convert(bound[k], dtype)
        self.launcher(stream, self.grid, (*numbers, *self.extents))


class WarmPath:
    """The entries of one functor.

    Parameters
    ----------
    protocols
        Whether arrays that only speak a protocol are looked at.
    """

    #: Entries kept a functor; a loop over ever new shapes must not grow without bound.
    LIMIT = 1024

    def __init__(self, *, protocols: bool = False) -> None:
        self._protocols = protocols
        self._entries: dict[Any, Entry] = {}
        self._torch: Any = None
        self._is_recorded_above: Any = None
        #: Where calls on a GPU are handed over to the launcher.
        self.fast: FastCalls | None = None

    def key(self, meaning: Any, bound: Sequence[Any], *, detached: bool = False) -> tuple[Any, ...] | None:
        """Return the key of a call, or None where it must go the general way.

        `meaning` is what decides the result beside types: the functor's fingerprint, to begin with.
        `detached` calls record no gradient whatever their tensors require.
        """
        torch = self._torch
        if torch is None:
            torch = sys.modules.get("torch")
            if torch is None:
                return warm_arrays.key(meaning, None, bound, protocols=self._protocols)
            if not hasattr(torch, "get_default_dtype"):  # it is being imported
                return None
            self._is_recorded_above = is_recorded_above()
            self._torch = torch
        core = torch._C
        # Fake tensors, torch.jit.trace, make_fx, ...
        if core._len_torch_dispatch_stack() or core._is_tracing() or self._is_recorded_above():
            return None
        if core._are_functorch_transforms_active():
            return None
        tensor, parameter = torch.Tensor, torch.nn.Parameter
        key: list[Any] = [meaning, torch.get_default_dtype()]
        if not detached and torch.autograd.forward_ad._current_level >= 0:  # there may be tangents
            return None
        recording = not detached and torch.is_grad_enabled()
        try:
            for obj in bound:
                kind = type(obj)
                if kind is tensor or kind is parameter:
                    shape = obj.shape
                    if (recording and obj.requires_grad) or not (shape or obj.is_cuda):
                        return None
                    pointer = obj.data_ptr()
                    if pointer < LOW and is_nowhere(obj):
                        return None
                    key += (
                        obj.dtype, shape, obj.stride(), obj.device, pointer & 15,
                        obj.is_conj(), obj.is_neg(),
                    )  # fmt: skip
                elif kind in NUMBERS or (kind is int and -INT64 <= obj < INT64):
                    key.append(kind)
                else:
                    default = torch.get_default_dtype()
                    return warm_arrays.key(meaning, default, bound, protocols=self._protocols)
        except RuntimeError:  # no strides or memory: sparse, a torch.func transform, ...
            return None
        return tuple(key)

    def remember(self, key: tuple[Any, ...], entry: Entry) -> None:
        """Keep what a call with this key does."""
        if len(self._entries) >= self.LIMIT:
            self._entries.clear()
        self._entries[tuple(key)] = entry

    def run(self, key: tuple[Any, ...], bound: Sequence[Any]) -> Any:
        """Run a call made before: its result, or a tuple of several; None where it was not."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.library != "torch":
            return warm_arrays.run(entry, bound, key)
        torch = self._torch
        results = [
            torch.empty_strided(entry.shape, entry.strides, dtype=dtype, device=entry.device)
            for dtype in entry.outputs
        ]
        pointers = [result.data_ptr() for result in results]
        pointers += [bound[k].data_ptr() for k in entry.memory]
        if entry.runner is not None:
            entry.compute(pointers, bound)
        else:
            entry.launch(pointers, bound, torch._C._cuda_getCurrentRawStream(entry.device_index))
            if entry.fast is not False and self.fast is not None and self.fast.wants(entry):
                entry.fast = self.fast.offer(bound, None, entry)
        return results[0] if len(results) == 1 else tuple(results)
