"""The public callable: a function of one element that runs over whole arrays."""

from __future__ import annotations

import functools
import inspect
import keyword
import math
import operator
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from numjit.arrays.stated import MOST_DIMENSIONS, MOST_ELEMENTS
from numjit.call.arguments import Arguments, Nullary, named, no_array, read_arguments, require_classes
from numjit.call.binding import RESERVED, Binder, check_defaults
from numjit.call.planned import Call, Plan, fast_calls
from numjit.errors import (
    ArgumentError,
    DeviceError,
    FunctorError,
    NumjitError,
    kind_of,
    shown,
    without_frames,
)
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import MISSING, signs_of, with_signs
from numjit.ground.checks import Checks, as_tuple, is_a
from numjit.launcher.attach import FastCallable, launchable
from numjit.torch import autograd
from numjit.torch.dispatch import (
    dispatched,
    eager,
    hand_over,
    is_overridden,
    is_profiled,
    is_traced,
    need_torch,
    profiled,
    token,
)

if TYPE_CHECKING:
    from numjit.call.detached import Detached
    from numjit.call.warm import WarmPath
    from numjit.functor.kinds import Functor
    from numjit.tools.inspection import Inspection
    from numjit.tools.prepared import Prepared
    from numjit.torch.by_hand import Rule

__all__ = ["Elementwise", "elementwise"]


