"""What calls of one kind do: the one record of a planned call, from its first time to every repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numjit.arrays.numbers import chunk_slot, convert

if TYPE_CHECKING:
    from numjit.arrays.view import Device
    from numjit.dtypes import DType
    from numjit.functor.signature import Specialisation
    from numjit.kernels.spec import ShellSpec

__all__ = ["Plan"]


class Plan:
    """What a call does, apart from addresses and numbers.

    Attributes
    ----------
    specialisation
        The functor at the call's types.
    fingerprint
        The functor's when the call was planned.
    shape, strides, outputs
        The results: sizes, element strides of new ones, dtypes.
    given
        Which outputs the call has an array for.
    device
        Where it runs.
    values
        Arguments passed by value, each with the dtype it is taken as; None for a raw operand, as address and
        size.
    numbers
        Those of them that are numbers.
    memory
        Which arguments are read from memory, in order.
    empty
        There is nothing to compute.
    numbered
        The functor takes the element's number, one operand more after those in memory.
    library, results
        Whose arrays all operands and given outputs are, and whose the new results are. `library` is ""
        where a call that is like this one must be looked at anew, all of it.
    kernel, grid, extents, offsets, shell
        The kernel on a GPU, blocks of its launch, what follows pointers and values among its parameters,
        bytes to add to each pointer, outputs first, and the shell that it was built of.
    tuned
        Whether the launch was chosen by measurement.
    runner
        The loop on the CPU.
    reach
        Bytes that given outputs and operands cover, where outputs are given; see `numjit.call.outputs`.
    allocation
        How repeated calls make each new result; filled at the first repetition.
    """

    __slots__ = (
        "__weakref__", "allocation", "device", "empty", "extents", "fingerprint", "given", "grid", "kernel",
        "library", "memory", "numbered", "numbers", "offsets", "outputs", "reach", "results", "runner",
        "shape", "shell", "specialisation", "strides", "tuned", "values",
    )  # fmt: skip

    def __init__(
        self,
        specialisation: Specialisation,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        outputs: tuple[DType, ...],
        values: tuple[tuple[int, DType | None], ...],
        memory: tuple[int, ...],
        device: Device,
        *,
        given: tuple[int, ...] = (),
        empty: bool = False,
        numbered: bool = False,
    ) -> None:
        self.specialisation = specialisation
        self.shape, self.strides, self.outputs = shape, strides, outputs
        self.values, self.memory, self.device = values, memory, device
        self.numbers = tuple((k, dtype) for k, dtype in values if dtype is not None)
        self.given, self.empty, self.numbered = given, empty, numbered
        self.fingerprint = ""
        self.library, self.results = "", ""
        self.kernel: Any = None
        self.grid: tuple[int, int, int] = (0, 1, 1)
        self.extents: tuple[int, ...] = ()
        self.offsets: tuple[int, ...] = ()
        self.shell: ShellSpec | None = None
        self.tuned = False
        self.runner: Any = None
        self.reach: Any = None
        self.allocation: Any = None

    def compute(self, pointers: Sequence[int], bound: Sequence[Any]) -> None:
        """Run the CPU loop on addresses, outputs first, and the call's numbers."""
        self.runner(pointers, b"".join(chunk_slot(bound[k], dtype) for k, dtype in self.numbers))

    def launch(self, pointers: Sequence[int], bound: Sequence[Any], stream: int) -> None:
        """Launch the kernel on addresses, outputs first, and the call's numbers."""
        numbers: list[float] = [p + o for p, o in zip(pointers, self.offsets, strict=True)]
        for k, dtype in self.numbers:
            numbers += convert(bound[k], dtype)
        self.kernel(stream, self.grid, (*numbers, *self.extents))
