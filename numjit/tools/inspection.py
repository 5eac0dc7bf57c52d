"""What a call does, for people: dtypes, the kernel chosen, and its code as text."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numjit.call import build
from numjit.call.operation import Request, operation_of
from numjit.call.planner import view_bits
from numjit.errors import ArgumentError, AutogradError, DeviceError
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.python import PythonFunctor
from numjit.semantics.category import Category
from numjit.torch.watched import WatchedOperation, derived, explained

if TYPE_CHECKING:
    from numjit.arrays.view import ArrayView, Device
    from numjit.call.arguments import Arguments
    from numjit.call.record import Plan
    from numjit.functor.kinds import Functor

__all__ = ["Inspection", "inspect_call", "inspect_derivative"]


class Inspection:
    """A call's plan and code; made by ``f.inspect(...)`` and ``f.derivative(...)``.

    Printed, it is a summary. The attributes that hold code are made when they are asked for.

    Attributes
    ----------
    name, language
        The functor's name; ``"Python"`` or ``"C++"``.
    device
        Where the call runs: ``"cpu"``, ``"cuda:0"``.
    inputs, outputs
        Of each parameter and result by name: its dtype in memory and the one that the functor computes
        with, such as ``"float16 > float32"``.
    shape, strides
        Of the results, in elements.
    variant
        The kernel: kind, rank, vectors and accesses; on the CPU ``"loop"``.
    grid, block
        Blocks of the launch and threads of a block; None on the CPU.
    """

    def __init__(
        self, functor: Functor, names: Sequence[str], plan: Plan, arguments: Arguments, device: Device
    ) -> None:
        self._functor = functor
        self._plan = plan
        self._views: list[ArrayView | None] = list(arguments.views)
        self._device = device
        made = plan.specialisation
        self.name = functor.name
        self.language = "C++" if isinstance(functor, CppFunctor) else "Python"
        self.device = str(device)
        self.inputs = {
            name: _path(kind.dtype, dtype.compute)
            for name, kind, dtype in zip(names, arguments.types, made.inputs, strict=True)
        }
        self.outputs = tuple(
            _path(dtype.compute, stored) for dtype, stored in zip(made.outputs, plan.outputs, strict=True)
        )
        self.shape, self.strides = plan.shape, plan.strides
        self.variant = str(plan.shell.variant) if plan.shell else "loop"
        self.grid = plan.grid if plan.shell else None
        self.block = plan.shell.variant.block if plan.shell else None

    def __repr__(self) -> str:
        lines = [f"{self.name} ({self.language}) on {self.device}"]
        lines += [f"  {name}: {path}" for name, path in self.inputs.items()]
        lines += [f"  -> {path}" for path in self.outputs]
        lines.append(f"  shape {self.shape}, strides {self.strides}")
        launch = f", grid {self.grid}, block {self.block}" if self.block else ""
        lines.append(f"  kernel {self.variant}{launch}")
        return "\n".join(lines)

    @functools.cached_property
    def source(self) -> str:
        """The functor as it was written, and behind it what numjit generated for a derivative."""
        functor = self._functor
        if isinstance(functor, CppFunctor):
            return f"{functor.text}\n{functor.wrapper}"
        return _python_source(functor)

    @functools.cached_property
    def ptx(self) -> str:
        """The kernel in PTX, functor and shell linked.

        Raises
        ------
        DeviceError
            The call runs on the CPU, or has no elements.
        """
        target, _ = build.compile_target(self._cc())
        return self._linked(target, ptx=True).rstrip(b"\0").decode()

    @functools.cached_property
    def sass(self) -> str:
        """The kernel's machine code.

        Raises
        ------
        DeviceError
            The call runs on the CPU, has no elements, or the GPU is newer than the CUDA libraries.
        ToolchainError
            CUDA's ``cuobjdump`` is not installed.
        """
        from numjit.toolchain.disassembly import sass

        target, as_ptx = build.compile_target(self._cc())
        if as_ptx:
            raise DeviceError(
                f"{self.name}: {self.device} is newer than the CUDA libraries, so its driver compiles the "
                "machine code; look at .ptx"
            )
        return sass(self._linked(target))

    @functools.cached_property
    def cpp(self) -> str:
        """The C++ program of a C++ functor's loop on the CPU.

        Raises
        ------
        ArgumentError
            A Python functor, or a call on a GPU.
        """
        if not isinstance(self._functor, CppFunctor) or self._device.kind != "cpu":
            raise ArgumentError(f"{self.name}: .cpp is of C++ functors on the CPU; look at .ptx or .llvm")
        from numjit.cpu.cpp_source import host_source

        return host_source(self._functor, self._plan.specialisation, *self._layout())

    @functools.cached_property
    def llvm(self) -> str:
        """The optimised LLVM code of a Python functor's loop on the CPU.

        Raises
        ------
        ArgumentError
            A C++ functor, or a call on a GPU.
        """
        if not isinstance(self._functor, PythonFunctor) or self._device.kind != "cpu":
            raise ArgumentError(f"{self.name}: .llvm is of Python functors on the CPU; look at .ptx or .cpp")
        from numjit.cpu import python_loop

        return python_loop.llvm_code(self._functor, self._plan.specialisation, *self._layout())

    @property
    def code(self) -> str:
        """The code in the form that every machine has: PTX on a GPU, else the loop's C++ or LLVM code."""
        if self._device.kind == "cuda":
            return self.ptx
        return self.cpp if isinstance(self._functor, CppFunctor) else self.llvm

    def _cc(self) -> tuple[int, int]:
        from numjit.runtime import devices

        if self._device.kind != "cuda" or self._plan.shell is None:
            raise DeviceError(
                f"{self.name}: this call launches no kernel (it is on {self.device}, of shape {self.shape}); "
                "pass CUDA arrays with elements, or look at .code"
            )
        return devices.compute_capability(self._device.index)

    def _linked(self, target: tuple[int, int], *, ptx: bool = False) -> bytes:
        shell = self._plan.shell
        assert shell is not None
        return build.link_kernel(self._functor, self._plan.specialisation, shell, target, ptx=ptx)

    def _layout(self) -> tuple[Any, Any, Any]:
        storages = [None if seen is None else seen.dtype for seen in self._views]
        return storages, self._plan.outputs, [view_bits(seen) for seen in self._views]


