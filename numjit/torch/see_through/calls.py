"""Functions that a functor calls, while it is written over torch tensors: rules applied, the rest inlined."""

from __future__ import annotations

import ast
import inspect
import operator
import types as pytypes
from collections.abc import Callable, Sequence
from typing import Any

from numjit.functor.bytecode import bare
from numjit.functor.markers import index
from numjit.functor.scalars.session import _SEVERAL_RESULTS, _declared
from numjit.functor.source import definition
from numjit.rules.table import RULES
from numjit.torch.see_through.lowered import NotLowerable
from numjit.torch.see_through.program import Program
from numjit.torch.see_through.values import (
    LIMIT,
    Known,
    Scope,
    Value,
    bind_arguments,
    constant,
    lift,
)

__all__ = ["Body", "invoke"]

#: Executes the body of a function in a scope, and returns what it returns.
Body = Callable[[Program, ast.FunctionDef | ast.Lambda, Scope], Any]


def _call(
    program: Program, fn: pytypes.FunctionType, arguments: Sequence[Any], keywords: dict[str, Any], body: Body
) -> Any:
    """Inline a function."""
    node = definition(fn)
    if node is None:
        raise NotLowerable(f"the source of {fn.__name__}() is not there")
    bound = bind_arguments(inspect.signature(bare(fn)), fn.__name__, arguments, keywords)
    scope = Scope(fn, depth=program.indent)
    for name, value in bound.arguments.items():
        scope.names[name] = lift(value)
    return body(program, node, scope)


def invoke(program: Program, target: Any, arguments: list[Any], keywords: dict[str, Any], body: Body) -> Any:
    """Call something that a functor can name; `body` executes what is inlined."""
    if not isinstance(target, Known):
        raise NotLowerable("it calls a number")
    function = target.value
    if isinstance(function, ast.FunctionDef | ast.Lambda):  # defined inside the functor
        assert target.scope is not None
        return _invoke_inner(program, function, target.scope, arguments, keywords, body)
    if function is index:
        raise NotLowerable("it uses numjit.index()")
    if isinstance(function, pytypes.BuiltinFunctionType) and function in _SEVERAL_RESULTS:
        return _call(program, _SEVERAL_RESULTS[function], arguments, keywords, body)
    if _is_hashable(function) and function in RULES:
        return program.apply(function, arguments, keywords)
    functor = getattr(function, "__numjit_functor__", None)
    if functor is not None:
        return _invoke_functor(program, functor, arguments, keywords, body)
    inner = getattr(function, "py_func", function)
    if isinstance(inner, pytypes.FunctionType):
        return _call(program, inner, arguments, keywords, body)
    if function in (range, len, enumerate, zip, tuple, reversed):
        return _sequence(function, arguments)
    values = [value.constant if isinstance(value, Value) else None for value in arguments]
    if getattr(function, "__module__", "") in ("math", "cmath") and None not in values and not keywords:
        return lift(function(*values))
    raise NotLowerable(f"it calls {getattr(function, '__name__', function)!r}")


def _invoke_inner(
    program: Program,
    node: ast.FunctionDef | ast.Lambda,
    outer: Scope,
    arguments: list[Any],
    keywords: dict[str, Any],
    body: Body,
) -> Any:
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    extra = node.args.defaults or node.args.kwonlyargs or node.args.vararg or node.args.kwarg or keywords
    if extra or len(names) != len(arguments):
        raise NotLowerable("an inner function has defaults, keywords or a varying number of arguments")
    scope = Scope(outer.fn, outer, "", program.indent)
    scope.names.update(zip(names, arguments, strict=True))
    return body(program, node, scope)


def _invoke_functor(
    program: Program, functor: Any, arguments: list[Any], keywords: dict[str, Any], body: Body
) -> Any:
    if functor.kind != "python":
        raise NotLowerable(f"it calls {functor.name}(), which is written in C++")
    bound = bind_arguments(functor.python_signature, functor.name, arguments, keywords)
    values = [lift(value) for value in bound.arguments.values()]
    if not all(isinstance(value, Value) for value in values):
        raise NotLowerable(f"{functor.name}() is given something other than numbers")
    kinds = _declared(functor, tuple(value.kind for value in values), program.default_dtype)
    node = definition(functor.fn)
    if node is None:
        raise NotLowerable(f"the source of {functor.name}() is not there")
    scope = Scope(functor.fn, depth=program.indent)
    for name, value, kind in zip(bound.arguments, values, kinds, strict=True):
        scope.names[name] = program.cast(value, kind)
    return body(program, node, scope)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _sequence(function: Any, arguments: Sequence[Any]) -> Any:
    """Compute ``range``, ``len``, ``enumerate``, ``zip``, ``tuple`` or ``reversed`` of known sequences."""
    if function is range:
        bounds = [getattr(argument, "constant", None) for argument in arguments]
        if None in bounds:
            raise NotLowerable("a loop's number of turns is only known at the call")
        turns = range(*(operator.index(bound) for bound in bounds if bound is not None))
        if len(turns) > LIMIT:
            raise NotLowerable(f"a loop of {len(turns)} turns is too long to unroll")
        return tuple(constant(k) for k in turns)
    if not all(isinstance(argument, tuple) for argument in arguments):
        raise NotLowerable(f"it calls {function.__name__}() of something other than a tuple")
    if function is len:
        return constant(len(arguments[0]))
    if function is enumerate:
        return tuple((constant(k), member) for k, member in enumerate(arguments[0]))
    if function is zip:
        return tuple(zip(*arguments, strict=False))
    return tuple(function(arguments[0]))
