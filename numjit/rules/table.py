"""The table as its readers need it: by Python's functions, by attributes and methods, over torch tensors."""

from __future__ import annotations

from typing import Any

from numjit.rules import arithmetic, bits, choices, complex_numbers, elementary, rounding, special_functions
from numjit.rules.rule import Rule
from numjit.rules.torch_text import TorchForm

__all__ = ["ATTRIBUTES", "CODES", "ENTRIES", "METHODS", "RULES"]

#: Every scalar function, by topic.
ENTRIES = [
    *arithmetic.ENTRIES,
    *elementary.ENTRIES,
    *special_functions.ENTRIES,
    *rounding.ENTRIES,
    *choices.ENTRIES,
    *complex_numbers.ENTRIES,
    *bits.ENTRIES,
]

_ALL = {key: rule for entry in ENTRIES for key, rule in entry.rules.items()}
#: What can be done with elements: Python's operators and functions, and `numjit.math`.
RULES: dict[Any, Rule] = {key: rule for key, rule in _ALL.items() if not isinstance(key, str)}

#: Attributes of elements; those named in `METHODS` are called.
ATTRIBUTES: dict[str, Rule] = {name: _ALL[f".{name}"] for name in ("real", "imag")}
METHODS: dict[str, Rule] = {name: _ALL[f".{name}()"] for name in ("conjugate", "conj")}

_OTHERS = (*ATTRIBUTES.values(), *METHODS.values(), special_functions.BESSEL_I1)
#: The form over torch tensors of an operation: of the key of its rule, or of a rule that has none.
CODES: dict[Any, TorchForm] = {
    key: rule.code
    for key, rule in (*RULES.items(), *((rule, rule) for rule in _OTHERS))
    if rule.code is not None
}
