"""Functors as operators of torch's dispatcher, which autograd, torch.compile and every mode can see."""

from __future__ import annotations

import dis
import functools
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numjit.arrays.numbers import number_type
from numjit.errors import ArgumentError, FunctorError, OutputError
from numjit.ground.checks import as_tuple
from numjit.ground.log import logger
from numjit.torch.batches import operator_over_batch
from numjit.torch.definition import definition, lock
from numjit.torch.gradient import autograd_kernel
from numjit.torch.graph import tangent
from numjit.torch.meta import empty_results
from numjit.torch.names import NAMESPACE, automatic_name, gradients_of, install
from numjit.torch.schema import check_name, schema, spelled
from numjit.torch.watched import WatchedOperation

if TYPE_CHECKING:
    from numjit.functor.signature import Parameter
    from numjit.torch.rule import HandGradient

__all__ = ["TorchOp", "flops_of", "opaque_op", "register", "registered"]

_NUMBERS = frozenset((bool, float, complex))
_INT64 = 1 << 63
_log = logger("torch")
_registered: dict[str, TorchOp] = {}
#: The operators that `opaque_op` answered: of each operation by its fingerprint and its gradient.
_opaque: weakref.WeakKeyDictionary[WatchedOperation, dict[tuple[str, HandGradient | None], TorchOp]]
_opaque = weakref.WeakKeyDictionary()


