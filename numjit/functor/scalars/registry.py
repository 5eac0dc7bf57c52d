"""Registration of the strong types and their rules with Numba's CPU target and with numba-cuda.

Only public extension interfaces are used, and only once a process and target: typing templates (which
answer nothing that Numba itself knows unless an operand is strong), lowerings under keys of numjit's own
(no ambiguity with native overloads), casts, attributes and data models. Other users of Numba in the
process see no change. ``@overload`` would do too but costs 76 ms on first use against 2 ms.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing import signature
from numba.core.typing.typeof import typeof

from numjit import dtypes
from numjit.codegen.machine import HOST, Machine
from numjit.functor.scalars.raw import register_raw
from numjit.functor.scalars.safe import register_safe
from numjit.functor.scalars.seeds import register_seeds
from numjit.ground.apart import lock
from numjit.rules.dual import Dual
from numjit.rules.lowering import Emitter
from numjit.rules.rule import Rule
from numjit.rules.table import ATTRIBUTES, METHODS, RULES
from numjit.rules.traced import Traced
from numjit.rules.tracing import Tracer, result_kind
from numjit.rules.tracing import lower as lower_rule
from numjit.rules.types import Element, RefusalError, Strong, argument_type, native_type, unwrap

__all__ = ["Helper", "RuledFunction", "cast", "own_type", "register"]

#: Emission only asks the machine whether it is a GPU; no rule depends on the compute capability.
_MACHINES = {"cpu": HOST, "cuda": Machine("ptx", (7, 5))}
_registered: set[str] = set()
_safe: dict[str, dict[Any, Any]] = {}
_lock = lock()


class Helper(types.Callable, types.Opaque):  # type: ignore[misc]
    """The Numba type of a Python function that a functor calls; `compiler` compiles it when called."""

    def __init__(self, name: str, resolve: Callable[..., Any], implementation: Callable[..., Any]) -> None:
        self.resolve = resolve
        self.implementation = implementation
        super().__init__(name)

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:  # noqa: ARG002
        """Return the signature for argument types, compiling the function on the way."""
        return self.resolve(args, kws)

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Return no fixed signatures: any argument types may do."""
        return [], True

    def get_impl_key(self, sig: Any) -> Any:
        """Return the key under which the compiled function was inserted."""
        return self.implementation(sig)

    def forget(self) -> None:
        """Drop everything compiled; the type cannot be called any more."""
        del self.resolve, self.implementation


class RuledFunction(types.Callable, types.Opaque):  # type: ignore[misc]
    """The Numba type of a function or operator that has a rule, inside of numjit's own compilations.

    There the rule answers for plain numbers too. Numba's types of functions are shared by everybody, and
    remember the last answer; this one decides by the operands alone.

    Parameters
    ----------
    target
        ``"cpu"`` or ``"cuda"``.
    function
        A key of `RULES`.
    """

    def __init__(self, target: str, function: Any) -> None:
        self.rule = RULES[function]
        self.function = function
        self.target = target
        super().__init__(f"numjit.rule({target} {self.rule.name} #{id(function)})")

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature for argument types."""
        if _is_of_scalars(self.rule, (*args, *kws.values())):
            found = _resolve(self.rule, args, kws)
            if found is not None:
                return found
        numba_type = context._lookup_global(self.function)
        if numba_type is None:
            shown = ", ".join(map(str, args))
            raise RefusalError(f"{self.rule.name} of {shown} is not supported; it takes numbers")
        return numba_type.get_call_type(context, args, kws)

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Return no fixed signatures: any argument types may do."""
        return [], True

    def get_impl_key(self, sig: Any) -> Any:
        """Return the key of the rule's lowering, or of Numba's."""
        if _is_of_scalars(self.rule, sig.args):
            return self.target, self.rule
        return _typing_context(self.target)._lookup_global(self.function).get_impl_key(sig)


@functools.cache
def _ruled(target: str, function: Any) -> RuledFunction:
    return RuledFunction(target, function)


def own_type(target: str, function: Any) -> Any:
    """Return the type that a function has in numjit's own compilations; None where that is Numba's."""
    try:
        return _safe[target].get(function) or (_ruled(target, function) if function in RULES else None)
    except TypeError:  # not hashable
        return None


@dataclasses.dataclass(frozen=True)
class _Target:
    """One target's registration functions."""

    name: str
    template: Any
    attribute_template: Any
    infer_global: Callable[..., Any]
    infer_getattr: Callable[..., Any]
    lower: Callable[..., Any]
    lower_getattr: Callable[..., Any]
    lower_cast: Callable[..., Any]
    lower_constant: Callable[..., Any]
    register_model: Callable[..., Any]
    models: Any


