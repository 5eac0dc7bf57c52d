"""Writes what is made from the table: run ``python -m numjit.rules.write`` in the source tree.

In a file of the C++ headers or of the documentation, the lines between one with ``numjit.rules: NAME`` and
one with ``numjit.rules: end`` are replaced.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Mapping

from numjit.rules import cpp_text, documentation

__all__ = ["REGIONS", "main", "written"]

_ROOT = pathlib.Path(__file__).parents[2]
_HEADERS = "numjit/functor/cpp/include"
#: By file, what each of its regions holds.
REGIONS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    f"{_HEADERS}/dual.h": {"operators": cpp_text.operators},
    f"{_HEADERS}/dual_rules.h": {
        "names": cpp_text.names,
        "rules": cpp_text.rules,
        "own rules": cpp_text.own_rules,
    },
    f"{_HEADERS}/dual_complex.h": {"complex rules": cpp_text.complex_rules},
    "docs/math.md": {"functions": documentation.functions, "names": documentation.python_names},
    "docs/gradients_rules.md": {
        name: documentation.derivatives(topic) for name, topic in documentation.TOPICS.items()
    },
    "docs/gradients_cpp_rules.md": {
        "functions": documentation.cpp_derivatives,
        "complex functions": documentation.complex_derivatives,
    },
}
_LINE = r"[^\n]*numjit\.rules: "
_REGION = re.compile(rf"^({_LINE}(?!end\b)([\w ]*\w)[^\n]*\n)(.*?)^({_LINE}end)", re.MULTILINE | re.DOTALL)


def written(text: str, regions: Mapping[str, Callable[[], str]]) -> str:
    """Return a file's text with its regions as the table has them."""
    return _REGION.sub(lambda found: f"{found[1]}{regions[found[2]]()}\n{found[4]}", text)


def main() -> None:
    """Write every region."""
    for name, regions in REGIONS.items():
        path = _ROOT / name
        path.write_text(written(path.read_text(encoding="utf-8"), regions), encoding="utf-8")


if __name__ == "__main__":
    main()
