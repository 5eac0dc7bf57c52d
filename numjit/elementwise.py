"""The public callable: a function of one element that runs over whole arrays."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from numjit.binding import Binder, check_defaults
from numjit.call import Arguments, Call, Nullary, read_arguments
from numjit.errors import ArgumentError, DeviceError, FunctorError
from numjit.functor.cuda_cpp import CppFunctor
from numjit.functor.python import PythonFunctor
from numjit.torch_compile import call_traced, explain, token
from numjit.torch_dispatch import dispatched

if TYPE_CHECKING:
    from numjit.build import Functor

__all__ = ["Elementwise", "elementwise"]

#: Keywords of a call that are numjit's own, so no scalar can have such a name.
RESERVED = ("out", "shape", "like", "dtype", "device")


class Elementwise:
    """A function of one element, callable on whole arrays; made by `elementwise`.

    Instances are immutable: copies are the instance itself, and the hash is by identity.
    """

    def __init__(self, functor: Functor, options: dict[str, Any]) -> None:
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
        self._call = Call(functor, self._names, self._operands, autotune=options["autotune"])
        self._python = functor if isinstance(functor, PythonFunctor) else None
        self._captures = self._python.current_captures() if self._python else ()
        self._token = token(self)
        #: Read the numbers that the functor captures, for tracers to guard on; made when first traced.
        self._watchers: Any = None
        self.__name__ = functor.name
        self.__signature__ = _call_signature(functor)
        if self._python:
            for name in ("__module__", "__qualname__", "__doc__"):
                setattr(self, name, getattr(self._python.fn, name))
        else:
            self.__doc__ = f"Elementwise operation of the C++ functor {functor.name}."

    @property
    def __numjit_functor__(self) -> Functor:
        """The functor, for other functors that call this one."""
        return self._functor

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
        compiler = getattr(sys.modules.get("torch"), "compiler", None)
        plain = shape is None and like is None and dtype is None and device is None
        if plain and compiler is not None and compiler.is_compiling():
            traced = call_traced(self, operands, scalars, out)
            if traced is not NotImplemented:
                return traced
        functor = self._functor
        if self._python is not None:
            self._refresh(self._python)
        bound = self._binder.bind(operands, scalars)
        key = None
        if plain and out is None:
            key = self._call.warm.key(self._call.fingerprint, bound)
            if key is not None:
                result = self._call.warm.run(key, bound)
                if result is not None:
                    return result
            else:
                result = dispatched(self, bound)
                if result is not NotImplemented:
                    return result
        arguments = read_arguments(functor.name, self._names, self._operands, bound, self._raws)
        nullary = None
        if self._nullary_only:
            nullary = self._nullary(arguments, shape, like, dtype, device, out)
        elif not plain:
            raise ArgumentError(
                f"{functor.name}(): shape, like, dtype and device are for functors without "
                "operands to broadcast; leave them out"
            )
        if _needs_grad(arguments):
            from numjit.autograd import run_recorded

            results = run_recorded(self._call, functor.name, arguments, out, nullary)
        else:
            results = self._call.run(arguments, out, nullary, key)
        return results[0] if len(results) == 1 else results

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
        """
        return explain(self, self._binder.bind(operands, scalars), opaque=bool(self._options["opaque"]))

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
        from numjit import build
        from numjit.call import default_dtype
        from numjit.functor.device_function import argument_types

        arguments = argument_types(self._functor, dtypes)
        if cc is None:
            from numjit.runtime import devices

            cc = devices.compute_capability(devices.current_device())
        return build.device_function(self._functor, arguments, default_dtype(), cc)

    def _look_again(self) -> None:
        """Start anew, if need be, before something else than a call looks at the functor."""
        if self._python is not None:
            self._refresh(self._python)

    def _refresh(self, functor: PythonFunctor) -> None:
        """Start anew where a captured variable or global was rebound since the last call."""
        current, before = functor.current_captures(), self._captures
        if len(current) != len(before) or not all(map(operator.is_, current, before)):
            self._call.fingerprint = functor.fingerprint()
            self._captures = current
            self._watchers = None

    def _nullary(
        self, arguments: Arguments, shape: Any, like: Any, dtype: Any, device: Any, out: Any
    ) -> Nullary:
        from numjit import dtypes
        from numjit.arrays.adapters import view
        from numjit.arrays.allocate import output_library
        from numjit.arrays.view import CPU, as_device

        name = self._functor.name
        given = [array for array in (out if isinstance(out, tuple) else (out,)) if array is not None]
        pattern = like if like is not None else given[0] if given else None
        seen = None if pattern is None else view(pattern)
        if pattern is not None and seen is None:
            label = "out" if like is None else "like"
            raise ArgumentError(f"{name}(): {label} is a {type(pattern).__name__}; pass an array")
        if shape is None and seen is None:
            raise ArgumentError(
                f"{name}() has no operands to take a shape from; say shape= (and device=), like= or out="
            )
        size = tuple(seen.shape) if shape is None and seen is not None else _sizes(name, shape)
        where = as_device(device) if device is not None else None
        where = where or (seen.device if seen is not None else arguments.device if arguments.arrays else CPU)
        # 0-dim CPU arrays (scalars) have become numbers by now.
        if any(a.device != where for a in arguments.arrays if a.shape or a.device.kind != "cpu") or any(
            a.device != where for a in arguments.raws.values()
        ):
            raise DeviceError(
                f"{name}(): the result is to be on {where} but arguments are on {arguments.device}; "
                "move them to one device"
            )
        stored = (
            dtypes.as_dtype(dtype) if dtype is not None else seen.dtype if like is not None and seen else None
        )
        library = output_library([seen] if seen is not None else arguments.arrays)
        return Nullary(size, stored, where, library)

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
        return _restore, (self._source, self._options)

    def __copy__(self) -> Elementwise:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Elementwise:
        return self


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