def register(target: str) -> None:
    """Make the strong types known to ``"cpu"`` or ``"cuda"``; does nothing the second time."""
    with _lock:
        if target in _registered:
            return
        names = _cuda() if target == "cuda" else _cpu()
        _register_models(names)
        _register_rules(names)
        _register_attributes(names)
        _register_casts(names)
        register_raw(names, _MACHINES[target])
        register_seeds(names, _MACHINES[target])
        _safe[target] = register_safe(names, _MACHINES[target], _typing_context(target))
        _put_first(target)
        _registered.add(target)


def _typing_context(target: str) -> Any:
    if target == "cuda":
        from numba.cuda.descriptor import cuda_target as numba_target
    else:
        from numba.core.registry import cpu_target as numba_target
    return numba_target.typing_context


def _put_first(target: str) -> None:
    """Let numjit's typing templates be asked before Numba's own.

    Numba asks them in the order in which they were installed, and whoever used Numba before numjit did has
    installed its own: some of those take any type, and on the GPU target compile for the current device,
    which need not exist. numjit's answer None for everything but strong scalars.
    """
    context = _typing_context(target)
    context.refresh()
    for function in RULES:
        known = context._lookup_global(function)
        if known is None:
            continue
        ours = [
            template  # Numba wraps what is registered in a subclass of its own
            for template in known.templates
            if any(base.__module__.startswith("numjit.") for base in template.__mro__)
        ]
        others = [template for template in known.templates if template not in ours]
        context._remove_global(function)
        context._insert_global(function, type(known)([*ours, *others]))


def _cpu() -> _Target:
    from numba.core import imputils
    from numba.core.datamodel import default_manager, models
    from numba.core.typing import templates

    return _Target(
        "cpu",
        templates.AbstractTemplate,
        templates.AttributeTemplate,
        templates.infer_global,
        templates.infer_getattr,
        imputils.lower_builtin,
        imputils.lower_getattr,
        imputils.lower_cast,
        imputils.lower_constant,
        default_manager.register,
        models,
    )


def _cuda() -> _Target:
    from numba.cuda.cudadecl import registry as typing_registry
    from numba.cuda.cudaimpl import registry
    from numba.cuda.datamodel import models
    from numba.cuda.models import cuda_data_manager
    from numba.cuda.typing import templates

    return _Target(
        "cuda",
        templates.AbstractTemplate,
        templates.AttributeTemplate,
        typing_registry.register_global,
        typing_registry.register_attr,
        registry.lower,
        registry.lower_getattr,
        registry.lower_cast,
        registry.lower_constant,
        cuda_data_manager.register,
        models,
    )


def _emitter(context: Any, builder: Any) -> Emitter:
    return Emitter(context, builder, _MACHINES[context.target_name])


def _register_models(target: _Target) -> None:
    """Elements look like their compute type: a primitive, Numba's boolean, or its complex structure."""
    models = target.models

    class PrimitiveElement(models.PrimitiveModel):  # type: ignore[misc, name-defined]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, manager.lookup(native_type(kind.dtype)).get_value_type())

    class ComplexElement(models.StructModel):  # type: ignore[misc, name-defined]
        def __init__(self, manager: Any, kind: Any) -> None:
            part = native_type(kind.dtype.real)
            super().__init__(manager, kind, [("real", part), ("imag", part)])

    def model(manager: Any, kind: Any) -> Any:
        if kind.dtype is dtypes.bool_:
            return models.BooleanModel(manager, kind)
        return (ComplexElement if kind.dtype.is_complex else PrimitiveElement)(manager, kind)

    class DualModel(models.StructModel):  # type: ignore[misc, name-defined]
        def __init__(self, manager: Any, kind: Any) -> None:
            tangents = [(f"d{direction}", tangent) for direction, tangent in kind.tangents]
            super().__init__(manager, kind, [("value", kind.value), *tangents])

    target.register_model(Element, model)
    target.register_model(Dual, DualModel)
    target.register_model(Helper, models.OpaqueModel)
    target.register_model(RuledFunction, models.OpaqueModel)


def _spread(rule: Rule, kinds: Sequence[Any]) -> list[Any]:
    """Return operand types with a leading tuple replaced by its members where the rule allows it."""
    if rule.spread and kinds and isinstance(kinds[0], types.BaseTuple):
        return [*kinds[0].types, *kinds[1:]]
    return list(kinds)


def _resolve(rule: Rule, args: Sequence[Any], kws: dict[str, Any]) -> Any:
    """Return the signature of an operation on scalars; None where the rule does not know the names."""
    folded = rule.fold(args, kws)
    if folded is None:
        return None
    kinds = [unwrap(kind) for kind in _spread(rule, folded)]
    shown = [kind if isinstance(kind, types.BaseTuple) else unwrap(kind) for kind in folded]
    found = signature(result_kind(rule, tuple(kinds)), *shown)
    return found if rule.signature is None else found.replace(pysig=rule.signature)