def _path(first: Any, last: Any) -> str:
    return str(first) if first == last else f"{first} > {last}"


def _python_source(functor: PythonFunctor) -> str:
    """Return a Python functor's text; of a derived one, what it is derived of."""
    primal = getattr(functor, "primal", None)
    if primal is not None:
        names = [p.name for p in (*primal.signature.operands, *primal.signature.scalars)]
        by = ", ".join(names[k] for k in getattr(functor, "active", ()))
        return f"# {functor.name}: by {by} of\n{_python_source(primal)}"
    try:
        return inspect.getsource(functor.fn)
    except OSError:  # typed at a prompt
        return f"# {functor.name}: its text is not in a file"


def inspect_call(request: Request[Any], bound: Sequence[Any]) -> Inspection:
    """Return what a call on bound arguments does."""
    operation = request.operation
    arguments, nullary, plan = operation.plan(request, bound)
    where = nullary.device if nullary else arguments.device
    return Inspection(operation.functor, operation.names, plan, arguments, where)


def inspect_derivative(operation: WatchedOperation, bound: Sequence[Any]) -> Inspection:
    """Return what the backward of a call does; see `Elementwise.derivative`."""
    from numjit.arrays.allocate import empty

    name, rule = operation.name, operation.rule
    signature = operation.functor.signature
    arguments, _, plan = operation.plan(operation.plain_request, bound)
    outputs = tuple(dtype.is_floating or dtype.is_complex for dtype in plan.outputs)
    active = _active(arguments, signature.raws)
    if not active or not any(outputs):
        raise AutogradError(
            f"{name}(): nothing to differentiate; pass arrays of floats to a functor that gives floats"
        )
    grads = [
        empty(arguments.library, plan.shape, plan.strides, dtype, arguments.device)[0]
        for dtype in plan.outputs
    ]
    count = len(signature.operands)
    operands, scalars = list(bound[:count]), list(bound[count:])
    if rule is not None:
        if operation_of(rule.backward) is None:
            raise AutogradError(
                f"{name}(): its backward is code of whole tensors, not one of numjit's operations; read that"
            )
        named = dict(zip(operation.names[count:], scalars, strict=True))
        by_hand: Any = rule.backward
        made: Inspection = by_hand.inspect(*grads, *rule.kept(operands, grads), **named)
        return made
    with explained(operation):
        derivative = derived(operation, "vjp", active, outputs)
        given = [grad for grad, has in zip(grads, outputs, strict=True) if has]
        return inspect_call(derivative.plain_request, [*operands, *given, *scalars])


def _active(arguments: Arguments, raws: frozenset[int]) -> tuple[int, ...]:
    """Return the parameters to differentiate by: those that require grad, else all arrays of floats."""
    arrays = iter(arguments.arrays)
    floats, wanted = [], []
    for k, kind in enumerate(arguments.types):
        seen = None if kind.category is Category.NUMBER else next(arrays)
        if seen is not None and (kind.dtype.is_floating or kind.dtype.is_complex):
            floats += [] if k in raws else [k]
            wanted += [k] if seen.requires_grad else []
    return tuple(wanted or floats)
