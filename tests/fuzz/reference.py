"""What a tree answers by torch's own operations, with a bound on how far off a right answer may be.

16- and 8-bit floats are computed in float32, as numjit does, and everything else in its own dtype. Beside
each value goes what rounding may have done to it (`error`, zero where every step is exact), carried through
an operation by trying it a little off; where an error could tip a comparison, the element is `unsure`.
"""

from __future__ import annotations

import dataclasses
import operator
import warnings
from typing import Any

import numpy
import torch

from tests.fuzz.rules import RULES, common, negated, tensor_of
from tests.fuzz.tree import Assign, Branch, Exit, Loop, Node, Tree

__all__ = ["RefusedError", "UndecidedError", "Value", "evaluate"]

WIDE = (torch.uint16, torch.uint32, torch.uint64)
NARROW = (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


class RefusedError(Exception):
    """torch refuses an operation of the tree."""


class UndecidedError(Exception):
    """The tree cannot be judged: torch has no kernel, or branches leave different kinds of values."""


def computed(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype that values of `dtype` are computed in here."""
    return torch.float32 if dtype in NARROW else torch.int64 if dtype in WIDE else dtype


@dataclasses.dataclass
class Value:
    """An element of the functor, for all elements at once.

    Attributes
    ----------
    data
        In the compute dtype.
    proxy
        A tensor of one element, with a dimension or without, whose dtype and category are the element's; a
        Python number where the element is a number that varies (``1 if x > 0 else 2``).
    error
        In float64, absolute; None where the value is exact.
    unsure
        Where the value may be any; None for nowhere.
    """

    data: torch.Tensor
    proxy: Any
    error: torch.Tensor | None = None
    unsure: torch.Tensor | None = None

    @property
    def is_number(self) -> bool:
        return not isinstance(self.proxy, torch.Tensor)


def operand_value(tensor: torch.Tensor) -> Value:
    """Return an operand's elements."""
    shape = (1,) if tensor.ndim else ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proxy = torch.ones(shape, dtype=torch.float32).to(tensor.dtype)
    return Value(_to_computed(tensor), proxy)


def _to_computed(tensor: torch.Tensor) -> torch.Tensor:
    bare = torch._neg_view(tensor.detach()) if tensor.is_neg() else tensor.detach()
    plain = bare.cpu().resolve_conj()
    plain = negated(plain) if tensor.is_neg() else plain
    if tensor.dtype == torch.uint64:
        return plain.contiguous().view(torch.int64)
    return plain.to(computed(tensor.dtype))


def _either(*masks: torch.Tensor | None) -> torch.Tensor | None:
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def _proxy(rule: Any, values: list[Any]) -> Any:
    """Return the kind of a result: what torch answers for one element of the dtypes themselves."""
    proxies = [value.proxy if isinstance(value, Value) else value for value in values]
    if not any(isinstance(p, torch.Tensor) for p in proxies):
        return _number_proxy(rule, proxies)
    dtypes = [p.dtype for p in proxies if isinstance(p, torch.Tensor)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            common_dtype = common(tuple(proxies[1:] if rule.second == "condition" else proxies))
            if not any(d in WIDE or (d.itemsize == 1 and d.is_floating_point) for d in dtypes):
                return rule.answer(*proxies)
    except NotImplementedError:
        pass
    except (RuntimeError, TypeError) as error:
        if "not implemented for" not in str(error):
            raise RefusedError(f"{rule.name}: {error}") from None
    if rule.name == "-" and any(isinstance(p, bool) for p in proxies):
        raise RefusedError("a bool subtracted")
    kind = _kind(common_dtype)
    narrow = common_dtype.itemsize == 1 and common_dtype.is_floating_point
    if kind not in rule.kinds or (rule.name == "nm.nextafter" and narrow):
        raise RefusedError(f"{rule.name} of {common_dtype}")
    # No kernel of torch's for this dtype: torch's rule of promotion says it all the same.
    dims = any(isinstance(p, torch.Tensor) and p.ndim for p in proxies)
    dtype = common_dtype
    if rule.asks:
        dtype = torch.bool
    elif rule.name == "int":
        dtype = torch.uint64 if common_dtype == torch.uint64 else torch.int64
    elif rule.name == "float":
        dtype = common_dtype if kind == "f" else torch.get_default_dtype()
    elif (not rule.integral and not (dtype.is_floating_point or dtype.is_complex)) or (
        rule.name == "nm.angle" and not dtype.is_floating_point
    ):
        dtype = torch.get_default_dtype()
    return torch.ones((1,) if dims else (), dtype=torch.float32).to(dtype)


def _kind(dtype: torch.dtype) -> str:
    return (
        "c" if dtype.is_complex else "f" if dtype.is_floating_point else "b" if dtype == torch.bool else "i"
    )


def _number_proxy(rule: Any, proxies: list[Any]) -> Any:
    """Return a number of the kind that an operation of numbers answers."""
    if rule.asks:
        return True
    if not rule.integral or rule.name in ("/", "float") or any(isinstance(p, float) for p in proxies):
        return 0.5
    return 2


def _as_tensors(values: list[Any], proxy: Any) -> list[Any]:
    """Return the tensors (and numbers) to compute with: varying numbers take the dtype they give way to."""
    proxies = [value.proxy if isinstance(value, Value) else value for value in values]
    strong = any(isinstance(p, torch.Tensor) for p in proxies)
    found = []
    for value in values:
        if not isinstance(value, Value):
            found.append(value)
        elif not value.is_number:
            found.append(value.data)
        elif strong:
            # A shift's or a comparison's numbers promote as any do.
            promoted = common(tuple(proxies))
            found.append(_wrap(value.data.to(computed(promoted)), promoted))
        elif isinstance(proxy, float):
            found.append(value.data.to(torch.float64))
        else:
            found.append(value.data)
    return found


def _wrap(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return what is left of a wide unsigned integer."""
    if dtype in (torch.uint16, torch.uint32) and data.dtype == torch.int64:
        return data & (2 ** (8 * dtype.itemsize) - 1)
    return data


def _neighbours(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the next 16-bit floats of what such floats are."""
    if dtype.itemsize != 2 or any((t.to(dtype).to(t.dtype) != t)[~t.isnan()].any() for t in (x, y)):
        raise UndecidedError("steps of what is not stored so")
    if dtype == torch.bfloat16:
        return torch.nextafter(x.to(dtype), y.to(dtype)).to(torch.float32)
    one, other = torch.broadcast_tensors(x.to(dtype), y.to(dtype))
    return torch.from_numpy(numpy.nextafter(one.numpy(), other.numpy())).to(torch.float32)


#: What integers of 64 bits say of unsigned ones of 64 bits.
_UNSIGNED = {"+", "-", "*", "&", "|", "^", "~", "neg", "==", "!=", "pos"}


#: Rules that round nothing.
_EXACT = {
    "neg", "pos", "abs", "max", "min", "max3", "float", "nm.maximum", "nm.minimum", "nm.fmax", "nm.fmin",
    "nm.clamp", "nm.where", "math.fabs", ".real", ".imag", ".conj", "math.copysign", "nm.copysign",
}  # fmt: skip


#: Functions with waves or poles side by side, by the last part of their names; of complex numbers all have.
_POLES = {"log", "log2", "log10", "rsqrt", "reciprocal", "digamma", "lgamma", "logit", "/"}
_WAVES = {"sin", "cos", "tan", "sinc", "lgamma", "digamma"}


def _overflows(rule: Any, tensors: list[Any], dtype: torch.dtype) -> torch.Tensor | None:
    if rule.name not in ("+", "-", "*", "neg", "abs"):
        return None
    wide = rule.answer(*(t.to(torch.float64) if isinstance(t, torch.Tensor) else float(t) for t in tensors))
    return wide.abs() >= 0.999999 * 2.0 ** (8 * dtype.itemsize - 1)


def _numbers_only(values: list[Any]) -> bool:
    return not any(isinstance(value, Value) for value in values)


class Run:
    """One evaluation: the elements' shape, captured values, and how strict arithmetic is."""

    def __init__(self, tree: Tree, names: dict[str, Any], *, fused: bool, cpp: torch.dtype | None) -> None:
        self.tree = tree
        self.names = names
        self.fused = fused
        self.cpp = cpp
        self.shape = torch.broadcast_shapes(*(v.data.shape for v in names.values() if isinstance(v, Value)))
        self.helpers = {helper.name: helper for helper in tree.helpers}

    # ------------------------------------------------------------------------------------ expressions

    def expression(self, node: Node, names: dict[str, Any]) -> Any:
        match node.kind:
            case "number":
                return node.value
            case "index":
                count = torch.Size(self.shape).numel()
                return Value(torch.arange(count).reshape(self.shape), 2)
            case "choose":
                return self.choose(*(self.expression(child, names) for child in node.children))
            case "helper":
                helper = self.helpers[node.name]
                given = [self.expression(child, names) for child in node.children]
                if self.cpp is not None:
                    given = [self.element(value) for value in given]
                return self.expression(helper.node, dict(zip(helper.parameters, given, strict=True)))
            case "rule":
                return self.apply(
                    RULES[node.name], [self.expression(child, names) for child in node.children]
                )
            case _:
                return names[node.name]

    def element(self, value: Any) -> Value:
        """Return a value as what a C++ template's type makes of it."""
        assert self.cpp is not None
        dtype = computed(self.cpp)
        if isinstance(value, Value):
            if value.data.dtype == dtype:
                return dataclasses.replace(value, proxy=torch.ones((1,), dtype=dtype))
            return Value(value.data.to(dtype), torch.ones((1,), dtype=dtype), value.error, value.unsure)
        return Value(
            tensor_of(value).to(dtype).reshape((1,) * len(self.shape)), torch.ones((1,), dtype=dtype)
        )

    def truth(self, value: Any) -> Any:
        if not isinstance(value, Value):
            return bool(value)
        if value.data.dtype == torch.bool:
            return value
        return self.apply(RULES["bool"], [value])

    def apply(self, rule: Any, values: list[Any]) -> Any:
        if rule.logical:
            truths = [self.truth(value) for value in values]
            if rule.arity == 2 and self.cpp is None and any(map(operator.is_not, truths, values)):
                # Of what are no bools Python answers one or the other.
                return self.choose(truths[0], *(values if rule.name == "or" else values[::-1]))
            values = truths
        if _numbers_only(values):
            return self.numbers(rule, values)
        if self.cpp is not None and not rule.logical:
            values = self.alike(values)
        proxy = _proxy(rule, values)
        dtype = proxy.dtype if isinstance(proxy, torch.Tensor) else None
        wide = [
            v.proxy.dtype
            for v in values
            if isinstance(v, Value) and not v.is_number and v.proxy.dtype in WIDE
        ]
        tensors = _as_tensors(values, proxy)
        beyond = None
        becomes_float = dtype is not None and dtype.is_floating_point
        if torch.uint64 in wide and (becomes_float or rule.name not in _UNSIGNED):
            if any(not isinstance(t, torch.Tensor) and t < 0 for t in tensors):
                raise UndecidedError(f"{rule.name} of uint64 and a negative number")
            # Numbers that no int64 is are not computed with.
            beyond = _either(
                *(t < 0 for t in tensors if isinstance(t, torch.Tensor) and t.dtype == torch.int64)
            )
            if rule.name.endswith("lcm"):
                one, other = (tensor_of(t).to(torch.float64) for t in tensors)
                beyond = _either(beyond, one * other > 2.0**63)
        if rule.name == "nm.nextafter" and dtype in NARROW:
            return Value(_neighbours(*map(tensor_of, tensors), dtype), proxy)
        if wide:
            # A comparison's numbers take its operands' dtype, though its result is a bool.
            taken = dtype
            if dtype is torch.bool:
                taken = common(tuple(v.proxy if isinstance(v, Value) else v for v in values))
            tensors = [t if isinstance(t, torch.Tensor) else _wide_number(t, taken) for t in tensors]
        try:
            data = rule.answer(*tensors)
        except NotImplementedError as error:
            raise UndecidedError(str(error)) from None
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise UndecidedError(f"{rule.name}: {error}") from None
        if dtype is not None:
            data = _wrap(data.to(computed(dtype)), dtype)
        elif isinstance(proxy, float):
            data = data.to(torch.float64)
        return self.bounded(rule, values, tensors, Value(data, proxy, unsure=beyond))

    def alike(self, values: list[Any]) -> list[Any]:
        """Return operands as C++ has them: elements and numbers are of the template's type."""
        assert self.cpp is not None
        strong = any(isinstance(v, Value) and not v.is_number for v in values)
        return [self.element(value) for value in values] if strong else values

    def numbers(self, rule: Any, values: list[Any]) -> Any:
        function = rule.number
        if function is None or (rule.ulps and (self.fused or rule.name == "math.lgamma")):
            raise UndecidedError(f"{rule.name} of plain numbers, where a device may round them its own way")
        try:
            result = function(*values)
        except (OverflowError, ZeroDivisionError, ValueError, TypeError) as error:
            raise UndecidedError(f"{rule.name} of plain numbers: {error}") from None
        if isinstance(result, complex):
            raise UndecidedError("a complex number")
        if rule.name in ("max", "min") and len({type(value) for value in values}) > 1:
            # An argument's type is known when the functor is compiled, and which of the two it is, is not.
            raise UndecidedError("one of two kinds of numbers")
        if isinstance(result, int) and not -(2**63) <= result < 2**63:
            raise UndecidedError("an integer beyond 64 bits")
        return result

    # One branch for each way in which rounding may show.
    def bounded(self, rule: Any, values: list[Any], tensors: list[Any], result: Value) -> Value:  # noqa: C901
        """Add what rounding may do: before, by trying operands a little off; here, by the rule's ulps."""
        unsure = _either(result.unsure, *(v.unsure for v in values if isinstance(v, Value)))
        data = result.data
        errors = [v.error for v in values if isinstance(v, Value) and v.error is not None]
        if rule.name in ("==", "!=") and errors:  # which hold for a moment only
            one, other = (tensor_of(t).to(torch.complex128) for t in tensors)
            unsure = _either(unsure, (one - other).abs() <= sum(errors))
        inexact = data.dtype.is_floating_point or data.dtype.is_complex
        # What is added and multiplied may be contracted on a GPU.
        ulps = (
            max(rule.ulps, 1.0)
            if (self.fused and rule.name in ("+", "-", "*", "/", "sum", "**"))
            else rule.ulps
        )
        if data.dtype.is_complex and rule.name not in _EXACT:
            ulps = max(ulps, 8.0)
        if rule.name == "abs" and tensor_of(tensors[0]).is_complex():
            ulps = 2.0
        if self.cpp is not None and self.fused and data.dtype in (torch.int16, torch.int32, torch.int64):
            # Signed integers that overflow are C++'s undefined behaviour, which NVRTC makes use of; CUDA's
            # assembler does not wrap -x and abs(x) of 16 bits.
            unsure = _either(unsure, _overflows(rule, tensors, data.dtype))
        error: torch.Tensor | None = None
        if any(isinstance(v, Value) and v.error is not None for v in values) and rule.name not in _EXACT:
            ulps = max(ulps, 1.0)  # what goes in may differ, and then be rounded another way
        if any(isinstance(v, Value) and v.error is not None for v in values):
            error = torch.zeros(data.shape, dtype=torch.float64)
            for place, value in enumerate(values):
                if not isinstance(value, Value) or value.error is None:
                    continue
                for step in _steps(tensors[place]):
                    moved = [_double(t) if isinstance(t, torch.Tensor) else t for t in tensors]
                    moved[place] = moved[place] + step * value.error
                    still = [_double(t) if isinstance(t, torch.Tensor) else t for t in tensors]
                    try:
                        there, here = rule.answer(*moved), rule.answer(*still)
                    except (RuntimeError, TypeError) as problem:
                        raise UndecidedError(f"{rule.name}: {problem}") from None
                    if not inexact:
                        unsure = _either(unsure, there != here)
                        continue
                    off = (there - here).abs()
                    same = (there == here) | (there.isnan() & here.isnan())
                    off = torch.where(same, torch.zeros_like(off), off)
                    unsure = _either(unsure, ~off.isfinite())
                    error = torch.maximum(error, off.nan_to_num(0.0, 0.0, 0.0).to(torch.float64))
        if inexact and ulps:
            info = torch.finfo(data.dtype)
            own = rule.near_zero * info.eps + ulps * (
                info.eps * data.abs().to(torch.float64).nan_to_num(0.0, 0.0, 0.0)
                + info.smallest_normal * info.eps
            )
            error = own if error is None else error * 2 + own
            # Near the largest number an answer within the bound may be infinite.
            unsure = _either(unsure, data.abs().to(torch.float64) > 0.99 * info.max) if rule.ulps else unsure
        if (
            rule.name in ("max", "min", "max3", "nm.maximum", "nm.minimum", "nm.fmax", "nm.fmin", "nm.clamp")
            and inexact
        ):
            # Of zeros of both signs either may be taken.
            unsure = _either(unsure, (data == 0) & self.zeros_differ(tensors))
        if "copysign" in rule.name or rule.name == "nm.signbit":  # nobody says which sign a NaN has
            unsure = _either(unsure, tensor_of(tensors[-1]).isnan())
        if data.dtype.is_complex or rule.name.rpartition(".")[2] in _POLES:
            # What may be 0 as well may be a pole, or a point where branches meet.
            for tensor, value in zip(tensors, values, strict=True):
                if isinstance(value, Value) and value.error is not None and rule.name not in _EXACT:
                    unsure = _either(unsure, (value.error > 0) & (tensor.abs() <= 2 * value.error))
        if rule.name.rpartition(".")[2] in _WAVES or (data.dtype.is_complex and rule.arity == 1):
            # An error over a part of a wave is not found by trying both its ends.
            for value in values:
                if isinstance(value, Value) and value.error is not None and rule.name not in _EXACT:
                    unsure = _either(unsure, value.error > 0.25)
        if rule.name.rpartition(".")[2] in ("fmod", "remainder", "%", "//") and errors:
            # Of a large quotient an error of the divisor goes round and round.
            one, other = (tensor_of(t).abs().to(torch.float64) for t in tensors)
            off = [getattr(v, "error", None) for v in values]
            moved = (0.0 if off[0] is None else off[0]) + (0.0 if off[1] is None else off[1] * one / other)
            unsure = _either(unsure, ~(moved <= 0.25 * other))
        if rule.name == "math.pow":  # half powers are roots where the exponent is known, as they are torch's
            base = tensor_of(tensors[0])
            unsure = _either(unsure, (base == -torch.inf) | ((base == 0) & torch.signbit(base)))
        if rule.name == "int" and values[0].data.dtype.is_floating_point:
            unsure = _either(unsure, ~(values[0].data.abs() < 2.0**62))
        return Value(data, result.proxy, error if inexact else None, unsure)

    @staticmethod
    def zeros_differ(tensors: list[Any]) -> torch.Tensor:
        signs = [torch.signbit(tensor_of(t).to(torch.float64)) for t in tensors]
        zeros = [tensor_of(t) == 0 for t in tensors]
        negative = positive = torch.tensor(False)
        for sign, zero in zip(signs, zeros, strict=True):
            negative, positive = negative | (sign & zero), positive | (~sign & zero)
        return negative & positive

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        condition = self.truth(condition)
        if yes is no:
            return yes
        if not isinstance(condition, Value):
            if (
                isinstance(yes, Value) is isinstance(no, Value)
                and type(yes) is type(no)
                and not isinstance(yes, Value)
            ):
                return yes if condition else no
            raise UndecidedError("a choice by a number between different kinds")
        if self.cpp is not None:
            yes, no = self.alike([yes, no])
        values = [yes, no]
        proxies = [v.proxy if isinstance(v, Value) else v for v in values]
        if any(isinstance(p, torch.Tensor) for p in proxies):
            try:
                dtype = common(tuple(proxies))
            except RuntimeError as error:
                raise RefusedError(str(error)) from None
            # The condition has no part in it, as it has one in `numjit.math.where` and ``torch.where``.
            dims = any(isinstance(p, torch.Tensor) and p.ndim for p in proxies)
            proxy: Any = torch.ones((1,) if dims else (), dtype=torch.float32).to(dtype)
            target = computed(dtype)
        else:
            proxy = (
                0.5
                if any(isinstance(p, float) for p in proxies)
                else 2
                if any(type(p) is int for p in proxies)
                else True
            )
            target = {float: torch.float64, int: torch.int64, bool: torch.bool}[type(proxy)]
            dtype = target
        tensors = []
        for value in values:
            data = value.data if isinstance(value, Value) else tensor_of(value)
            if not isinstance(value, Value) and dtype in WIDE:
                data = torch.tensor(_wide_number(value, dtype))
            tensors.append(data.to(target))
        return self.merged(condition, tensors, values, proxy)

    @staticmethod
    def merged(condition: Value, tensors: list[Any], values: list[Any], proxy: Any) -> Value:
        data = torch.where(condition.data, *tensors)

        def part(name: str, nothing: Any) -> Any:
            parts = [getattr(v, name, None) for v in values]
            if all(p is None for p in parts):
                return None
            return torch.where(condition.data, *(nothing if p is None else p for p in parts))

        error = part("error", torch.tensor(0.0, dtype=torch.float64))
        unsure = _either(part("unsure", torch.tensor(False)), condition.unsure)
        return Value(
            data, proxy, error if data.dtype.is_floating_point or data.dtype.is_complex else None, unsure
        )

    # ------------------------------------------------------------------------------------- statements

    # One branch for each kind of statement.
    def body(self, body: tuple[Any, ...], names: dict[str, Any]) -> tuple[Any, ...] | None:  # noqa: C901
        """Run statements; returns the results where they return, else None and changes `names`."""
        for place, statement in enumerate(body):
            match statement:
                case Assign(name, node, symbol):
                    value = self.expression(node, names)
                    if symbol:
                        value = self.apply(RULES[symbol], [names[name], value])
                    if self.cpp is not None and isinstance(value, Value) and value.data.dtype == torch.bool:
                        value = self.element(value)
                    if self.cpp is not None and isinstance(value, Value) and value.is_number is False:
                        value = self.element(value)
                    names[name] = value
                case Loop(name, node, inner):
                    count = self.expression(node, names)
                    if isinstance(count, Value | float):
                        raise UndecidedError("a loop of a varying number of rounds")
                    if count == 0:
                        self.unreached(inner, {**names, name: 0}, names)
                    for k in range(count):
                        names[name] = k
                        before = dict(names)
                        returned = self.body(inner, names)
                        if returned is not None:
                            return returned
                        self.check_kinds(before, names)
                case Exit(results):
                    return tuple(self.expression(result, names) for result in results)
                case Branch(node, inner, other):
                    condition = self.truth(self.expression(node, names))
                    if not isinstance(condition, Value):
                        taken, untaken = (inner, other) if condition else (other, inner)
                        before = dict(names)
                        returned = self.body(taken, names)
                        if returned is not None:
                            self.unreached((*untaken, *body[place + 1 :]), before, names, returned)
                            return returned
                        self.unreached(untaken, before, names)
                        continue
                    rest = body[place + 1 :]
                    yes, no = dict(names), dict(names)
                    returned, otherwise = self.body(inner, yes), self.body(other, no)
                    if returned is not None or otherwise is not None:
                        returned = self.body(rest, yes) if returned is None else returned
                        otherwise = self.body(rest, no) if otherwise is None else otherwise
                        if returned is None or otherwise is None:
                            raise UndecidedError("a path that returns nothing")
                        return tuple(
                            self.choose(condition, a, b) for a, b in zip(returned, otherwise, strict=True)
                        )
                    for name in names:
                        if yes[name] is not no[name]:
                            self.same_kind(yes[name], no[name])
                            names[name] = self.choose(condition, yes[name], no[name])
        return None

    def unreached(
        self, body: tuple[Any, ...], names: dict[str, Any], reached: dict[str, Any], results: Any = None
    ) -> None:
        """Refuse to judge what stands where no run comes and has a type that may count, or has none."""
        try:
            returned = self.body(body, names)
        except RefusedError as error:
            raise UndecidedError(f"refused, and never reached: {error}") from None
        if returned is None:
            self.check_kinds(reached, {name: names[name] for name in reached})
        elif results is None:
            raise UndecidedError("results that are never reached, whose kinds may count")
        else:
            for mine, other in zip(results, returned, strict=True):
                self.same_kind(mine, other)

    def check_kinds(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Refuse to judge a loop that changes the kind of a variable: it has one type in the functor."""
        for name, value in before.items():
            if after[name] is not value:
                self.same_kind(value, after[name])

    @staticmethod
    def same_kind(a: Any, b: Any) -> None:
        kinds = []
        for value in (a, b):
            proxy = value.proxy if isinstance(value, Value) else value
            kinds.append((proxy.dtype, proxy.ndim) if isinstance(proxy, torch.Tensor) else type(proxy))
        if kinds[0] != kinds[1]:
            raise UndecidedError("a variable of two kinds")


def _wide_number(number: Any, dtype: torch.dtype | None) -> Any:
    """Return a number as integers of 64 bits say what it is as an unsigned one."""
    if dtype in WIDE and isinstance(number, int) and dtype != torch.uint64:
        return number & (2 ** (8 * dtype.itemsize) - 1)
    return number


def _double(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64) if tensor.dtype.is_floating_point else tensor


def _steps(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (1, -1, 1j, -1j) if tensor.dtype.is_complex else (1, -1)


def evaluate(
    tree: Tree,
    operands: list[torch.Tensor],
    scalars: dict[str, Any],
    *,
    fused: bool = False,
    cpp: torch.dtype | None = None,
) -> tuple[Any, ...]:
    """Return the results of a tree, each a `Value` or a number.

    Parameters
    ----------
    operands, scalars
        Of the call; operands on any device, numbers too.
    fused
        Whether products may be contracted into sums, as on a GPU.
    cpp
        The template's type, where the C++ text is asked for.
    """
    names: dict[str, Any] = {**tree.captures, **scalars}
    for name, operand in zip(tree.operands, operands, strict=True):
        names[name] = operand_value(operand) if isinstance(operand, torch.Tensor) else operand
    run = Run(tree, names, fused=fused, cpp=cpp)
    if cpp is not None:
        for name in tree.operands:
            value = names[name]
            if isinstance(value, Value) and cpp in NARROW and (fused or value.proxy.ndim):
                # An array's element is converted; what has no dimensions is a number on the CPU.
                value = dataclasses.replace(value, data=value.data.to(cpp).to(computed(cpp)))
            names[name] = run.element(value)
            if isinstance(value, Value) and value.data.dtype.is_floating_point and not cpp.is_floating_point:
                raise UndecidedError("a float operand in an integer template")
    results = run.body(tree.body, names)
    if results is None:
        raise UndecidedError("no result")
    return results


def stored(result: Any, shape: Any, dtype: torch.dtype | None = None) -> Value:
    """Return a result in the dtype that it is stored in, broadcast to `shape`."""
    if not isinstance(result, Value):
        kind = {
            bool: torch.bool,
            int: torch.int64,
            float: torch.get_default_dtype(),
            complex: torch.complex64,
        }
        result = Value(
            torch.tensor(result, dtype=torch.float64 if isinstance(result, float) else None), result
        )
        dtype = dtype or kind[type(result.proxy)]
    elif dtype is None:
        dtype = result.proxy.dtype if not result.is_number else torch.result_type(result.proxy, result.proxy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blank = torch.empty(0, dtype=dtype)
    return Value(
        result.data.expand(shape),
        blank,
        *(None if p is None else p.expand(shape) for p in (result.error, result.unsure)),
    )


__all__ += ["Run", "stored"]
