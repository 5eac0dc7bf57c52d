"""Operations as torch knows them: with a gradient, and a name in traced code.

A derivative is an operation of its own, made of the derived functor when it is first asked for.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from numjit.call.operation import Operation
from numjit.errors import AutogradError, CompilationError, FunctorError
from numjit.functor.cpp.functor import CppFunctor

if TYPE_CHECKING:
    from numjit.functor.kinds import Functor
    from numjit.torch.rule import HandGradient

__all__ = [
    "EXPLAINED", "Kind", "WatchedOperation", "check_unchanged", "derived", "explain", "explained",
    "operations",
]  # fmt: skip

Kind = Literal["vjp", "jvp"]
#: Errors of a derivative that name the functor and what to do.
EXPLAINED = (AutogradError, CompilationError, FunctorError)
REMEDY = "give it a gradient by hand with @f.backward or numjit.differentiable(forward, backward)"

#: Which operation a traced call calls, by the name that it says.
operations: weakref.WeakValueDictionary[str, WatchedOperation] = weakref.WeakValueDictionary()
_serial = itertools.count()


class WatchedOperation(Operation):
    """An operation whose calls torch may record, dispatch or trace.

    Attributes
    ----------
    rule
        The gradient written by hand, where there is one.
    derivatives
        Operations of the functor's derivatives, by what `derived` was asked for.
    token
        The name by which a traced call says which operation it calls.
    watchers
        What reads the numbers that the functor captures, for tracers to guard on; made when first traced.
    """

    def __init__(
        self, functor: Functor, options: Mapping[str, Any], *, gradients: tuple[int, ...] = ()
    ) -> None:
        super().__init__(functor, options, gradients=gradients)
        self.rule: HandGradient | None = None
        self.derivatives: dict[Any, WatchedOperation] = {}
        self.token = f"t{next(_serial)}"
        self.watchers: Any = None
        operations[self.token] = self

    def rebound(self) -> None:
        """Hear that the functor has come to mean something else."""
        self.watchers = None


def derived(
    operation: WatchedOperation, kind: Kind, active: tuple[int, ...], outputs: tuple[bool, ...]
) -> WatchedOperation:
    """Return the operation of a functor's derivative, made when first asked for.

    Parameters
    ----------
    operation
        What to differentiate.
    kind
        ``"vjp"`` or ``"jvp"``; see `numjit.functor.derived_python.derive_python`.
    active
        Positions of the differentiated parameters, operands first, ascending.
    outputs
        Which results have a derivative.

    Raises
    ------
    AutogradError
        The functor has no such derivative.
    """
    key = (kind, active, outputs)
    found = operation.derivatives.get(key)
    if found is None:
        functor = operation.functor
        made: Any
        if isinstance(functor, CppFunctor):
            from numjit.functor.cpp.derived import derive_cpp

            made = derive_cpp(functor, kind, active, outputs)
        else:
            from numjit.functor.derived_python import derive_python

            made = derive_python(functor, kind, active, outputs)
        count = len(functor.signature.operands)
        extras = len(made.signature.operands) - count
        gradients = tuple(k if k < count else k + extras for k in active) if kind == "vjp" else ()
        found = WatchedOperation(made, operation.options, gradients=gradients)
        operation.derivatives[key] = found
    return found


@contextlib.contextmanager
def explained(operation: WatchedOperation) -> Iterator[None]:
    """Let errors of a derivative name the functor and what to do."""
    try:
        yield
    except EXPLAINED as error:
        explain(operation, error)


def explain(operation: WatchedOperation, error: Exception) -> NoReturn:
    """Raise the error of a derivative again such that it names the functor and what to do."""
    text = str(error)
    if isinstance(error, AutogradError) and operation.name in text and "differentiable" in text:
        raise error
    raise AutogradError(f"{operation.name}() has no derivative: {text}\n{REMEDY}") from error


def check_unchanged(operation: WatchedOperation, fingerprint: str) -> None:
    """Refresh an operation whose call, of a fingerprint, is to be differentiated.

    Raises
    ------
    AutogradError
        The functor means something else now.
    """
    operation.refresh()
    if operation.fingerprint != fingerprint:
        raise AutogradError(
            f"{operation.name}(): a variable that the functor captures was rebound between the call and "
            "its derivative; pass it as a scalar, or differentiate before rebinding it"
        )
