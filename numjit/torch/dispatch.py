"""Which calls torch is to see: those that its overrides, dispatcher, compiler or profiler watch."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numjit.torch.genuine  # noqa: F401 - it notes Python's own functions, before torch replaces any
from numjit.errors import ToolchainError
from numjit.ground.checks import as_tuple, is_a

if TYPE_CHECKING:
    from numjit.elementwise import Elementwise
    from numjit.torch.operator import TorchOp

__all__ = [
    "dispatched",
    "eager",
    "hand_over",
    "is_overridden",
    "is_profiled",
    "is_recorded_above",
    "is_traced",
    "leave_eager_calls_alone",
    "need_torch",
    "operations",
    "profiled",
    "token",
    "unseen",
]

#: Which operation a traced call calls, by the name that it says.
operations: weakref.WeakValueDictionary[str, Elementwise] = weakref.WeakValueDictionary()
_serial = itertools.count()


def token(operation: Elementwise) -> str:
    """Return a name by which a traced call can say which operation it calls."""
    name = f"t{next(_serial)}"
    operations[name] = operation
    return name


def need_torch(what: str) -> None:
    """Raise ToolchainError, which says what needs it, where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ToolchainError(
            f"{what} needs torch, which is not installed; install it with pip install torch"
        ) from None


def _torch_is_there() -> bool:
    return hasattr(sys.modules.get("torch"), "compiler")  # not yet while torch is being imported


# Dynamo asks this itself and keeps the answer: it cannot go through sys.modules, to which threads add.
_torch_is_there._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_traced() -> bool:
    """Whether ``torch.compile`` or ``torch.export`` is reading the caller's code rather than running it."""
    if not _torch_is_there():
        return False
    import torch

    return bool(torch.compiler.is_compiling())


_eager: list[types.CodeType] = []


def eager(run: Callable[..., Any]) -> Callable[..., Any]:
    """Mark what makes a call that no compiler reads: Dynamo leaves it alone, with all that it calls."""
    _eager.append(run.__code__)
    return run


def leave_eager_calls_alone() -> int:
    """Tell Dynamo of what is marked as `eager`, which it would compile function by function.

    It meets that where a traced call has raised, and is made again.
    """
    from torch._C._dynamo import eval_frame as core

    whole = core._FrameExecStrategy(core._FrameAction.SKIP, core._FrameAction.SKIP)
    for code in _eager:
        core.set_code_exec_strategy(code, whole)
    return len(_eager)


# Dynamo asks once, while it traces.
leave_eager_calls_alone._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_overridden(operands: Sequence[Any], scalars: Mapping[str, Any], others: Iterable[Any] = ()) -> bool:
    """Whether a call is for ``__torch_function__``, of one of its arguments or of a mode, to make.

    `others` are arguments that are neither operands nor scalars, as ``out=``.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "overrides"):  # the latter while it is being imported
        return False
    ask = torch._C._has_torch_function_variadic
    try:
        if operands and not scalars and not others:
            return ask(*operands)  # type: ignore[no-any-return]
        # Of no argument at all torch says that there is no mode.
        return ask(None, *operands, *scalars.values(), *others)  # type: ignore[no-any-return]
    except ReferenceError:  # of a proxy whose object is gone, which is no operand either
        return False


def hand_over(
    function: Any,
    operands: Sequence[Any],
    scalars: Mapping[str, Any],
    others: Iterable[Any] = (),
    keywords: Mapping[str, Any] | None = None,
) -> Any:
    """Let torch's overrides make a call of which `is_overridden` said that it is theirs.

    Parameters
    ----------
    function
        What was called; they see it, and call it again where they want its own answer.
    operands, scalars, others
        As for `is_overridden`.
    keywords
        All that was given by name; by default `scalars`.
    """
    import torch

    relevant = (*operands, *scalars.values(), *others)
    given = scalars if keywords is None else keywords
    return torch.overrides.handle_torch_function(function, relevant, *operands, **given)


def unseen() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which no ``__torch_function__`` sees what numjit does with tensors."""
    import torch

    made: contextlib.AbstractContextManager[Any] = torch._C.DisableTorchFunction()
    return made


@functools.cache
def is_recorded_above() -> Callable[[], bool]:
    """Return what says whether calls are recorded before autograd: ``make_fx(..., pre_dispatch=True)``.

    Such a mode is not among those that torch counts.
    """
    import torch

    core = torch._C
    return functools.partial(core._dispatch_tls_is_dispatch_key_included, core.DispatchKey.PreDispatch)


def is_profiled() -> bool:
    """Whether one of torch's profilers records: ``torch.profiler``, ``emit_nvtx``, ``emit_itt``."""
    profiler = sys.modules.get("torch.autograd.profiler")
    return profiler is not None and bool(getattr(profiler, "_is_profiler_enabled", False))


def profiled(
    name: str, operands: Sequence[Any], scalars: Mapping[str, Any]
) -> contextlib.AbstractContextManager[Any]:
    """Return a context whose time torch's profiler shows as ``numjit::name``, as it shows an operator's.

    Parameters
    ----------
    name
        The functor's.
    operands, scalars
        The call's arguments; with ``record_shapes=True`` those that torch can show are shown.
    """
    import torch

    numbers = (bool, int, float)
    shown = [value if is_a(value, (torch.Tensor, *numbers)) else None for value in operands]
    named = {key: value for key, value in scalars.items() if is_a(value, numbers)}
    made: Any = torch._C._profiler._RecordFunctionFast
    return made(f"numjit::{name}", shown, named)  # type: ignore[no-any-return]


def dispatched(operation: Elementwise, bound: Sequence[Any], out: Any = None) -> Any:
    """Make a call through the functor's torch operator, or answer NotImplemented where there is no need.

    The results are new ones: whoever has `out` for them has to copy them there.

    There is under modes (fake tensors, tracing, counters), under ``torch.jit.trace``, and for tensor classes
    with a ``__torch_dispatch__`` of their own. Transforms and forward mode see the node of
    `numjit.torch.autograd`.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "func"):
        return NotImplemented
    tensors = [value for value in bound if is_a(value, torch.Tensor)]
    if not tensors or len(operation._raws) == operation._operands:
        return NotImplemented
    if out is not None:
        outs = [one for one in as_tuple(out) if one is not None]
        if not all(is_a(one, torch.Tensor) for one in outs):
            return NotImplemented
        tensors += outs
    core = torch._C
    watched = core._len_torch_dispatch_stack() or core._is_tracing() or is_recorded_above()()
    if watched or any(_is_wrapper(torch, type(tensor)) for tensor in tensors):
        from numjit.torch.operator import opaque_op

        count = operation._operands
        operator = opaque_op(operation)
        _share_out(operator, tensors)
        return operator.call(list(bound[:count]), bound[count:])
    return NotImplemented


def _share_out(operator: TorchOp, tensors: Sequence[Any]) -> None:
    """Tell DTensor how the operator's operands may be sharded, where any is one."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is not None and any(isinstance(tensor, module.DTensor) for tensor in tensors):
        from numjit.torch.sharding import known_to_dtensor

        known_to_dtensor(operator)


def _is_wrapper(torch: Any, cls: type) -> bool:
    own = getattr(cls, "__torch_dispatch__", None)
    return cls is not torch.Tensor and own is not torch.Tensor.__torch_dispatch__
