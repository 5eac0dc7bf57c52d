"""Which combinations of parameters every run tests; the others are marked ``slow``, for the full run."""

from __future__ import annotations

import itertools

import pytest

__all__ = ["mostly_slow", "pairs"]


def pairs(rows, columns, *, all_of=1):
    """Return ``(row, column)`` for `pytest.mark.parametrize`: the whole product, most of it ``slow``.

    Every run has the first `all_of` rows with every column, and every other row with one of the columns, in
    turn: each value of both is met, and what depends on both is where the first rows show it.
    """
    rows, columns = list(rows), list(columns)
    return [
        pytest.param(row, column, marks=() if k < all_of or k % len(columns) == c else pytest.mark.slow)
        for (k, row), (c, column) in itertools.product(enumerate(rows), enumerate(columns))
    ]


def mostly_slow(values, kept):
    """Return values (tuples: of several parameters) to parametrize by; those not `kept` are ``slow``."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=() if kept(value) else pytest.mark.slow
        )
        for value in values
    ]
