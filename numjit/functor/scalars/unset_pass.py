"""Refuses a variable that a path through a functor leaves without a value, which Numba takes for 0."""

from __future__ import annotations

import enum
import functools
import re
import types as pytypes
from collections.abc import Callable
from typing import Any

from numba.core import types

from numjit.functor.scalars.types import RefusalError

__all__ = ["checked_compiler"]

_UNKNOWN = object()
#: Calls whose value is computed, to know whether a loop over it has a turn.
_COMPUTED = (range, len, min, max, abs, bool, int, enumerate, zip, reversed, tuple)
#: Numba puts a number, and the function's name, to the names of an inlined function's variables.
_WRITTEN = re.compile(r"([^\W\d]\w*)(?:\.\d+)*$")


@functools.cache
def checked_compiler(target: str) -> type:
    """Return Numba's compiler for ``"cpu"`` or ``"cuda"`` with the check in its pipeline.

    Conditions that are known by then, of captured constants, are gone from the program.
    """
    if target == "cuda":
        from numba.cuda.compiler import CUDACompiler as Compiler
        from numba.cuda.core import analysis, ir, ir_utils
        from numba.cuda.core.compiler_machinery import FunctionPass, register_pass
        from numba.cuda.core.untyped_passes import InlineClosureLikes, ReconstructSSA
    else:
        from numba.core import analysis, ir, ir_utils
        from numba.core.compiler import Compiler
        from numba.core.compiler_machinery import FunctionPass, register_pass
        from numba.core.untyped_passes import InlineClosureLikes, ReconstructSSA

    @register_pass(mutates_CFG=False, analysis_only=True)
    class CheckVariables(FunctionPass):  # type: ignore[misc]
        _name = "numjit_unset_variables"

        functions_only = False

        def __init__(self) -> None:
            FunctionPass.__init__(self)

        def run_pass(self, state: Any) -> bool:
            blocks = state.func_ir.blocks
            graph = analysis.compute_cfg_from_blocks(blocks)
            known = _Constants(ir, ir_utils.build_definitions(blocks), state.args)
            found = _first_unset(ir, blocks, graph, known, self.functions_only)
            if found is not None:
                name, error_place = found
                error = RefusalError(
                    f"the variable {name!r} may have no value here, as a path leads here that does not set it; "
                    f"set it before the condition or loop, say {name} = 0.0"
                )
                error.loc = error_place
                raise error
            return False

    @register_pass(mutates_CFG=False, analysis_only=True)
    class CheckFunctions(CheckVariables):
        """Numba inlines them next, and their variables are gone."""

        _name = "numjit_unset_functions"
        functions_only = True

    class CheckedCompiler(Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                names = [implementation for implementation, _ in pipeline.passes]
                place = names.index(ReconstructSSA)
                pipeline.passes.insert(place, (CheckVariables, "numjit: variables without a value"))
                place = names.index(InlineClosureLikes)
                pipeline.passes.insert(place, (CheckFunctions, "numjit: inner functions without a value"))
                pipeline.finalize()
            return list(pipelines)

    return CheckedCompiler


def _first_unset(
    ir: Any, blocks: dict[int, Any], graph: Any, known: _Constants, functions_only: bool
) -> tuple[str, Any] | None:
    """Return name and place of the first use of a variable that need not have a value; None where all have."""
    assigned = {label: _assigned(ir, block) for label, block in blocks.items()}
    checked = known.functions() if functions_only else None
    if checked is not None and not checked:
        return None
    everything = frozenset[str]().union(*assigned.values())
    dominators = graph.dominators()
    entry = graph.entry_point()
    live = [label for label in graph.topo_order() if label in blocks]
    before = dict.fromkeys(live, everything) | {entry: frozenset[str]()}
    ends = {label: known.end_of_loop(blocks[label]) for label in live}
    avoided = {label: known.avoided(blocks[label]) for label in live}

    def leaving(source: int, destination: int) -> frozenset[str]:
        """Return what has a value on the way from one block to another: everything where none leads there."""
        state = before[source]
        if avoided[source] == destination:
            return everything
        if ends[source] == destination:  # of a loop that has a turn: only its turns lead to its end
            turns = [label for label, _ in graph.predecessors(source) if source in dominators.get(label, ())]
            state = everything.intersection(*(leaving(label, source) for label in turns))
        return state | assigned[source]

    changed = True
    while changed:
        changed = False
        for label in live:
            sources = [source for source, _ in graph.predecessors(label) if source in before]
            state = everything.intersection(*(leaving(source, label) for source in sources))
            if label != entry and state != before[label]:
                before[label] = state
                changed = True
    found = (_unset_in(ir, blocks[label], before[label], checked) for label in sorted(live))
    return next((unset for unset in found if unset), None)


def _unset_in(
    ir: Any, block: Any, before: frozenset[str], checked: frozenset[str] | None
) -> tuple[str, Any] | None:
    have = set(before)
    for statement in block.body:
        if isinstance(statement, ir.Del):
            continue
        is_assignment = isinstance(statement, ir.Assign)
        value = statement.value if is_assignment else statement
        read = [value] if isinstance(value, ir.Var) else getattr(value, "list_vars", list)()
        for variable in read:
            name = variable.name
            if _is_written(name) and name not in have and (checked is None or name in checked):
                found = _WRITTEN.search(variable.name)
                return (found[1] if found else name), statement.loc
        if is_assignment and not _is_undefined(ir, value):
            have.add(statement.target.name)
    return None


def _is_written(name: str) -> bool:
    """Whether a variable is one of the user's."""
    return not name.startswith("$")


def _assigned(ir: Any, block: Any) -> frozenset[str]:
    return frozenset(
        statement.target.name
        for statement in block.find_insts(ir.Assign)
        if _is_written(statement.target.name) and not _is_undefined(ir, statement.value)
    )


def _is_undefined(ir: Any, value: Any) -> bool:
    return isinstance(value, ir.Expr) and value.op in ("undef", "null")


class _Constants:
    """What variables are known to be before types are inferred.

    Parameters
    ----------
    ir
        Numba's module of that name.
    definitions
        What each variable is assigned.
    arguments
        Types of the function's arguments.
    """

    def __init__(self, ir: Any, definitions: dict[str, list[Any]], arguments: tuple[Any, ...]) -> None:
        self._ir = ir
        self._definitions = definitions
        self._arguments = arguments

    def end_of_loop(self, block: Any) -> int | None:
        """Return where a block that asks for a loop's next turn goes after the last one, if there is a turn."""
        branch = block.terminator
        if not isinstance(branch, self._ir.Branch):
            return None
        asked = self._definition(branch.cond)
        if getattr(asked, "op", "") != "pair_second":
            return None
        following = self._definition(asked.value)
        if getattr(following, "op", "") != "iternext":
            return None
        iterator = self._definition(following.value)
        if getattr(iterator, "op", "") != "getiter":
            return None
        turns = self.value(iterator.value)
        return int(branch.falsebr) if isinstance(turns, tuple | range) and len(turns) > 0 else None

    def avoided(self, block: Any) -> int | None:
        """Return where a block never goes, as its condition is known."""
        branch = block.terminator
        if not isinstance(branch, self._ir.Branch):
            return None
        condition = self.value(branch.cond)
        if not isinstance(condition, bool | int | float | None) or branch.truebr == branch.falsebr:
            return None
        return int(branch.falsebr if condition else branch.truebr)

    def functions(self) -> frozenset[str]:
        """Return the variables that inner functions are assigned to."""
        return frozenset(
            name
            for name, found in self._definitions.items()
            if _is_written(name) and any(getattr(self._definition(one), "op", "") == "make_function" for one in found)
        )

    def _definition(self, variable: Any) -> Any:
        """Return what a variable is assigned, through others; None where that depends."""
        while isinstance(variable, self._ir.Var):
            found = self._definitions.get(variable.name, ())
            if len(found) != 1:
                return None
            variable = found[0]
        return variable

    def value(self, variable: Any, depth: int = 20) -> Any:
        """Return the value of a variable, a tuple perhaps of unknown members; `_UNKNOWN` where it depends."""
        found = self._definition(variable)
        if depth == 0 or found is None:
            return _UNKNOWN
        if isinstance(found, self._ir.Const | self._ir.Global | self._ir.FreeVar):
            return found.value
        if isinstance(found, self._ir.Arg):
            kind = self._arguments[found.index] if found.index < len(self._arguments) else None
            return _argument(kind)
        if not isinstance(found, self._ir.Expr):
            return _UNKNOWN
        if found.op == "build_tuple":
            return tuple(self.value(item, depth - 1) for item in found.items)
        if found.op == "getattr":
            owner = self.value(found.value, depth - 1)
            return getattr(owner, found.attr, _UNKNOWN) if _has_constants(owner) else _UNKNOWN
        return self._computed(found, depth - 1)

    def _computed(self, found: Any, depth: int) -> Any:
        """Return the value of an operation or call whose operands are known."""
        if found.op in ("binop", "inplace_binop"):
            function, parts = found.fn, (found.lhs, found.rhs)
        elif found.op == "unary":
            function, parts = found.fn, (found.value,)
        elif found.op == "static_getitem":
            owner = self.value(found.value, depth)
            known = isinstance(owner, tuple) and isinstance(found.index, int | slice)
            return _guarded(lambda: owner[found.index]) if known else _UNKNOWN
        elif found.op == "call" and not found.kws and not found.vararg:
            function, parts = self.value(found.func, depth), tuple(found.args)
            if not any(function is known for known in _COMPUTED):
                return _UNKNOWN
        else:
            return _UNKNOWN
        values = [self.value(part, depth) for part in parts]
        if any(value is _UNKNOWN for value in values):
            return _UNKNOWN
        if function in (enumerate, zip, reversed, tuple):
            return _guarded(lambda: tuple(function(*values)))
        plain = (bool, int, float, tuple, range, type(None))
        if any(not isinstance(value, plain) or _is_long(value) for value in values):
            return _UNKNOWN
        return _guarded(lambda: function(*values))


def _argument(kind: Any) -> Any:
    """Return what the type of an argument says of its value."""
    if isinstance(kind, types.BaseTuple):
        return (_UNKNOWN,) * len(kind)
    if isinstance(kind, types.Omitted):
        return kind.value
    return None if kind == types.none else _UNKNOWN


def _has_constants(owner: Any) -> bool:
    return isinstance(owner, pytypes.ModuleType | enum.Enum | enum.EnumMeta) or hasattr(owner, "_fields")


def _is_long(value: Any) -> bool:
    """Whether computing with a number could take long."""
    return isinstance(value, int) and value.bit_length() > 64


def _guarded(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return _UNKNOWN
