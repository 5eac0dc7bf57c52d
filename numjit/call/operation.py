"""A functor's operation over whole arrays: read, planned, compiled, run, and repeated.

It knows neither gradients nor modes: what torch is to see of a call, the places above decide.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from numjit.arrays.allocate import empty
from numjit.arrays.torch_arrays import count_write
from numjit.call.arguments import Arguments, read_arguments
from numjit.call.binding import RESERVED, Binder
from numjit.call.nullary import Nullary, read_nullary
from numjit.call.planner import Planner
from numjit.call.warm import WarmPath
from numjit.errors import ArgumentError, FunctorError
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import signs_of, with_signs
from numjit.ground.checks import as_tuple
from numjit.launcher.attach import FastCallable, FastCalls, launchable

if TYPE_CHECKING:
    from numjit.call.record import Plan
    from numjit.functor.kinds import Functor

__all__ = ["Operation", "Request", "operation_of"]

Own = TypeVar("Own", bound="Operation")


class Operation(FastCallable):
    """Calls of one functor.

    Parameters
    ----------
    functor
        What is computed of each element.
    options
        ``autotune`` and what else it was made with.
    gradients
        Where the results are gradients: the parameter of each.

    Attributes
    ----------
    names, count
        Names of operands, then scalars, and how many of them are operands.
    is_nullary
        Whether a call has to say its result's shape: there is no operand to broadcast.
    """

    def __init__(
        self, functor: Functor, options: Mapping[str, Any], *, gradients: tuple[int, ...] = ()
    ) -> None:
        self.functor = functor
        self.options = dict(options)
        self.name = functor.name
        signature = functor.signature
        clash = [p.name for p in signature.scalars if p.name in RESERVED]
        if clash:
            raise FunctorError(
                f"{functor.name}: a scalar cannot be called {clash[0]!r}, which every call has "
                "as a keyword; rename it"
            )
        self.binder = Binder(signature)
        self.names = [p.name for p in signature.parameters]
        self.count = len(signature.operands)
        self.raws = signature.raws
        self.is_nullary = len(self.raws) == self.count
        autotune = bool(options["autotune"])
        self.planner = Planner(functor, self.names, self.count, autotune=autotune, gradients=gradients)
        # What is numbered, indexed by the functor or tuned is planned anew.
        self.warm = WarmPath(protocols=not (functor.uses_index or functor.signature.raws or autotune))
        self.python = functor if isinstance(functor, PythonFunctor) else None
        self._captures = self.python.current_captures() if self.python else ()
        self._reads_signs: bool | None = None if self.python else False
        #: What the functor that this one derives from captured, and this one, when both were looked at last.
        self._in_step: tuple[Any, Any] = (None, None)
        self._launched: list[FastCalls] = []
        #: Hands over to the launcher what is called by position and records nothing.
        self.fast = self.hand_over(self, [None] * len(signature.parameters), detached=True)

    @property
    def gradients(self) -> tuple[int, ...]:
        """Where the results are gradients, as of a derived functor's: the parameter of each."""
        return self.planner.gradients

    @property
    def fingerprint(self) -> str:
        """Identity of the functor's meaning, as of the last call."""
        return self.planner.fingerprint

    def hand_over(
        self, called: FastCallable, defaults: Sequence[Any], *, detached: bool = False, by_name: bool = True
    ) -> FastCalls:
        """Return what hands calls of this operation over to the launcher.

        Parameters
        ----------
        called
            What users call.
        defaults
            One value a parameter, None where there is none.
        detached
            Whether calls give every parameter by position and never record gradients.
        by_name
            Whether operands may be given by name.
        """
        python, signature = self.python, self.functor.signature
        names: list[str | None] = [None if detached or name in RESERVED else name for name in self.names]
        if not by_name:
            names[: self.count] = [None] * self.count
        made = FastCalls(
            called,
            names,
            len(names) if detached else len(signature.operands),
            defaults,
            python.capture_places if python else None,
            python.fingerprint if python else None,
            self._hangs_on_signs if python else None,
            detached=detached or not by_name,
        )
        self._launched.append(made)
        return made

    def _hangs_on_signs(self, bound: Sequence[Any]) -> bool:
        """Whether what a call computes hangs on more of its numbers than their kinds."""
        assert self.python is not None
        return self.python.reads_signs and any(sign is not None for sign in signs_of(bound))

    # ---------------------------------------------------------------------------------------- meaning

    def refresh(self) -> None:
        """Start anew where a captured variable or global was rebound since the last call."""
        functor = self.python
        if functor is None:
            return
        current, before = functor.current_captures(), self._captures
        if len(current) != len(before) or not all(map(operator.is_, current, before)):
            self.planner.fingerprint = functor.fingerprint()
            self._captures = current
            self._reads_signs = None
            for fast in self._launched:
                fast.forget()
            self.rebound()

    def rebound(self) -> None:
        """Hear that the functor has come to mean something else."""

    def refresh_with(self, primal: Operation) -> None:
        """Do the same, as the derivative of an operation that is refreshed: both capture the same."""
        before, mine = self._in_step
        captures = primal._captures
        # Whoever found a change has put another tuple there.
        if captures is not before or mine is not self._captures:
            self.refresh()
            self._in_step = captures, self._captures

    @property
    def reads_signs(self) -> bool:
        """Whether the signs of a call's ints are part of what is compiled."""
        found = self._reads_signs
        if found is None:
            assert self.python is not None
            found = self._reads_signs = self.python.reads_signs
        return found

    def _meaning_of(self, bound: Sequence[Any]) -> Any:
        """Return what decides beside its arguments' types what a call computes."""
        fingerprint = self.planner.fingerprint
        return (fingerprint, signs_of(bound)) if self.reads_signs else fingerprint

    # ------------------------------------------------------------------------------------------ calls

    def key(self, bound: Sequence[Any], out: Any = None, *, detached: bool = False) -> tuple[Any, ...] | None:
        """Return what a call can be repeated by; None where it must be looked at in full.

        The parameters are those of `WarmPath.key`.
        """
        return self.warm.key(self._meaning_of(bound), bound, _given(out), detached=detached)

    def repeat(
        self, key: tuple[Any, ...], bound: Sequence[Any], out: Any = None, fast: FastCalls | None = None
    ) -> Any:
        """Make a call of this key again: its result, or a tuple of several; None where it was not made."""
        return self.warm.repeat(key, bound, out, _given(out), fast or self.fast)

    @launchable
    def __call__(self, *bound: Any) -> Any:
        """Compute, of one value a parameter, without recording: one result of torch's, or a tuple of several.

        Whoever calls knows that no mode, no transform and no tensor class of its own is to see the call.
        """
        self.refresh()
        key = self.key(bound, detached=True)
        if key is not None:
            result = self.repeat(key, bound)
            if result is not None:
                return result
        results = self.compute(self.plain_request, bound, key=key, library="torch", fast=self.fast)
        return results[0] if len(results) == 1 else results

    def compute(
        self,
        request: Request[Any],
        bound: Sequence[Any],
        out: Any = None,
        *,
        key: tuple[Any, ...] | None = None,
        library: str | None = None,
        fast: FastCalls | None = None,
    ) -> tuple[Any, ...]:
        """Look at a call in full and make it, without recording it; returns one array per output.

        Parameters
        ----------
        request, bound, out
            The call; the operation is refreshed.
        key
            By which the call can be repeated from now on.
        library
            Whose arrays new results are, where that is not for the operands to say.
        fast
            What hands calls like this one over to the launcher.
        """
        arguments, nullary = self.read(request, bound, out)
        if library is not None:
            arguments.library = library
            nullary = None if nullary is None else nullary._replace(library=library)
        planner = self.planner
        outs = planner.outputs.read(out)
        plan = planner.plan(arguments, nullary, outs)
        if plan.given:
            planner.outputs.check_overlap(outs, plan.shape, arguments)
        results, memory = [], []
        like = next((seen.original for seen in arguments.arrays if seen.fake), None)
        for dtype, given in zip(plan.outputs, outs, strict=True):
            if given is None:
                array, made = empty(plan.results, plan.shape, plan.strides, dtype, plan.device, like)
            else:
                array, made = given.original, given
            results.append(array)
            memory.append(made)
        if plan.device.kind == "meta" or any(not made.has_memory for made in memory):
            return tuple(results)
        for k in plan.memory:
            seen = arguments.views[k]
            assert seen is not None
            memory.append(seen)
        if plan.empty:
            return tuple(results)
        planner.execute(plan, arguments, memory, outs)
        for given in outs:
            if given is not None and given.library == "torch":
                count_write(given.original)
        if self._is_repeatable(plan):
            if key is not None:
                self.warm.remember(key, plan)
            if fast is not None and request.is_plain:
                fast.offer(bound, out, plan)
        return tuple(results)

    def _is_repeatable(self, plan: Plan) -> bool:
        return bool(plan.library) and (plan.tuned or not self.options["autotune"])

    def read(
        self, request: Request[Any], bound: Sequence[Any], out: Any = None
    ) -> tuple[Arguments, Nullary | None]:
        """Look at every argument of a call."""
        arguments = read_arguments(self.name, self.names, self.count, bound, self.raws, request.zero_dim)
        if self.reads_signs:
            arguments.types = with_signs(arguments.types, arguments.values)
        stated = (request.shape, request.like, request.dtype, request.device)
        nullary = None
        if self.is_nullary:
            nullary = read_nullary(self.name, arguments, *stated, out)
        elif any(value is not None for value in stated):
            raise ArgumentError(
                f"{self.name}(): shape, like, dtype and device are for functors without "
                "operands to broadcast; leave them out"
            )
        return arguments, nullary

    # ----------------------------------------------------------------------------- without computing

    def plan(self, request: Request[Any], bound: Sequence[Any]) -> tuple[Arguments, Nullary | None, Plan]:
        """Return what a call on bound arguments does, without making it."""
        arguments, nullary = self.read(request, bound)
        return arguments, nullary, self.planner.plan(arguments, nullary)

    def prepare(self, bound: Sequence[Any], arguments: Arguments, out: Any, fast: FastCalls) -> None:
        """Plan and compile a call, and hand it to the launcher, without computing or allocating anything."""
        plan = self.planner.plan(arguments, None, self.planner.outputs.read(out))
        if self._is_repeatable(plan):
            fast.offer(bound, out, plan)

    @functools.cached_property
    def plain_request(self) -> Request[Self]:
        """A call of which only the arguments say what is computed."""
        return Request(self)

    def __repr__(self) -> str:
        return f"<numjit operation {self.name}>"