class TorchOp:
    """A functor registered as ``torch.ops.namespace.name``; made by `torch_op`, called like the functor.

    Attributes
    ----------
    name
        As registered, ``"namespace::name"``.
    functor
        What was registered: an operation made by `numjit.elementwise`.
    operation
        The engine's operation behind it.
    """

    def __init__(
        self,
        name: str,
        operation: WatchedOperation,
        functor: Any,
        autocast: Mapping[str, Any],
        flops: int,
    ) -> None:
        self.name = name
        self.operation, self.functor = operation, functor
        self.__name__ = operation.name
        self.__doc__ = functor.__doc__
        self._namespace, self._base = check_name(name)
        #: The dtype that floating tensors are cast to under autocast, by device type.
        self.autocast = dict(autocast)
        #: What an element counts in ``FlopCounterMode``.
        self.flops = flops
        signature = operation.functor.signature
        if operation.is_nullary:
            raise FunctorError(
                f"{operation.name} has no operands to broadcast, so a torch operator of it would have no "
                "shape; call it eagerly, with shape="
            )
        self._count = len(signature.operands)
        self._outputs = len(signature.outputs)
        self._parameters: tuple[Parameter, ...] = (*signature.operands, *signature.scalars)
        self.scalar_names = [spelled(p.name) for p in signature.scalars]
        #: Tensors as operands, numbers as scalars.
        self._plain = "T" * self._count + "S" * len(signature.scalars)
        self._overloads: dict[str, Any] = {}
        self._teach: Callable[[Any], None] | None = None
        self._is_removed = False
        install(_make)
        with lock:
            self._definition = definition(self._namespace, self._base)
            self._definition.begin(self, (self._schema(self._plain), self._schema(None)))
            self._add(self._plain)
            self._add_out()
        _log.debug("registered %s", name)

    # ------------------------------------------------------------------------------- registration

    def overload(self, pattern: str) -> Any:
        """Return the overload for tensors and numbers, ``T`` and ``S``, as operands and scalars in order."""
        found = self._overloads.get(pattern)
        if found is None:
            with lock:
                self.require()
                found = self._overloads.get(pattern) or self._add(pattern)
        return found

    @property
    def patterns(self) -> list[str]:
        """Tensors and numbers of the overloads that there are."""
        return list(self._overloads)

    def _add(self, pattern: str) -> Any:
        import torch

        overload = "" if pattern == self._plain else pattern
        tags = [torch.Tag.pointwise, torch.Tag.pt2_compliant_tag]
        if hasattr(torch.Tag, "needs_exact_strides"):  # results' strides depend on those of the operands
            tags.append(torch.Tag.needs_exact_strides)
        make = functools.partial(autograd_kernel, self)
        found = self._definition.add(overload, self._schema(pattern), tags, make)
        self._overloads[pattern] = found
        if self._teach is not None:
            self._teach(found)
        return found

    def with_each_overload(self, teach: Callable[[Any], None]) -> None:
        """Call a function with each overload, those that are made later too, in place of an earlier one."""
        with lock:
            self._teach = teach
            for overload in list(self._overloads.values()):
                teach(overload)

    def _add_out(self) -> None:
        import torch

        tags = [torch.Tag.pt2_compliant_tag]
        self._out = self._definition.add("out", self._schema(None), tags, lambda _: self._autograd_out)

    def _schema(self, pattern: str | None) -> str:
        """Return the schema of an overload; without a pattern, of the one with ``out=``."""
        signature = self.operation.functor.signature
        if pattern is None:
            return schema(f"{self._base}.out", signature, self._plain, out=True)
        own = "" if pattern == self._plain else f".{pattern}"
        return schema(f"{self._base}{own}", signature, pattern)

    def remove(self) -> None:
        """Take the operator out of torch again, when calls of it that are under way have returned."""
        with lock:
            if _registered.get(self.name) is self:
                del _registered[self.name]
            self._retire()
        self._definition.end(self)

    def _retire(self) -> None:
        """Answer no more calls: the name is another's."""
        self._is_removed = True
        self._overloads.clear()

    def require(self) -> None:
        """Raise FunctorError if the operator does not have its name any more."""
        if self._is_removed:
            raise FunctorError(
                f"{self.name} was removed, or registered anew, since this operator was made; call what "
                "numjit.torch_op answered last"
            )

    def __copy__(self) -> TorchOp:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchOp:
        return self

    def __reduce__(self) -> Any:
        return _restored, (self.name, self.functor, self.autocast, self.flops)

    # ------------------------------------------------------------------------------------ kernels

    def values(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Return one value a parameter; torch leaves out what is at its default."""
        if len(args) == len(self._parameters):
            return args
        return [
            *args,
            *(
                kwargs.get(name, p.default)
                for name, p in zip(self.scalar_names, self._parameters[self._count :], strict=True)
            ),
        ]

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Run a call below autograd, whatever its tensors require."""
        return self.operation(*self.values(args, kwargs))

    def compute_out(self, *args: Any, **kwargs: Any) -> None:
        """Run such a call into the tensors given as ``out``, or ``out0``, ``out1``, ..."""
        operation = self.operation
        outs = tuple(kwargs.pop(name) for name in self._out_names())
        values = self.values(args, kwargs)
        operation.refresh()
        key = operation.key(values, outs, detached=True)
        if key is None or operation.repeat(key, values, outs) is None:
            operation.compute(operation.plain_request, values, outs, key=key, fast=operation.fast)

    def _autograd_out(self, keyset: Any, *args: Any, **kwargs: Any) -> None:
        """Go on below autograd, if nothing that is written to given outputs is to be differentiated."""
        import torch

        recording = torch.is_grad_enabled()
        named = (*((p.name, x) for p, x in zip(self._parameters, args, strict=False)), *kwargs.items())
        for name, x in named:
            if not isinstance(x, torch.Tensor):
                continue
            if (recording and x.requires_grad) or tangent(x) is not None:
                raise OutputError(
                    f"{self.name}: out= does not support automatic differentiation, but {name!r}, of shape "
                    f"{tuple(x.shape)} and dtype {x.dtype}, requires grad or has a tangent; call under "
                    "torch.no_grad() or detach it"
                )
        with torch._C._AutoDispatchBelowAutograd():
            self._out.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    def _out_names(self) -> list[str]:
        return ["out"] if self._outputs == 1 else [f"out{k}" for k in range(self._outputs)]

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """Return tensors like the results, of tensors that have no memory."""
        results = empty_results(self.operation, self.values(args, kwargs))
        return results[0] if self._outputs == 1 else results

    def fake_out(self, *args: Any, **kwargs: Any) -> None:
        """Check given outputs, of tensors that have no memory."""
        outs = [kwargs.pop(name) for name in self._out_names()]
        for given, wanted in zip(outs, empty_results(self.operation, self.values(args, kwargs)), strict=True):
            if tuple(given.shape) != tuple(wanted.shape):
                raise ArgumentError(
                    f"{self.name}.out: out has shape {tuple(given.shape)} but the result has shape "
                    f"{tuple(wanted.shape)}; pass a tensor of that shape"
                )

    # --------------------------------------------------------------------------------------- vmap

    def vmap(self, info: Any, in_dims: tuple[Any, ...], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Run over a batch that `args` have at `in_dims`."""
        values = self.values(args, kwargs)
        dims = [*in_dims, *[None] * (len(values) - len(args))]

        def run(row: Sequence[Any]) -> tuple[Any, ...]:
            made = self.call(row[: self._count], row[self._count :])
            return made if isinstance(made, tuple) else (made,)

        results = operator_over_batch(self.operation, run, info.batch_size, dims, values)
        return (results[0], 0) if self._outputs == 1 else (results, (0,) * len(results))

    # --------------------------------------------------------------------------------------- call

    def call(self, operands: Sequence[Any], scalars: Sequence[Any]) -> Any:
        """Call the overload for these tensors and numbers, given in the order of the signature."""
        import torch

        tensor = torch.Tensor
        values = [_plain_number(value) for value in (*operands, *scalars)]
        pattern = "".join(
            [
                "T"
                if isinstance(value, tensor)
                else "S"
                if type(value) in _NUMBERS
                else self._letter(k, value)
                for k, value in enumerate(values)
            ]
        )
        if "T" not in pattern:
            self.require()
            raise ArgumentError(
                f"{self.name}() was called without a tensor; pass one, or call the functor itself"
            )
        op = self._overloads.get(pattern) or self.overload(pattern)
        named = {}
        if "T" not in pattern[self._count :]:
            named = dict(zip(self.scalar_names, values[self._count :], strict=True))
            values = values[: self._count]
        inside = self._definition.inside
        inside.append(None)
        try:
            result = op(*values, **named)
        except Exception:
            self.require()
            raise
        finally:
            inside.pop()
        self.require()  # else what has the name by now may have answered
        return result

    def _letter(self, place: int, value: Any) -> str:
        """Return how an argument counts that is neither a tensor nor a float, complex or bool of Python's.

        What stands for a tensor, as in ``torch.fx``, is one where an operand is asked for.

        Raises
        ------
        ArgumentError
            torch's dispatcher takes no such argument.
        """
        import torch

        if type(value) is int and -_INT64 <= value < _INT64:
            return "S"
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return "S"
        if hasattr(type(value), "__torch_function__"):
            return "T" if place < self._count else "S"
        where = f"{self.name}(): argument {self._parameters[place].name!r}"
        try:
            number = number_type(value)
        except ArgumentError as error:
            raise ArgumentError(f"{where}: {error}") from None
        if number is None:
            raise ArgumentError(
                f"{where} is a {type(value).__name__}; an operator of torch's takes tensors and numbers, so "
                "pass torch.as_tensor(...) of it, or call the functor itself"
            )
        if isinstance(value, int) and not -_INT64 <= value < _INT64:
            raise ArgumentError(
                f"{where} is {value}, and torch's dispatcher takes integers of int64 only; pass a tensor"
            )
        return "S"

    def __call__(self, *operands: Any, out: Any = None, **scalars: Any) -> Any:
        """Call the operator on torch tensors and numbers; as the functor is called.

        Raises
        ------
        ArgumentError
            Arguments that do not match the functor's parameters.
        OutputError
            ``out=`` was given where torch would record a gradient.
        """
        import torch

        values = self.operation.binder.bind(operands, scalars)
        if out is None:
            return self.call(values[: self._count], values[self._count :])
        values = [_plain_number(value) for value in values]
        for k, value in enumerate(values):
            if not isinstance(value, torch.Tensor):
                self._letter(k, value)
        given = dict(zip(self.scalar_names, values[self._count :], strict=True))
        tensors = values[: self._count]
        many = as_tuple(out)
        if len(many) != self._outputs or not all(isinstance(one, torch.Tensor) for one in many):
            raise ArgumentError(f"{self.name} has {self._outputs} outputs; pass out= as many tensors")
        plain = [x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in tensors]
        self.require()
        self._definition.inside.append(None)
        try:
            self._out(*plain, **given, **dict(zip(self._out_names(), many, strict=True)))
        finally:
            self._definition.inside.pop()
        self.require()
        return out

    @property
    def op(self) -> Any:
        """The overload of tensors alone, ``torch.ops.namespace.name.default``."""
        return self.overload(self._plain)

    def __repr__(self) -> str:
        return f"<numjit torch operator {self.name}>"


def _plain_number(value: Any) -> Any:
    """Return NumPy's scalars as the Python numbers that torch's dispatcher takes."""
    return value if type(value).__module__ != "numpy" or getattr(value, "shape", None) else value.item()


def flops_of(operation: WatchedOperation) -> int:
    """Count the operations and calls in a Python functor's own bytecode; 1 for C++."""
    if operation.python is None:
        return 1
    counted = ("BINARY_OP", "UNARY_NEGATIVE", "CALL", "CALL_KW", "COMPARE_OP")
    return max(1, sum(found.opname in counted for found in dis.get_instructions(operation.python.fn)))


def register(
    name: str, operation: WatchedOperation, functor: Any, autocast: Mapping[str, Any], flops: int
) -> TorchOp:
    """Register an operation under a name; one that numjit registered before is replaced.

    Raises
    ------
    FunctorError
        Another library has the name.
    """
    import torch

    namespace, base = check_name(name)
    with lock:
        earlier = _registered.get(name)
        if earlier is not None:
            earlier._retire()
        elif hasattr(getattr(torch.ops, namespace), base):
            raise FunctorError(f"torch has an operator {name!r} already; choose another name")
        found = _registered[name] = TorchOp(name, operation, functor, autocast, flops)
        return found


def _restored(name: str, functor: Any, autocast: Mapping[str, Any], flops: int) -> TorchOp:
    """Return the operator that has a name here; where there is none, as in another process, register it."""
    with lock:
        found = _registered.get(name)
        if found is None:
            found = register(name, functor.__numjit_operation__, functor, autocast, flops)
        return found


def opaque_op(operation: WatchedOperation) -> TorchOp:
    """Return the operator of a functor that has none of its own; its name tells what it computes.

    The name is the functor's with the beginning of its fingerprint, the same in every process; where a
    gradient written by hand is numjit's own, with that one's as well.
    """
    key = operation.fingerprint, operation.rule
    with lock:
        known = _opaque.setdefault(operation, {})
        found = known.get(key)
        if found is None or _registered.get(found.name) is not found or not _can_share(found, operation):
            found = known[key] = _find_opaque(operation)
        return found


def registered() -> list[TorchOp]:
    """Return the operators that there are."""
    with lock:
        return list(_registered.values())


def _make(name: str) -> bool:
    """Register the operator of a gradient by its name; answers whether it is one."""
    for operator in registered():
        for gradient, patterns in gradients_of(operator.operation, operator.patterns, name):
            made = opaque_op(gradient)
            for pattern in patterns:
                made.overload(pattern)
            if made.name == f"{NAMESPACE}::{name}":
                return True
    return False


def _find_opaque(operation: WatchedOperation) -> TorchOp:
    stem = automatic_name(operation)
    for number in itertools.count(1):
        name = stem if number == 1 else f"{stem}_{number}"
        found = _registered.get(name)
        if found is None:
            found = _registered[name] = TorchOp(name, operation, operation, {}, flops_of(operation))
        if _can_share(found, operation):
            return found
    raise AssertionError("unreachable")


def _can_share(operator: TorchOp, operation: WatchedOperation) -> bool:
    """Whether an operator of equal code is, and stays, an operation's: same gradient, same captured names."""
    other = operator.operation
    if other is operation:
        return True
    if other.rule is not operation.rule:
        return False
    if operation.python is None or other.python is None:
        return operation.python is other.python
    mine, theirs = (functor.capture_places() for functor in (operation.python, other.python))
    if mine is None or theirs is None:
        return False
    own, others = (
        {(kind, id(holder), key) for kind, holder, key in places if kind != "function"}
        for places in (mine, theirs)
    )
    return own == others
