"""Refuses a variable that a path through a functor leaves without a value, which Numba takes for 0."""

from __future__ import annotations

import functools
import re
from typing import Any

from numjit.functor.scalars.constants import Constants, read_constants, refuse_text
from numjit.functor.scalars.wording import unset
from numjit.rules.types import RefusalError

__all__ = ["checked_compiler"]

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
            known = Constants(ir, ir_utils.build_definitions(blocks), state.args)
            found = _first_unset(ir, blocks, graph, known, self.functions_only)
            if found is not None:
                name, error_place = found
                error = RefusalError(unset(name))
                error.loc = error_place
                raise error
            if not self.functions_only:
                refuse_text(ir, blocks)
            return False

    @register_pass(mutates_CFG=False, analysis_only=True)
    class CheckFunctions(CheckVariables):
        """Numba inlines them next, and their variables are gone."""

        _name = "numjit_unset_functions"
        functions_only = True

    @register_pass(mutates_CFG=False, analysis_only=False)
    class ReadConstants(FunctionPass):  # type: ignore[misc]
        _name = "numjit_read_constants"

        def __init__(self) -> None:
            FunctionPass.__init__(self)

        def run_pass(self, state: Any) -> bool:
            function_ir = state.func_ir
            known = Constants(ir, ir_utils.build_definitions(function_ir.blocks), state.args)
            changed = read_constants(ir, function_ir.blocks, known)
            if changed:
                function_ir._definitions = ir_utils.build_definitions(function_ir.blocks)
                ir_utils.dead_code_elimination(function_ir)  # of what was compared: strings have no type
            return changed

    class CheckedCompiler(Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                names = [implementation for implementation, _ in pipeline.passes]
                place = names.index(ReconstructSSA)
                pipeline.passes.insert(place, (CheckVariables, "numjit: variables without a value"))
                place = names.index(InlineClosureLikes)
                pipeline.passes.insert(place + 1, (ReadConstants, "numjit: captured constants"))
                pipeline.passes.insert(place, (CheckFunctions, "numjit: inner functions without a value"))
                pipeline.finalize()
            return list(pipelines)

    return CheckedCompiler


def _first_unset(
    ir: Any, blocks: dict[int, Any], graph: Any, known: Constants, functions_only: bool
) -> tuple[str, Any] | None:
    """Return name and place of the first use of a variable that need not have a value; else None."""
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
