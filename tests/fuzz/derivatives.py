"""Derivatives of a tree: numjit's in every mode against torch's forward mode of the same computation.

Forward mode takes the branch that an element takes, and so is right where torch's reverse mode multiplies
the derivative of the branch not taken, an infinity, by 0. Elements whose derivative changes when the operands
move a little (kinks, ties, jumps, poles) are not judged.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from numjit.errors import NumjitError
from tests.fuzz.reference import Run, UndecidedError, Value, evaluate

if TYPE_CHECKING:
    from tests.fuzz.trial import Trial

__all__ = ["check_gradients"]

_MOVES = (0.0, 3e-9, -7e-9)


class _Plain(Run):
    """An evaluation without bounds, through which torch.func can see."""

    def bounded(self, rule: Any, values: list[Any], tensors: list[Any], result: Value) -> Value:
        return result


def _computation(tree: Any, scalars: dict[str, Any], given: list[Any], places: list[int]) -> Any:
    """Return the tree as a function of the tensors at `places`: its float results by their places."""
    shape = torch.broadcast_shapes(*(o.shape for o in given if isinstance(o, torch.Tensor)))

    def compute(*tensors: torch.Tensor) -> dict[int, torch.Tensor]:
        names: dict[str, Any] = {**tree.captures, **scalars}
        for place, name in enumerate(tree.operands):
            names[name] = given[place]
            if place in places:
                tensor = tensors[places.index(place)]
                kind = torch.ones((1,) if tensor.ndim else (), dtype=torch.float64)
                names[name] = Value(tensor, kind)
        results = _Plain(tree, names, fused=False, cpp=None).body(tree.body, names)
        assert results is not None
        return {
            r: result.data.expand(shape)
            for r, result in enumerate(results)
            if isinstance(result, Value) and not result.is_number and result.data.dtype == torch.float64
        }

    return compute


def _along(function: Any, place: int) -> Any:
    """Return the function whose results are the derivatives of `function`'s by the tensor at `place`."""

    def derived(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tangents = tuple(
            torch.ones_like(t) if k == place else torch.zeros_like(t) for k, t in enumerate(tensors)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.func.jvp(function, tensors, tangents)[1]

    return derived


def _steady(function: Any, tensors: list[torch.Tensor]) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Return a function's results, and where they are finite and steady when the tensors move a little."""
    found = []
    for move in _MOVES:
        # Of no small numbers: what ties at -1, as an element of a fuzzer often is, would stay tied.
        moved = [
            t * (1 + move * (1 + 0.7310585 * k)) + move * (0.3127 + 0.9173 * k) for k, t in enumerate(tensors)
        ]
        found.append(function(*moved))
    good = torch.ones(found[0][0].shape, dtype=torch.bool)
    for here, *others in zip(*found, strict=True):
        good &= here.isfinite() & (here.abs() < 1e8)
        for other in others:
            good &= (here - other).abs() <= 1e-4 * (1 + here.abs())
    return found[0], good


def check_gradients(trial: Trial) -> None:  # noqa: C901 - one comparison after the other
    """Compare what numjit derives with the reference; raises Mismatch."""
    from tests.fuzz.trial import Mismatch

    tree, scalars = trial.tree, trial.tree.scalars
    given = trial.call.operands("cpu", edges=False)
    places = [k for k, o in enumerate(given) if isinstance(o, torch.Tensor)]
    shape = torch.broadcast_shapes(*(given[k].shape for k in places))
    if not torch.Size(shape).numel():
        return
    tensors = [given[k].detach().resolve_neg().clone() for k in places]
    compute = _computation(tree, scalars, given, places)
    try:
        evaluate(tree, given, scalars)
        chosen = list(compute(*tensors))
    except UndecidedError:
        return
    if not chosen:
        return
    numbered = compute

    def compute(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = numbered(*tensors)
        return tuple(found[r] for r in chosen)

    values, good = _steady(compute, tensors)
    weights = [
        torch.linspace(0.5, 1.5, good.numel(), dtype=torch.float64).reshape(shape) * (1 + r)
        for r in range(len(values))
    ]
    first: list[torch.Tensor] = []
    for k in range(len(places)):
        derived, steady = _steady(_along(compute, k), tensors)
        good = good & steady
        first.append(sum(w * d for w, d in zip(weights, derived, strict=True)))

    def weighted(k: int) -> Any:
        along = _along(compute, k)
        return lambda *xs: (sum(w * d for w, d in zip(weights, along(*xs), strict=True)),)

    second: dict[tuple[int, int], torch.Tensor] = {}
    sure = good
    for j in range(len(places)):
        (derived,), steady = _steady(_along(weighted(0), j), tensors)
        sure = sure & steady
        second[0, j] = derived
    ways = [("python", trial.python)]
    from tests.fuzz.tree import has_cpp

    if trial.cpp and has_cpp(tree, "float64"):
        ways.append(("c++", trial.text))
    if trial.compiled:
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda *xs: trial.python(*xs, **scalars), fullgraph=True, backend="aot_eager", dynamic=False
        )
        ways.append(("compiled", compiled))
    for way, functor in ways:
        keywords = {} if way == "compiled" else scalars
        leaves = [t.to(trial.device).requires_grad_() for t in tensors]
        passed = list(given)
        for k, leaf in zip(places, leaves, strict=True):
            passed[k] = leaf
        passed = [p.to(trial.device) if isinstance(p, torch.Tensor) else p for p in passed]

        def call(
            *xs: torch.Tensor, functor: Any = functor, keywords: Any = keywords, passed: Any = passed
        ) -> Any:
            full = list(passed)
            for k, x in zip(places, xs, strict=True):
                full[k] = x
            found = functor(*full, **keywords)
            found = found if isinstance(found, tuple) else (found,)
            return tuple(found[r] for r in chosen)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = call(*leaves)
                needing = [(r, w) for r, w in zip(results, weights, strict=True) if r.requires_grad]
                if not needing:
                    continue
                given_weights = [w.to(trial.device) for _, w in needing]
                grads = torch.autograd.grad(
                    [r for r, _ in needing],
                    leaves,
                    given_weights,
                    create_graph=way != "compiled",
                    allow_unused=True,
                )
        except NumjitError as error:
            raise Mismatch(f"{way}, gradient", f"numjit refuses: {error}") from error
        except Exception as error:
            raise Mismatch(f"{way}, gradient", f"{type(error).__name__}: {str(error)[:600]}") from error
        for k, grad in enumerate(grads):
            _close(f"{way}, gradient by operand {places[k]}", grad, first[k], tensors[k].shape, good)
        if way == "compiled":
            continue
        tangents = tuple(torch.full_like(leaf, 0.5 + k) for k, leaf in enumerate(leaves))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pushed = torch.func.jvp(call, tuple(leaf.detach() for leaf in leaves), tangents)[1]
        except Exception as error:
            raise Mismatch(f"{way}, forward mode", f"{type(error).__name__}: {str(error)[:600]}") from error
        along = [_along(compute, k)(*tensors) for k in range(len(places))]
        for r, push in enumerate(pushed):
            expected = sum((0.5 + k) * along[k][r] for k in range(len(places)))
            _close(f"{way}, forward mode of result {r}", push, expected, shape, good)
        if grads[0] is None or not grads[0].requires_grad:
            continue
        try:
            again = torch.autograd.grad(grads[0].sum(), leaves, allow_unused=True)
        except Exception as error:
            raise Mismatch(
                f"{way}, second derivative", f"{type(error).__name__}: {str(error)[:600]}"
            ) from error
        for k, grad in enumerate(again):
            _close(
                f"{way}, second derivative by operands 0, {places[k]}",
                grad,
                second[0, k],
                tensors[k].shape,
                sure,
                1e-6,
            )


def _close(
    way: str, mine: Any, wanted: torch.Tensor, shape: Any, good: torch.Tensor, rtol: float = 1e-8
) -> None:
    from tests.fuzz.trial import Mismatch

    if tuple(shape) != tuple(good.shape):
        if not good.all():
            return
        wanted = wanted.sum_to_size(shape)
        good = torch.ones(shape, dtype=torch.bool)
    if mine is None:
        mine = torch.zeros(shape, dtype=torch.float64)
    mine = mine.detach().cpu().resolve_neg()
    if mine.shape != wanted.shape:
        raise Mismatch(way, f"shape {tuple(mine.shape)}, not {tuple(wanted.shape)}")
    scale = 1 + wanted.abs() + wanted.abs().nan_to_num(0.0, 0.0, 0.0).mean()
    bad = ((mine - wanted).abs() > rtol * scale) & good
    bad |= good & ~mine.isfinite()
    if bad.any():
        place = tuple(bad.nonzero()[0].tolist())
        raise Mismatch(
            way,
            f"at {place} ({int(bad.sum())} of {bad.numel()}): {mine[place].item()!r}, "
            f"torch's {wanted[place].item()!r}",
        )