def _restore(source: Any, options: dict[str, Any]) -> Any:
    return elementwise(source, **options)


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    """Read ``shape=``: an int or a sequence of them."""
    try:
        size = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(map(operator.index, shape))
    except TypeError:
        raise ArgumentError(f"{name}(): shape is {shape!r}; pass an int or a tuple of ints") from None
    if any(n < 0 for n in size):
        raise ArgumentError(f"{name}(): shape {size} has a negative size; sizes are 0 or more")
    return size


def _needs_grad(arguments: Arguments) -> bool:
    if not any(seen.requires_grad for seen in arguments.arrays):
        return False
    return bool(sys.modules["torch"].is_grad_enabled())


def _call_signature(functor: Functor) -> inspect.Signature:
    signature = functor.signature
    from numjit.functor.signature import MISSING

    def default(value: Any) -> Any:
        return inspect.Parameter.empty if value is MISSING else value

    parameters = [
        inspect.Parameter(
            _identifier(p.name, k), inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default(p.default)
        )
        for k, p in enumerate(signature.operands)
    ]
    parameters += [
        inspect.Parameter(p.name, inspect.Parameter.KEYWORD_ONLY, default=default(p.default))
        for p in signature.scalars
    ]
    taken = {p.name for p in parameters}
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in (RESERVED if len(signature.raws) == len(signature.operands) else RESERVED[:1])
        if name not in taken
    ]
    return inspect.Signature(parameters)


def _identifier(name: str, position: int) -> str:
    return name if name.isidentifier() else f"operand{position}"


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
    given: dict[str, Any] = {
        "outputs": outputs, "entry": entry, "scalars": {**(scalars or {}), **defaults}, "preamble": preamble,
        "options": tuple(options), "autotune": autotune, "opaque": opaque,
    }  # fmt: skip
    if functor is None:
        return lambda function: elementwise(function, **given)
    check_defaults(given["scalars"])
    if isinstance(functor, Elementwise):
        raise FunctorError(
            f"{functor.__name__} is elementwise already; pass the function or text it was made of"
        )
    if isinstance(functor, str):
        text = CppFunctor(
            functor,
            entry=entry,
            outputs=outputs,
            scalars=given["scalars"],
            preamble=preamble,
            options=tuple(options),
        )
        return Elementwise(text, given)
    if not callable(functor):
        raise FunctorError(f"a functor is a function or CUDA C++ text, not a {type(functor).__name__}")
    if entry is not None or preamble or options:
        raise FunctorError("entry, preamble and options are for C++ functors; leave them out")
    return Elementwise(PythonFunctor(functor, outputs=outputs, scalars=given["scalars"]), given)
