"""Turns the launcher's program into machine code: compiled once per machine, kept on disk."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

from numjit.cache import default_store, digest
from numjit.cache.elf import elf_fault
from numjit.cache.keys import sources_digest, version_of

__all__ = ["MachineCode", "load"]


class MachineCode:
    """The launcher in this process's memory, for good.

    Attributes
    ----------
    call, describe, hash
        Addresses of the three functions.
    """

    def __init__(self, engine: Any) -> None:
        from numjit.launcher.program import API_VARIABLE, CALL, DESCRIBE, HASH

        self._engine = engine
        self.call = int(engine.get_function_address(CALL))
        self.describe = int(engine.get_function_address(DESCRIBE))
        self.hash = int(engine.get_function_address(HASH))
        api = engine.get_global_value_address(API_VARIABLE)
        if not (self.call and self.describe and self.hash and api):
            raise ValueError("an object without the launcher's functions")
        self._api = ctypes.c_int64.from_address(api)

    @property
    def table(self) -> int:
        """Address of the process's table; 0 before there is one."""
        return int(self._api.value)

    def use(self, api: int) -> None:
        """Let the code work with the process's table at an address."""
        self._api.value = api


@functools.cache
def load() -> MachineCode:
    """Return the launcher's code, from disk or compiled (0.1 s, without Numba)."""
    import llvmlite.binding as llvm

    _initialise(llvm)
    machine = _target_machine(llvm)
    key = _key(llvm, machine)
    found = default_store().load(key, ".o", functools.partial(_link, llvm, machine))
    if found is not None:
        return found
    from numjit.launcher.program import launcher_module

    module = llvm.parse_assembly(launcher_module())
    module.verify()
    machine = _target_machine(llvm)  # an engine that failed has taken the other one with it
    _optimise(llvm, machine, module)
    image = machine.emit_object(module)
    code = _link(llvm, machine, image)
    default_store().put(key, ".o", image)
    return code


def _key(llvm: Any, machine: Any) -> str:
    return digest(
        "launcher",
        sources_digest(),
        version_of("llvmlite"),
        machine.triple,
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )


def _link(llvm: Any, machine: Any, image: bytes) -> MachineCode:
    """Put an object into this process's memory."""
    fault = elf_fault(image) if sys.platform == "linux" else ""
    if fault:
        raise ValueError(fault)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(image))
    engine.finalize_object()
    return MachineCode(engine)


def _initialise(llvm: Any) -> None:
    import contextlib

    with contextlib.suppress(RuntimeError):  # newer llvmlites do it by themselves and say so
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _target_machine(llvm: Any) -> Any:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )


def _optimise(llvm: Any, machine: Any, module: Any) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
