"""Faults of the past put back one at a time, to see that the tests find them: ``python -m tests.mutants``.

Each module here lists `Mutant`\\ s: a piece of numjit's text, what stood in its place when the fault was
there (or what does the same), and the tests that must fail then.
"""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import pkgutil

__all__ = ["Mutant", "all_mutants"]

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One fault put back.

    Attributes
    ----------
    fault
        A name of its kind, unique among all mutants.
    path
        The file, from the repository's root.
    old, new
        The text that is there once, and what takes its place.
    tests
        What pytest is given: node ids, separated by spaces.
    """

    fault: str
    path: str
    old: str
    new: str
    tests: str

    def apply(self, root: pathlib.Path) -> None:
        """Put the fault into the tree at `root`."""
        file = root / self.path
        text = file.read_text()
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.fault}: {self.path} holds the text {count} times, not once")
        file.write_text(text.replace(self.old, self.new))


def all_mutants() -> list[Mutant]:
    """Return the mutants of every module here, in order."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return [mutant for name in modules for mutant in importlib.import_module(f"{__name__}.{name}").MUTANTS]
