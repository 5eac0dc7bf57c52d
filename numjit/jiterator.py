"""Drop-in for ``torch.cuda.jiterator``: the same two functions and meaning, loud where torch's is silent.

Differences to torch's module: CPU tensors and NumPy arrays work too, any number of inputs and outputs,
conj and neg views are right, scalars are bound by name, and complex numbers meet real literals.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numjit.cache import digest
from numjit.call.arguments import default_dtype
from numjit.call.binding import check_defaults
from numjit.dtypes import DType
from numjit.errors import ArgumentError, FunctorError, KeywordError, NumjitError, without_frames
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.signature import ArgumentType, Specialisation
from numjit.ground.checks import Checks
from numjit.launcher.attach import FastCallable, launchable
from numjit.semantics import result_type
from numjit.torch.compile import call_outside, call_traced
from numjit.torch.dispatch import (
    eager,
    hand_over,
    is_overridden,
    is_profiled,
    is_traced,
    profiled,
)
from numjit.torch.recorded import dispatched
from numjit.torch.watched import WatchedOperation

__all__ = ["create_jit_fn", "create_multi_output_jit_fn"]


class _JiteratorFunctor(CppFunctor):
    """A C++ functor by jiterator's rule: one common dtype of all operands for every template parameter."""

    def __init__(
        self, text: str, outputs: int | None, scalars: Mapping[str, Any], *, by_reference: bool
    ) -> None:
        self.by_reference = by_reference
        super().__init__(text, outputs=outputs, scalars=scalars)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.text, self.stated_outputs, self.scalars, self.by_reference)

    def fingerprint(self) -> str:
        return digest("jiterator", str(self.by_reference), super().fingerprint())

    def _common(self, arguments: Sequence[ArgumentType], default_dtype: DType) -> DType:
        return result_type(arguments[: len(self.signature.operands)], default_dtype)

    def _bind(self, arguments: Sequence[ArgumentType], default_dtype: DType) -> dict[str, DType]:
        return dict.fromkeys(self.variables, self._common(arguments, default_dtype))

    def specialise(self, arguments: tuple[ArgumentType, ...], default_dtype: DType) -> Specialisation:
        made = super().specialise(arguments, default_dtype)
        common = self._common(arguments, default_dtype)
        return Specialisation(made.arguments, made.inputs, (common,) * len(made.outputs), default_dtype)


def _rebuild(
    text: str, outputs: int | None, scalars: Mapping[str, Any], by_reference: bool
) -> _JiteratorFunctor:
    return _JiteratorFunctor(text, outputs, scalars, by_reference=by_reference)


