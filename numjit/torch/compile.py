"""What a call does under ``torch.compile`` and ``torch.export``: torch operations, or one opaque operator.

Dynamo traces `call_traced` line by line, so it only does what Dynamo understands. What it must not look into
(reading the functor, registering operators) happens in functions whose answer, a name, it takes as constant.
"""

from __future__ import annotations

import itertools
import sys
import types
from typing import Any

from numjit.errors import ArgumentError
from numjit.functor.fingerprint import Captures
from numjit.functor.signature import ArgumentType
from numjit.ground.checks import as_tuple
from numjit.ground.log import logger
from numjit.torch.dispatch import leave_eager_calls_alone
from numjit.torch.genuine import genuine_functions
from numjit.torch.graph import stored
from numjit.torch.see_through.lowered import NotLowerable
from numjit.torch.see_through.watch import watchers
from numjit.torch.watched import WatchedOperation, operations

__all__ = ["break_graph", "call_outside", "call_traced", "explain", "generated"]

#: Holds the functions that were generated: a traced call takes them from here by name.
generated = types.ModuleType("numjit.generated", "Torch forms of functors, generated under torch.compile.")
sys.modules[generated.__name__] = generated
_serial = itertools.count()
_log = logger("torch")
_forms: dict[Any, str] = {}


def explain(operation: WatchedOperation, values: list[Any], *, opaque: bool) -> str | None:
    """Return why a compiler could not look into a call; None where it can."""
    from numjit.call.arguments import default_dtype
    from numjit.torch.meta import argument_types

    try:
        _lower(operation, argument_types(operation.functor, values), default_dtype(), opaque=opaque)
    except NotLowerable as reason:
        return str(reason)
    return None


def _lower(operation: WatchedOperation, kinds: tuple[ArgumentType, ...], default: Any, *, opaque: bool,
           active: tuple[int, ...] | None = ()) -> Any:  # fmt: skip
    from numjit.torch.see_through.lowering import lower, lower_with_gradients

    if opaque:
        raise NotLowerable("opaque=True keeps it one operation")
    if operation.rule is not None:
        raise NotLowerable("its gradient is written by hand, and goes with the operation as a whole")
    if operation.python is None:
        raise NotLowerable("it is written in C++")
    if active:
        try:
            return lower_with_gradients(operation.python, kinds, default, active)
        except NotLowerable:  # too long, or no derivative of its own: torch may have one
            pass
    return lower(operation.python, kinds, default, gradients=active != ())


def _prepare(
    name: str, kinds: tuple[tuple[Any, int], ...], default: Any, active: tuple[int, ...] | None
) -> str:
    """Make the torch form for these types; its name, or "" where there is none.

    `active` are the positions of what needs a gradient; None where a transform decides later.
    """
    with genuine_functions():
        return _form(name, kinds, default, active)


def _form(name: str, kinds: tuple[tuple[Any, int], ...], default: Any, active: tuple[int, ...] | None) -> str:
    from numjit.dtypes import as_dtype
    from numjit.semantics import Category

    operation = operations[name]
    operation.refresh()
    if operation.python is not None and operation.watchers is None:
        operation.watchers = watchers(Captures(operation.python.fn))
    key = (name, operation.fingerprint, kinds, default, active, operation.rule is None)
    known = _forms.get(key)
    if known is not None:
        return known
    types_ = tuple(ArgumentType(as_dtype(dtype), Category(rank)) for dtype, rank in kinds)
    opaque = bool(operation.options["opaque"])
    made = ""
    try:
        lowered = _lower(operation, types_, as_dtype(default), opaque=opaque, active=active)
    except NotLowerable as reason:
        _log.debug("%s stays one operator under a compiler: %s", operation.name, reason)
    else:
        _log.debug("%s is seen through by a compiler", operation.name)
        own = operation.python.name if operation.python is not None else ""
        made = f"{own if own.isidentifier() else 'functor'}_{next(_serial)}"
        # Dynamo finds a function's globals through the module that they name.
        lowered.build(vars(generated), made)
    _forms[key] = made
    return made


def _register(name: str, pattern: str) -> str:
    """Register the opaque operator for a pattern of tensors and numbers.

    Returns where it is in `generated`, then the names of arguments to pass by name, with commas between.
    """
    from numjit.torch.operator import opaque_op

    with genuine_functions():
        operator = opaque_op(operations[name])
    made = f"op_{operator.name.rpartition(':')[2]}_{pattern}"
    setattr(generated, made, operator.overload(pattern))
    is_positional = "T" in pattern[operations[name].count :]
    return ",".join([made, *([] if is_positional else operator.scalar_names)])


