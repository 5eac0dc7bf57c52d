"""Python functors: a function of one element, its signature, and what one call makes of it.

Numba is only imported when a functor is first specialised.
"""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from numjit import dtypes
from numjit.dtypes import DType, as_dtype
from numjit.errors import ArgumentError, FunctorError, UnsupportedDtypeError
from numjit.functor.bytecode import bare, count_returned
from numjit.functor.fingerprint import Captures, digest, refers_to
from numjit.functor.markers import Raw, index
from numjit.functor.powers import has_powers
from numjit.functor.signature import MISSING, ArgumentType, Output, Parameter, Signature, Specialisation
from numjit.ground.apart import lock
from numjit.ground.numba_ready import numba_ready
from numjit.semantics.category import Category
from numjit.semantics.promotion import result_type

if TYPE_CHECKING:
    from numjit.functor.scalars.compiler import Compiled

__all__ = ["PythonFunctor"]

_BUILTIN_KINDS: dict[Any, DType] = {
    bool: dtypes.bool_,
    int: dtypes.int64,
    float: dtypes.float64,
    complex: dtypes.complex128,
}
_KIND_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
Target = Literal["cuda", "cpu"]


class PythonFunctor:
    """A functor written in Python.

    Positional parameters are operands (a default makes one omittable), keyword-only parameters are
    scalars. Annotations give dtypes: a numjit, torch or NumPy dtype, or a `typing.TypeVar` shared by
    several parameters; ``int``, ``float``, ``bool`` and ``complex`` annotate scalars only;
    ``numjit.raw`` (or ``numjit.raw(dtype)``) an operand that the functor indexes itself. The return
    annotation is a dtype or type variable, or a tuple of them.

    Parameters
    ----------
    fn
        The function of one element; several results are returned as a tuple.
    outputs
        Number of results, where it is to be checked or cannot be told from the return statements.
    scalars
        Defaults of scalars, overriding the function's own.

    Raises
    ------
    FunctorError
        `fn` is no plain Python function, or its signature, its annotations, `outputs` or `scalars` do
        not fit.
    """

    kind = "python"

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        outputs: int | None = None,
        scalars: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(fn, types.FunctionType):
            raise FunctorError(_no_function(fn))
        self.fn = fn
        self.name = fn.__name__
        self._outputs = outputs
        self._overrides = dict(scalars or {})
        self.python_signature = self._python_signature()
        self.number_kinds: dict[str, DType] = {}
        self.signature = self._read_signature()
        self._lock = lock()
        self._specialised: dict[Any, Specialisation] = {}
        self._compiled: dict[Target, tuple[Any, Compiled]] = {}
        self._captures: Captures | None = None
        self._captured: tuple[Any, ...] = ()
        self._fingerprint: str | None = None
        self._uses_index = False
        self._reads_signs: bool | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.fn, self._outputs, self._overrides)

    def __repr__(self) -> str:
        return f"<numjit Python functor {self.name}>"

    # ---------------------------------------------------------------------------------- signature

    def _python_signature(self) -> inspect.Signature:
        """Return the function's own signature with the overridden defaults of scalars."""
        found = inspect.signature(bare(self.fn))
        for parameter in found.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise FunctorError(
                    f"functor {self.name!r}: parameter {parameter} has no fixed number of values; name every "
                    "operand and scalar"
                )
        known = [p.name for p in found.parameters.values() if p.kind is p.KEYWORD_ONLY]
        for name in self._overrides:
            if name not in known:
                raise FunctorError(
                    f"functor {self.name!r} has no scalar {name!r} (it has {', '.join(known) or 'none'}); "
                    "scalars are the keyword-only parameters, those after '*'"
                )
        return found.replace(
            parameters=[
                p.replace(default=self._overrides[p.name]) if p.name in self._overrides else p
                for p in found.parameters.values()
            ]
        )

    def _read_signature(self) -> Signature:
        try:
            hints = inspect.get_annotations(self.fn, eval_str=True)
        except (AttributeError, NameError, SyntaxError, TypeError) as error:
            raise FunctorError(
                f"functor {self.name!r}: an annotation is not understood ({error}); the names it uses must "
                "be globals of the functor's module"
            ) from None
        operands: list[Parameter] = []
        scalars: list[Parameter] = []
        for parameter in self.python_signature.parameters.values():
            is_scalar = parameter.kind is parameter.KEYWORD_ONLY
            made = self._read_parameter(parameter, hints, is_scalar)
            (scalars if is_scalar else operands).append(made)
        outputs = self._read_outputs(hints)
        return Signature(self.name, tuple(operands), tuple(scalars), outputs)

    def _read_parameter(
        self, parameter: inspect.Parameter, hints: Mapping[str, Any], is_scalar: bool
    ) -> Parameter:
        name = parameter.name
        default = MISSING if parameter.default is parameter.empty else parameter.default
        if default is not MISSING and not _is_number(default):
            raise FunctorError(
                f"functor {self.name!r}: the default of {name!r} is {default!r}; a default must be a number"
            )
        if isinstance(default, enum.Enum):
            default = default.value
        hint = hints.get(name, parameter.empty)
        if hint is parameter.empty:
            return Parameter(name, default=default)
        if isinstance(hint, type) and hint in _BUILTIN_KINDS:
            if not is_scalar:
                raise FunctorError(
                    f"functor {self.name!r}: operand {name!r} is annotated {hint.__name__}, which names no "
                    f"dtype; say {_BUILTIN_KINDS[hint]!r}, or put it after '*' to make it a scalar"
                )
            self.number_kinds[name] = _BUILTIN_KINDS[hint]
            return Parameter(name, default=default)
        if isinstance(hint, Raw):
            return self._read_raw(name, hint, default, is_scalar)
        dtype, variable = self._read_dtype(hint, f"parameter {name!r}")
        return Parameter(name, dtype, variable, default)

    def _read_raw(self, name: str, hint: Raw, default: Any, is_scalar: bool) -> Parameter:
        if is_scalar or default is not MISSING:
            reason = "a scalar, a keyword-only parameter" if is_scalar else "omittable: it has a default"
            raise FunctorError(
                f"functor {self.name!r}: {name!r} is annotated {hint!r} but is {reason}; a raw operand is a "
                "positional parameter without a default"
            )
        dtype, variable = (
            (None, None) if hint.element is None else self._read_dtype(hint.element, f"parameter {name!r}")
        )
        return Parameter(name, dtype, variable, raw=True)

    def _read_dtype(self, hint: Any, where: str) -> tuple[DType | None, str | None]:
        if isinstance(hint, typing.TypeVar):
            return None, hint.__name__
        try:
            return as_dtype(hint), None
        except UnsupportedDtypeError as error:
            raise FunctorError(
                f"functor {self.name!r}: {where} is annotated {hint!r} ({error}); annotate a dtype or a "
                "typing.TypeVar"
            ) from None

    def _read_outputs(self, hints: Mapping[str, Any]) -> tuple[Output, ...]:
        if self._outputs is not None and (type(self._outputs) is not int or self._outputs < 1):
            raise FunctorError(f"functor {self.name!r}: outputs={self._outputs!r}; it must be 1 or more")
        hint = hints.get("return", inspect.Parameter.empty)
        if hint is inspect.Parameter.empty:
            count = self._outputs or count_returned(self.fn.__code__) or 1
            return (Output(),) * count
        if typing.get_origin(hint) is tuple:
            hint = typing.get_args(hint)
        parts = hint if isinstance(hint, tuple) else (hint,)
        outputs = tuple(
            Output(dtypes.bool_) if part is bool else Output(*self._read_dtype(part, "the result"))
            for part in parts
        )
        if self._outputs is not None and self._outputs != len(outputs):
            raise FunctorError(
                f"functor {self.name!r}: outputs={self._outputs}, but its return annotation names "
                f"{len(outputs)}; make them agree"
            )
        variables = {p.variable for p in self._parameters_of_hints(hints)}
        for output in outputs:
            if output.variable is not None and output.variable not in variables:
                raise FunctorError(
                    f"functor {self.name!r}: the result is annotated {output.variable}, as no parameter is; "
                    "annotate a parameter with it, or name a dtype"
                )
        return outputs

    def _parameters_of_hints(self, hints: Mapping[str, Any]) -> list[Parameter]:
        declared = {
            name: hint.element if isinstance(hint, Raw) else hint
            for name, hint in hints.items()
            if name != "return"
        }
        return [
            Parameter(name, variable=hint.__name__)
            for name, hint in declared.items()
            if isinstance(hint, typing.TypeVar)
        ]

    # ------------------------------------------------------------------------------ specialisation

    def input_dtypes(self, arguments: tuple[ArgumentType, ...], default_dtype: DType) -> tuple[DType, ...]:
        """Return the dtype that each argument is converted to before the functor sees it.

        Raises
        ------
        ArgumentError
            The number of arguments is wrong, or a scalar annotated ``int`` is given a float, and so on.
        PromotionError
            Arguments that share a type variable have no common dtype.
        """
        parameters = (*self.signature.operands, *self.signature.scalars)
        if len(arguments) != len(parameters):
            raise ArgumentError(
                f"functor {self.name!r} takes {len(parameters)} arguments "
                f"({', '.join(p.name for p in parameters)}), not {len(arguments)}"
            )
        common = self._variables(arguments, default_dtype)
        inputs = []
        for parameter, argument in zip(parameters, arguments, strict=True):
            if parameter.dtype is not None:
                inputs.append(parameter.dtype)
            elif parameter.variable is not None:
                inputs.append(common[parameter.variable])
            else:
                inputs.append(self._own_dtype(parameter.name, argument))
        return tuple(inputs)

    def _variables(self, arguments: tuple[ArgumentType, ...], default_dtype: DType) -> dict[str, DType]:
        shared: dict[str, list[ArgumentType]] = {}
        parameters = (*self.signature.operands, *self.signature.scalars)
        for parameter, argument in zip(parameters, arguments, strict=True):
            if parameter.variable is not None:
                shared.setdefault(parameter.variable, []).append(argument)
        return {name: result_type(group, default_dtype) for name, group in shared.items()}

    def _own_dtype(self, name: str, argument: ArgumentType) -> DType:
        """Return an unannotated argument's dtype, or the kind that its builtin annotation asks for."""
        kind = self.number_kinds.get(name)
        if kind is None or argument.category is not Category.NUMBER:
            return argument.dtype
        if _KIND_RANK[argument.dtype.kind] > _KIND_RANK[kind.kind]:
            asked = next(python for python, dtype in _BUILTIN_KINDS.items() if dtype is kind)
            raise ArgumentError(
                f"functor {self.name!r}: scalar {name!r} is annotated {asked.__name__} but was given a "
                f"{argument.dtype} number; pass a {asked.__name__}, or change the annotation"
            )
        # uint64 is an int that does not fit int64.
        return argument.dtype if argument.dtype.kind == "u" and kind.kind == "i" else kind

    def specialise(
        self, arguments: tuple[ArgumentType, ...], default_dtype: DType, *, target: Target = "cuda"
    ) -> Specialisation:
        """Infer the dtypes of one call's results.

        Parameters
        ----------
        arguments
            Types of the operands, then of the scalars, in signature order.
        default_dtype
            ``torch.get_default_dtype()``.
        target
            Whose compiler infers; the other one need not be installed.

        Raises
        ------
        ArgumentError, PromotionError
            The arguments do not fit the parameters.
        CompilationError
            The functor cannot be compiled for them; the message shows the user's line.
        FunctorError
            It returns another number of results than its signature says.
        """
        with self._lock:
            self._forget_if_rebound()
            key = (arguments, default_dtype)
            found = self._specialised.get(key)
            if found is None:
                found = self._specialised[key] = self._specialise(arguments, default_dtype, target)
            return found

    def _specialise(
        self, arguments: tuple[ArgumentType, ...], default_dtype: DType, target: Target
    ) -> Specialisation:
        with numba_ready():
            from numjit.functor.scalars import compiler

        inputs = self.input_dtypes(arguments, default_dtype)
        compiled = self._compile(arguments, inputs, default_dtype, target)
        inferred = compiler.result_dtypes(compiled, default_dtype)
        declared = self.signature.outputs
        if len(declared) != len(inferred):
            raise FunctorError(
                f"functor {self.name!r} returns {len(inferred)} results where {len(declared)} were expected; "
                f"say outputs={len(inferred)}, or change the return statement"
            )
        common = self._variables(arguments, default_dtype)
        outputs = tuple(
            output.dtype or (common[output.variable] if output.variable else dtype)
            for output, dtype in zip(declared, inferred, strict=True)
        )
        return Specialisation(arguments, inputs, outputs, default_dtype)

    def _compile(
        self,
        arguments: tuple[ArgumentType, ...],
        inputs: tuple[DType, ...],
        default_dtype: DType,
        target: Target,
    ) -> Compiled:
        with numba_ready():
            from numjit.functor.scalars import compiler

        compiled = compiler.compile_functor(self, arguments, inputs, default_dtype, target)
        # Kept for the code generation that usually follows at once; one, so that it stays small.
        self._compiled[target] = ((arguments, inputs, default_dtype), compiled)
        return compiled

    def take_compiled(self, specialisation: Specialisation, target: Target) -> Compiled:
        """Return the functor as lowered for `target`, compiling it unless `specialise` just did."""
        key = (specialisation.arguments, specialisation.inputs, specialisation.default_dtype)
        with self._lock:
            self._forget_if_rebound()
            kept = self._compiled.get(target)
            if kept is None or kept[0] != key:
                self._compile(*key, target)
            return self._compiled.pop(target)[1]

    # -------------------------------------------------------------------------------------- identity

    def fingerprint(self) -> str:
        """Return a digest of all that decides what the functor computes, the same in every process.

        Raises
        ------
        FunctorError
            The functor captures something without a stable identity, such as an array.
        """
        with self._lock:
            self._forget_if_rebound()
            if self._fingerprint is None:
                self._fingerprint = digest(self.identity())
            return self._fingerprint

    def identity(self) -> tuple[Any, ...]:
        """Return what a digest of the functor covers: the function and how it is declared."""
        declared = [
            (p.name, p.dtype, p.variable, None if p.default is MISSING else p.default, p.raw)
            for p in (*self.signature.operands, *self.signature.scalars)
        ]
        outputs = [(output.dtype, output.variable) for output in self.signature.outputs]
        kinds = sorted((name, kind.name) for name, kind in self.number_kinds.items())
        return self.fn, tuple(declared), tuple(outputs), tuple(kinds)

    @property
    def uses_index(self) -> bool:
        """Whether the body calls ``numjit.index()``: the functor is then compiled to take it as well."""
        with self._lock:
            self._forget_if_rebound()
            return self._uses_index

    @property
    def reads_signs(self) -> bool:
        """Whether it may take an int of the call as an exponent: the int's sign is then part of its type."""
        with self._lock:
            self._forget_if_rebound()
            if self._reads_signs is None:
                self._reads_signs = has_powers(self.fn)
            return self._reads_signs

    def current_captures(self) -> tuple[Any, ...]:
        """Return what the functor and its helpers capture now, to be compared element-wise with ``is``.

        Where an element differs from an earlier answer, `fingerprint` tells whether the meaning changed.
        """
        captures = self._captures
        if captures is None:
            captures = self._captures = Captures(self.fn)
        return captures.current()

    def capture_places(self) -> list[tuple[str, Any, Any]] | None:
        """Return where `current_captures` finds what it answers; see `Captures.places`."""
        self.current_captures()
        assert self._captures is not None
        return self._captures.places()

    def _forget_if_rebound(self) -> None:
        now = self.current_captures()
        before = self._captured
        if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
            self._fingerprint = None
            self._specialised.clear()
            self._compiled.clear()
            self._captures = Captures(self.fn)  # a rebound helper may capture other names
            self._captured = self._captures.current()
            self._uses_index = refers_to(self.fn, index)
            self._reads_signs = None


def _rebuild(
    cls: type[PythonFunctor], fn: Callable[..., Any], outputs: int | None, scalars: dict[str, Any]
) -> PythonFunctor:
    return cls(fn, outputs=outputs, scalars=scalars)


def _no_function(value: Any) -> str:
    """Return what to say of something that is given as a functor and is no plain function."""
    said = f"a Python functor must be a function written with def or lambda, not {value!r}; "
    if isinstance(getattr(value, "py_func", None), types.FunctionType):
        return f"{said}give its .py_func"
    if isinstance(value, types.MethodType):
        return f"{said}write a plain function, and pass what it needs of the object as scalars"
    if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
        return f"{said}give its .__wrapped__"
    return f"{said}wrap it in one"


def _is_number(value: Any) -> bool:
    """Whether a default is a Python or NumPy number."""
    if isinstance(value, bool | int | float | complex):
        return True
    return hasattr(value, "dtype") and getattr(value, "shape", None) == () and hasattr(value, "item")