class Request(Generic[Own]):
    """A call apart from its arguments.

    Parameters
    ----------
    operation
        What is called.
    shape, like, dtype, device
        As given to the call.
    zero_dim
        Positions of arguments that count as arrays without dimensions, though a batch gave them some.
    """

    def __init__(
        self,
        operation: Own,
        shape: Any = None,
        like: Any = None,
        dtype: Any = None,
        device: Any = None,
        zero_dim: frozenset[int] = frozenset(),
    ) -> None:
        self.operation = operation
        self.shape, self.like, self.dtype, self.device = shape, like, dtype, device
        self.zero_dim = zero_dim

    def with_zero_dim(self, positions: frozenset[int]) -> Request[Own]:
        """Return the same of other arguments that count as arrays without dimensions."""
        return Request(self.operation, self.shape, self.like, self.dtype, self.device, positions)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether only the arguments say what is computed."""
        stated = (self.shape, self.like, self.dtype, self.device)
        return not self.zero_dim and all(value is None for value in stated)


def _given(out: Any) -> tuple[Any, ...] | None:
    """Return the given outputs, None for one that the call makes; None where it makes them all."""
    if out is None:
        return None
    outs = as_tuple(out)
    return None if all(one is None for one in outs) else outs


def operation_of(called: Any) -> Operation | None:
    """Return the operation behind what a user calls, None where that is none of numjit's."""
    found = getattr(called, "__numjit_operation__", None)
    return found if isinstance(found, Operation) else None