def _is_of_scalars(rule: Rule, kinds: Sequence[Any]) -> bool:
    """Whether operands are elements or plain numbers, and not tuples, modules and the like."""
    kinds = _spread(rule, kinds)
    if any(isinstance(kind, Strong) for kind in kinds):
        return True
    return all(kind == types.none or argument_type(kind) is not None for kind in kinds)


def _register_rules(target: _Target) -> None:
    # numba-cuda also installs what is registered with Numba's CPU target, so keys must not be shared.
    keys = {rule: (target.name, rule) for rule in RULES.values()}
    for function, rule in RULES.items():

        def generic(self: Any, args: Any, kws: Any, rule: Rule = rule) -> Any:  # noqa: ARG001
            is_strong = any(isinstance(kind, Strong) for kind in (*_spread(rule, args), *kws.values()))
            return _resolve(rule, args, kws) if is_strong else None

        def get_impl_key(self: Any, sig: Any, key: Any = keys[rule]) -> Any:  # noqa: ARG001
            return key

        members = {
            "__module__": __name__,  # `_put_first` goes by it; a metaclass would say "abc"
            "key": function,
            "metadata": {"target": target.name},
            "generic": generic,
            "get_impl_key": get_impl_key,
        }
        target.infer_global(function)(type("NumjitRule", (target.template,), members))
    for rule, key in keys.items():
        target.lower(key, types.VarArg(types.Any))(_lowering(rule))


def _lowering(rule: Rule) -> Callable[..., Any]:
    def lower(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        values: list[Any] = []
        for kind, value in zip(sig.args, args, strict=True):
            if isinstance(kind, types.BaseTuple):
                values.extend(builder.extract_value(value, place) for place in range(len(kind)))
            elif isinstance(
                value, int | float | complex
            ):  # Numba hands static operands over as Python numbers
                values.append(context.get_constant_generic(builder, unwrap(kind), value))
            else:
                values.append(value)
        kinds = [unwrap(kind) for kind in _spread(rule, sig.args)]
        return lower_rule(rule, _emitter(context, builder), kinds, values, sig.return_type)

    return lower


def _register_attributes(target: _Target) -> None:
    def field(rule: Rule) -> Callable[..., Any]:
        return lambda _self, kind: result_kind(rule, (kind,))

    def method(rule: Rule) -> Callable[..., Any]:
        class Method(target.template):  # type: ignore[misc, name-defined]
            key = (target.name, rule)
            metadata = {"target": target.name}  # noqa: RUF012

            def generic(self, args: Any, kws: Any) -> Any:
                if args or kws:
                    return None
                return signature(result_kind(rule, (self.this,)), recvr=self.this)

        return lambda _self, kind: types.BoundFunction(Method, kind)

    members: dict[str, Any] = {"key": Strong, "metadata": {"target": target.name}}
    for name, rule in ATTRIBUTES.items():
        members[f"resolve_{name}"] = field(rule)
    for name, rule in METHODS.items():
        members[f"resolve_{name}"] = method(rule)
    target.infer_getattr(type("NumjitAttributes", (target.attribute_template,), members))

    for name, rule in ATTRIBUTES.items():

        def get(context: Any, builder: Any, kind: Any, value: Any, rule: Rule = rule) -> Any:
            result = result_kind(rule, (kind,))
            return lower_rule(rule, _emitter(context, builder), [kind], [value], result)

        target.lower_getattr(Element, name)(get)
        target.lower_getattr(Dual, name)(get)
    for rule in METHODS.values():
        target.lower((target.name, rule), types.VarArg(types.Any))(_lowering(rule))


def cast(emitter: Emitter, value: Any, source: Any, destination: Any) -> Any:
    """Convert a value in Numba's representation between scalar types, strong or plain."""
    tracer = Tracer(emitter)
    return tracer.cast(Traced(tracer, unwrap(source), value), destination).value


def _register_casts(target: _Target) -> None:
    def lower(context: Any, builder: Any, source: Any, destination: Any, value: Any) -> Any:
        if isinstance(value, ir.Constant) and isinstance(source, types.Literal):
            value = context.get_constant(unwrap(source), source.literal_value)
        return cast(_emitter(context, builder), value, source, destination)

    for plain in (types.Number, types.Boolean, types.IntegerLiteral, types.BooleanLiteral):
        target.lower_cast(Element, plain)(lower)
        target.lower_cast(plain, Element)(lower)
        target.lower_cast(Dual, plain)(lower)
        target.lower_cast(plain, Dual)(lower)
    for source in (Element, Dual):
        for destination in (Element, Dual):
            target.lower_cast(source, destination)(lower)

    def constant(context: Any, builder: Any, kind: Any, number: Any) -> Any:
        source = types.boolean if isinstance(number, bool) else typeof(number)
        value = context.get_constant_generic(builder, source, number)
        return cast(_emitter(context, builder), value, source, kind)

    for kind in (Element, Dual):
        target.lower_constant(kind)(constant)  # defaults of parameters, starts of sums
