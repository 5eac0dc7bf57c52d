"""Draws random trees and the operands of their calls, from a seed."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
from typing import Any

import torch

from tests.fuzz.rules import RULES, Rule
from tests.fuzz.tree import Assign, Branch, Exit, Helper, Loop, Node, Tree

__all__ = [
    "PROFILES",
    "Call",
    "Layout",
    "Profile",
    "directed_tree",
    "pair_profile",
    "pairs",
    "random_call",
    "random_tree",
]

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


@dataclasses.dataclass(frozen=True)
class Profile:
    """A kind of trees: the dtypes of their operands, and which rules they are made of."""

    name: str
    dtypes: tuple[str, ...]
    kinds: str
    weight: float
    cpp: bool = False
    mixed: bool = True
    smooth: bool = False


PROFILES = (
    Profile("real", ("bool", *INTEGERS, *FLOATS), "bif", 5),
    Profile("floats", FLOATS, "f", 3, cpp=True),
    Profile("integers", INTEGERS, "i", 2, cpp=True),
    Profile("bools", ("bool", "uint8"), "b", 0.5),
    Profile("complex", (*COMPLEX, "float32"), "c", 1),
    Profile("wide", ("uint16", "uint32", "uint64"), "i", 0.5, mixed=False),
    Profile("float8", ("float8_e4m3fn", "float8_e5m2"), "f", 0.5, mixed=False),
    Profile("gradients", ("float64",), "f", 2, cpp=True, smooth=True),
)

EXPONENTS = (0, 1, 2, 3, 4, 5, -1, -2, 0.5, -0.5, 2.0, 1.5, -1.0)
LITERALS = (0, 1, 2, 3, -1, -2, 5, 7, 10, 100, 255, 1.0, 0.5, -0.5, 2.0, 0.1, 1.5, -3.25, 1e-3, 1e4, True)


class _Generator:
    def __init__(self, rng: random.Random, profile: Profile, counts: collections.Counter[str]) -> None:
        self.rng = rng
        self.profile = profile
        self.counts = counts
        self.elements: list[str] = []
        self.ints: list[str] = []
        self.floats: list[str] = []
        self.helpers: list[Helper] = []
        self.fresh = 0
        self.indexed = not profile.smooth
        main = [
            r for r in RULES.values() if set(r.kinds) & set(profile.kinds) and not r.asks and not r.logical
        ]
        #: Whether the tree is to have C++ text.
        self.cpp = profile.cpp and rng.random() < 0.6
        if self.cpp:
            main = [r for r in main if r.cpp and profile.kinds in r.cpp_kinds]
        if profile.smooth:
            main = [r for r in main if r.smooth and r.name not in ("**", "math.pow")]
        # What was met least is drawn most.
        self.pool = sorted(main, key=lambda r: (counts[r.name], rng.random()))
        asks = [r for r in RULES.values() if r.asks and not r.logical and set(r.kinds) & set(profile.kinds)]
        self.asking = [r for r in asks if r.cpp or not self.cpp]
        if profile.smooth:  # a NaN's sign is anything, and so is what follows from it
            self.asking = [r for r in self.asking if r.name != "nm.signbit"]

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def rule(self) -> Rule:
        basic = ("+", "-", "*", "/")
        if self.chance(0.35):
            found = [r for r in self.pool if r.name in basic]
            if found:
                return self.rng.choice(found)
        return self.rng.choice(self.pool[:12]) if self.chance(0.5) else self.rng.choice(self.pool)

    def literal(self) -> Node:
        values = [
            v
            for v in LITERALS
            if "i" not in self.profile.kinds or self.profile.name == "real" or isinstance(v, int)
        ]
        return Node("number", value=self.rng.choice(values))

    def number(self, depth: int) -> Node:
        """Return an expression of plain numbers."""
        if depth > 0 and self.chance(0.35):
            names = (
                ["+", "-", "*"]
                if self.cpp
                else ["+", "-", "*", "/", "//", "%", "neg", "max", "min", "abs", "**", "~", "<<", ">>", "&"]
            )
            if self.only_ints():
                names = [name for name in names if name not in ("/", "**")]
            rule = RULES[self.rng.choice(names)]
            if rule.name in ("~", "<<", ">>", "&"):
                return Node("rule", rule.name, tuple(self.whole() for _ in range(rule.arity)))
            if rule.name == "**":
                return Node("rule", "**", (self.number(0), self.whole()))
            return Node("rule", rule.name, tuple(self.number(depth - 1) for _ in range(rule.arity)))
        names = self.ints if self.only_ints() else [*self.ints, *self.floats]
        if names and self.chance(0.6):
            name = self.rng.choice(names)
            kind = "local" if name.startswith("k") else "scalar"
            return Node(kind, name)
        return self.literal()

    def whole(self) -> Node:
        """Return an integer that is known when the functor is compiled, or a scalar."""
        names = [name for name in self.ints if not name.startswith("k")]
        if names and self.chance(0.5):
            return Node("scalar", self.rng.choice(names))
        return Node("number", value=self.rng.randrange(-3, 6))

    def only_ints(self) -> bool:
        return self.profile.kinds == "i"

    def element(self, depth: int) -> Node:
        if depth <= 0 or self.chance(0.1):
            return self.leaf()
        if self.chance(0.08):
            return Node(
                "choose", children=(self.condition(1), self.element(depth - 1), self.operand(depth - 1))
            )
        if self.helpers and self.chance(0.12):
            helper = self.rng.choice(self.helpers)
            return Node("helper", helper.name, tuple(self.element(depth - 1) for _ in helper.parameters))
        return self.applied(self.rule(), depth)

    def applied(self, rule: Rule, depth: int) -> Node:
        """Return a rule of elements, of numbers where it takes them, or of conditions."""
        if rule.logical:
            return Node("rule", rule.name, tuple(self.condition(depth - 1) for _ in range(rule.arity)))
        children = [self.element(depth - 1)]
        if rule.second == "exponent":
            exponents = [e for e in EXPONENTS if (isinstance(e, int) and e >= 0) or not self.only_ints()]
            children.append(Node("number", value=self.rng.choice(exponents)))
        elif rule.second == "count":
            children.append(Node("number", value=self.rng.randrange(0, 9)))
        elif rule.second == "condition":
            children = [self.condition(1), self.element(depth - 1), self.operand(depth - 1)]
        else:
            children += [self.operand(depth - 1) for _ in range(rule.arity - 1)]
            if rule.arity == 2 and self.chance(0.3):
                children.reverse()
        return Node("rule", rule.name, tuple(children))

    def operand(self, depth: int) -> Node:
        return self.number(1) if self.chance(0.3) else self.element(depth)

    def leaf(self) -> Node:
        if self.indexed and self.chance(0.03):
            return Node("rule", "+", (Node("operand", self.rng.choice(self.elements)), Node("index")))
        return Node("operand", self.rng.choice(self.elements))

    def condition(self, depth: int) -> Node:
        if depth > 0 and self.chance(0.25):
            name = self.rng.choice(["and", "or", "not"])
            return Node("rule", name, tuple(self.condition(depth - 1) for _ in range(RULES[name].arity)))
        rule = self.rng.choice(self.asking)
        children = [self.element(1)] + [self.operand(1) for _ in range(rule.arity - 1)]
        return Node("rule", rule.name, tuple(children))

    # ------------------------------------------------------------------------------------- statements

    def block(self, size: int, depth: int, *, inside: bool) -> list[Any]:
        """Return statements; inside of a branch or loop only variables that are there change."""
        found: list[Any] = []
        for _ in range(size):
            draw = self.rng.random()
            locals_ = [name for name in self.elements if name.startswith("v")]
            if depth > 0 and draw < 0.2 and locals_:
                found.append(
                    Branch(
                        self.condition(1),
                        self.changes(locals_),
                        self.changes(locals_) if self.chance(0.5) else (),
                    )
                )
            elif depth > 0 and draw < 0.35 and locals_:
                self.fresh += 1
                name = f"k{self.fresh}"
                count = Node("number", value=self.rng.randrange(0, 4))
                if "n" in self.ints and self.chance(0.3):
                    count = Node("scalar", "n")
                self.ints.append(name)
                body = list(self.changes(locals_))
                if self.chance(0.3):
                    body.append(Branch(self.condition(0), self.changes(locals_)))
                self.ints.remove(name)
                found.append(Loop(name, count, tuple(body)))
            elif draw < 0.45 and locals_:
                found += self.changes(locals_)
            elif not inside:
                self.fresh += 1
                node = self.element(2)
                found.append(Assign(f"v{self.fresh}", node))
                self.elements.append(f"v{self.fresh}")
        return found

    def changes(self, names: list[str]) -> tuple[Any, ...]:
        name = self.rng.choice(names)
        if self.chance(0.5):
            symbols = [s for s in ("+", "-", "*") if set(RULES[s].kinds) & set(self.profile.kinds)]
            return (Assign(name, self.operand(1), self.rng.choice(symbols)),)
        return (Assign(name, Node("rule", "+", (Node("local", name), self.element(1)))),)

    def tree(self) -> Tree:
        rng = self.rng
        operands = tuple("xyzw"[: rng.choice([1, 1, 2, 2, 2, 3, 4])])
        scalars: dict[str, Any] = {}
        captures: dict[str, Any] = {}
        if self.chance(0.4):
            scalars["n"] = rng.choice([0, 1, 2, 3, 3, -1])
        if self.chance(0.4) and not self.only_ints():
            scalars["s"] = rng.choice([0.5, -1.25, 3.0, 0.1])
        if self.chance(0.25):
            captures["c"] = rng.choice([2, 3, -1, 10])
        if self.chance(0.25) and not self.only_ints():
            captures["d"] = rng.choice([0.25, -2.5, 1e3])
        self.ints += [name for name in ("n", "c") if name in {**scalars, **captures}]
        self.floats += [name for name in ("s", "d") if name in {**scalars, **captures}]
        if self.chance(0.25):
            self.elements = ["p", "q"]
            kept = self.ints, self.floats, self.indexed
            self.ints, self.floats, self.indexed = [], [], False
            node = self.element(2)
            self.ints, self.floats, self.indexed = kept
            self.helpers.append(Helper("helper", ("p", "q"), node))
        self.elements = list(operands)
        body: list[Any] = []
        if self.chance(0.5):
            body += self.block(rng.randrange(1, 4), 1, inside=False)
        count = rng.choice([1, 1, 1, 2, 3])
        if self.chance(0.15):
            body.append(Branch(self.condition(1), (Exit(tuple(self.element(1) for _ in range(count))),)))
        results = [self.element(rng.choice([1, 2, 3, 3])) for _ in range(count)]
        if self.chance(0.2) and not self.cpp:
            results[0] = self.condition(1)
        body.append(Exit(tuple(results)))
        return Tree(operands, tuple(body), scalars, captures, tuple(self.helpers))


def pairs() -> list[tuple[str, str]]:
    """Return every rule with the name of every dtype that trees have it with."""
    return [(rule, dtype) for rule, dtype in sorted(_PROFILE_OF)]


_PROFILE_OF = {
    (rule.name, dtype): profile
    for profile in reversed(PROFILES)
    if not profile.smooth
    for rule in RULES.values()
    if set(rule.kinds) & set(profile.kinds)
    for dtype in profile.dtypes
}


def pair_profile(pair: tuple[str, str]) -> Profile:
    """Return the profile that has a rule with a dtype."""
    profile = _PROFILE_OF[pair]
    return dataclasses.replace(profile, dtypes=(pair[1],), mixed=False)


def directed_tree(rng: random.Random, profile: Profile, name: str) -> Tree:
    """Draw a tree of one rule of elements."""
    made, rule = _Generator(rng, profile, collections.Counter()), RULES[name]
    operands = tuple("xyz"[: rng.randrange(max(rule.arity, 1), 4)])
    made.elements = list(operands)
    return Tree(operands, (Exit((made.applied(rule, 1),)),))


def random_tree(rng: random.Random, profile: Profile, counts: collections.Counter[str]) -> Tree:
    """Draw a tree; rules that `counts` has seen least come most often."""
    return _Generator(rng, profile, counts).tree()


# ------------------------------------------------------------------------------------------- operands


@dataclasses.dataclass(frozen=True)
class Layout:
    """A tensor as a view of a buffer of its own."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def extent(self) -> int:
        """Elements of the buffer."""
        if 0 in self.shape:
            return self.offset + 1
        return self.offset + 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))


