"""The warm path: calls that were made before, without looking at their operands in full.

A call that was planned is kept under a key that is finer than the plan's: the functor's identity, the
default dtype, and of each argument, and each given output, its type and, for arrays, everything that a plan
depends on (arrays of others than torch: `warm_arrays`). Whatever is unusual (several libraries, gradients to
record, 0-dim CPU tensors, transforms, errors) has no key and is looked at in full, which explains it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numjit.arrays.torch_arrays import LOW, count_write, is_nowhere
from numjit.arrays.torch_state import torch_if_ready, watches
from numjit.cache import Bounded
from numjit.call import warm_arrays
from numjit.call.outputs import is_apart
from numjit.call.planner import LIMIT
from numjit.call.warm_arrays import INT64, NUMBERS

if TYPE_CHECKING:
    from numjit.call.record import Plan
    from numjit.launcher.attach import FastCalls

__all__ = ["WarmPath"]


class WarmPath:
    """The calls of one functor that can be repeated.

    Parameters
    ----------
    protocols
        Whether arrays that only speak a protocol are looked at.
    """

    def __init__(self, *, protocols: bool = False) -> None:
        self._protocols = protocols
        self.plans: Bounded[Any, Plan] = Bounded(LIMIT)

    def key(
        self,
        meaning: Any,
        bound: Sequence[Any],
        outs: Sequence[Any] | None = None,
        *,
        detached: bool = False,
    ) -> tuple[Any, ...] | None:
        """Return the key of a call, or None where it must be looked at in full.

        Parameters
        ----------
        meaning
            What decides the result beside types: the functor's fingerprint, to begin with.
        bound
            One value a parameter.
        outs
            The given outputs, None for one that the call makes; None where it makes them all.
        detached
            Whether the call records no gradient whatever its tensors require.
        """
        torch = torch_if_ready()
        if torch is None:
            if "torch" in sys.modules:  # it is being imported
                return None
            return warm_arrays.key(meaning, None, bound, outs, protocols=self._protocols)
        if watches(torch):
            return None
        if not detached and torch.autograd.forward_ad._current_level >= 0:  # there may be tangents
            return None
        tensor, parameter = torch.Tensor, torch.nn.Parameter
        default = torch.get_default_dtype()
        key: list[Any] = [meaning, default]
        recording = torch.is_grad_enabled()
        try:
            for obj in bound:
                kind = type(obj)
                if kind is tensor or kind is parameter:
                    shape = obj.shape
                    if (recording and not detached and obj.requires_grad) or not (shape or obj.is_cuda):
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
                    return warm_arrays.key(meaning, default, bound, outs, protocols=self._protocols)
            for obj in outs or ():
                if obj is None:
                    key.append(None)
                    continue
                kind = type(obj)
                if (kind is not tensor and kind is not parameter) or (recording and obj.requires_grad):
                    return None
                pointer = obj.data_ptr()
                if pointer < LOW and is_nowhere(obj):
                    return None
                key += (
                    "out", obj.dtype, obj.shape, obj.stride(), obj.device, pointer & 15,
                    obj.is_conj(), obj.is_neg(),
                )  # fmt: skip
        except RuntimeError:  # no strides or memory: sparse, a torch.func transform, ...
            return None
        return tuple(key)

    def remember(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Keep what a call with this key does."""
        self.plans.keep(tuple(key), plan)

    def repeat(
        self,
        key: tuple[Any, ...],
        bound: Sequence[Any],
        out: Any,
        outs: Sequence[Any] | None,
        fast: FastCalls,
    ) -> Any:
        """Make a call that was made before: its result, or a tuple of several; None where it was not.

        Parameters
        ----------
        key, bound, outs
            As for `key`.
        out
            The given outputs as the caller has them.
        fast
            What hands such calls over to the launcher.
        """
        plan = self.plans.get(key)
        if plan is None:
            return None
        if plan.library != "torch":
            return warm_arrays.run(plan, bound, outs, key)
        torch = sys.modules["torch"]
        if plan.allocation is None:
            plan.allocation = (
                tuple(getattr(torch, dtype.name) for dtype in plan.outputs),
                torch.device(str(plan.device)),
            )
        dtypes, device = plan.allocation
        if outs is None:
            results = [
                torch.empty_strided(plan.shape, plan.strides, dtype=dtype, device=device) for dtype in dtypes
            ]
        else:
            results = [
                torch.empty_strided(plan.shape, plan.strides, dtype=dtype, device=device)
                if given is None
                else given
                for dtype, given in zip(dtypes, outs, strict=True)
            ]
        pointers = [result.data_ptr() for result in results]
        pointers += [bound[k].data_ptr() for k in plan.memory]
        if plan.reach is not None and not is_apart(plan.reach, pointers):
            return None
        if plan.runner is not None:
            plan.compute(pointers, bound)
        else:
            plan.launch(pointers, bound, torch._C._cuda_getCurrentRawStream(plan.device.index))
            fast.offer(bound, out, plan)
        for k in plan.given:
            count_write(results[k])
        return results[0] if len(results) == 1 else tuple(results)
