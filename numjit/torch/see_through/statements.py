"""Executes a functor's statements and expressions on the values of a `Program`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from numjit import math as numjit_math
from numjit.rules.table import ATTRIBUTES, METHODS
from numjit.torch.see_through.calls import invoke
from numjit.torch.see_through.lowered import NotLowerable
from numjit.torch.see_through.program import Program
from numjit.torch.see_through.values import (
    BINARY,
    COMPARED,
    NOTHING,
    UNARY,
    Bind,
    Known,
    Marker,
    Scope,
    Value,
    constant,
    lift,
)

__all__ = ["body"]

#: How deep functions call each other.
_DEPTH = 40

#: Turns of a ``while`` loop, whose condition must be known.
_TURNS = 1000
Step = ast.stmt | Bind | Marker


# ---------------------------------------------------------------------------------------- statements


def body(program: Program, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> Any:
    """Execute a function's body; returns what it returns."""
    program.depth += 1
    if program.depth > _DEPTH:
        raise NotLowerable("it calls itself, or nests functions too deeply")
    try:
        if isinstance(node, ast.Lambda):
            return evaluate(program, node.body, scope)
        return execute(program, list(node.body), scope)
    finally:
        program.depth -= 1


def execute(program: Program, steps: list[Any], scope: Scope) -> Any:
    """Execute steps to the end of a function; returns its result, `NOTHING` if it falls off the end.

    Everything that follows is in `steps`, so that the arms of a condition that returns or leaves a loop
    each go on to the function's end.
    """
    turns = 0
    place = 0
    while place < len(steps):
        step = steps[place]
        rest = steps[place + 1 :]
        place += 1
        if isinstance(step, ast.Return):
            return NOTHING if step.value is None else evaluate(program, step.value, scope)
        if isinstance(step, ast.If):
            condition = program.truth(evaluate(program, step.test, scope))
            if condition.constant is not None or _jumps(step):
                return program.choose(
                    condition, scope, _goes_on(program, step.body, rest), _goes_on(program, step.orelse, rest)
                )
            _both_arms(program, step, condition, scope)
        elif isinstance(step, ast.For):
            return execute(program, [*_unrolled(program, step, scope), *rest], scope)
        elif isinstance(step, ast.While):
            turns = turns + 1
            condition = program.truth(evaluate(program, step.test, scope))
            if condition.constant is None:
                raise NotLowerable("a while loop depends on an element, or on a number that the call knows")
            if turns > _TURNS or step.orelse:
                raise NotLowerable("a while loop is too long to unroll, or has an else")
            if condition.constant:
                steps = [*step.body, Marker(ast.Continue), step, Marker(ast.Break), *rest]
                place = 0
        elif isinstance(step, ast.Break | ast.Continue):
            kinds = [isinstance(s, Marker) and s.kind is type(step) for s in rest]
            steps, place = rest[kinds.index(True) + 1 :], 0
        elif isinstance(step, Bind):
            _assign(program, step.target, step.value, scope)
        elif not isinstance(step, Marker):
            _simple(program, step, scope)
    return NOTHING


def _goes_on(program: Program, body: list[ast.stmt], rest: list[Any]) -> Callable[[Scope], Any]:
    """Return an arm that goes on to the function's end."""
    return lambda inner: execute(program, [*body, *rest], inner)


def _jumps(node: ast.AST) -> bool:
    """Whether a statement may return, or leave a loop that it is part of."""
    if isinstance(node, ast.Return | ast.Break | ast.Continue):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return False
    return any(_jumps(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))


def _both_arms(program: Program, step: ast.If, condition: Value, scope: Scope) -> None:
    """Execute a condition whose arms only assign variables."""
    before = {name: _before(program, name, scope) for name in _assigned(step)}

    def arm(body: list[ast.stmt]) -> Callable[[Scope], dict[str, Any]]:
        def run(inner: Scope) -> dict[str, Any]:
            execute(program, list(body), inner)
            return {name: inner.names.get(name, value) for name, value in before.items()}

        return run

    scope.names.update(program.choose(condition, scope, arm(step.body), arm(step.orelse)))


def _assigned(node: ast.stmt) -> list[str]:
    """Return the variables that a statement may assign."""
    found: dict[str, None] = {}
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef):
            found[child.name] = None
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            found[child.id] = None
    return list(found)


def _before(program: Program, name: str, scope: Scope) -> Any:
    try:
        found = program.find(name, scope)
    except NotLowerable:
        return NOTHING
    return NOTHING if found is None else found


