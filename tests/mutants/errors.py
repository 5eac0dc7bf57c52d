"""Mistakes of the caller: told by another library's error, swallowed, or read as memory."""

from __future__ import annotations

from tests.mutants import Mutant

_TABLE = "tests/cases/test_errors_and_checks.py"
_PROTOCOLS = "tests/cases/test_foreign_errors_and_stated.py"
_EFFECTS = "tests/cases/test_errors_effects.py"

MUTANTS = [
    Mutant(
        "D14 options are split into letters",
        "numjit/ground/checks.py",
        "        if not is_a(value, str | bytes | bytearray | Mapping) and is_a(value, Iterable):",
        "        if is_a(value, Iterable):",
        f"{_TABLE} -k options",
    ),
    Mutant(
        "D14 autotune swallows a list",
        "numjit/elementwise.py",
        '        "autotune": check.flag("autotune", autotune),',
        '        "autotune": autotune,',
        f"{_TABLE} -k autotune",
    ),
    Mutant(
        "D14 what a protocol raises passes through",
        "numjit/arrays/adapters.py",
        "            raise\n        raise refused(obj, protocol, error) from error\n\n\ndef _read_by_dlpack",
        "            raise\n        raise\n\n\ndef _read_by_dlpack",
        f"{_PROTOCOLS} -k interface",
    ),
    Mutant(
        "D14 DLPack without an address is read",
        "numjit/arrays/dlpack.py",
        "        if base is None or pointer >= ADDRESSES:",
        "        if pointer >= ADDRESSES:",
        f"{_PROTOCOLS} -k dlpack",
    ),
    Mutant(
        "D14 DLPack without sizes is read",
        "numjit/arrays/dlpack.py",
        "    if ndim and not sizes:",
        "    if ndim < 0:",
        f"{_PROTOCOLS} -k dlpack",
    ),
    Mutant(
        "D14 DLPack's device is believed",
        "numjit/arrays/dlpack.py",
        "    if kind not in (_CPU_DEVICES if device is CPU else _CUDA_DEVICES) or (",
        "    if False and (",
        f"{_PROTOCOLS} -k lies",
    ),
    Mutant(
        "D14 a negative size is believed",
        "numjit/arrays/stated.py",
        "    if any(size < 0 for size in shape):",
        "    if any(size < -(1 << 62) for size in shape):",
        f"{_PROTOCOLS} -k negative",
    ),
    Mutant(
        "D14 an address of nothing is read by the interface",
        "numjit/arrays/cuda_interface.py",
        "    elif pointer < FIRST_ADDRESS:",
        "    elif pointer < 0:",
        f"{_PROTOCOLS} -k interface",
    ),
    Mutant(
        "D14 a class of NumPy arrays says its own shape",
        "numjit/arrays/adapters.py",
        "numpy_arrays.read if cls is np.ndarray else numpy_arrays.read_subclass",
        "numpy_arrays.read",
        f"{_PROTOCOLS} -k classes_of_numpy",
    ),
    Mutant(
        "D14 a class of tensors says its own shape",
        "numjit/arrays/torch_arrays.py",
        "                or tuple(seen.shape) != tuple(base.size(tensor))\n",
        "",
        f"{_PROTOCOLS} -k classes_of_tensors",
    ),
    Mutant(
        "D14 a lack of memory is told as a bad array",
        "numjit/arrays/foreign_errors.py",
        "    if isinstance(error, NumjitError | MemoryError):",
        "    if isinstance(error, NumjitError):",
        f"{_PROTOCOLS} -k pass_through",
    ),
    Mutant(
        "D14 sizes that no memory holds are left to the library",
        "numjit/call/outputs.py",
        "        if size >= ADDRESSES >> 1:",
        "        if size < 0:",
        f"{_PROTOCOLS} -k no_array_holds",
    ),
    Mutant(
        "D14 a dead proxy raises what it likes",
        "numjit/elementwise.py",
        "            require_classes(self.__name__, given)\n            raise",
        "            raise",
        f"{_TABLE} -k __call__",
    ),
    Mutant(
        "D14 a traceback of forty lines",
        "numjit/errors.py",
        "    return error.with_traceback(None)",
        "    return error",
        f"{_EFFECTS} -k one_screen",
    ),
    Mutant(
        "D14 numjit.math takes a text for a number",
        "numjit/math.py",
        "                if not _is_like_a_number(value):",
        "                if value is NotImplemented:",
        f"{_TABLE} -k math",
    ),
    Mutant(
        "D14 the command line ends in a traceback",
        "numjit/ahead/command.py",
        "    except (Exception, SystemExit) as error:",
        "    except (ImportError, AttributeError) as error:",
        f"{_EFFECTS} -k told_in_one_line",
    ),
    Mutant(
        "B16 a list is told to be no array",
        "numjit/call/arguments.py",
        '        return f"{called}; pass np.asarray(x)"\n    if issubclass(kind, dict):',
        '        return f"{called}; pass an array"\n    if issubclass(kind, dict):',
        f"{_PROTOCOLS} -k another_container",
    ),
]
