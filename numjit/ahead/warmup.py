"""``numjit.warmup``: compile ahead of the first call, in parallel, for GPUs that need not be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numjit.ahead.warmed import Warmed
from numjit.dtypes import as_dtype
from numjit.errors import ArgumentError, kind_of
from numjit.ground.checks import Checks

if TYPE_CHECKING:
    from numjit.functor.kinds import OfFunctor

__all__ = ["Warmed", "warmup"]

#: What is built where nothing else is asked for.
DTYPES = ("float32", "float16", "bfloat16")


def warmup(
    functor: OfFunctor | None = None,
    *signatures: Sequence[Any],
    scalars: Mapping[str, Any] | None = None,
    targets: Any = None,
    dtypes: Iterable[Any] | None = None,
    layouts: Iterable[str] | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Warmed:
    """Compile into the cache what later calls, also of other processes, will need.

    That is the functor's kernels, and on the CPU its loops. Kernels have *shells*, which depend on dtypes and
    layout only and serve every functor: another C++ functor whose shell is there compiles in some 0.1 s and
    never imports Numba.

    Parameters
    ----------
    functor
        An operation made by `numjit.elementwise`.
    *signatures
        Calls to come, each a sequence with one description for every operand: a dtype (a contiguous
        operand), a `numjit.Operand` (dtype and layout), a number, or an example array, for which one of
        torch's meta device will do. Without any, `dtypes` and `layouts` say what to build.
    scalars
        Examples of scalars by name, where another kind of number than that of the default is passed.
    targets
        Compute capabilities such as ``(9, 0)`` or ``"9.0"``, or ``"cpu"``; one or several. By default the
        GPUs of this machine, and its CPU where there is none.
    dtypes
        Dtypes that all operands have; by default float32, float16 and bfloat16.
    layouts
        Of ``"contiguous"``, ``"row"`` (the last operand is broadcast over rows), ``"column"``,
        ``"transposed"``, ``"sliced"``, ``"strided"`` and ``"unaligned"``; by default contiguous ones.
    jobs
        Threads to use, by default one for each usable core.
    progress
        Called with how much is done, how much there is, and what was just finished.

    Returns
    -------
    Warmed
        How much was built.

    Raises
    ------
    ArgumentError
        No functor, a signature that does not fit it, or an unknown layout or target.
    CompilationError, ToolchainError
        Something did not compile. All else was still built.
    DeviceError
        A compute capability that numjit does not support.

    Examples
    --------
    >>> import numjit
    >>> axpy = numjit.elementwise(
    ...     "template <typename T> T axpy(T x, T y, T alpha) { return alpha * x + y; }", alpha=1.0
    ... )
    >>> _ = numjit.warmup(axpy, ("float32", "float32"), targets="cpu")
    >>> numjit.warmup(axpy, ("float32", "float32"), targets="cpu").built
    0
    """
    from numjit.ahead.run import run

    if functor is None:
        raise ArgumentError("warmup() builds operations made by numjit.elementwise; pass one first")
    if not hasattr(type(functor), "__numjit_functor__"):
        raise ArgumentError(
            f"warmup() builds operations made by numjit.elementwise, not {kind_of(functor)}; "
            "decorate the function first"
        )
    check = Checks("warmup()", ArgumentError)
    if progress is not None and not callable(progress):
        check.refuse("progress", progress, "a function of three arguments")
    call = "a sequence of descriptions, one an operand"
    return run(
        functor.__numjit_functor__,
        [check.members("a signature", signature, call) for signature in signatures],
        {} if scalars is None else check.names("scalars", scalars, "a dict of scalars' names and numbers"),
        targets=targets,
        dtypes=DTYPES
        if dtypes is None
        else [as_dtype(dtype) for dtype in check.members("dtypes", dtypes, "dtypes, such as ['float32']")],
        layouts=("contiguous",)
        if layouts is None
        else check.texts("layouts", layouts, "layouts, such as ['row']"),
        jobs=None if jobs is None else check.count("jobs", jobs),
        progress=progress,
    )
