"""The three ranks that torch's type promotion gives an operand."""

from __future__ import annotations

import enum

__all__ = ["Category"]


class Category(enum.IntEnum):
    """How much an operand counts in type promotion (torch's ``ResultTypeState``), lowest first."""

    #: A Python or NumPy scalar: only its kind (bool < int < float < complex) counts.
    NUMBER = 0
    #: An array without dimensions.
    ZERO_DIM = 1
    #: An array with dimensions.
    DIM = 2
