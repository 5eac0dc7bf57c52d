"""Names of operators that functors get by themselves, and the way from such a name to the operator.

torch keeps a compiled forward and backward on disk for other processes. There Dynamo traces the forward,
which registers its operators, but the backward comes from the cache and says ``torch.ops.numjit.f_vjp_1_3_``
and a fingerprint. There 1 and 3 tell which results have a gradient and by which parameters.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numjit.call.operation import operation_of
from numjit.errors import NumjitError
from numjit.functor.cpp.derived import DerivedCppFunctor
from numjit.functor.derived_python import DerivedFunctor
from numjit.functor.fingerprint import digest
from numjit.torch.watched import WatchedOperation, derived

if TYPE_CHECKING:
    from numjit.functor.kinds import Functor
    from numjit.torch.rule import HandGradient

__all__ = ["NAMESPACE", "automatic_name", "defining", "gradients_of", "install"]

NAMESPACE = "numjit"
_thread = threading.local()


@contextlib.contextmanager
def defining() -> Iterator[None]:
    """While the calling thread defines an operator, torch asks for it only to see that there is none."""
    before = getattr(_thread, "defines", False)
    _thread.defines = True
    try:
        yield
    finally:
        _thread.defines = before


def install(make: Callable[[str], bool]) -> None:
    """Let ``torch.ops.numjit`` make the operators that it is asked for: `make` answers whether it did."""
    import torch

    if type(getattr(torch.ops, NAMESPACE)).__name__ != "Namespace":
        setattr(torch.ops, NAMESPACE, _namespace(make))


def _base_name(name: str) -> str:
    """Return a functor's name as an operator's may be."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_") or "functor"


def automatic_name(operation: WatchedOperation) -> str:
    """Return the name of a functor's operator, which those of equal code that cannot share it extend."""
    start = f"{NAMESPACE}::{_base_name(operation.functor.name)}_{_choice_tag(operation.functor)}"
    return f"{start}{operation.fingerprint[:16]}{_rule_tag(operation.rule)}"


def _choice_tag(functor: Functor) -> str:
    """Return what names the results and parameters of a derivative; there are too many choices to try."""
    if isinstance(functor, DerivedCppFunctor):
        outputs = functor.gradients
    elif isinstance(functor, DerivedFunctor):
        outputs = functor.differentiable
    else:
        return ""
    return f"{sum(has << k for k, has in enumerate(outputs)):x}_{sum(1 << k for k in functor.active):x}_"


def _rule_tag(rule: HandGradient | None) -> str:
    """Return what names a gradient written by hand; compiled graphs, also kept ones, name operators."""
    if rule is None:
        return ""
    backward = operation_of(rule.backward)
    if backward is None:
        return f"_{secrets.token_hex(6)}"  # any code: unlike every other, in other processes too
    parts = backward.fingerprint, rule.save_for_backward, rule.num_grad_inputs, rule.residuals
    return f"_{digest(*parts)[:12]}"


def _namespace(make: Callable[[str], bool]) -> Any:
    import torch

    class Namespace(torch._ops._OpNamespace):  # type: ignore[misc]
        """Operators in the namespace; a missing one is looked for among the gradients of those there are."""

        __module__ = torch._ops._OpNamespace.__module__  # from which torch makes the names of operators

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if getattr(_thread, "defines", False) or name.startswith("_") or not make(name):
                    raise
            return super().__getattr__(name)

    return Namespace(NAMESPACE)


def gradients_of(
    operation: WatchedOperation, patterns: Sequence[str], name: str
) -> Iterator[tuple[WatchedOperation, list[str]]]:
    """Yield the gradients of a registered operation whose own operators would have a name.

    With each come the overloads that calls like those by `patterns` need: the gradients of its results are
    tensors.
    """
    if operation.rule is not None:
        backward = operation_of(operation.rule.backward)
        if isinstance(backward, WatchedOperation) and _names(automatic_name(backward), name):
            yield backward, []
        return
    own = operation.functor.name if operation.functor.name.isidentifier() else "functor"
    stem = re.escape(_base_name(f"{own}_vjp"))
    said = re.fullmatch(rf"{stem}_([0-9a-f]+)_([0-9a-f]+)_[0-9a-f]{{16}}.*", name)
    if said is None:
        return
    signature = operation.functor.signature
    count = len(signature.operands)
    outputs, active = (int(number, 16) for number in said.groups())
    kept = tuple(bool(outputs >> k & 1) for k in range(len(signature.outputs)))
    try:
        gradient = derived(
            operation, "vjp", tuple(k for k in range(len(signature.parameters)) if active >> k & 1), kept
        )
    except NumjitError:
        return
    if _names(automatic_name(gradient), name):
        more = "T" * sum(kept)
        yield gradient, [p[:count] + more + p[count:] for p in patterns]


def _names(full: str, name: str) -> bool:
    """Whether an operator's automatic name is `name`, or that one is a later one of equal code."""
    stem = full.rpartition(":")[2]
    return re.fullmatch(rf"{re.escape(stem)}(_\d+)?", name) is not None
