"""Formulas compiled alone, by LLVM: what Python functors have of them on the CPU."""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy
from llvmlite import binding, ir

from numjit import dtypes
from numjit.codegen.machine import HOST
from numjit.codegen.storage import value_type
from numjit.rules.lowering import Emitter

__all__ = ["evaluated"]


def evaluated(function, *values):
    """Return an emission's values of arrays of one float type, element by element."""
    dtype = dtypes.from_name(values[0].dtype.name)
    real = value_type(dtype)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = ir.Module()
    entry = ir.Function(module, ir.FunctionType(real, [real] * len(values)), "formula")
    builder = ir.IRBuilder(entry.append_basic_block())
    builder.ret(function(Emitter(None, builder, HOST), dtype, *entry.args))
    ctypes.CDLL(ctypes.util.find_library("m"), mode=ctypes.RTLD_GLOBAL)
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    kind = ctypes.c_float if dtype.itemsize == 4 else ctypes.c_double
    compiled = ctypes.CFUNCTYPE(kind, *[kind] * len(values))(engine.get_function_address("formula"))
    rows = zip(*(array.tolist() for array in values), strict=True)
    return numpy.array([compiled(*row) for row in rows], dtype=values[0].dtype)