def _default(name: str, position: int) -> Any:
    """Return a scalar's default as a constant of the graph.

    Read from the signature it would be a number that may change: with ``dynamic=True`` an input of the
    graph, a float one on the CPU, around which CUDA graphs are cut.
    """
    from numjit.arrays.numbers import as_python

    operation = operations[name]
    return as_python(operation.functor.signature.scalars[position - operation.count].default)


# What torch.compiler.assume_constant_result does, which would need torch when this module is imported.
_default._dynamo_marked_constant = True  # type: ignore[attr-defined]
_prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]
_register._dynamo_marked_constant = True  # type: ignore[attr-defined]


def break_graph(operation: WatchedOperation, what: str) -> Any:
    """End a compiler's graph before a call that it has none of; `what` completes "a call ..."."""
    import torch

    torch._dynamo.graph_break(f"{operation.name}: numjit has no graph of a call {what}")
    return NotImplemented


def _make(call: Any, operands: tuple[Any, ...], given: dict[str, Any]) -> Any:
    return call(*operands, **given)


def _prepare_outside() -> str:
    """Make what makes a call where no compiler reads; its name in `generated`."""
    import torch

    if not hasattr(generated, "outside"):
        vars(generated)["outside"] = torch._dynamo.disable(_make)
    return "outside"


_prepare_outside._dynamo_marked_constant = True  # type: ignore[attr-defined]


def call_outside(call: Any, operands: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Make a call that has no graph, outside of any; NotImplemented where Dynamo is not what traces."""
    import torch

    if not torch.compiler.is_dynamo_compiling():
        return NotImplemented
    return getattr(generated, _prepare_outside())(call, operands, given)


def call_traced(
    operation: WatchedOperation, operands: tuple[Any, ...], scalars: dict[str, Any], out: Any
) -> Any:
    """Make a call of what a compiler can trace; NotImplemented where the arguments are none of torch's."""
    import torch

    leave_eager_calls_alone()
    values = operation.binder.bind(operands, scalars)
    for k in range(operation.count, len(values)):
        if operation.names[k] not in scalars:
            values[k] = _default(operation.token, k)
    kinds = [_kind_of(value) for value in values]
    for value, kind in zip(values, kinds, strict=True):
        if kind is None:
            return break_graph(operation, f"of a {type(value).__name__}")
    pattern = "".join(["T" if isinstance(value, torch.Tensor) else "S" for value in values])
    active = [k for k, value in enumerate(values) if isinstance(value, torch.Tensor) and value.requires_grad]
    if "T" not in pattern[: operation.count] or operation.is_nullary:
        return break_graph(operation, "of no tensor's elements")
    for given in as_tuple(out):
        if given is not None and not isinstance(given, torch.Tensor):
            return break_graph(operation, f"with a {type(given).__name__} as out")
    _check_scalars(operation, values)
    wanted: tuple[int, ...] | None = tuple(active) if torch.is_grad_enabled() else ()
    if torch._C._are_functorch_transforms_active():  # Dynamo then looks through autograd functions
        wanted = None
    known = tuple([kind for kind in kinds if kind is not None])
    name = _prepare(operation.token, known, torch.get_default_dtype(), wanted)
    for watch in operation.watchers or ():
        for number in watch():
            _ = {number: None}  # as a key it must be known: traced code is right for this value only
    if name:
        result = getattr(generated, name)(*values)
    else:
        made, *names = _register(operation.token, pattern).split(",")
        count = len(values) - len(names)
        given = dict(zip(names, values[count:], strict=True))
        result = getattr(generated, made)(*values[:count], **given)
    return result if out is None else stored(operation.name, result, out)


def _kind_of(value: Any) -> tuple[Any, int] | None:
    """Return dtype and category of an argument, None where a compiler cannot trace it."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.dtype, 2 if value.dim() else 1
    if isinstance(value, bool | torch.SymBool):
        return "bool", 0
    if isinstance(value, int | torch.SymInt):
        return "int64", 0
    if isinstance(value, float | torch.SymFloat):
        return "float64", 0
    return ("complex128", 0) if isinstance(value, complex) else None


def _check_scalars(operation: WatchedOperation, values: list[Any]) -> None:
    import torch

    for k, value in enumerate(values):
        if k >= operation.count and isinstance(value, torch.Tensor) and value.dim():
            raise ArgumentError(
                f"{operation.name}(): scalar {operation.names[k]!r} has shape {tuple(value.shape)}; "
                "pass a number or a 0-dim array"
            )
