"""Magnitudes of integers as users write them."""

__all__ = ["MAGNITUDES"]

#: Ways to write a magnitude; the smallest integer is its own.
MAGNITUDES = {
    "abs": lambda x: abs(x),
    "negated": lambda x: -x if x < 0 else x,
    "from 0": lambda x: 0 - x if x < 0 else x,
    "larger": lambda x: max(x, -x),
    "times -1": lambda x: x * -1 if x < 0 else x,
    "complement": lambda x: ~x + 1 if x < 0 else x,
    "opposite": lambda x: -x if not x > -x else x,
    "sign bits": lambda x: (x ^ (x >> 63)) - (x >> 63),
}
