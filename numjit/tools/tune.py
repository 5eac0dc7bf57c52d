"""``python -m numjit tune``: find the fastest launch of a functor on this machine's card, and keep it."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence

from numjit.ahead.command import find_operation
from numjit.call import tuning
from numjit.call.operation import Operation, operation_of
from numjit.call.tuning import Trial
from numjit.dtypes import as_dtype
from numjit.errors import ArgumentError, NumjitError, UnsupportedDtypeError, kind_of, shown

__all__ = ["run"]


def run(target: str, shapes: Sequence[str], names: Sequence[str]) -> int:
    """Tune a functor over shapes and dtypes, print what was tried, and return the exit status.

    Parameters
    ----------
    target
        ``MODULE:NAME`` of an operation made by `numjit.elementwise`.
    shapes
        Shapes as text, ``"8192,8192"``; every operand gets the shape.
    names
        Names of dtypes; every operand gets the dtype.

    Returns
    -------
    int
        0 when all is tuned, 1 where there is no GPU or something did not compile, 2 where the command line
        names what does not exist.
    """
    try:
        found = find_operation(target)
        operation = operation_of(found)
        if operation is None:
            raise ArgumentError(f"{target} is {kind_of(found)}; name one that numjit.elementwise made")
        sizes = [_shape(text) for text in shapes]
        kinds = [as_dtype(name) for name in names]
    except (ArgumentError, UnsupportedDtypeError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        import torch
    except ImportError:
        print("tuning times kernels on torch tensors; pip install 'numjit[torch]'", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("there is no GPU to tune for on this machine", file=sys.stderr)
        return 1
    tuned = Operation(operation.functor, {**operation.options, "autotune": True})
    tuning.report = _show
    try:
        for text, shape in zip(shapes, sizes, strict=True):
            for name in kinds:
                kind = getattr(torch, name.name)
                operands = [
                    torch.randint(0, 100, shape, device="cuda").to(kind) for _ in range(operation.count)
                ]
                print(f"{target} over {text} {name}, {math.prod(shape)} elements:")
                tuned(*tuned.binder.bind(operands, {}))
    except NumjitError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        tuning.report = None
    return 0


def _shape(text: str) -> tuple[int, ...]:
    """Read a shape as the command line has it: ``8192,8192``.

    Raises
    ------
    ArgumentError
        It is none.
    """
    if not re.fullmatch(r"[0-9]{1,18}(,[0-9]{1,18})*", text):
        raise ArgumentError(f"{shown(text)} is no shape; say sizes with commas between, such as 8192,8192")
    return tuple(map(int, text.split(",")))


def _show(trials: Sequence[Trial]) -> None:
    winner = tuning.fastest(list(trials))
    for trial in trials:
        mark = " <- kept" if trial.knobs == winner else ""
        knobs = trial.knobs
        shown = f"block {knobs.block:4d}  vectors {knobs.vectors}  width {knobs.width:2d}"
        if knobs.adapts:
            shown = "as chosen without tuning"
        print(f"  {shown:34s}: {trial.seconds * 1e6:9.2f} us{mark}")
