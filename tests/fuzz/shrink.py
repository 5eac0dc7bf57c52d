"""Makes a failing trial smaller, and prints it as a script that fails by itself."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import torch

from tests.fuzz.tree import Assign, Branch, Exit, Loop, Node, Tree, cpp_text, python_text
from tests.fuzz.trial import Mismatch, Trial

__all__ = ["script", "shrink"]


def _smaller_nodes(node: Node) -> Iterator[Node]:
    """Yield simpler expressions in place of one."""
    yield from (child for child in node.children if child.kind != "number")
    for k, child in enumerate(node.children):
        for smaller in _smaller_nodes(child):
            yield dataclasses.replace(node, children=(*node.children[:k], smaller, *node.children[k + 1 :]))


def _smaller_bodies(body: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for k, statement in enumerate(body):
        before, after = body[:k], body[k + 1 :]
        if after:
            yield (*before, *after)
        match statement:
            case Branch(node, inner, other):
                yield (*before, *inner, *after)
                for small in _smaller_bodies(inner):
                    yield (*before, Branch(node, small, other), *after)
                for small in _smaller_nodes(node):
                    yield (*before, Branch(small, inner, other), *after)
            case Loop(name, node, inner):
                for small in _smaller_bodies(inner):
                    yield (*before, Loop(name, node, small), *after)
            case Assign(name, node, symbol):
                for small in _smaller_nodes(node):
                    yield (*before, Assign(name, small, symbol), *after)
            case Exit(results):
                if len(results) > 1 and not before:
                    for result in results:
                        yield (Exit((result,)),)
                for r, result in enumerate(results):
                    for small in _smaller_nodes(result):
                        yield (*before, Exit((*results[:r], small, *results[r + 1 :])), *after)


def _used(tree: Tree) -> Tree:
    """Return the tree without scalars, captures and helpers that nothing names."""
    names = {node.name for node in tree.nodes()}
    inside = {node.name for statement in tree.statements() for node in _nodes(statement)}
    return dataclasses.replace(
        tree,
        scalars={k: v for k, v in tree.scalars.items() if k in names},
        captures={k: v for k, v in tree.captures.items() if k in names},
        helpers=tuple(h for h in tree.helpers if h.name in inside),
    )


def _nodes(statement: Any) -> Iterator[Node]:
    for node in getattr(statement, "results", None) or (statement.node,):
        yield from node.walk()


def shrink(trial: Trial, mismatch: Mismatch, seconds: float = 30.0) -> tuple[Trial, Mismatch]:
    """Return the smallest trial found that fails in the same way, and how it fails."""
    end = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for body in _smaller_bodies(trial.tree.body):
            if time.monotonic() > end:
                break
            smaller = dataclasses.replace(trial, tree=_used(dataclasses.replace(trial.tree, body=body)))
            try:
                smaller.run()
            except Mismatch as again:
                if again.kind == mismatch.kind:
                    trial, mismatch, changed = smaller, again, True
                    break
            except Exception:  # noqa: BLE001 -- half a tree, such as one that names what is gone
                continue
    return trial, mismatch


def script(trial: Trial, mismatch: Mismatch, seed: Any) -> str:
    """Return a program that makes the call of a trial, with its operands, and says what was expected."""
    lines = [
        f"# seed {seed}: {line}" if k == 0 else f"#   {line}"
        for k, line in enumerate(str(mismatch).splitlines())
    ]
    lines += ["import torch", "", python_text(trial.tree)]
    if mismatch.way.startswith("c++"):
        lines += [
            f"text = r'''\n{cpp_text(trial.tree)}'''",
            f"f = numjit.elementwise(text, scalars={trial.tree.scalars!r})",
        ]
    else:
        lines.append("f = numjit.elementwise(functor)")
    names = []
    for k, (name, layout) in enumerate(zip(trial.tree.operands, trial.call.layouts, strict=True)):
        names.append(name)
        if layout is None:
            lines.append(f"{name} = {trial.call.numbers[k]!r}")
            continue
        operand = trial.call.operands()[k]
        if layout.extent <= 64:
            whole = operand.conj() if operand.is_conj() else operand
            whole = torch._neg_view(whole) if whole.is_neg() else whole
            values = whole.as_strided((layout.extent,), (1,), 0).cpu()
            values = values.view(torch.int64) if values.dtype == torch.uint64 else values
            spelled = "[" + ", ".join(_spelled(v) for v in values.tolist()) + "]"
            tail = f".view(torch.{trial.call.dtypes[k]})" if trial.call.dtypes[k] == "uint64" else ""
            dtype = "int64" if tail else trial.call.dtypes[k]
            buffer = f"torch.tensor({spelled}, dtype=torch.{dtype}){tail}"
        else:
            lines.append("from tests.fuzz.generate import values_of")
            buffer = f"values_of({trial.call.dtypes[k]!r}, {layout.extent}, {trial.call.seed + k})"
        view = f".to({trial.device!r}).as_strided({layout.shape}, {layout.strides}, {layout.offset})"
        conj = ".conj()" if trial.call.conj[k] else ""
        text = f"{buffer}{view}{conj}"
        lines.append(f"{name} = torch._neg_view({text})" if trial.call.neg[k] else f"{name} = {text}")
    scalars = "".join(f", {k}={v!r}" for k, v in trial.tree.scalars.items())
    lines.append(f"print(f({', '.join(names)}{scalars}))")
    return "\n".join(lines) + "\n"


def _spelled(value: Any) -> str:
    text = repr(value)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text
