"""Turns calls of ``numjit.index()`` in a functor's body into one more parameter, in Numba's untyped IR."""

from __future__ import annotations

import functools
from typing import Any

from numjit.functor.markers import index
from numjit.functor.scalars.unset_pass import checked_compiler

__all__ = ["INDEX_PARAMETER", "indexed_pipeline"]

#: The parameter's name; no Python parameter can have it.
INDEX_PARAMETER = "numjit.index"


@functools.cache
def indexed_pipeline(target: str) -> type:
    """Return the compiler pipeline of ``"cpu"`` or ``"cuda"`` for functors that use their index.

    The function is compiled for one argument more than it has parameters, at the end.
    """
    if target == "cuda":
        from numba.cuda.core import ir, ir_utils
        from numba.cuda.core.compiler_machinery import FunctionPass, register_pass
        from numba.cuda.core.typed_passes import NopythonTypeInference
        from numba.cuda.core.untyped_passes import FixupArgs
    else:
        from numba.core import ir, ir_utils
        from numba.core.compiler_machinery import FunctionPass, register_pass
        from numba.core.typed_passes import NopythonTypeInference
        from numba.core.untyped_passes import FixupArgs

    def is_index_call(function_ir: Any, value: Any) -> bool:
        if not isinstance(value, ir.Expr) or value.op != "call" or value.args or value.kws:
            return False
        return _value_of(function_ir, value.func, ir, ir_utils) is index

    register = register_pass(mutates_CFG=False, analysis_only=False)

    @register
    class AddParameter(FunctionPass):  # type: ignore[misc]
        _name = "numjit_index_parameter"

        def __init__(self) -> None:
            FunctionPass.__init__(self)

        def run_pass(self, state: Any) -> bool:
            state.func_ir.arg_count += 1
            state.func_ir.arg_names = (*state.func_ir.arg_names, INDEX_PARAMETER)
            return True

    @register
    class ReplaceCalls(FunctionPass):  # type: ignore[misc]
        _name = "numjit_index_calls"

        def __init__(self) -> None:
            FunctionPass.__init__(self)

        def run_pass(self, state: Any) -> bool:
            function_ir = state.func_ir
            for block in function_ir.blocks.values():
                for statement in block.find_insts(ir.Assign):
                    if is_index_call(function_ir, statement.value):
                        place = function_ir.arg_count - 1
                        statement.value = ir.Arg(INDEX_PARAMETER, place, statement.loc)
            function_ir._definitions = ir_utils.build_definitions(function_ir.blocks)
            ir_utils.dead_code_elimination(function_ir)  # of the loads of the function
            return True

    class IndexedCompiler(checked_compiler(target)):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                names = [implementation for implementation, _ in pipeline.passes]
                # Inner functions are inlined by the time types are inferred.
                infer, check = names.index(NopythonTypeInference), names.index(FixupArgs)
                pipeline.passes.insert(infer, (ReplaceCalls, "numjit: calls of index()"))
                pipeline.passes.insert(check, (AddParameter, "numjit: the index as a parameter"))
                pipeline.finalize()
            return list(pipelines)

    return IndexedCompiler


def _value_of(function_ir: Any, variable: Any, ir: Any, ir_utils: Any) -> Any:
    """Return the Python object that a variable stands for, as ``index`` or ``numjit.index``; else None."""
    definition = ir_utils.guard(ir_utils.get_definition, function_ir, variable)
    if isinstance(definition, ir.Global | ir.FreeVar):
        return definition.value
    if isinstance(definition, ir.Expr) and definition.op == "getattr":
        return getattr(_value_of(function_ir, definition.value, ir, ir_utils), definition.attr, None)
    return None