@dataclasses.dataclass
class Call:
    """Operands of one call: dtype names, layouts (None for a number), values, bits of conj and neg."""

    dtypes: list[str]
    layouts: list[Layout | None]
    seed: int
    conj: list[bool]
    neg: list[bool]
    numbers: list[Any]

    def operands(self, device: str = "cpu", *, edges: bool = True) -> list[Any]:
        """Return fresh tensors (and numbers)."""
        found: list[Any] = []
        for k, layout in enumerate(self.layouts):
            if layout is None:
                found.append(self.numbers[k])
                continue
            values = values_of(self.dtypes[k], layout.extent, self.seed + k, edges=edges)
            tensor = values.to(device).as_strided(layout.shape, layout.strides, layout.offset)
            if self.conj[k]:
                tensor = tensor.conj()
            if self.neg[k]:
                tensor = torch._neg_view(tensor)
            found.append(tensor)
        return found


def values_of(name: str, count: int, seed: int, *, edges: bool = True) -> torch.Tensor:
    """Return a flat tensor of a dtype: moderate values, and now and then an odd one."""
    source = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.randint(0, 2, (count,), generator=source).to(torch.bool)
    pick = torch.randint(0, 8, (count,), generator=source)
    if dtype.is_floating_point or dtype.is_complex:
        parts = []
        for _ in range(2 if dtype.is_complex else 1):
            smooth = torch.randn(count, generator=source, dtype=torch.float64) * 2
            halves = torch.randint(-8, 9, (count,), generator=source).to(torch.float64) / 2
            odd = torch.tensor(
                [0.0, -0.0, math.inf, -math.inf, math.nan, 1e30, -1e-30, 300.0, -7e4, 1.0],
                dtype=torch.float64,
            )
            special = odd[torch.randint(0, len(odd), (count,), generator=source)]
            few = torch.randint(0, 16, (count,), generator=source) == 0
            value = torch.where(pick < 4, smooth, halves)
            parts.append(torch.where(few, special, value) if edges and not dtype.is_complex else value)
        return (torch.complex(*parts) if dtype.is_complex else parts[0]).to(dtype)
    low, high = {"uint16": (0, 2**16), "uint32": (0, 2**32), "uint64": (0, 2**62)}.get(name) or (
        torch.iinfo(dtype).min, torch.iinfo(dtype).max)  # fmt: skip
    wide = torch.randint(low, high, (count,), generator=source, dtype=torch.int64)
    small = torch.randint(-5 if low < 0 else 0, 6, (count,), generator=source)
    ends = torch.tensor([low, high if high < 2**63 else low])[torch.randint(0, 2, (count,), generator=source)]
    value = torch.where(
        pick < 5,
        small,
        torch.where((pick == 7) & torch.tensor(name not in ("uint16", "uint32", "uint64")), ends, wide),
    )
    return value.to(dtype)


