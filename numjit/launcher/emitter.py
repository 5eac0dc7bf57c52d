"""A thin layer over llvmlite's builder for code whose every value is a 64-bit word."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir

__all__ = ["WORD", "WordEmitter"]

WORD = ir.IntType(64)
_INT32 = ir.IntType(32)
_INT8 = ir.IntType(8)


class WordEmitter:
    """Emits one function; addresses, sizes and object references are all words.

    Parameters
    ----------
    function
        An llvmlite function whose parameters are words.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self._entry = function.append_basic_block("entry")
        self.builder = ir.IRBuilder(self._entry)
        body = function.append_basic_block("body")
        self._jump = self.builder.branch(body)
        self.builder.position_at_end(body)

    def const(self, number: int) -> Any:
        """Return a constant word."""
        return ir.Constant(WORD, number)

    def _word(self, value: Any) -> Any:
        return self.const(value) if isinstance(value, int) else value

    def scratch(self, words: int) -> Any:
        """Return the address of memory on the stack, laid out once a call."""
        with self.builder.goto_block(self._entry):
            self.builder.position_before(self._jump)
            memory = self.builder.alloca(ir.ArrayType(WORD, words))
            memory.align = 16
            return self.builder.ptrtoint(memory, WORD)

    def variable(self, value: Any = 0) -> Any:
        """Return a variable; see `get` and `set`."""
        with self.builder.goto_block(self._entry):
            self.builder.position_before(self._jump)
            made = self.builder.alloca(WORD)
        self.set(made, value)
        return made

    def get(self, variable: Any) -> Any:
        """Return a variable's value."""
        return self.builder.load(variable)

    def set(self, variable: Any, value: Any) -> None:
        """Assign a variable."""
        self.builder.store(self._word(value), variable)

    def bump(self, variable: Any, by: Any = 1) -> None:
        """Add to a variable."""
        self.set(variable, self.add(self.get(variable), by))

    # --------------------------------------------------------------------------------- arithmetic

    def add(self, a: Any, b: Any) -> Any:
        """Return a sum."""
        return self.builder.add(self._word(a), self._word(b))

    def mul(self, a: Any, b: Any) -> Any:
        """Return a product."""
        return self.builder.mul(self._word(a), self._word(b))

    def both(self, a: Any, b: Any) -> Any:
        """Return the bitwise and."""
        return self.builder.and_(self._word(a), self._word(b))

    def compare(self, sign: str, a: Any, b: Any) -> Any:
        """Return a signed comparison's truth."""
        return self.builder.icmp_signed(sign, self._word(a), self._word(b))

    def is_zero(self, a: Any) -> Any:
        """Return whether a word is 0."""
        return self.compare("==", a, 0)

    # ------------------------------------------------------------------------------------- memory

    def _pointer(self, address: Any, offset: Any, kind: Any) -> Any:
        where = address if isinstance(offset, int) and offset == 0 else self.add(address, offset)
        return self.builder.inttoptr(where, kind.as_pointer())

    def load(self, address: Any, offset: Any = 0) -> Any:
        """Return the word at an address."""
        return self.builder.load(self._pointer(address, offset, WORD))

    def load32(self, address: Any, offset: Any = 0) -> Any:
        """Return the signed 4-byte integer at an address."""
        return self.builder.sext(self.builder.load(self._pointer(address, offset, _INT32)), WORD)

    def load_double(self, address: Any, offset: Any = 0) -> Any:
        """Return the double at an address."""
        return self.builder.load(self._pointer(address, offset, ir.DoubleType()))

    def store(self, address: Any, offset: Any, value: Any) -> None:
        """Write a word (or a double or float, in its own bits)."""
        value = self._word(value)
        self.builder.store(value, self._pointer(address, offset, value.type))

    def entry(self, table: Any, place: int) -> Any:
        """Return a table's word by its place."""
        return self.load(table, 8 * int(place))

    def item(self, table: Any, index: Any) -> Any:
        """Return a table's word by a computed index."""
        return self.load(table, self.mul(index, 8))

    # ---------------------------------------------------------------------------------- functions

    def call(self, address: Any, arguments: Sequence[Any], kinds: str, result: str = "w") -> Any:
        """Call a C function.

        Parameters
        ----------
        address
            The function's.
        arguments
            Words.
        kinds
            One letter an argument: ``w`` a word, ``i`` an int.
        result
            ``w``, ``i`` or ``b`` (an int, a byte; returned as a word) or ``v`` for void.
        """
        types = {"w": WORD, "i": _INT32, "b": _INT8, "v": ir.VoidType()}
        signature = ir.FunctionType(types[result], [types[kind] for kind in kinds])
        function = self.builder.inttoptr(address, signature.as_pointer())
        passed = [
            self.builder.trunc(self._word(value), _INT32) if kind == "i" else self._word(value)
            for value, kind in zip(arguments, kinds, strict=True)
        ]
        found = self.builder.call(function, passed)
        if result == "b":
            return self.builder.zext(found, WORD)
        return self.builder.sext(found, WORD) if result == "i" else found

    def give(self, value: Any) -> None:
        """Return from the function."""
        self.builder.ret(self._word(value))

    # ------------------------------------------------------------------------------- control flow

    def block(self, name: str) -> Any:
        """Return a new block to jump to."""
        return self.function.append_basic_block(name)

    def place(self, block: Any) -> None:
        """Go on emitting in a block."""
        self.builder.position_at_end(block)

    def jump(self, block: Any) -> None:
        """Go to a block."""
        self.builder.branch(block)

    def jump_if(self, condition: Any, block: Any) -> None:
        """Go to a block where a condition holds, else on."""
        onward = self.block("on")
        self.builder.cbranch(condition, block, onward)
        self.place(onward)

    @contextlib.contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """Do what is emitted inside only where a condition holds."""
        with self.builder.if_then(condition):
            yield

    @contextlib.contextmanager
    def repeat(self, count: Any) -> Iterator[Any]:
        """Do what is emitted inside with the index 0, 1, ... below a count."""
        index = self.variable(0)
        test, inside, after = self.block("test"), self.block("inside"), self.block("after")
        self.jump(test)
        self.place(test)
        self.builder.cbranch(self.compare("<", self.get(index), count), inside, after)
        self.place(inside)
        yield self.get(index)
        self.bump(index)
        self.jump(test)
        self.place(after)