def _unrolled(program: Program, step: ast.For, scope: Scope) -> list[Any]:
    turns = evaluate(program, step.iter, scope)
    if not isinstance(turns, tuple):
        raise NotLowerable("it loops over something other than a range or a tuple")
    if step.orelse:
        raise NotLowerable("a loop has an else")
    steps: list[Any] = []
    for turn in turns:
        steps += [Bind(step.target, turn), *step.body, Marker(ast.Continue)]
    return [*steps, Marker(ast.Break)]


def _simple(program: Program, step: ast.stmt, scope: Scope) -> None:
    """Execute a statement that does not decide what comes next."""
    if isinstance(step, ast.Assign):
        value = evaluate(program, step.value, scope)
        for target in step.targets:
            _assign(program, target, value, scope)
    elif isinstance(step, ast.AugAssign):
        if not isinstance(step.target, ast.Name):
            raise NotLowerable("it assigns to an item or attribute")
        old = evaluate(program, ast.Name(step.target.id, ast.Load()), scope)
        new = evaluate(program, step.value, scope)
        scope.names[step.target.id] = program.apply(BINARY[type(step.op)][0], [old, new])
    elif isinstance(step, ast.AnnAssign):
        if step.value is not None:
            _assign(program, step.target, evaluate(program, step.value, scope), scope)
    elif isinstance(step, ast.FunctionDef):
        scope.names[step.name] = Known(step, scope)
    elif isinstance(step, ast.Expr):
        if not isinstance(step.value, ast.Constant):  # a docstring
            evaluate(program, step.value, scope)
    elif not isinstance(step, ast.Pass):
        raise NotLowerable(f"it has a statement of the kind {type(step).__name__}")