class _JittedFunction(FastCallable):
    """What the two constructors return."""

    def __init__(
        self,
        where: str,
        code_string: str,
        outputs: int,
        scalars: Mapping[str, Any],
        *,
        by_reference: bool = False,
    ) -> None:
        check = Checks(f"numjit.jiterator.{where}()")
        code_string = check.text("code_string", code_string, "C++ text as a string")
        outputs = check.count("num_outputs", outputs)
        check_defaults(check.where, scalars)
        self.code_string = code_string
        self.kwargs_dict = dict(scalars)
        try:
            functor = _JiteratorFunctor(code_string, outputs, scalars, by_reference=by_reference)
        except NumjitError as error:
            raise without_frames(error) from error.__cause__
        self._functor = functor
        self.num_outputs = len(functor.signature.outputs)
        self.__name__ = self.kernel_name = functor.name
        if len(functor.signature.raws) == len(functor.signature.operands):
            raise FunctorError(f"{functor.name} takes no tensor; use numjit.elementwise with shape= instead")
        self._operation = WatchedOperation(functor, {"autotune": False, "opaque": True})
        # No tensor may be given by name, and none is recorded.
        self._fast = self._operation.hand_over(self, functor.signature.defaults, by_name=False)

    @launchable
    def __call__(self, *tensors: Any, **kwargs: Any) -> Any:
        """Compute over all elements of the broadcast tensors; gradients are not recorded.

        Raises
        ------
        KeywordError
            A keyword that was not declared; it is a KeyError, too.
        """
        for keyword in kwargs:
            if keyword not in self.kwargs_dict:
                raise KeywordError(
                    f"{self.__name__}(): {keyword} is not declared in function definition; leave it out, or "
                    "declare it with a default where the function is made"
                )
        if is_traced():
            detached = tuple(t.detach() if hasattr(t, "detach") else t for t in tensors)
            traced = call_traced(self._operation, detached, kwargs, None)
            if traced is NotImplemented:
                traced = call_outside(self, tensors, kwargs)
            if traced is not NotImplemented:
                return traced
        if is_overridden(tensors, kwargs):
            return hand_over(self, tensors, kwargs)
        if is_profiled():
            with profiled(self.__name__, tensors, kwargs):
                return self._run(tensors, kwargs)
        return self._run(tensors, kwargs)

    @eager
    def _run(self, tensors: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run a call that torch is not reading."""
        operation = self._operation
        bound = operation.binder.bind(tensors, kwargs)
        key = operation.key(bound, detached=True)
        if key is not None:
            result = operation.repeat(key, bound, fast=self._fast)
            if result is not None:
                return result
        else:
            seen = dispatched(operation, [t.detach() if hasattr(type(t), "detach") else t for t in bound])
            if seen is not NotImplemented:
                return seen
        request = operation.plain_request
        arguments, _ = operation.read(request, bound)
        fast = None
        if self._check_scalars(arguments.types, arguments.values):
            key = None  # whether to warn depends on the value
        elif key is not None:
            fast = self._fast
        results = operation.compute(request, bound, key=key, fast=fast)
        return results[0] if len(results) == 1 else results

    def _check_scalars(self, types: Sequence[ArgumentType], values: Sequence[Any]) -> bool:
        """Refuse complex scalars where the parameter is real; warn where an integral one cuts a float.

        torch is silent in both cases. A 0-dim tensor is judged by its dtype: its value may be on the GPU.
        Returns whether another value of the same type might be cut.
        """
        risky = False
        functor = self._functor
        operands = len(functor.signature.operands)
        common = result_type(types[:operands], default_dtype())
        for parameter, kind, value in zip(
            functor.signature.scalars, types[operands:], values[operands:], strict=True
        ):
            wanted = parameter.dtype or common
            if kind.dtype.is_complex and not wanted.is_complex:
                raise ArgumentError(
                    f"{functor.name}(): scalar {parameter.name!r} is complex but is taken as {wanted}; "
                    "pass a real number, or complex tensors"
                )
            if wanted.kind not in "uib" or kind.dtype.kind != "f":
                continue
            risky = True
            if _is_exact(value, wanted):
                continue
            shown = "a 0-dim tensor" if value is None else value
            warnings.warn(
                f"{functor.name}(): scalar {parameter.name}={shown} is truncated to {wanted}, as "
                "torch.cuda.jiterator does; numjit.elementwise promotes instead",
                stacklevel=4,
            )
        return risky

    @property
    def __numjit_functor__(self) -> CppFunctor:
        """The functor, for `numjit.override` and other functors."""
        return self._functor

    def __reduce__(self) -> Any:
        functor = self._functor
        return _restore, (self.code_string, self.num_outputs, self.kwargs_dict, functor.by_reference)


def _is_exact(value: float | None, dtype: DType) -> bool:
    """Whether a float is a number of an integral dtype (None, an unread value, is not known to be)."""
    if value is None or not math.isfinite(value) or value != int(value):
        return False
    if dtype.kind == "b":
        return value in (0.0, 1.0)
    low, high = (0, 1 << dtype.bits) if dtype.kind == "u" else (-1 << (dtype.bits - 1), 1 << (dtype.bits - 1))
    return low <= value < high


def _restore(
    code_string: str, outputs: int, scalars: Mapping[str, Any], by_reference: bool
) -> _JittedFunction:
    where = "create_multi_output_jit_fn" if by_reference else "create_jit_fn"
    return _JittedFunction(where, code_string, outputs, scalars, by_reference=by_reference)


def create_jit_fn(code_string: str, **kwargs: Any) -> Callable[..., Any]:
    """Make an elementwise operation of a C++ functor that returns its result.

    Parameters
    ----------
    code_string
        CUDA C++: any helpers, then the functor, a function template of one element. A functor that
        returns void and has one reference parameter for its result is accepted too.
    **kwargs
        The functor's scalars with their defaults, bound to its parameters by name.

    Returns
    -------
    callable
        Takes tensors by position and the declared scalars by keyword; answers one tensor of the
        tensors' broadcast shape and common dtype.

    Raises
    ------
    FunctorError
        Text that cannot be read, or a declared keyword that the functor has no parameter for.

    Examples
    --------
    >>> import numpy as np
    >>> code = "template <typename T> T my_kernel(T x, T y, T alpha) { return -x + alpha * y; }"
    >>> create_jit_fn(code, alpha=1.0)(np.float32([1, 2]), np.float32([10, 20]), alpha=2.0)
    array([19., 38.], dtype=float32)
    """
    return _JittedFunction("create_jit_fn", code_string, 1, kwargs)


def create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs: Any) -> Callable[..., Any]:
    """Make an elementwise operation of a C++ functor that gives its results through references.

    Parameters
    ----------
    code_string
        CUDA C++ whose functor has one ``T&`` parameter for each result; what it returns, void or not, is
        ignored.
    num_outputs
        How many results it has.
    **kwargs
        The functor's scalars with their defaults.

    Returns
    -------
    callable
        As for `create_jit_fn`; answers a tuple where there is more than one result.

    Raises
    ------
    FunctorError
        As for `create_jit_fn`, and where `num_outputs` is not what the functor has.
    """
    return _JittedFunction("create_multi_output_jit_fn", code_string, num_outputs, kwargs, by_reference=True)


#: torch's own spellings.
_create_jit_fn = create_jit_fn
_create_multi_output_jit_fn = create_multi_output_jit_fn
