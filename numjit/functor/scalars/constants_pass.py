"""What a functor's integers are known to be before types are inferred, in Numba's untyped IR.

Python's integers have no bounds and their powers have a type that hangs on a sign; numbers in a kernel have
64 bits and one type. So what is constant is computed here by Python itself, and where an exponent is an int
it is found out whether it can be negative: from constants, ranges, signs of the call's numbers.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from numjit.functor.markers import index
from numjit.functor.scalars.index_pass import INDEX_PARAMETER, indexed_pipeline
from numjit.functor.scalars.unset_pass import checked_compiler
from numjit.rules.signs import (
    ALL,
    BINARY,
    FUNCTIONS,
    NATURAL,
    NEGATIVE,
    NO_SIGN,
    UNARY,
    ZERO,
    natural_power,
    negative_power,
    of_number,
    of_range,
)
from numjit.rules.types import RefusalError

__all__ = ["SignedFunction", "functor_pipeline"]

_NUMBERS = (bool, int, float, complex)
#: Constants with more bits are left alone: nobody means them, and computing one may take for ever.
_MAX_BITS = 1 << 14
_FUNCTIONS = frozenset({abs, bool, complex, divmod, float, int, max, min, pow, round, sum})
_POWERS = (operator.pow, operator.ipow)


class SignedFunction:
    """A Python function as one place calls it: with what is known there of its arguments' signs.

    Parameters
    ----------
    function
        What is called.
    signs
        By position, and by name; `ALL` where nothing is known.
    """

    def __init__(self, function: Any, signs: tuple[tuple[int, ...], tuple[tuple[str, int], ...]]) -> None:
        self.function = function
        self.signs = signs


@functools.cache
def functor_pipeline(target: str, *, indexed: bool) -> type:
    """Return the compiler pipeline of ``"cpu"`` or ``"cuda"`` for functors."""
    if target == "cuda":
        from numba.cuda.core import ir, ir_utils
        from numba.cuda.core.compiler_machinery import FunctionPass, register_pass
        from numba.cuda.core.typed_passes import NopythonTypeInference
    else:
        from numba.core import ir, ir_utils
        from numba.core.compiler_machinery import FunctionPass, register_pass
        from numba.core.typed_passes import NopythonTypeInference

    @register_pass(mutates_CFG=False, analysis_only=False)
    class Constants(FunctionPass):  # type: ignore[misc]
        _name = "numjit_constants"

        def __init__(self) -> None:
            FunctionPass.__init__(self)

        def run_pass(self, state: Any) -> bool:
            session = state.typingctx.session
            body = _Body(state.func_ir, ir, ir_utils, session.signs, session.reads_signs)
            return body.rewrite()

    base: Any = indexed_pipeline(target) if indexed else checked_compiler(target)

    class FunctorCompiler(base):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                names = [implementation for implementation, _ in pipeline.passes]
                pipeline.passes.insert(names.index(NopythonTypeInference), (Constants, "numjit: constants"))
                pipeline.finalize()
            return list(pipelines)

    return FunctorCompiler


class _Body:
    """One function that is being rewritten."""

    def __init__(
        self,
        function_ir: Any,
        ir: Any,
        ir_utils: Any,
        given: Sequence[int],
        reads_signs: Callable[[Any], bool],
    ) -> None:
        self.function_ir = function_ir
        self.ir, self.ir_utils = ir, ir_utils
        self.given = given
        self.reads_signs = reads_signs
        self.definitions: dict[str, list[Any]] = {}
        for block in function_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                self.definitions.setdefault(statement.target.name, []).append(statement.value)
        self._constants: dict[str, Any] = {}
        self.signs: dict[str, int] = {}

    def rewrite(self) -> bool:
        """Put constants in the place of what is constant, and say of powers what is known of them."""
        ir = self.ir
        changed = False
        for block in self.function_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                if isinstance(statement.value, ir.Expr) and statement.value.op != "build_tuple":
                    found = self.constant(statement.target.name)
                    if type(found) in _NUMBERS:
                        statement.value = ir.Const(found, statement.loc)
                        changed = True
        powers = [p for p in self._statements() if self._exponent(p.value) is not None]
        calls = [(p, f) for p in self._statements() if (f := self._signed_callee(p.value)) is not None]
        if powers or calls:
            self._find_signs()
            for statement in powers:
                changed |= self._write_power(statement)
            for statement, function in calls:
                changed |= self._write_call(statement, function)
        if changed:
            self.function_ir._definitions = self.ir_utils.build_definitions(self.function_ir.blocks)
            self.ir_utils.dead_code_elimination(self.function_ir)
        return changed

    def _statements(self) -> list[Any]:
        blocks = self.function_ir.blocks.values()
        return [s for block in blocks for s in block.find_insts(self.ir.Assign)]

    # -------------------------------------------------------------------------------- constants

    def constant(self, name: str) -> Any:
        """Return the number or tuple that a variable always is; None where that is not known."""
        if name not in self._constants:
            self._constants[name] = None  # where it hangs on itself
            values = self.definitions.get(name, ())
            if len(values) == 1:
                self._constants[name] = self._constant_of(values[0])
        return self._constants[name]

    def _constant_of(self, value: Any) -> Any:
        ir = self.ir
        if isinstance(value, ir.Const | ir.Global | ir.FreeVar):
            number = _python(value.value)
            return number if type(number) in (*_NUMBERS, tuple) else None
        if isinstance(value, ir.Var):
            return self.constant(value.name)
        if not isinstance(value, ir.Expr):
            return None
        if value.op == "getattr":
            found = self._attribute(value)
            if type(found) in (*_NUMBERS, tuple):
                return found
            owner = self.constant(value.value.name)
            known = type(owner) in _NUMBERS and value.attr in ("real", "imag")
            return getattr(owner, value.attr) if known else None
        if value.op in ("static_getitem", "getitem"):
            held = self.constant(value.value.name)
            place = value.index if value.op == "static_getitem" else self.constant(value.index.name)
            is_inside = type(held) is tuple and type(place) is int and -len(held) <= place < len(held)
            return held[place] if is_inside and type(held[place]) in (*_NUMBERS, tuple) else None
        if value.op in ("cast", "exhaust_iter"):
            return self.constant(value.value.name)
        function, operands = self._operation(value)
        if function is None:
            return None
        numbers = [self.constant(operand.name) for operand in operands]
        spread = function in (max, min, sum) and len(numbers) == 1 and type(numbers[0]) is tuple
        return _computed(function, numbers[0] if spread else numbers, (numbers[0],) if spread else numbers)

    def _object(self, variable: Any) -> Any:
        """Return the captured object, or one of a module's, that a variable stands for; else None."""
        definition = self._definition(variable)
        if isinstance(definition, self.ir.Global | self.ir.FreeVar):
            return definition.value
        return self._attribute(definition)

    def _attribute(self, value: Any) -> Any:
        if not isinstance(value, self.ir.Expr) or value.op != "getattr":
            return None
        owner = self._object(value.value)
        # Of modules alone: a class's attributes are not watched, so that a later change would go unseen.
        return getattr(owner, value.attr, None) if isinstance(owner, types.ModuleType) else None

    def _operation(self, value: Any) -> tuple[Any, Sequence[Any]]:
        """Return the function that an expression applies, where that is one of numbers, and its operands."""
        if value.op == "binop":
            return value.fn, (value.lhs, value.rhs)
        if value.op == "inplace_binop":
            return value.immutable_fn, (value.lhs, value.rhs)
        if value.op == "unary":
            return value.fn, (value.value,)
        if value.op == "call" and not value.kws and not value.vararg:
            function = self._object(value.func)
            try:
                if function in _FUNCTIONS or getattr(function, "__module__", None) in ("math", "cmath"):
                    return function, value.args
            except TypeError:  # not hashable
                pass
        return None, ()

    # ------------------------------------------------------------------------------------ signs

    def _find_signs(self) -> None:
        """Grow the sets of signs that each variable may have until nothing changes."""
        self.signs = dict.fromkeys(self.definitions, NO_SIGN)
        changed = True
        while changed:
            changed = False
            for name, values in self.definitions.items():
                found = self.signs[name]
                for value in values:
                    found |= self._signs_of(value)
                if found != self.signs[name]:
                    self.signs[name] = found
                    changed = True

    def _signs(self, variable: Any) -> int:
        return self.signs.get(variable.name, ALL)

    def _signs_of(self, value: Any) -> int:
        ir = self.ir
        if isinstance(value, ir.Const | ir.Global | ir.FreeVar):
            return of_number(_python(value.value))
        if isinstance(value, ir.Var):
            return self._signs(value)
        if isinstance(value, ir.Arg):
            if value.name == INDEX_PARAMETER:
                return NATURAL
            return self.given[value.index] if value.index < len(self.given) else ALL
        if not isinstance(value, ir.Expr):
            return ALL
        if value.op == "cast":
            return self._signs(value.value)
        if value.op == "phi":
            return functools.reduce(
                operator.or_,
                (self._signs(v) for v in value.incoming_values if v is not ir.UNDEFINED),
                NO_SIGN,
            )
        if value.op == "pair_first":
            return self._signs_of_turn(self._turns(value))
        if value.op in ("static_getitem", "getitem"):
            return self._signs_of_item(value)
        if value.op == "call":
            return self._signs_of_call(value)
        function, operands = self._operation(value)
        table: Mapping[Any, Callable[..., int]] = UNARY if len(operands) == 1 else BINARY
        return table[function](*map(self._signs, operands)) if function in table else ALL

    def _signs_of_call(self, value: Any) -> int:
        function = self._object(value.func)
        try:
            found = FUNCTIONS.get(function)
        except TypeError:
            return ALL
        if function is index or function is len:
            return NATURAL
        if found is None or value.kws or value.vararg:
            return ALL
        given = [self._signs(operand) for operand in value.args]
        if len(value.args) == 1 and function in (max, min, sum):
            given = self._signs_of_members(value.args[0])
        return found(*given) if given else ALL

    def _turns(self, value: Any) -> Any:
        """Return the expression that a loop's variable runs over, or None."""
        iterator = self._definition(value.value)
        if not isinstance(iterator, self.ir.Expr) or iterator.op != "iternext":
            return None
        made = self._definition(iterator.value)
        if not isinstance(made, self.ir.Expr) or made.op != "getiter":
            return None
        return made.value

    def _definition(self, variable: Any) -> Any:
        """Return the one value that is assigned to a variable, through copies."""
        while isinstance(variable, self.ir.Var):
            values = self.definitions.get(variable.name, ())
            if len(values) != 1:
                return None
            variable = values[0]
        return variable

    def _signs_of_turn(self, turns: Any) -> int:
        made = self._definition(turns)
        if isinstance(made, self.ir.Expr) and made.op == "call":
            if self._object(made.func) is not range:
                return ALL
            bounds = [(self._signs(bound), self.constant(bound.name)) for bound in made.args]
            return ALL if made.kws or made.vararg else of_range(bounds)
        members = self._signs_of_members(turns)
        return functools.reduce(operator.or_, members) if members else ALL

    def _signs_of_members(self, held: Any) -> list[int]:
        made = self._definition(held)
        if isinstance(made, self.ir.Expr) and made.op == "build_tuple":
            return [self._signs(item) for item in made.items]
        known = self.constant(held.name)
        return [of_number(_python(member)) for member in known] if type(known) is tuple else []

    def _signs_of_item(self, value: Any) -> int:
        place = value.index if value.op == "static_getitem" else self.constant(value.index.name)
        function, sources = self._source_of_pairs(value.value)
        if function is enumerate and len(sources) == 1 and place in (0, 1):
            return NATURAL if place == 0 else self._signs_of_turn(sources[0])
        if function is zip and type(place) is int and 0 <= place < len(sources):
            return self._signs_of_turn(sources[place])
        members = self._signs_of_members(value.value)
        if not members:
            return ALL
        if type(place) is int and -len(members) <= place < len(members):
            return members[place]
        return functools.reduce(operator.or_, members, ZERO)  # 0 is what a place outside gives

    def _source_of_pairs(self, held: Any) -> tuple[Any, Sequence[Any]]:
        """Return ``enumerate`` or ``zip`` and its arguments, where a variable is a turn of a loop over it."""
        made = self._definition(held)
        if isinstance(made, self.ir.Expr) and made.op == "exhaust_iter":
            made = self._definition(made.value)
        if not isinstance(made, self.ir.Expr) or made.op != "pair_first":
            return None, ()
        turns = self._definition(self._turns(made))
        if not isinstance(turns, self.ir.Expr) or turns.op != "call" or turns.kws or turns.vararg:
            return None, ()
        return self._object(turns.func), turns.args

    # ----------------------------------------------------------------------------------- powers

    def _exponent(self, value: Any) -> Any:
        """Return the variable that a power's exponent is; None for everything else."""
        if not isinstance(value, self.ir.Expr):
            return None
        if value.op in ("binop", "inplace_binop"):
            return value.rhs if value.fn in _POWERS else None
        if value.op != "call" or value.kws or value.vararg or len(value.args) != 2:
            return None
        return value.args[1] if self._object(value.func) is pow else None

    def _write_power(self, statement: Any) -> bool:
        value = statement.value
        signs = self._signs(self._exponent(value))
        if signs & ~NATURAL == NO_SIGN:
            known = natural_power
        elif signs & ~(NEGATIVE | ZERO) == NO_SIGN:
            known = negative_power
        else:
            return False
        operands = value.args if value.op == "call" else (value.lhs, value.rhs)
        self._write(statement, known, operands, ())
        return True

    def _write(self, statement: Any, function: Any, args: Sequence[Any], kws: Sequence[Any]) -> None:
        """Make a statement a call of `function`."""
        ir, where = self.ir, statement.loc
        blocks = self.function_ir.blocks.values()
        block = next(b for b in blocks if any(one is statement for one in b.body))
        variable = ir.Var(block.scope, self.ir_utils.mk_unique_var("$numjit"), where)
        place = next(k for k, one in enumerate(block.body) if one is statement)
        name = getattr(function, "__name__", "function")
        block.body.insert(place, ir.Assign(ir.Global(name, function, where), variable, where))
        statement.value = ir.Expr.call(variable, list(args), tuple(kws), where)

    def _signed_callee(self, value: Any) -> Any:
        """Return the function that an expression calls, where arguments' signs mean something to it."""
        if not isinstance(value, self.ir.Expr) or value.op != "call" or value.vararg:
            return None
        function = self._object(value.func)
        return function if function is not None and self.reads_signs(function) else None

    def _write_call(self, statement: Any, function: Any) -> bool:
        value = statement.value
        by_place = tuple(self._signs(argument) for argument in value.args)
        by_name = tuple((name, self._signs(argument)) for name, argument in value.kws)
        if all(signs == ALL for signs in (*by_place, *(signs for _, signs in by_name))):
            return False
        self._write(statement, SignedFunction(function, (by_place, by_name)), value.args, value.kws)
        return True


def _python(value: Any) -> Any:
    """Return a NumPy scalar as a Python number, anything else as it is."""
    return value.item() if isinstance(value, np.bool_ | np.integer | np.floating) else value


def _computed(function: Any, numbers: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """Return what Python answers for known numbers; None where there is one missing, or Python raises."""
    if any(type(number) not in _NUMBERS for number in numbers):
        return None
    try:
        if _is_enormous(function, numbers):
            raise RefusalError("an integer constant is enormous; write it as a float")
        found = function(*arguments)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return found if type(found) in (*_NUMBERS, tuple) else None


def _is_enormous(function: Any, numbers: Sequence[Any]) -> bool:
    if not all(isinstance(number, int) for number in numbers):
        return False
    if function in (operator.pow, pow) and len(numbers) == 2 and abs(numbers[0]) > 1:
        return bool(numbers[0].bit_length() * numbers[1] > _MAX_BITS)
    if function is operator.lshift:
        return bool(numbers[1] > _MAX_BITS and numbers[0] != 0)
    return getattr(function, "__name__", "") in ("factorial", "comb", "perm") and numbers[0] > 1000