def _assign(program: Program, target: ast.expr, value: Any, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        scope.names[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        if not isinstance(value, tuple) or len(value) != len(target.elts):
            raise NotLowerable("it unpacks something other than a tuple of that length")
        for part, member in zip(target.elts, value, strict=True):
            _assign(program, part, member, scope)
    else:
        raise NotLowerable("it assigns to an item or attribute")


# --------------------------------------------------------------------------------------- expressions


def evaluate(program: Program, node: ast.expr, scope: Scope) -> Any:
    """Return the value of an expression."""
    method = _EXPRESSIONS.get(type(node))
    if method is None:
        raise NotLowerable(f"it has an expression of the kind {type(node).__name__}")
    return method(program, node, scope)


def _constant(program: Program, node: ast.Constant, scope: Scope) -> Any:  # noqa: ARG001
    return None if node.value is None else constant(node.value)


def _name(program: Program, node: ast.Name, scope: Scope) -> Any:
    found = program.find(node.id, scope)
    return program.captured(node.id, scope.fn) if found is None else found


def _binary(program: Program, node: ast.BinOp, scope: Scope) -> Any:
    found = BINARY.get(type(node.op))
    if found is None:
        raise NotLowerable(f"it uses the operator {type(node.op).__name__}")
    values = [evaluate(program, node.left, scope), evaluate(program, node.right, scope)]
    if all(isinstance(value, tuple) for value in values) and isinstance(node.op, ast.Add):
        return values[0] + values[1]
    return program.apply(found[0], values)


def _unary(program: Program, node: ast.UnaryOp, scope: Scope) -> Any:
    return program.apply(UNARY[type(node.op)][0], [evaluate(program, node.operand, scope)])


def _boolean(program: Program, node: ast.BoolOp, scope: Scope) -> Any:
    return _joined(program, isinstance(node.op, ast.And), list(node.values), scope)


def _joined(program: Program, is_and: bool, nodes: list[ast.expr], scope: Scope) -> Any:
    first = evaluate(program, nodes[0], scope)
    if len(nodes) == 1:
        return first
    condition = program.truth(first)

    def rest(inner: Scope) -> Any:
        return _joined(program, is_and, nodes[1:], inner)

    def done(_: Scope) -> Any:
        return first

    return program.choose(condition, scope, *((rest, done) if is_and else (done, rest)))


def _compare(program: Program, node: ast.Compare, scope: Scope) -> Any:
    left = evaluate(program, node.left, scope)
    return _compared(program, left, list(zip(node.ops, node.comparators, strict=True)), scope)


def _compared(program: Program, left: Any, pairs: list[tuple[ast.cmpop, ast.expr]], scope: Scope) -> Any:
    (op, node), *others = pairs
    right = evaluate(program, node, scope)
    if isinstance(op, ast.Is | ast.IsNot):
        if left is not None and right is not None:
            raise NotLowerable("it compares with is")
        return constant((left is right) is isinstance(op, ast.Is))
    found = COMPARED.get(type(op))
    if found is None:
        raise NotLowerable("it uses in")
    result = program.apply(found[0], [left, right])
    if not others:
        return result
    return program.choose(
        program.truth(result),
        scope,
        lambda inner: _compared(program, right, others, inner),
        lambda _: result,
    )


def _conditional(program: Program, node: ast.IfExp, scope: Scope) -> Any:
    return program.choose(
        program.truth(evaluate(program, node.test, scope)),
        scope,
        lambda inner: evaluate(program, node.body, inner),
        lambda inner: evaluate(program, node.orelse, inner),
    )


def _call(program: Program, node: ast.Call, scope: Scope) -> Any:
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise NotLowerable("it calls with **")
        keywords[keyword.arg] = evaluate(program, keyword.value, scope)
    arguments: list[Any] = []
    scopes = [scope] * len(node.args)
    for place, argument in enumerate(node.args):
        if isinstance(argument, ast.Starred):
            arguments += evaluate(program, argument.value, scope)
        else:
            arguments.append(evaluate(program, argument, scopes[place]))
        if place == 0 and program.gradients and len(scopes) == 3 and _chooses(program, node.func, scope):
            scopes[1:] = program.arms(program.truth(arguments[0]), scope)
    if isinstance(node.func, ast.Attribute):
        owner = evaluate(program, node.func.value, scope)
        if isinstance(owner, Value):
            rule = METHODS.get(node.func.attr)
            if rule is None or arguments or keywords:
                raise NotLowerable(f"it calls the method {node.func.attr}()")
            return program.apply(rule, [owner])
    return invoke(program, evaluate(program, node.func, scope), arguments, keywords, body)


def _chooses(program: Program, node: ast.expr, scope: Scope) -> bool:
    """Whether an expression is ``numjit.math.where``, whose operands are arms of a condition."""
    if isinstance(node, ast.Attribute | ast.Name):
        target = evaluate(program, node, scope)
        return isinstance(target, Known) and target.value is numjit_math.where
    return False


def _attribute(program: Program, node: ast.Attribute, scope: Scope) -> Any:
    owner = evaluate(program, node.value, scope)
    if isinstance(owner, Known):
        found = getattr(owner.value, node.attr, NOTHING)
        if found is NOTHING:
            raise NotLowerable(f"{owner.value!r} has no {node.attr!r}")
        return lift(found)
    if isinstance(owner, Value) and node.attr in ATTRIBUTES:
        return program.apply(ATTRIBUTES[node.attr], [owner])
    raise NotLowerable(f"it takes the attribute {node.attr!r}")


def _tuple(program: Program, node: ast.Tuple, scope: Scope) -> Any:
    members: list[Any] = []
    for member in node.elts:
        if isinstance(member, ast.Starred):
            members += evaluate(program, member.value, scope)
        else:
            members.append(evaluate(program, member, scope))
    return tuple(members)


def _subscript(program: Program, node: ast.Subscript, scope: Scope) -> Any:
    held = evaluate(program, node.value, scope)
    if not isinstance(held, tuple):
        raise NotLowerable("it reads an item of something other than a tuple")
    if isinstance(node.slice, ast.Slice):
        bounds = [
            None if part is None else evaluate(program, part, scope)
            for part in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        if all(bound is None or bound.constant is not None for bound in bounds):
            return held[slice(*(None if bound is None else bound.constant for bound in bounds))]
    else:
        place = evaluate(program, node.slice, scope)
        if isinstance(place, Value) and place.constant is not None:
            return held[place.constant]
    raise NotLowerable("it reads an item of a tuple at a place that is not known")


def _walrus(program: Program, node: ast.NamedExpr, scope: Scope) -> Any:
    value = evaluate(program, node.value, scope)
    if scope.parent is not None:
        raise NotLowerable("it assigns with := where that depends on a condition")
    scope.names[node.target.id] = value
    return value


def _lambda(program: Program, node: ast.Lambda, scope: Scope) -> Any:  # noqa: ARG001
    return Known(node, scope)


_EXPRESSIONS: dict[type[ast.expr], Callable[..., Any]] = {
    ast.Constant: _constant, ast.Name: _name, ast.BinOp: _binary, ast.UnaryOp: _unary, ast.BoolOp: _boolean,
    ast.Compare: _compare, ast.IfExp: _conditional, ast.Call: _call, ast.Attribute: _attribute,
    ast.Tuple: _tuple, ast.Subscript: _subscript, ast.NamedExpr: _walrus, ast.Lambda: _lambda,
}  # fmt: skip
