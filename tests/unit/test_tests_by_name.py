"""A module's tests are found by its name: ``numjit/call/binding.py`` in ``test_binding*.py``."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = {
    module.relative_to(ROOT / "numjit").with_suffix("").as_posix()
    for module in (ROOT / "numjit").rglob("*.py")
    if module.stem != "__init__"
}
#: Subjects of each file of tests: ``test_disk_and_cache_memory.py`` is about ``disk`` and about ``memory``.
SUBJECTS = {
    file.stem: [name := file.stem.removeprefix("test_").removeprefix("gpu_"), *name.split("_and_")]
    for file in (ROOT / "tests").rglob("test_*.py")
}

#: Packages that have one way in, through which all of their modules are tested: under the package's name.
PACKAGES = {
    "ahead": ("warmup",),
    "demo": ("demo",),
    "functor/scalars": ("scalar", "dual"),
    "kernels": ("kernels",),
    "launcher": ("launcher",),
    "rules": ("rule", "rules", "scalar", "dual"),
    "torch/see_through": ("see_through",),
}

#: Modules without tests under their name, each with the file that tests it. Take away, never add.
ELSEWHERE = {
    # Parts of one thing that have no meaning alone.
    "arrays/torch_state": "test_torch_arrays",
    "call/nullary": "test_markers",
    "call/operation": "test_elementwise",
    "call/record": "test_warm",
    "codegen/integers": "test_scalar_rules",
    "codegen/loops": "test_storage",
    "codegen/machine": "test_storage",
    "cpu/chunk": "test_python_loop",
    "cpu/cpp_library": "test_cpp_loop",
    "functor/cpp/macros": "test_cpp_reader",
    "functor/cpp/tokens": "test_cpp_reader",
    "functor/cpp/types": "test_cpp_reader",
    "functor/kinds": "test_elementwise",
    "functor/signature": "test_binding",
    "functor/source": "test_fingerprint",
    "plan/variant": "test_choose",
    "toolchain/identity": "test_cache_keys",
    # Tables and settings, each read by the tests of what uses it.
    "config": "test_errors_and_checks",
    "dtypes": "test_promotion_and_category",
    # Seen only from outside.
    "cache/elf": "test_disk_damaged",
    "runtime/streams": "test_driver_and_launch_and_devices",
    "toolchain/disassembly": "test_build_gradients",
    "ground/numba_cuda": "test_device_ltoir",
    "functor/value_and_grad": "test_value_and_grad",
    "tools/tune": "test_gpu_tuning",
    "operators": "test_torch_operator",
    "torch/genuine": "test_torch_compile",
    "torch/gradient": "test_torch_operator",
    "torch/graph": "test_recorded",
    "torch/meta": "test_torch_operator",
    "torch/rule": "test_by_hand",
    "torch/schema": "test_torch_operator",
    "torch/watched": "test_torch_dispatch",
}


def found(module):
    """Return the files named for a module; where two have its name, for its package and it."""
    parts = [part.strip("_") for part in module.split("/")]
    stands_once = sum(other.rpartition("/")[2] == module.rpartition("/")[2] for other in MODULES) == 1
    names = {"_".join(parts[k:]) for k in range(len(parts)) if k < len(parts) - 1 or stands_once}
    names.add("_".join(parts))
    names |= set(PACKAGES.get(module.rpartition("/")[0], ()))
    return [
        file
        for file, subjects in SUBJECTS.items()
        if any(subject == name or subject.startswith(f"{name}_") for subject in subjects for name in names)
    ]


def test_a_modules_tests_bear_its_name():
    assert {module for module in MODULES if not found(module)} == set(ELSEWHERE)


@pytest.mark.parametrize("module", ELSEWHERE)
def test_what_is_tested_elsewhere_names_a_file_that_is_there(module):
    assert ELSEWHERE[module] in SUBJECTS
