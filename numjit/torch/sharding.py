"""Placements of a registered operator's results, for torch's DTensors: an element needs no other element."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numjit.errors import ArgumentError, FunctorError, ToolchainError
from numjit.ground.apart import lock
from numjit.torch.operator import TorchOp

__all__ = ["known_to_dtensor", "pointwise_shardings", "register_pointwise"]

_lock = lock()
#: Which operands the operators that DTensors know are linear in.
_registered: weakref.WeakKeyDictionary[TorchOp, frozenset[str]] = weakref.WeakKeyDictionary()


def register_pointwise(op: TorchOp, linear: Sequence[str] = ()) -> TorchOp:
    """Teach ``torch.distributed.tensor`` how an operator's results follow its operands' placements.

    On each dimension of the mesh, one of these holds; operands that do not fit any are redistributed to the
    cheapest.

    - Results are ``Shard(d)`` where each operand is sharded on its dimension that broadcasts to ``d``, or is
      ``Replicate`` where that dimension has size 1 or is not there.
    - Everything is ``Replicate``.
    - Results are ``Partial("sum")`` (or ``"avg"``) where all operands in `linear` are, and all others are
      ``Replicate``.

    Raw operands are ``Replicate``, for an element may read all of theirs, and so is everything for a functor
    that uses `numjit.index`, whose elements count from the whole tensor's first.

    Parameters
    ----------
    op
        Made by `numjit.torch_op`. Overloads that it gets later are taught as well; ``out=`` is not.
    linear
        Operands in which the functor is linear, together: ``f(a + b, c + d, z) = f(a, c, z) + f(b, d, z)``
        for ``linear=("x", "y")``. This is not checked. A call again with others replaces them.

    Returns
    -------
    TorchOp
        `op` itself.

    Raises
    ------
    ArgumentError
        `op` is no operator of numjit's, or `linear` no names.
    FunctorError
        `linear` names something that is no operand.
    ToolchainError
        This torch is built without ``torch.distributed``.

    Examples
    --------
    >>> import numjit
    >>> from numjit.torch.sharding import register_pointwise
    >>> scaled = register_pointwise(numjit.torch_op("mylib::scaled", lambda x, w: x * w), linear=("x",))
    """
    if not isinstance(op, TorchOp):
        raise ArgumentError(
            f"register_pointwise takes what numjit.torch_op answered, not a {type(op).__name__}"
        )
    signature = op.operation.functor.signature
    operands = [parameter.name for parameter in signature.operands]
    given = (linear,) if isinstance(linear, str) else linear
    if not isinstance(given, Iterable) or not all(isinstance(name, str) for name in given):
        raise ArgumentError(f"{op.name}: linear is {linear!r}; name operands, as ('x', 'y')")
    names = frozenset(given)
    for name in sorted(names):
        if name not in operands:
            raise FunctorError(
                f"{op.name} has no operand {name!r} to be linear in; name some of {', '.join(operands)}"
            )
    import torch

    if not torch.distributed.is_available():
        raise ToolchainError(
            f"{op.name} cannot be sharded: this torch has no torch.distributed; install a build that has"
        )
    with _lock:
        known = _registered.get(op)
        if known == names:
            return op
        _registered[op] = names
        reference = weakref.ref(op)

        def teach(overload: Any) -> None:
            owner = reference()
            if owner is not None:
                _teach(owner, overload)

        op.with_each_overload(teach)
        if known is not None:
            _forget_decisions()
        return op


def known_to_dtensor(op: TorchOp) -> None:
    """Register an operator without linear operands, unless it is registered already."""
    if op not in _registered:
        register_pointwise(op)


def _teach(op: TorchOp, overload: Any) -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor.experimental import register_sharding

    signature = op.operation.functor.signature
    linear = frozenset(k for k, p in enumerate(signature.operands) if p.name in _registered[op])
    register_sharding(overload)(
        pointwise_shardings(
            len(signature.outputs),
            raws=frozenset(signature.raws),
            linear=linear,
            whole=bool(op.operation.functor.uses_index),
        )
    )
    # register_sharding has decisions kept whatever the numbers are that are no ints; but their types have a
    # part in the results' dtype, which belongs to a decision. So let them be looked at, as aten's are.
    propagator = DTensor._op_dispatcher.sharding_propagator
    propagator.op_to_schema_info[overload] = RuntimeSchemaInfo(0, list(op.scalar_names) or None)


def _forget_decisions() -> None:
    """Drop what DTensor has kept of earlier calls, which went by the earlier rules."""
    from torch.distributed.tensor import debug

    debug._clear_python_sharding_prop_cache()
    debug._clear_fast_path_sharding_prop_cache()


def pointwise_shardings(
    outputs: int, *, raws: frozenset[int], linear: frozenset[int], whole: bool
) -> Callable[..., list[tuple[list[Any], list[Any]]]]:
    """Return the function that ``register_sharding`` wants: what is possible on one dimension of a mesh.

    Parameters
    ----------
    outputs
        Number of results.
    raws
        Positions of operands that are read at any place.
    linear
        Positions of operands in which the functor is linear together.
    whole
        Whether the functor has to see all of its elements.

    Returns
    -------
    function
        Of the call's arguments, tensors as things with ``shape`` and ``placements``; its result has pairs of
        the results' and the arguments' placements, None for numbers.
    """

    def shardings(*arguments: Any, **numbers: Any) -> list[tuple[list[Any], list[Any]]]:
        import torch
        from torch.distributed.tensor import Partial, Replicate, Shard

        del numbers
        shapes = [getattr(argument, "shape", None) for argument in arguments]

        def inputs(own: dict[int, Any]) -> list[Any]:
            return [None if shape is None else own.get(k, Replicate()) for k, shape in enumerate(shapes)]

        found = [([Replicate()] * outputs, inputs({}))]
        # A number is the same everywhere: where a linear operand is one, nothing is partial.
        if linear and all(shapes[k] is not None for k in linear):
            present = {p for k in sorted(linear) for p in arguments[k].placements}
            found += [
                ([partial] * outputs, inputs(dict.fromkeys(linear, partial)))
                for partial in (Partial("sum"), Partial("avg"))
                if partial in present
            ]
        if whole:
            return found
        spread = {k: shape for k, shape in enumerate(shapes) if shape is not None and k not in raws}
        common = torch.broadcast_shapes(*spread.values())
        for dim, size in enumerate(common):
            dims = {k: dim - len(common) + len(shape) for k, shape in spread.items()}
            sharded = {k: Shard(d) for k, d in dims.items() if d >= 0 and spread[k][d] == size}
            found.append(([Shard(dim)] * outputs, inputs(sharded)))
        return found

    return shardings
