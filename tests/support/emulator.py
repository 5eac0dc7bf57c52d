"""Runs the shipped shells on the CPU: the same kernel code, compiled for the host, thread by thread."""

import ctypes
import functools

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.extending import intrinsic

from numjit import dtypes
from numjit.codegen.machine import Machine
from numjit.kernels.shells import HostPlace, make_shell

I64 = ir.IntType(64)


def seam_functor(function, spec):
    """Compile a Python function of plain numbers as the C seam function; returns the cfunc (keep it)."""

    def native(dtype):
        real = dtype.compute.real
        return "uint8" if real.kind == "b" else real.name

    pointers, inputs, call, stores = [], [], [], []
    for k, slot in enumerate(spec.outputs):
        pointers.append(f"CPointer({native(slot.dtype)})")
        result = "r" if len(spec.outputs) == 1 else f"r[{k}]"
        if slot.dtype.is_complex:
            stores += [f"o{k}[0] = {result}.real", f"o{k}[1] = {result}.imag"]
        else:
            stores.append(f"o{k}[0] = {result}")
    for k, slot in enumerate(spec.inputs):
        if slot.raw:
            inputs += [(f"a{k}p", "int64"), (f"a{k}n", "int64")]
            call += [f"a{k}p", f"a{k}n"]
        elif slot.dtype.is_complex:
            inputs += [(f"a{k}r", native(slot.dtype)), (f"a{k}i", native(slot.dtype))]
            call.append(f"complex(a{k}r, a{k}i)")
        else:
            inputs.append((f"a{k}", native(slot.dtype)))
            call.append(f"a{k} != 0" if slot.dtype is dtypes.bool_ else f"a{k}")
    names = [f"o{k}" for k in range(len(spec.outputs))] + [name for name, _ in inputs]
    body = "\n    ".join([f"r = f({', '.join(call)})", *stores, "return 0"])
    scope = {"f": numba.njit(function)}
    exec(f"def seam({', '.join(names)}):\n    {body}", scope)
    return numba.cfunc(f"int32({', '.join([*pointers, *(kind for _, kind in inputs)])})")(scope["seam"])


class Emulation:
    """One shell compiled for the host, with every access checked for alignment and bounds."""

    def __init__(self, spec, function):
        self.spec = spec
        self.functor = seam_functor(function, spec)
        self.ids = (ctypes.c_int64 * 3)()
        self.shared = ctypes.create_string_buffer(48 << 10)
        self.faults = (ctypes.c_int64 * 2)()
        self.bounds = (ctypes.c_int64 * (2 * len(spec.stored)))()
        self.widths = set()
        machine = Machine("host", on_access=self._check)
        place = HostPlace(ctypes.addressof(self.ids), ctypes.addressof(self.shared), self.functor.address)
        shell = make_shell(spec, machine, place)
        kernel = numba.njit(shell.function)
        threads = spec.variant.block
        phases = 2 if spec.variant.tile else 1
        ids = ctypes.addressof(self.ids)

        @intrinsic
        def enter(typing_context, block, thread, phase):
            def emit(context, builder, signature, args):
                for offset, value in zip((0, 8, 16), args, strict=True):
                    builder.store(value, builder.inttoptr(I64(ids + offset), I64.as_pointer()))
                return context.get_dummy_value()

            return types.void(types.int64, types.int64, types.int64), emit

        def grid(pointers, values, extents, blocks):
            for block in range(blocks):
                for phase in range(1, phases + 1):
                    for thread in range(threads):
                        enter(block, thread, phase)
                        kernel(pointers, values, extents)

        self.grid = numba.njit(types.void(*shell.arguments, types.int64))(grid)

    def _check(self, builder, address, width):
        self.widths.add(width)
        bad = builder.icmp_unsigned("!=", builder.and_(address, I64(width - 1)), I64(0))
        self._count(builder, 0, bad)
        base = ctypes.addressof(self.bounds)
        inside = ir.IntType(1)(0)
        for k in range(len(self.spec.stored)):
            low, high = (
                builder.load(builder.inttoptr(I64(base + 16 * k + part), I64.as_pointer())) for part in (0, 8)
            )
            end = builder.add(address, I64(width))
            within = builder.and_(
                builder.icmp_signed(">=", address, low), builder.icmp_signed("<=", end, high)
            )
            inside = builder.or_(inside, within)
        self._count(builder, 1, builder.not_(inside))

    def _count(self, builder, which, condition):
        cell = builder.inttoptr(I64(ctypes.addressof(self.faults) + 8 * which), I64.as_pointer())
        builder.store(builder.add(builder.load(cell), builder.zext(condition, I64)), cell)

    def run(self, launch, addresses, values, bounds):
        """Run the whole grid; `bounds` gives each operand's first and end address."""
        assert launch.variant == self.spec.variant
        self.faults[0] = self.faults[1] = 0
        for k, (low, high) in enumerate(bounds):
            self.bounds[2 * k], self.bounds[2 * k + 1] = low, high
        integer = np.int64 if launch.variant.index_bits == 64 else np.int32
        self.grid(
            tuple(np.int64(a) for a in addresses),
            tuple(values),
            tuple(integer(e) for e in launch.extents),
            launch.grid,
        )
        assert self.faults[0] == 0, f"{self.faults[0]} misaligned accesses"
        assert self.faults[1] == 0, f"{self.faults[1]} accesses out of bounds"


@functools.lru_cache(maxsize=256)
def emulation(spec, function):
    """Return the (cached) emulation of `spec` around `function`."""
    return Emulation(spec, function)
