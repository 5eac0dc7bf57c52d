"""A functor's value and partial derivatives from one kernel, for arrays of any library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numjit.elementwise import Elementwise
from numjit.errors import ArgumentError, kind_of, shown
from numjit.ground import checks

__all__ = ["value_and_grad"]


def value_and_grad(f: Elementwise, wrt: str | int | Sequence[str | int] | None = None) -> Elementwise:
    """Return the operation that computes a functor's value together with its partial derivatives.

    Parameters
    ----------
    f
        An operation of one result.
    wrt
        What to differentiate by: names or positions of operands, names of scalars, one or several; by
        default every operand that is not raw.

    Returns
    -------
    Elementwise
        Called like `f` (but with every operand), it returns a tuple: the value, then ``d value / d
        parameter`` for each of `wrt` in the order of `f`'s signature, all of the result's shape: nothing is
        summed over broadcast dimensions. For complex results the partials are what torch's backward gives
        for a gradient of 1. It works on arrays of every library and with ``out=``, and torch can
        differentiate it once more.

    Raises
    ------
    ArgumentError
        `f` is no operation, or has no such parameter.
    AutogradError
        `f` has several results, or no derivative by such a parameter.

    Examples
    --------
    >>> import numpy as np, numjit
    >>> f = numjit.elementwise(lambda x, y: x * x * y)
    >>> value, by_x, by_y = numjit.value_and_grad(f)(np.float64([1, 2]), np.float64([3, 4]))
    >>> value, by_x, by_y
    (array([ 3., 16.]), array([ 6., 16.]), array([1., 4.]))
    """
    from numjit.functor.value_and_grad import with_partials

    if not checks.is_a(f, Elementwise):
        raise ArgumentError(
            f"value_and_grad takes an operation made by numjit.elementwise, not {kind_of(f)}; decorate the "
            "function first"
        )
    signature = f.functor.signature
    names = [p.name for p in (*signature.operands, *signature.scalars)]
    if wrt is None:
        active = {k for k in range(len(signature.operands)) if k not in signature.raws}
    else:
        wanted = "a parameter's name or position, or a sequence of them"
        where = f"value_and_grad of {f.__name__}"
        several: Sequence[Any] = [wrt]
        if not checks.is_a(wrt, str | int):
            several = checks.Checks(where, ArgumentError).members("wrt", wrt, wanted)
        active = {_position(f, names, given) for given in several}
    if not active:
        raise ArgumentError(f"value_and_grad of {f.__name__}: nothing to differentiate by; name it in wrt=")
    return Elementwise(with_partials(f.functor, tuple(sorted(active))), f.options)


def _position(f: Elementwise, names: Sequence[str], given: Any) -> int:
    if checks.is_a(given, str) and given in names:
        return names.index(given)
    if checks.is_a(given, int) and not checks.is_a(given, bool) and 0 <= given < len(names):
        return int(given)
    raise ArgumentError(
        f"value_and_grad of {f.__name__}: wrt={shown(given)} is no parameter; name one of {', '.join(names)}"
    )
