"""``python -m numjit tune``: find the fastest launch of a functor on this machine's card, and keep it."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Sequence

from numjit import tuning
from numjit.elementwise import Elementwise, elementwise
from numjit.errors import NumjitError
from numjit.tuning import Trial

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
    """
    try:
        import torch
    except ImportError:
        print("tuning times kernels on torch tensors; pip install 'numjit[torch]'", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("there is no GPU to tune for on this machine", file=sys.stderr)
        return 1
    try:
        operation = _find(target)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        print(f"{target}: {error}; say MODULE:NAME of a numjit operation", file=sys.stderr)
        return 1
    tuned = elementwise(operation.source, **{**operation.options, "autotune": True})
    tuning.report = _show
    try:
        for text in shapes:
            shape = tuple(int(part) for part in text.split(","))
            for name in names:
                kind = getattr(torch, name)
                count = len(operation.functor.signature.operands)
                operands = [torch.randint(0, 100, shape, device="cuda").to(kind) for _ in range(count)]
                print(f"{target} over {text} {name}, {math.prod(shape)} elements:")
                tuned(*operands)
    except NumjitError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        tuning.report = None
    return 0


def _find(target: str) -> Elementwise:
    module, _, name = target.partition(":")
    found = getattr(importlib.import_module(module), name)
    if not isinstance(found, Elementwise):
        raise TypeError(f"{name} is a {type(found).__name__}, not made by numjit.elementwise")
    return found


def _show(trials: Sequence[Trial]) -> None:
    winner = tuning.fastest(list(trials))
    for trial in trials:
        mark = " <- kept" if trial.knobs == winner else ""
        knobs = trial.knobs
        shown = f"block {knobs.block:4d}  vectors {knobs.vectors}  width {knobs.width:2d}"
        if knobs.adapts:
            shown = "as chosen without tuning"
        print(f"  {shown:34s}: {trial.seconds * 1e6:9.2f} us{mark}")
