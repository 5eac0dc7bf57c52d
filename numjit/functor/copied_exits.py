"""One exit where CPython's compiler has copied it into the branches that lead there.

From Python 3.12 on, ``return f(a if c else b)``, or ``return f(z)`` after an ``if`` that sets ``z``, end each
branch with a copy of what comes after it, if that is short. The copies say the same of Python's objects, but
not of typed ones: each is typed by its branch alone, so that `f` would be computed in the dtype of `a` here
and of `b` there. As written there is one `f`, of what both promote to.
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any, NamedTuple

__all__ = ["with_one_exit"]

_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_UNIT = 2  # bytes of an instruction without its argument's extensions and caches


class _Step(NamedTuple):
    """An instruction: where it begins and ends, and all that says whether another is a copy of it."""

    start: int
    end: int
    same: tuple[Any, ...]
    leaves: bool


def with_one_exit(function: Any) -> Any:
    """Return a function of the same code in which no copy of an exit is left; itself where there is none."""
    code = _merged(function.__code__)
    if code is function.__code__:
        return function
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


@functools.lru_cache(maxsize=1024)
def _merged(code: types.CodeType) -> types.CodeType:
    inner = tuple(_merged(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    if any(a is not b for a, b in zip(inner, code.co_consts, strict=True)):
        code = code.replace(co_consts=inner)
    steps = _steps(code)
    exits: dict[tuple[Any, ...], list[int]] = {}
    for k, step in enumerate(steps):
        if dis.opname[step.same[0]] in ("RETURN_VALUE", "RETURN_CONST") and None not in step.same[2]:
            exits.setdefault(step.same, []).append(k)
    raw = bytearray(code.co_code)
    changed = False
    for places in exits.values():
        last = places[-1]
        for place in places[:-1]:
            length = 1
            while place >= length and last - length > place and _copies(steps, place - length, last - length):
                length += 1
            # A return alone computes nothing.
            if length > 1:
                changed |= _jump(raw, steps, place - length + 1, place, steps[last - length + 1].start)
    return code.replace(co_code=bytes(raw)) if changed else code


def _copies(steps: list[_Step], one: int, other: int) -> bool:
    step = steps[one]
    return not step.leaves and None not in step.same[2] and step.same == steps[other].same


def _steps(code: types.CodeType) -> list[_Step]:
    """Return the instructions, an extended argument being part of the one that it belongs to."""
    found: list[_Step] = []
    begin: int | None = None
    listed = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    for k, instruction in enumerate(listed):
        begin = instruction.offset if begin is None else begin
        if instruction.opcode == dis.EXTENDED_ARG:
            continue
        end = listed[k + 1].offset if k + 1 < len(listed) else len(code.co_code)
        where: tuple[Any, ...] = tuple(instruction.positions or (None,))
        leaves = instruction.opcode in _JUMPS or instruction.opname.startswith(("RETURN", "RAISE", "RERAISE"))
        found.append(_Step(begin, end, (instruction.opcode, instruction.arg, where), leaves))
        begin = None
    return found


def _jump(raw: bytearray, steps: list[_Step], first: int, last: int, target: int) -> bool:
    """Let a copy begin with a jump to the one that stays; what is left of it is never reached."""
    start, room = steps[first].start, steps[last].end
    ahead = 1
    while True:  # as many bytes for the distance as it needs
        begin = start + _UNIT * ahead
        distance = (target - begin) // _UNIT
        if distance < 256**ahead:
            break
        ahead += 1
    if begin > room:
        return False
    units = [
        (dis.opmap["EXTENDED_ARG"] if k else dis.opmap["JUMP_FORWARD"], (distance >> (8 * k)) & 255)
        for k in reversed(range(ahead))
    ]
    for k, unit in enumerate(units):
        raw[start + _UNIT * k : start + _UNIT * (k + 1)] = bytes(unit)
    # The jump may end inside of an instruction: nothing half is left behind it.
    end = next(step.end for step in steps[first : last + 1] if step.end >= begin)
    raw[begin:end] = bytes([dis.opmap["NOP"], 0]) * ((end - begin) // _UNIT)
    return True
