"""Loops, and what LLVM is told about them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from llvmlite import ir

__all__ = ["Distinct", "rolled"]


class Distinct(ir.values.MDValue):  # type: ignore[misc]
    """A metadata node that is itself only, as loop and access-group nodes must be.

    Its operands are set afterwards; those of a loop begin with the node itself.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module, (), name=str(len(module.metadata)))

    def descr(self, buf: list[str]) -> None:
        """Append the node's text."""
        buf += ("distinct !{ ", ", ".join(node.get_reference() for node in self.operands), " }\n")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


@contextlib.contextmanager
def rolled(builder: Any, start: Any, end: Any, step: Any) -> Iterator[Any]:
    """Emit ``for (number = start; number < end; number += step)`` around the body; yields the number.

    LLVM would unroll a loop of unknown length by four, with one more loop for the rest. This one stays as it
    is: a kernel's edges are run by few threads, but all of their code is compiled before the first result.
    """
    before = builder.block
    head, body, done = (builder.append_basic_block(name) for name in ("loop", "body", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    number = builder.phi(start.type)
    number.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", number, end), body, done)
    builder.position_at_end(body)
    yield number
    number.add_incoming(builder.add(number, step), builder.block)
    loop = Distinct(builder.module)
    loop.operands = (loop, builder.module.add_metadata(["llvm.loop.unroll.disable"]))
    builder.branch(head).set_metadata("llvm.loop", loop)
    builder.position_at_end(done)
