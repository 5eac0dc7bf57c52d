"""The public callable: a function of one element that runs over whole arrays."""

from __future__ import annotations

import functools
import inspect
import keyword
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from numjit.call.arguments import require_classes
from numjit.call.binding import RESERVED, check_defaults
from numjit.call.operation import Request
from numjit.errors import ArgumentError, FunctorError, NumjitError, kind_of, without_frames
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import MISSING
from numjit.ground.checks import Checks, as_tuple, is_a
from numjit.launcher.attach import FastCallable, launchable
from numjit.torch import recorded
from numjit.torch.dispatch import (
    eager,
    hand_over,
    is_overridden,
    is_profiled,
    is_traced,
    need_torch,
    profiled,
)
from numjit.torch.watched import WatchedOperation

if TYPE_CHECKING:
    from numjit.functor.kinds import Functor
    from numjit.tools.inspection import Inspection
    from numjit.tools.prepared import Prepared
    from numjit.torch.rule import HandGradient

__all__ = ["Elementwise", "elementwise"]


def _call_operator(operation: WatchedOperation, bound: Sequence[Any], outs: Sequence[Any]) -> Any:
    from numjit.torch.opaque import call_operator

    return call_operator(operation, bound, outs)


recorded.use_operators(_call_operator)


class Elementwise(FastCallable):
    """A function of one element, callable on whole arrays; made by `elementwise`.

    Copies are the instance itself, and the hash is by identity.
    """

    def __init__(self, functor: Functor, options: dict[str, Any]) -> None:
        if not is_a(functor, CppFunctor | PythonFunctor) or "autotune" not in (
            options if type(options) is dict else ()
        ):
            raise FunctorError(
                f"Elementwise is made of {kind_of(functor)} and {kind_of(options)}; call numjit.elementwise"
            )
        self._operation = WatchedOperation(functor, options)
        self._source = functor.text if isinstance(functor, CppFunctor) else functor.fn
        self._fast = self._operation.hand_over(self, functor.signature.defaults)
        #: By which traced code tells a functor that is captured from another.
        self._token = self._operation.token
        self.__name__ = functor.name
        self.__signature__ = _call_signature(functor)
        python = self._operation.python
        if python:
            for name in ("__module__", "__qualname__", "__doc__"):
                setattr(self, name, getattr(python.fn, name))
            # For `inspect`, doctest and whoever asks for the source; C++ text has none.
            self.__wrapped__ = python.fn
        else:
            self.__doc__ = f"Elementwise operation of the C++ functor {functor.name}."

    @property
    def __numjit_functor__(self) -> Functor:
        """The functor, for other functors that call this one."""
        return self._operation.functor

    @property
    def __numjit_operation__(self) -> WatchedOperation:
        """The engine's operation, for what is built on operations."""
        return self._operation

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
                traced = call_traced(self._operation, operands, scalars, out)
            else:
                traced = break_graph(self._operation, "without operands")
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
        request = self._operation.plain_request
        if not plain:
            request = Request(self._operation, shape, like, dtype, device)
        if is_profiled():
            with profiled(self.__name__, operands, scalars):
                return self._run(request, operands, out, scalars)
        try:
            return self._run(request, operands, out, scalars)
        except NumjitError as error:
            raise without_frames(error) from error.__cause__
        except Exception:
            given = {
                **dict(zip(self.parameter_names, operands, strict=False)),
                **scalars,
                "out": out,
                "like": like,
            }
            require_classes(self.__name__, given)
            raise

    @eager
    def _run(
        self,
        request: Request[WatchedOperation],
        operands: Sequence[Any],
        out: Any,
        scalars: Mapping[str, Any],
    ) -> Any:
        """Make a call that torch is not reading."""
        operation = self._operation
        operation.refresh()
        return recorded.run(request, operation.binder.bind(operands, scalars), out, self._fast)

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
        from numjit.torch.rule import rule_of

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
        operation = self._operation
        operation.rule = rule_of(operation, function, tensors, save_for_backward, num_grad_inputs)
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

        operation = self._operation
        operation.refresh()
        request = Request(operation, shape, like, dtype, device)
        return inspect_call(request, operation.binder.bind(operands, scalars))

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

        operation = self._operation
        operation.refresh()
        return inspect_derivative(operation, operation.binder.bind(operands, scalars))

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
        from numjit.tools.prepared import Prepared

        operation = self._operation
        operation.refresh()
        if operation.is_nullary:
            raise ArgumentError(f"{self.__name__}.prepare() needs operands to broadcast; call it instead")
        return Prepared(self, operation, operation.binder.bind(operands, scalars), out)

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
        operation = self._operation
        bound = operation.binder.bind(operands, scalars)
        require_classes(self.__name__, dict(zip(operation.names, bound, strict=True)))
        need_torch(f"{self.__name__}.explain")
        from numjit.torch.compile import explain

        return explain(operation, bound, opaque=bool(operation.options["opaque"]))

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

        arguments = argument_types(self.functor, dtypes)
        if cc is None:
            from numjit.runtime import devices

            cc = devices.compute_capability(devices.current_device())
        else:
            cc = build.checked_capability(f"{self.__name__}.device_function()", cc)
        return build.device_function(self.functor, arguments, default_dtype(), cc)

    @property
    def parameter_names(self) -> list[str]:
        """Names of operands, then scalars."""
        return list(self._operation.names)

    @property
    def functor(self) -> Functor:
        """The functor as numjit read it."""
        return self._operation.functor

    @property
    def source(self) -> Any:
        """The Python function or C++ text that this was made of."""
        return self._source

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of `elementwise` that this was made with."""
        return dict(self._operation.options)

    def __repr__(self) -> str:
        return f"<numjit elementwise {self.__name__}{self.__signature__}>"

    def __reduce__(self) -> Any:
        module, qualname = getattr(self, "__module__", None), getattr(self, "__qualname__", None)
        if self._operation.python and module and qualname and _find(module, qualname) is self:
            return _find, (module, qualname)
        operation = self._operation
        if type(operation.functor) not in (CppFunctor, PythonFunctor):  # a derived one
            return _derived, (operation.functor, operation.options, operation.rule)
        return _restore, (self._source, operation.options, operation.rule)

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


def _restore(source: Any, options: dict[str, Any], rule: HandGradient | None = None) -> Any:
    made = elementwise(source, **options)
    made.__numjit_operation__.rule = rule
    return made


def _derived(functor: Functor, options: dict[str, Any], rule: HandGradient | None) -> Elementwise:
    made = Elementwise(functor, options)
    made.__numjit_operation__.rule = rule
    return made


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