class Elementwise(FastCallable):
    """A function of one element, callable on whole arrays; made by `elementwise`.

    Copies are the instance itself, and the hash is by identity.
    """

    def __init__(self, functor: Functor, options: dict[str, Any], *, gradients: tuple[int, ...] = ()) -> None:
        if not is_a(functor, CppFunctor | PythonFunctor) or "autotune" not in (
            options if type(options) is dict else ()
        ):
            raise FunctorError(
                f"Elementwise is made of {kind_of(functor)} and {kind_of(options)}; call numjit.elementwise"
            )
        self._functor = functor
        self._options = options
        self._source = functor.text if isinstance(functor, CppFunctor) else functor.fn
        signature = functor.signature
        clash = [p.name for p in signature.scalars if p.name in RESERVED]
        if clash:
            raise FunctorError(
                f"{functor.name}: a scalar cannot be called {clash[0]!r}, which every call has "
                "as a keyword; rename it"
            )
        self._binder = Binder(signature)
        self._names = [p.name for p in (*signature.operands, *signature.scalars)]
        self._operands = len(signature.operands)
        self._raws = signature.raws
        #: Without an operand to broadcast, a call has to say its result's shape.
        self._nullary_only = len(self._raws) == self._operands
        self._call = Call(
            functor, self._names, self._operands, autotune=options["autotune"], gradients=gradients
        )
        #: Operations of the functor's derivatives; `numjit.torch.autograd.derived` fills it.
        self.derivatives: dict[Any, Elementwise] = {}
        #: The gradient written by hand, where there is one.
        self.rule: Rule | None = None
        #: A call of which only the arguments say what is computed.
        self.plain_request = autograd.Request(self)
        self._python = functor if isinstance(functor, PythonFunctor) else None
        self._captures = self._python.current_captures() if self._python else ()
        self._reads_signs: bool | None = None if self._python else False
        #: What the functor that this one derives from captured, and this one, when both were looked at last.
        self._in_step: tuple[Any, Any] = (None, None)
        self._call.warm.fast = fast_calls(self, functor, functor.signature.defaults)
        self._token = token(self)
        #: Read the numbers that the functor captures, for tracers to guard on; made when first traced.
        self._watchers: Any = None
        self.__name__ = functor.name
        self.__signature__ = _call_signature(functor)
        if self._python:
            for name in ("__module__", "__qualname__", "__doc__"):
                setattr(self, name, getattr(self._python.fn, name))
            # For `inspect`, doctest and whoever asks for the source; C++ text has none.
            self.__wrapped__ = self._python.fn
        else:
            self.__doc__ = f"Elementwise operation of the C++ functor {functor.name}."

    @property
    def __numjit_functor__(self) -> Functor:
        """The functor, for other functors that call this one."""
        return self._functor

    @launchable
    def __call__(
        self,
        *operands: Any,
        out: Any = None,
        shape: Sequence[int] | int | None = None,
        like: Any = None,
        dtype: Any = None,
        device: Any = None,
        **scalars: Any,
    ) -> Any:
        """Compute the functor over all elements of the broadcast operands.

        Parameters
        ----------
        *operands
            torch tensors (CUDA or CPU), NumPy arrays, anything with ``__cuda_array_interface__`` or
            ``__dlpack__``, and Python numbers; shapes broadcast. Operands may also be given by name.
        out
            Where to put the result: an array of the result's shape, to whose dtype the result can be
            cast; for several outputs a tuple in which None means allocate. May be exactly an operand.
        shape, like, dtype, device
            For functors without operands (other than raw ones) only: the result's shape, dtype and
            device, or an array to take them from. A floating dtype is also the one that floats are
            computed in. `shape` may be an int.
        **scalars
            The functor's scalars by name: numbers or 0-dim arrays. New values never recompile.

        Returns
        -------
        array or tuple of arrays
            Of the first array operand's library, dtype by torch's promotion; a tuple where there are
            several outputs.

        Raises
        ------
        ArgumentError
            Arguments that do not match the functor's parameters, or are no arrays or numbers.
        BroadcastError, DeviceError, PromotionError
            Shapes, devices or dtypes that do not go together.
        OutputError, OverlapError
            An `out` that cannot take the result.
        CompilationError
            The functor does not compile for these types.
        """
        plain = shape is None and like is None and dtype is None and device is None
        if is_traced():
            from numjit.torch.compile import break_graph, call_outside, call_traced

            if plain:
                traced = call_traced(self, operands, scalars, out)
            else:
                traced = break_graph(self, "without operands")
            if traced is NotImplemented:
                given = _given(scalars, out=out, shape=shape, like=like, dtype=dtype, device=device)
                traced = call_outside(self, operands, given)
            if traced is not NotImplemented:
                return traced
        others: Sequence[Any] = ()
        if out is not None or like is not None:
            others = (*as_tuple(out), like)
        if is_overridden(operands, scalars, others):
            given = _given(scalars, out=out, shape=shape, like=like, dtype=dtype, device=device)
            return hand_over(self, operands, scalars, others, given)
        request = self.plain_request if plain else autograd.Request(self, shape, like, dtype, device)
        if is_profiled():
            with profiled(self.__name__, operands, scalars):
                return self._run(request, operands, out, scalars)
        try:
            return self._run(request, operands, out, scalars)
        except NumjitError as error:
            raise without_frames(error) from error.__cause__
        except Exception:
            given = {**dict(zip(self._names, operands, strict=False)), **scalars, "out": out, "like": like}
            require_classes(self.__name__, given)
            raise

    @eager
    def _run(
        self, request: autograd.Request, operands: Sequence[Any], out: Any, scalars: Mapping[str, Any]
    ) -> Any:
        """Run a call that torch is not reading: recorded, through its dispatcher, or by itself."""
        plain = request.is_plain
        self.refresh()
        bound = self._binder.bind(operands, scalars)
        key = None
        if plain and out is None:
            key = self._call.warm.key(self.meaning_of(bound), bound)
            if key is not None:
                result = self._call.warm.run(key, bound)
                if result is not None:
                    return result
            else:
                needed = autograd.needs_gradient(bound)
                if needed:
                    if self.rule is None:
                        results = autograd.record_plain(request, bound)
                    else:
                        results = self._record(request, bound, None)
                    return results[0] if len(results) == 1 else results
                if needed is None:
                    result = dispatched(self, bound)
                    if result is not NotImplemented:
                        return result
        if key is None and autograd.is_recorded(bound):
            results = self._record(request, bound, out)
        elif out is not None and plain and (seen := dispatched(self, bound, out)) is not NotImplemented:
            from numjit.torch.compile import stored

            return stored(self, seen, out)
        else:
            results = self._compute(request, bound, out, key)
        return results[0] if len(results) == 1 else results

    def _record(self, request: autograd.Request, bound: Sequence[Any], out: Any) -> tuple[Any, ...]:
        """Run a call that torch watches, with the gradient written by hand where there is one."""
        rule = self.rule
        if rule is None or out is not None:
            return autograd.record(request, bound, out)

        def forward(*operands: Any, **scalars: Any) -> tuple[Any, ...]:
            return autograd.call(request, [*operands, *scalars.values()])

        scalars = dict(zip(self._names[self._operands :], bound[self._operands :], strict=True))
        return rule.record(forward, bound[: self._operands], scalars)

    @functools.cached_property
    def detached(self) -> Detached:
        """Calls that record nothing, as torch's graph makes them; made when first needed."""
        from numjit.call.detached import Detached

        return Detached(self)

    def compute_detached(
        self, bound: Sequence[Any], key: tuple[Any, ...] | None, warm: WarmPath
    ) -> tuple[Any, ...]:
        """Run a call that records nothing the general way; `warm` keeps it for the next time."""
        return self._compute(self.plain_request, bound, None, key, "torch", warm)

    def compute(self, request: autograd.Request, bound: Sequence[Any]) -> tuple[Any, ...]:
        """Run a call on bound arguments without recording it: one tensor per output."""
        if request.is_plain:
            result = self.detached(*bound)
            return result if isinstance(result, tuple) else (result,)
        return self._compute(request, bound, None, None, "torch")

    def compute_into(self, request: autograd.Request, bound: Sequence[Any], out: Any) -> tuple[Any, ...]:
        """Run a call on bound arguments into given outputs, without recording it."""
        return self._compute(request, bound, out, None)

    @property
    def gradients(self) -> tuple[int, ...]:
        """Where the results are gradients, as of a derived functor's: the parameter of each."""
        return self._call.gradients

    def _compute(
        self,
        request: autograd.Request,
        bound: Sequence[Any],
        out: Any,
        key: tuple[Any, ...] | None,
        library: str | None = None,
        warm: WarmPath | None = None,
    ) -> tuple[Any, ...]:
        """Run a call the general way; `warm` keeps it for the next time, where that is not the usual one."""
        arguments, nullary = self._read(request, bound, out)
        if library is not None:
            arguments.library = library
            nullary = None if nullary is None else nullary._replace(library=library)
        offered = None
        if request.is_plain and (library is None or warm is not None) and not is_a(out, tuple):
            offered = bound
        return self._call.run(arguments, out, nullary, key, offered, warm)

    def _read(
        self, request: autograd.Request, bound: Sequence[Any], out: Any = None
    ) -> tuple[Arguments, Nullary | None]:
        """Look at every argument of a call."""
        name = self._functor.name
        arguments = read_arguments(name, self._names, self._operands, bound, self._raws, request.zero_dim)
        if self.reads_signs:
            arguments.types = with_signs(arguments.types, arguments.values)
        stated = (request.shape, request.like, request.dtype, request.device)
        nullary = None
        if self._nullary_only:
            nullary = self._nullary(arguments, *stated, out)
        elif any(value is not None for value in stated):
            raise ArgumentError(
                f"{name}(): shape, like, dtype and device are for functors without "
                "operands to broadcast; leave them out"
            )
        return arguments, nullary

    def backward(
        self,
        function: Any = None,
        /,
        *,
        tensors: bool = False,
        save_for_backward: str = "inputs",
        num_grad_inputs: int | None = None,
    ) -> Any:
        """Give the operation a gradient written by hand, in place of the derived one: a decorator.

        Calls of this operation use it; another functor that calls this one is derived from its own code.

        Parameters
        ----------
        function
            The gradient, called as ``function(*grad_outputs, *saved, **scalars)``; it returns one for each
            operand. A Python function or C++ text of *one element*, which is made elementwise, or an
            operation of numjit's; with `tensors` any code of whole tensors, which may return None for an
            operand. Left out, ``f.backward(...)`` is a decorator.
        tensors
            Whether `function` takes whole tensors.
        save_for_backward
            What `saved` is: ``"inputs"`` (the operands), ``"outputs"``, or ``"both"``.
        num_grad_inputs
            How many of the first operands get a gradient; None for all.

        Returns
        -------
        Elementwise or callable
            The gradient as an operation.

        Raises
        ------
        ArgumentError
            A gradient that does not take what it would be given, or none that is one.
        """
        from numjit.torch.by_hand import rule_of

        check = Checks(f"{self.__name__}.backward()", ArgumentError)
        tensors = check.flag("tensors", tensors)
        if not is_a(save_for_backward, str) or save_for_backward not in ("inputs", "outputs", "both"):
            check.refuse("save_for_backward", save_for_backward, "'inputs', 'outputs' or 'both'")
        if num_grad_inputs is not None:
            num_grad_inputs = check.count("num_grad_inputs", num_grad_inputs)
        if function is None:
            return functools.partial(
                self.backward,
                tensors=tensors,
                save_for_backward=save_for_backward,
                num_grad_inputs=num_grad_inputs,
            )
        require_classes(self.__name__, {"function": function})
        if not tensors and isinstance(function, str | types.FunctionType):
            function = elementwise(function)
        self.rule = rule_of(self, function, tensors, save_for_backward, num_grad_inputs)
        return function

    def inspect(
        self,
        *operands: Any,
        shape: Sequence[int] | int | None = None,
        like: Any = None,
        dtype: Any = None,
        device: Any = None,
        **scalars: Any,
    ) -> Inspection:
        """Return what a call with these arguments does: dtypes, kernel, grid, and its code as text.

        Parameters
        ----------
        *operands, shape, like, dtype, device, **scalars
            As for a call. Nothing is launched.

        Returns
        -------
        Inspection
            Printed it is a summary; ``.ptx`` and ``.sass`` are the kernel's code on a GPU, ``.cpp`` and
            ``.llvm`` the loop's on the CPU.

        Raises
        ------
        NumjitError
            As the call would.
        """
        from numjit.tools.inspection import inspect_call

        self.refresh()
        request = autograd.Request(self, shape, like, dtype, device)
        return inspect_call(request, self._binder.bind(operands, scalars))

    def derivative(self, *operands: Any, **scalars: Any) -> Inspection:
        """Return what the backward of a call does: the derived functor's plan and code.

        Parameters
        ----------
        *operands, **scalars
            As for a call. The derivative is by the arguments that require grad; where none does, by every
            array of floats that is not raw.

        Returns
        -------
        Inspection
            Of the one kernel that computes all of these gradients; of the operation given to
            ``f.backward``, where that is one of numjit's.

        Raises
        ------
        AutogradError
            There is no derivative: the message names the place in the functor.
        """
        from numjit.tools.inspection import inspect_derivative

        self.refresh()
        return inspect_derivative(self, self._binder.bind(operands, scalars))

    def plan(self, request: autograd.Request, bound: Sequence[Any]) -> tuple[Arguments, Nullary | None, Plan]:
        """Return what a call on bound arguments does, without running it."""
        arguments, nullary = self._read(request, bound)
        return arguments, nullary, self._call.plan(arguments, nullary)

    def prepare(self, *operands: Any, out: Any = None, **scalars: Any) -> Prepared:
        """Plan and compile calls on operands like these, computing nothing, and return them as an operation.

        Parameters
        ----------
        *operands, **scalars
            Examples: arguments of the dtypes, shapes, strides and devices that calls will have.
        out
            An example of the output, where calls will give one.

        Returns
        -------
        Prepared
            Called like this operation; other kinds of arguments are an ArgumentError, and scalars that a
            call leaves out have the values given here. On a GPU it goes through the compiled launcher from
            its first call on.

        Raises
        ------
        NumjitError
            As calls do.
        """
        from numjit.call.outputs import GivenOutputs
        from numjit.tools.prepared import Prepared

        self.refresh()
        if self._nullary_only:
            raise ArgumentError(f"{self.__name__}.prepare() needs operands to broadcast; call it instead")
        bound = self._binder.bind(operands, scalars)
        arguments = read_arguments(self._functor.name, self._names, self._operands, bound, self._raws)
        require_classes(self.__name__, {"out": out})
        count = len(self._functor.signature.outputs)
        GivenOutputs(self.__name__, self._names, count).read(out)
        return Prepared(self, bound, arguments, out)

    def module(self, **given: Any) -> Any:
        """Return the operation as a ``torch.nn.Module``, for ``torch.nn.Sequential`` and the like.

        Parameters
        ----------
        **given
            Scalars, and operands too, by name, which are part of the module: a ``torch.nn.Parameter`` is
            one of its parameters, gets a gradient and is in ``state_dict()``; another tensor is a buffer.

        Returns
        -------
        torch.nn.Module
            Called with the other operands. It can be copied and pickled as the operation can.

        Raises
        ------
        ArgumentError
            A name that is no parameter's, or a value that is neither a number nor a tensor.
        ToolchainError
            torch is not installed.

        Examples
        --------
        >>> import torch, numjit
        >>> swish = numjit.elementwise(lambda x, *, beta=1.0: x / (1 + numjit.math.exp(-beta * x)))
        >>> layer = torch.nn.Sequential(torch.nn.Linear(4, 4), swish.module(beta=1.5))
        >>> layer(torch.ones(2, 4)).shape
        torch.Size([2, 4])
        """
        need_torch(f"{self.__name__}.module")
        from numjit.torch.module import as_module

        return as_module(self, given)

    def explain(self, *operands: Any, **scalars: Any) -> str | None:
        """Say why ``torch.compile`` keeps a call as one opaque operation.

        Parameters
        ----------
        *operands, **scalars
            Of the call: tensors and numbers, whose types decide.

        Returns
        -------
        str or None
            The reason; None where the compiler sees the functor's own torch operations, which it can fuse
            with what is around.

        Raises
        ------
        ArgumentError
            Arguments that do not match the functor's parameters.
        ToolchainError
            torch is not installed.
        """
        bound = self._binder.bind(operands, scalars)
        require_classes(self.__name__, dict(zip(self._names, bound, strict=True)))
        need_torch(f"{self.__name__}.explain")
        from numjit.torch.compile import explain

        return explain(self, bound, opaque=bool(self._options["opaque"]))

    def device_function(self, *dtypes: Any, cc: tuple[int, int] | None = None) -> Any:
        """Return the functor as a device function for ``numba.cuda`` kernels, which inline it.

        It takes the operands, then the scalars in the order of the signature, then, where the functor uses
        its index, an int64 in place of it, all by position; a raw operand is a one-dimensional C-contiguous
        array. It returns one value, or a tuple of several. The kernel needs link-time optimisation,
        numba-cuda's default.

        Parameters
        ----------
        *dtypes
            The dtype of each operand, and, if you like, of each scalar. 16- and 8-bit floats travel as
            float32. A scalar that is not named has the kind of its default, else float.
        cc
            Compute capability, by default that of the current device.

        Returns
        -------
        function
            What ``numba.cuda.declare_device`` returns.

        Raises
        ------
        ArgumentError
            Another number of dtypes than of operands.
        CompilationError
            The functor does not compile for these dtypes.
        DeviceError, ToolchainError
            There is no GPU (and no `cc`), or numba-cuda is not installed.
        """
        from numjit.call import build
        from numjit.call.arguments import default_dtype
        from numjit.functor.device_function import argument_types

        arguments = argument_types(self._functor, dtypes)
        if cc is None:
            from numjit.runtime import devices

            cc = devices.compute_capability(devices.current_device())
        else:
            cc = build.checked_capability(f"{self.__name__}.device_function()", cc)
        return build.device_function(self._functor, arguments, default_dtype(), cc)

    def refresh(self) -> None:
        """Start anew where a captured variable or global was rebound since the last call."""
        functor = self._python
        if functor is None:
            return
        current, before = functor.current_captures(), self._captures
        if len(current) != len(before) or not all(map(operator.is_, current, before)):
            self._call.fingerprint = functor.fingerprint()
            self._captures = current
            self._reads_signs = None
            if self._call.warm.fast:
                self._call.warm.fast.forget()
            detached = self.__dict__.get("detached")
            if detached is not None:
                detached.forget()
            self._watchers = None

    @property
    def reads_signs(self) -> bool:
        """Whether the signs of a call's ints are part of what is compiled."""
        found = self._reads_signs
        if found is None:
            assert self._python is not None
            found = self._reads_signs = self._python.reads_signs
        return found

    def meaning_of(self, bound: Sequence[Any]) -> Any:
        """Return what decides beside its arguments' types what a call computes."""
        fingerprint = self._call.fingerprint
        return (fingerprint, signs_of(bound)) if self.reads_signs else fingerprint

    def refresh_with(self, primal: Elementwise) -> None:
        """Do the same, as the derivative of an operation that is refreshed: both capture the same."""
        before, mine = self._in_step
        captures = primal._captures
        # Whoever found a change has put another tuple there.
        if captures is not before or mine is not self._captures:
            self.refresh()
            self._in_step = captures, self._captures

    def _nullary(
        self, arguments: Arguments, shape: Any, like: Any, dtype: Any, device: Any, out: Any
    ) -> Nullary:
        from numjit import dtypes
        from numjit.arrays.adapters import view
        from numjit.arrays.allocate import output_library
        from numjit.arrays.view import CPU, as_device

        name = self._functor.name
        given = [array for array in as_tuple(out) if array is not None]
        pattern = like if like is not None else given[0] if given else None
        label = "out" if like is None else "like"
        try:
            seen = None if pattern is None else view(pattern)
        except NumjitError as error:
            raise named(error, f"{name}(): {label}") from error.__cause__
        if pattern is not None and seen is None:
            raise ArgumentError(f"{name}(): {label} is {no_array(pattern)}")
        if shape is None and seen is None:
            raise ArgumentError(
                f"{name}() has no operands to take a shape from; say shape= (and device=), like= or out="
            )
        size = tuple(seen.shape) if shape is None and seen is not None else _sizes(name, shape)
        try:
            where = as_device(device) if device is not None else None
            stated = dtypes.as_dtype(dtype) if dtype is not None else None
        except NumjitError as error:
            raise named(error, f"{name}()") from None
        where = where or (seen.device if seen is not None else arguments.device if arguments.arrays else CPU)
        # 0-dim CPU arrays (scalars) have become numbers by now.
        if any(a.device != where for a in arguments.arrays if a.shape or a.device.kind != "cpu") or any(
            a.device != where for a in arguments.raws.values()
        ):
            raise DeviceError(
                f"{name}(): the result is to be on {where} but arguments are on {arguments.device}; "
                "move them to one device"
            )
        stored = stated if stated is not None else seen.dtype if like is not None and seen else None
        library = output_library([seen] if seen is not None else arguments.arrays)
        return Nullary(size, stored, where, library)

    @property
    def fingerprint(self) -> str:
        """Identity of the functor's meaning, as of the last call."""
        return self._call.fingerprint

    @property
    def is_nullary(self) -> bool:
        """Whether a call has to say its result's shape: there is no operand to broadcast."""
        return self._nullary_only

    @property
    def parameter_names(self) -> list[str]:
        """Names of operands, then scalars."""
        return list(self._names)

    @property
    def functor(self) -> Functor:
        """The functor as numjit read it."""
        return self._functor

    @property
    def source(self) -> Any:
        """The Python function or C++ text that this was made of."""
        return self._source

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of `elementwise` that this was made with."""
        return dict(self._options)

    def __repr__(self) -> str:
        return f"<numjit elementwise {self.__name__}{self.__signature__}>"

    def __reduce__(self) -> Any:
        module, qualname = getattr(self, "__module__", None), getattr(self, "__qualname__", None)
        if self._python and module and qualname and _find(module, qualname) is self:
            return _find, (module, qualname)
        if type(self._functor) not in (CppFunctor, PythonFunctor):  # a derived one
            return _derived, (self._functor, self._options, self.gradients, self.rule)
        return _restore, (self._source, self._options, self.rule)

    def __copy__(self) -> Elementwise:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Elementwise:
        return self


def _given(scalars: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """Return all that a call was given by name."""
    return {**scalars, **{name: value for name, value in own.items() if value is not None}}


def _find(module: str, qualname: str) -> Any:
    """Return the object that a module knows by a dotted name, or None."""
    import importlib

    found: Any = sys.modules.get(module)
    if found is None:
        try:
            found = importlib.import_module(module)
        except ImportError:
            return None
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _restore(source: Any, options: dict[str, Any], rule: Rule | None = None) -> Any:
    made = elementwise(source, **options)
    made.rule = rule
    return made


def _derived(
    functor: Functor, options: dict[str, Any], gradients: tuple[int, ...], rule: Rule | None
) -> Elementwise:
    made = Elementwise(functor, options, gradients=gradients)
    made.rule = rule
    return made


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    """Read ``shape=``: an int or a sequence of them."""
    try:
        sizes: Any = (operator.index(shape),)
    except Exception:  # noqa: BLE001 - whatever its __index__ raises, it is no int
        sizes = shape
    size = Checks(f"{name}()", ArgumentError).sizes("shape", sizes, "an int or a tuple of ints")
    if len(size) > MOST_DIMENSIONS:
        raise ArgumentError(f"{name}(): shape has {len(size)} sizes; pass at most {MOST_DIMENSIONS}")
    if max(size, default=0) > MOST_ELEMENTS or math.prod(size) > MOST_ELEMENTS:
        raise ArgumentError(f"{name}(): shape {shown(size)} is more than memory holds; pass a smaller one")
    return size


def _call_signature(functor: Functor) -> inspect.Signature:
    signature = functor.signature

    def default(value: Any) -> Any:
        return inspect.Parameter.empty if value is MISSING else value

    taken: set[str] = set()
    parameters = [
        inspect.Parameter(
            _identifier(p.name, k, taken), inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default(p.default)
        )
        for k, p in enumerate(signature.operands)
    ]
    parameters += [
        inspect.Parameter(
            _identifier(p.name, k, taken), inspect.Parameter.KEYWORD_ONLY, default=default(p.default)
        )
        for k, p in enumerate(signature.scalars)
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in (RESERVED if len(signature.raws) == len(signature.operands) else RESERVED[:1])
        if name not in taken
    ]
    return inspect.Signature(parameters)


def _identifier(name: str, position: int, taken: set[str]) -> str:
    """Return how Python can show a parameter of C++, which may be called ``in`` or ``lambda``."""
    shown = name if name.isidentifier() else f"operand{position}"
    while keyword.iskeyword(shown) or shown in taken:
        shown += "_"
    taken.add(shown)
    return shown


@overload
def elementwise(
    functor: Callable[..., Any] | str,
    /,
    *,
    outputs: int | None = None,
    entry: str | None = None,
    scalars: dict[str, Any] | None = None,
    preamble: str = "",
    options: Sequence[str] = (),
    autotune: bool = False,
    opaque: bool = False,
    **defaults: Any,
) -> Elementwise: ...


@overload
def elementwise(
    functor: None = None,
    /,
    *,
    outputs: int | None = None,
    entry: str | None = None,
    scalars: dict[str, Any] | None = None,
    preamble: str = "",
    options: Sequence[str] = (),
    autotune: bool = False,
    opaque: bool = False,
    **defaults: Any,
) -> Callable[[Callable[..., Any]], Elementwise]: ...


def elementwise(
    functor: Callable[..., Any] | str | None = None,
    /,
    *,
    outputs: int | None = None,
    entry: str | None = None,
    scalars: dict[str, Any] | None = None,
    preamble: str = "",
    options: Sequence[str] = (),
    autotune: bool = False,
    opaque: bool = False,
    **defaults: Any,
) -> Any:
    """Make an array operation of a function of one element.

    Parameters
    ----------
    functor
        A Python function of scalars, or CUDA C++ text that defines one (a template or not). Left
        out, ``elementwise(...)`` is a decorator.
    outputs
        How many results the functor has; by default what it returns, or its ``T&`` parameters in C++.
    entry
        C++ only: the name of the function to use; by default the last one defined.
    scalars
        Defaults of scalars by name, for names that clash with a keyword of this function.
    preamble
        C++ only: text put before the functor (``#include``, ``#define``, helpers), on every device.
    options
        C++ only: further options for NVRTC. The CPU's compiler is not given them.
    autotune
        On a GPU, time launch alternatives at the first call of each class of layouts (dtypes, kernel
        variant, size to a power of two) and keep the fastest, also on disk. Results never change.
    opaque
        Keep the functor one opaque operation where a compiler would look into it. Eager calls are
        the same either way.
    **defaults
        Defaults of the functor's scalars by name.

    Returns
    -------
    Elementwise
        The operation (or a decorator that makes it).

    Raises
    ------
    FunctorError
        A functor whose signature numjit cannot use: a scalar that it does not have, no outputs, ...

    Examples
    --------
    >>> import numjit, numpy as np
    >>> @numjit.elementwise
    ... def axpy(x, y, *, alpha=1.0):
    ...     return alpha * x + y
    >>> axpy(np.float32([1, 2]), np.float32([10, 20]), alpha=2.0)
    array([12., 24.], dtype=float32)
    >>> code = "template <typename T> T axpy(T x, T y, T alpha) { return alpha * x + y; }"
    >>> numjit.elementwise(code, alpha=1.0)(np.float32([1, 2]), np.float32([10, 20]))
    array([11., 22.], dtype=float32)
    """
    where = "elementwise()" if functor is None else f"elementwise() of {_named(functor)}"
    given = _checked(where, outputs, entry, scalars, preamble, options, autotune, opaque, defaults)
    if functor is None:
        return lambda function: elementwise(function, **given)
    if is_a(functor, Elementwise):
        raise FunctorError(f"{where}: it is elementwise already; pass the function or text it was made of")
    if is_a(functor, str):
        own = {name: given[name] for name in ("entry", "outputs", "scalars", "preamble", "options")}
        try:
            text = CppFunctor(str(functor), **own)
        except NumjitError as error:
            raise without_frames(error) from error.__cause__
        made = Elementwise(text, given)
        # Where it is assigned to the functor's name there, others find it by these, as they find a function.
        made.__module__ = sys._getframe(1).f_globals.get("__name__", "")
        setattr(made, "__qualname__", text.name)  # noqa: B010 - a type checker knows no such attribute
        return made
    if not callable(functor):
        wanted = "a function of one element written with def or lambda, or CUDA C++ text"
        Checks("elementwise()").refuse("functor", functor, wanted)
    if given["entry"] is not None or given["preamble"] or given["options"]:
        raise FunctorError(f"{where}: entry, preamble and options are for C++ functors; leave them out")
    return Elementwise(PythonFunctor(functor, outputs=given["outputs"], scalars=given["scalars"]), given)


def _named(functor: Any) -> str:
    """Return what a message calls a functor that was not read yet."""
    if is_a(functor, str):
        return "a C++ functor"
    name = getattr(functor, "__name__", None) if is_a(functor, types.FunctionType | Elementwise) else None
    return name if name is not None else f"a {type(functor).__name__}"


def _checked(
    where: str,
    outputs: Any,
    entry: Any,
    scalars: Any,
    preamble: Any,
    options: Any,
    autotune: Any,
    opaque: Any,
    defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the keywords of `elementwise` by name, each of the type that it has.

    Raises
    ------
    OptionError
        One that is not.
    FunctorError
        A scalar's default that is no number, or that is given twice.
    """
    check = Checks(where)
    numbers = "a dict of scalars' names and numbers, such as {'alpha': 1.0}"
    named = {} if scalars is None else check.names("scalars", scalars, numbers)
    for name in defaults:
        if name in named:
            raise FunctorError(
                f"{where}: the default of {name!r} is given by name and in scalars; give it once"
            )
    named |= defaults
    check_defaults(where, named)
    name = "the name of a function of the text, or leave it out"
    flags = "a sequence of strings, one a compiler option, such as ['--use_fast_math']"
    return {
        "outputs": None if outputs is None else check.count("outputs", outputs),
        "entry": None if entry is None else check.text("entry", entry, name),
        "scalars": named,
        "preamble": check.text("preamble", preamble, "C++ text as a string"),
        "options": check.texts("options", options, flags),
        "autotune": check.flag("autotune", autotune),
        "opaque": check.flag("opaque", opaque),
    }
