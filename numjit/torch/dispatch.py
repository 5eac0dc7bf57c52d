"""Which calls torch is to see: those that its overrides, dispatcher, compiler or profiler watch."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numjit.torch.genuine  # noqa: F401 - it notes Python's own functions, before torch replaces any
from numjit.errors import ToolchainError
from numjit.ground.checks import is_a

__all__ = [
    "eager",
    "hand_over",
    "is_overridden",
    "is_profiled",
    "is_traced",
    "leave_eager_calls_alone",
    "need_torch",
    "profiled",
    "unseen",
]


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
