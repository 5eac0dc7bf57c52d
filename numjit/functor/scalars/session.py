"""Numba's compilers as numjit uses them: contexts of one compilation, and the two targets.

Numba's global contexts are used through subclasses that share their state (so no registry is loaded
twice, and nothing changes for other users of Numba) but know one compilation, the *session*: which
plain Python functions have become callable helpers, and why an operation was refused.
"""

from __future__ import annotations

import cmath
import contextlib
import functools
import inspect
import itertools
import math
import types as pytypes
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numba.core import types

from numjit.dtypes import DType
from numjit.errors import CompilationError
from numjit.functor.bytecode import bare, is_about_text, unsupported_statement
from numjit.functor.captured import refused, unstable
from numjit.functor.copied_exits import with_one_exit
from numjit.functor.fingerprint import MISSING_NAME, refused_at
from numjit.functor.markers import Direction, Primal, index
from numjit.functor.powers import has_powers
from numjit.functor.scalars import diagnosis
from numjit.functor.scalars.constants import TEXT, is_text, plain
from numjit.functor.scalars.constants_pass import SignedFunction, functor_pipeline
from numjit.functor.scalars.parameters import is_declared, parameter_type
from numjit.functor.scalars.raw import RawElements
from numjit.functor.scalars.registry import Helper, own_type, register
from numjit.functor.scalars.safe import never_raising
from numjit.functor.scalars.seeds import DirectionType
from numjit.functor.signature import ArgumentType, WrittenInPython
from numjit.functor.source import source_error
from numjit.ground.numba_cuda import numba_cuda_ready
from numjit.ground.numba_ready import numba_ready
from numjit.math import where
from numjit.rules.dual import REMEDY, Dual, is_inexact, severed, with_element
from numjit.rules.signs import ALL
from numjit.rules.table import RULES
from numjit.rules.types import (
    RefusalError,
    Strong,
    argument_type,
    unwrap,
)
from numjit.semantics.category import Category

__all__ = ["Session", "Target", "compiling"]

Target = Literal["cpu", "cuda"]
#: Of a call's arguments, by position and by name.
Signs = tuple[tuple[int, ...], tuple[tuple[str, int], ...]]

_serial = itertools.count()