def random_call(rng: random.Random, profile: Profile, tree: Tree, *, numbers: bool = True) -> Call:
    """Draw dtypes and layouts for a tree's operands."""
    count = len(tree.operands)
    one = rng.choice(profile.dtypes)
    same = not profile.mixed or rng.random() < 0.55
    dtypes = [one if same else rng.choice(profile.dtypes) for _ in range(count)]
    rank = rng.choice([1, 1, 2, 2, 3])
    base = [rng.choice([1, 2, 3, 5, 8]) for _ in range(rank)]
    if rng.random() < 0.2:
        base[-1] = rng.choice([17, 33, 64, 129])
    if rng.random() < 0.03:
        base[rng.randrange(rank)] = 0
    layouts: list[Layout | None] = []
    plain: list[Any] = []
    for k in range(count):
        shape = tuple(1 if rng.random() < 0.12 else n for n in base)[
            rng.randrange(0, rank) if rng.random() < 0.15 else 0 :
        ]
        draw = rng.random()
        plain.append(None)
        if draw < 0.06 and k:
            shape = ()
        elif draw < 0.12 and k and numbers and profile.name not in ("wide", "float8", "complex"):
            layouts.append(None)
            plain[-1] = rng.choice([2, -1, 3, True] if profile.kinds == "i" else [2, 0.5, -1.5, 3, True])
            continue
        layouts.append(_random_layout(rng, shape))
    conj = [dtype in COMPLEX and rng.random() < 0.25 for dtype in dtypes]
    # The bit of neg is only met on views that torch makes of imaginary parts; floats alone have it.
    neg = [dtype in ("float32", "float64", *COMPLEX) and rng.random() < 0.05 for dtype in dtypes]
    return Call(dtypes, layouts, rng.randrange(10**6), conj, neg, plain)


def _random_layout(rng: random.Random, shape: tuple[int, ...]) -> Layout:
    order = list(range(len(shape)))
    if rng.random() < 0.4:
        rng.shuffle(order)
    strides = [0] * len(shape)
    step = rng.choice([1, 1, 1, 2])
    for dim in reversed(order):
        if rng.random() < 0.06:
            continue  # expanded
        strides[dim] = step
        step *= shape[dim] + (rng.choice([0, 0, 0, 1, 3]))
        step = max(step, 1)
    return Layout(shape, tuple(strides), rng.choice([0, 0, 0, 1, 3]))
