"""Faults of warm calls, of what is kept on disk, and of settings."""

from tests.mutants import Mutant

_ODD = "tests/cases/test_odd_operands.py"

MUTANTS = [
    Mutant(
        "D1 warm calls",
        "numjit/warm.py",
        """                    if pointer < LOW and is_nowhere(obj):
                        return None
""",
        "",
        _ODD,
    ),
    Mutant(
        "D1 parts of what has no memory",
        "numjit/arrays/torch_arrays.py",
        "if pointer % dtype.itemsize or (pointer < LOW and is_nowhere(tensor)):",
        "if not pointer or pointer % dtype.itemsize:",
        _ODD,
    ),
    Mutant(
        "D1 exporters without memory",
        "numjit/arrays/dlpack.py",
        "        if pointer < FIRST_ADDRESS:\n",
        "        if False:\n",
        _ODD,
    ),
    Mutant(
        "D1 the launcher",
        "numjit/launcher/program.py",
        "        self.jump_if(self.is_zero(data), self._fail)  # no elements, or their memory was given up\n",
        "",
        "tests/unit/test_launcher_edges.py::TestOddOperands",
    ),
]