class Session:
    """One compilation of a functor with everything it calls.

    Parameters
    ----------
    target
        The compiler.
    default_dtype
        ``torch.get_default_dtype()``.
    """

    def __init__(self, target: TargetCompiler, default_dtype: DType) -> None:
        self.target = target
        self.default_dtype = default_dtype
        self.typing, self.context = target.contexts(self)
        self.library = target.library(self.context)
        self._helpers: dict[Any, Helper] = {}
        #: Names of what was compiled so far, and what calls of it answered: these functions never raise.
        self.functions: set[str] = set()
        self.statuses: list[Any] = []
        #: Of the arguments of the function that is being compiled, what signs they may have.
        self.signs: tuple[int, ...] = ()
        self._inserted: list[object] = []
        self._running: list[Any] = []

    def compile(
        self, fn: Any, arguments: tuple[Any, ...], *, indexed: bool = False, signs: tuple[int, ...] = ()
    ) -> Any:
        """Run Numba on one function; errors name the user's line.

        With `indexed` the last of the arguments is what ``numjit.index()`` gives in the function's body.
        `signs` are those that arguments may have, where that is known (`numjit.rules.signs`).
        """
        if fn in self._running:
            raise RefusalError(f"{fn.__name__!r} calls itself; recursion is not supported")
        bad = unsupported_statement(fn.__code__)
        if bad is not None:
            line, what = bad
            # The string of print("x is", x) is not the reason.
            reason = is_about_text(what) and refused_at(fn, line)
            raise source_error(fn, (fn.__code__.co_filename, line), reason or f"it contains {what}")
        if not self._running:
            diagnosis.start()
        self._running.append(fn)
        outer, self.signs = self.signs, signs
        try:
            compiled = self.target.compile(self, with_one_exit(bare(fn)), arguments, indexed=indexed)
            self.functions.add(compiled.fndesc.llvm_func_name)
            return compiled
        except Exception as error:  # noqa: BLE001 - of Numba's passes, of any type
            found = diagnosis.explain(error, fn)
            if found is not error and isinstance(found, CompilationError) and found.cause is None:
                found.cause = error
            # Numba's own chain of causes takes four screens: whoever wants it finds it in the attribute.
            raise found.with_traceback(None) from None
        finally:
            self.signs = outer
            self._running.pop()

    def reads_signs(self, value: Any) -> bool:
        """Whether a called object is a Python function to which the signs of arguments mean something."""
        functor = getattr(value, "__numjit_functor__", None)
        if functor is not None:
            return functor.kind == "python" and bool(functor.reads_signs)
        return isinstance(value, pytypes.FunctionType) and not _has_rule(value) and has_powers(value)

    def helper(self, fn: Any, signs: Signs = ((), ())) -> Helper:
        """Return the callable type of a Python function, or of a decorated one.

        `signs` are those of the arguments, by position and by name.
        """
        found = self._helpers.get((id(fn), signs))
        if found is None:
            found = self._helpers[id(fn), signs] = self._make_helper(fn, signs)
        return found

    def _make_helper(self, fn: Any, signs: Signs) -> Helper:
        functor = getattr(fn, "__numjit_functor__", None)
        function = fn if functor is None else functor.fn
        parameters = _relaxed(
            inspect.signature(bare(function)) if functor is None else functor.python_signature
        )
        is_primal = isinstance(fn, Primal)
        indexed = isinstance(fn, Primal) and fn.indexed
        if indexed:
            extra = inspect.Parameter("_index", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            listed = (*parameters.parameters.values(), extra)
            parameters = inspect.Signature(listed, __validate_parameters__=False)
        names = list(parameters.parameters)
        known = {**dict(zip(names, signs[0], strict=False)), **dict(signs[1])}
        by_place = tuple(known.get(name, ALL) for name in names) if known else ()
        done: dict[tuple[Any, ...], tuple[Any, object]] = {}

        def resolve(args: Any, kws: Any) -> Any:
            folded = self._fold(parameters, args, kws)
            if functor is not None:
                count = len(folded) - indexed
                taken = _declared(functor, folded[:count], self.default_dtype)
                folded = (*taken, *([types.int64] if indexed else []))
            if folded not in done:
                compiled = self.compile(function, folded, indexed=indexed, signs=by_place)
                if functor is not None and not is_primal:  # whose caller converts as the call would
                    _check_results(functor, compiled.signature.return_type)
                key = object()
                linked = () if compiled.library is self.library else (compiled.library,)
                self.context.insert_user_function(key, compiled.fndesc, linked)
                self._inserted.append(key)
                done[folded] = compiled, key
            return done[folded][0].signature.replace(pysig=parameters)

        def implementation(sig: Any) -> object:
            return done[sig.args][1]

        return Helper(f"numjit.helper({function.__qualname__}#{next(_serial)})", resolve, implementation)

    @staticmethod
    def _fold(parameters: inspect.Signature, args: Any, kws: Any) -> tuple[Any, ...]:
        from numba.core.typing import fold_arguments

        folded = fold_arguments(
            parameters,
            tuple(types.unliteral(kind) for kind in args),
            {name: types.unliteral(kind) for name, kind in kws.items()},
            lambda _index, _parameter, kind: kind,
            lambda _index, _parameter, default: types.Omitted(default),
            lambda _index, _parameter, kinds: types.StarArgTuple(kinds),
        )
        return tuple(folded)

    def close(self) -> None:
        """Take the helpers out of Numba's shared tables."""
        for key in self._inserted:
            self.context.remove_user_function(key)
        self._inserted.clear()
        # Numba's caches keep the types themselves for good; at least let go of what they compiled.
        for helper in self._helpers.values():
            helper.forget()
        self._helpers.clear()


def _relaxed(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature whose keyword-only parameters are ordinary: Numba binds those wrongly."""
    parameters = [
        p.replace(
            kind=p.POSITIONAL_OR_KEYWORD if p.kind is p.KEYWORD_ONLY else p.kind, default=plain(p.default)
        )
        for p in signature.parameters.values()
    ]
    return inspect.Signature(parameters, __validate_parameters__=False)


def _declared(functor: WrittenInPython, kinds: tuple[Any, ...], default_dtype: DType) -> tuple[Any, ...]:
    """Return the parameter types of a decorated functor that another functor calls with `kinds`."""
    arguments = []
    parameters = (*functor.signature.operands, *functor.signature.scalars)
    for kind, parameter in zip(kinds, parameters, strict=True):
        if parameter.raw != isinstance(kind, RawElements):
            wanted = "a raw operand" if parameter.raw else "a number"
            raise RefusalError(
                f"{functor.name!r} takes {wanted} as {parameter.name!r}, not a value of type {kind}"
            )
        is_raw = isinstance(kind, RawElements)
        argument = ArgumentType(kind.stored, Category.DIM) if is_raw else argument_type(unwrap(kind))
        if argument is None:
            raise RefusalError(f"{functor.name!r} cannot be called with a value of type {kind}")
        arguments.append(argument)
    inputs = functor.input_dtypes(tuple(arguments), default_dtype)
    return tuple(
        RawElements(kind.stored, dtype, default_dtype)
        if parameter.raw
        else kind
        if dtype is argument.dtype and not is_declared(parameter)
        else _converted(functor, kind, parameter_type(parameter, dtype, argument, default_dtype))
        for kind, parameter, argument, dtype in zip(kinds, parameters, arguments, inputs, strict=True)
    )


def _converted(functor: WrittenInPython, kind: Any, declared: Any) -> Any:
    """Return a declared parameter type with the derivatives of the value that is passed."""
    if not isinstance(kind, Dual):
        return declared
    if kind.is_severed and is_inexact(declared.dtype):
        raise severed(str(declared.dtype))
    loses_part = kind.dtype.is_complex and not declared.dtype.is_complex
    if not kind.is_severed and (loses_part or not is_inexact(declared.dtype)):
        raise RefusalError(
            f"{functor.name!r} takes a {declared.dtype}, to which a differentiated {kind.dtype} cannot be "
            f"converted without losing the derivative; convert before, {REMEDY}"
        )
    return with_element(kind, declared)


def _check_results(functor: WrittenInPython, found: Any) -> None:
    """Refuse a call whose result would have to be converted to what the called functor declares."""
    results = found.types if isinstance(found, types.BaseTuple) else (found,)
    for output, result in zip(functor.signature.outputs, results, strict=False):
        argument = argument_type(result)
        if output.dtype is not None and argument is not None and argument.dtype is not output.dtype:
            raise RefusalError(
                f"{functor.name!r} declares a result of {output.dtype}, but computes {argument.dtype}; a "
                f"functor that others call must return what it declares: convert inside {functor.name!r}"
            )


def _divmod(x: Any, y: Any) -> Any:
    return x // y, x % y


def _modf(x: Any) -> Any:
    value = float(x)
    whole = float(math.trunc(value))
    # Of a negative whole number it is -0.0, of infinity 0 with its sign; the derivative is 1 even there.
    rest = where(value > 0.0, value - whole, where(value < 0.0, -(whole - value), value))
    return where(math.isinf(value), math.copysign(0.0, value), rest), whole


def _polar(x: Any) -> Any:
    return abs(complex(x)), cmath.phase(x)


#: Python's functions of several results, as what is compiled in their place.
_SEVERAL_RESULTS: dict[Any, Any] = {divmod: _divmod, math.modf: _modf, cmath.polar: _polar}


class _TypingMixin:
    """Typing context in which undecorated Python functions and numjit functors can be called."""

    session: Session

    def resolve_value_type(self, value: Any) -> Any:
        if getattr(value, "__numjit_functor__", None) is not None:
            if value.__numjit_functor__.kind != "python":
                raise RefusalError(
                    f"{value.__name__!r} is a C++ functor; only Python functors can be called here"
                )
            return self.session.helper(value)
        reason = refused(value)
        if reason is None and hasattr(value, "__array_interface__") and not isinstance(value, np.generic):
            reason = f"it captures an array: {unstable(value)}"
        if reason is not None:
            raise RefusalError(reason)
        if isinstance(value, Direction):
            return DirectionType(value)
        if value is index:
            raise RefusalError(
                "numjit.index() can be called in the functor's body only; call it there, pass the number on"
            )
        if isinstance(value, SignedFunction):
            return self.session.helper(value.function, value.signs)
        if isinstance(value, pytypes.BuiltinFunctionType) and value in _SEVERAL_RESULTS:
            return self.session.helper(_SEVERAL_RESULTS[value])
        own = own_type(self.session.target.name, value)
        if own is not None:
            return own
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            raise RefusalError(
                f"the integer {_shown(value)} does not fit 64 bits; write it as a float, {_as_float(value)}"
            )
        inner = getattr(value, "py_func", None)
        if isinstance(inner, pytypes.FunctionType):  # Numba keeps what it compiled when a global is rebound
            return self.session.helper(inner)
        if isinstance(value, pytypes.FunctionType) and self._get_global_type(value) is None:  # type: ignore[attr-defined]
            return self.session.helper(value)
        return super().resolve_value_type(value)  # type: ignore[misc]

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        own = own_type(self.session.target.name, func)
        if own is not None:  # an operator that Numba does not look up as a value
            return own.get_call_type(self, args, kws)
        return super().resolve_function_type(func, args, kws)  # type: ignore[misc]

    def resolve_getattr(self, kind: Any, name: str) -> Any:
        if isinstance(kind, types.Module):
            value = getattr(kind.pymod, name, MISSING_NAME)
            if value is MISSING_NAME:
                raise RefusalError(
                    f"the module {kind.pymod.__name__} has no attribute {name!r}; correct the name"
                )
            reason = refused(value, f"{kind.pymod.__name__}.{name}") or (TEXT if is_text(value) else None)
            if reason is not None:
                raise RefusalError(reason)
        found = super().resolve_getattr(kind, name)  # type: ignore[misc]
        if found is None and isinstance(kind, types.Module):
            raise RefusalError(f"{kind.pymod.__name__}.{name} is not supported in a functor")
        if found is None and isinstance(kind, Strong):
            raise RefusalError(
                f"elements have no attribute {name!r}; use Python's math functions and operators"
            )
        return found


def _has_rule(value: Any) -> bool:
    try:
        return value in RULES
    except TypeError:  # not hashable
        return False


def _shown(number: int) -> str:
    return str(number) if abs(number) < 10**40 else f"of {number.bit_length()} bits"


def _as_float(number: int) -> str:
    try:
        return repr(float(number))
    except OverflowError:
        return "math.inf" if number > 0 else "-math.inf"


@functools.cache
def _subclasses(target: Target) -> tuple[type, type]:
    typing_base, context_base = map(type, _TARGETS[target].bases())
    convention = _TARGETS[target].convention()
    # The slot lies outside the instance dictionary, which is the shared one of Numba's global context.
    typing = type("NumjitTypingContext", (_TypingMixin, typing_base), {"__slots__": ("session",)})
    context = type(
        "NumjitTargetContext",
        (context_base,),
        {
            "__slots__": ("session",),
            "typing_context": property(lambda self: self.session.typing),
            "call_conv": property(convention),
        },
    )
    return typing, context


def _scoped(cls: type, base: Any, session: Session) -> Any:
    scoped: Any = object.__new__(cls)
    scoped.__dict__ = base.__dict__
    scoped.session = session
    return scoped


# -------------------------------------------------------------------------------------------- targets


class TargetCompiler:
    """What differs between Numba's two compilers."""

    name: Target

    def bases(self) -> tuple[Any, Any]:
        """Return Numba's global typing and target contexts, with every registry loaded."""
        raise NotImplementedError

    def convention(self) -> type:
        """Return the calling convention."""
        raise NotImplementedError

    def compile(self, session: Session, fn: Any, arguments: tuple[Any, ...], *, indexed: bool) -> Any:
        """Run the compiler pipeline and return its compile result."""
        raise NotImplementedError

    def pipeline(self, *, indexed: bool) -> dict[str, Any]:
        """Return the argument that names the pipeline."""
        return {"pipeline_class": functor_pipeline(self.name, indexed=indexed)}

    def library(self, context: Any) -> Any:  # noqa: ARG002
        """Return the code library that a whole session shares, or None where each function has its own."""
        return None

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Hold whatever compilation needs."""
        raise NotImplementedError
        yield

    def contexts(self, session: Session) -> tuple[Any, Any]:
        """Return the session's typing and target contexts."""
        register(self.name)
        typing, context = self.bases()
        typing.refresh()
        context.refresh()
        typing_class, context_class = _subclasses(self.name)
        return _scoped(typing_class, typing, session), _scoped(context_class, context, session)


class _Cpu(TargetCompiler):
    name: Target = "cpu"

    def bases(self) -> tuple[Any, Any]:
        from numba.core.registry import cpu_target

        return cpu_target.typing_context, cpu_target.target_context

    @functools.cached_property
    def _convention(self) -> type:
        from numba.core.callconv import CPUCallConv

        return never_raising(CPUCallConv)

    def convention(self) -> type:
        return self._convention

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        with numba_ready():
            from numba.core.target_extension import target_override

            with target_override("cpu"):
                yield

    def compile(self, session: Session, fn: Any, arguments: tuple[Any, ...], *, indexed: bool) -> Any:
        from numba.core.compiler import Flags, compile_extra

        flags = Flags()
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.forceinline = True
        flags.no_compile = True
        flags.error_model = "numpy"
        return compile_extra(
            session.typing,
            session.context,
            fn,
            arguments,
            None,
            flags,
            {},
            library=session.library,
            **self.pipeline(indexed=indexed),
        )

    def library(self, context: Any) -> Any:
        # One for all: Numba never frees a finished CPU library (0.15 MB each), and optimises each alone.
        return context.codegen().create_library(f"numjit_{next(_serial)}")


class _Cuda(TargetCompiler):
    name: Target = "cuda"

    def bases(self) -> tuple[Any, Any]:
        from numba.cuda.descriptor import cuda_target

        return cuda_target.typing_context, cuda_target.target_context

    @functools.cached_property
    def _convention(self) -> type:
        from numba.cuda.compiler import CUDACallConv

        return never_raising(CUDACallConv)

    def convention(self) -> type:
        return self._convention

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        with numba_cuda_ready():
            from numba.cuda import utils
            from numba.cuda.core.compiler_lock import global_compiler_lock

            with global_compiler_lock, utils.numba_target_override():
                yield

    def compile(self, session: Session, fn: Any, arguments: tuple[Any, ...], *, indexed: bool) -> Any:
        from numba.cuda.compiler import compile_extra
        from numba.cuda.flags import CUDAFlags

        flags = CUDAFlags()
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        flags.error_model = "numpy"
        flags.forceinline = flags.lto = True
        return compile_extra(
            session.typing,
            session.context,
            fn,
            arguments,
            None,
            flags,
            {},
            call_conv=self.convention()(session.context),
            abi_info={},
            **self.pipeline(indexed=indexed),
        )


_TARGETS: dict[Target, TargetCompiler] = {"cpu": _Cpu(), "cuda": _Cuda()}


@contextlib.contextmanager
def compiling(target: Target) -> Iterator[TargetCompiler]:
    """Hold a target's compiler: one thread at a time, for the whole of a functor's compilation."""
    compiler = _TARGETS[target]
    with compiler.ready():  # holds Numba's own global lock
        yield compiler
