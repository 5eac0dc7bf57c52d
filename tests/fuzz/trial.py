"""One trial: a tree's call in every way, each compared with the reference."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import warnings
from typing import Any

import torch

import numjit
from numjit.errors import NumjitError
from tests.fuzz.generate import Call
from tests.fuzz.reference import RefusedError, UndecidedError, Value, evaluate, stored
from tests.fuzz.rules import common
from tests.fuzz.tree import Tree, cpp_text, has_cpp, python_text

__all__ = ["Mismatch", "Trial", "functor_of"]

_serial = itertools.count()


@dataclasses.dataclass
class Mismatch(Exception):
    """An answer that is not the reference's."""

    way: str
    text: str

    @property
    def kind(self) -> tuple[Any, ...]:
        """What is alike in failures of one cause."""
        signs = ("first call", "shape", "strides", "is torch.", "results", "refuses", " at ")
        return (
            self.way.partition(",")[0],
            type(self.__cause__),
            next((s for s in signs if s in self.text), ""),
        )

    def __str__(self) -> str:
        return f"{self.way}: {self.text}"


def functor_of(text: str) -> Any:
    """Return what a module's text calls ``functor``; tracebacks show its lines."""
    import linecache

    name = f"<tree {next(_serial)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, name, "exec"), scope)
    return scope["functor"]


@dataclasses.dataclass
class Trial:
    """A tree and a call of it.

    Attributes
    ----------
    device
        Where the operands are.
    cpp, compiled, gradients
        Whether these ways are tried too.
    """

    tree: Tree
    call: Call
    device: str = "cpu"
    cpp: bool = False
    compiled: bool = False
    gradients: bool = False

    @property
    def fused(self) -> bool:
        return self.device != "cpu"

    def operands(self) -> list[Any]:
        return self.call.operands(self.device)

    @functools.cached_property
    def python(self) -> Any:
        return numjit.elementwise(functor_of(python_text(self.tree)))

    @functools.cached_property
    def text(self) -> Any:
        return numjit.elementwise(cpp_text(self.tree), scalars=dict(self.tree.scalars))

    def run(self) -> str:
        """Return ``same``, ``refused`` (by torch and numjit alike) or ``undecided``.

        Raises
        ------
        Mismatch
            An answer that differs.
        """
        operands = self.operands()
        try:
            expected = evaluate(self.tree, operands, self.tree.scalars, fused=self.fused)
        except RefusedError as error:
            return self.refused(operands, str(error))
        except UndecidedError:
            return "undecided"
        shape = torch.broadcast_shapes(*(o.shape for o in operands if isinstance(o, torch.Tensor)))
        wanted = [stored(result, shape) for result in expected]
        first = self.call_of("python", self.python, operands)
        self.compare("python", first, wanted, operands)
        # A second call is answered by the warm path.
        self.identical("python, again", self.call_of("python, again", self.python, operands), first)
        self.into_out(operands, wanted, first)
        if self.cpp:
            self.run_cpp()
        if self.compiled:
            self.run_compiled(operands, wanted)
        if self.gradients:
            self.run_gradients()
        return "same"

    # ------------------------------------------------------------------------------------------- ways

    def call_of(
        self, way: str, functor: Any, operands: list[Any], **keywords: Any
    ) -> tuple[torch.Tensor, ...]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = functor(*operands, **self.tree.scalars, **keywords)
        except NumjitError as error:
            raise Mismatch(way, f"numjit refuses what torch answers: {error}") from error
        except Exception as error:
            raise Mismatch(way, f"{type(error).__name__} is no error of numjit's: {error}") from error
        return found if isinstance(found, tuple) else (found,)

    def refused(self, operands: list[Any], reason: str) -> str:
        try:
            found = self.python(*operands, **self.tree.scalars)
        except NumjitError:
            return "refused"
        except Exception as error:
            raise Mismatch("python", f"{type(error).__name__} is no error of numjit's: {error}") from error
        if self.tree.has_dead_code():
            return "undecided"
        raise Mismatch("python", f"torch refuses this ({reason}); numjit answers {found}")

    def into_out(self, operands: list[Any], wanted: list[Value], first: tuple[torch.Tensor, ...]) -> None:
        outs = []
        for result in first:
            buffer = (
                torch.full((2 * result.numel() + 1,), 1, dtype=torch.uint8).to(result.dtype).to(result.device)
            )
            shape = tuple(result.shape)
            strides, step = [0] * len(shape), 2
            for dim in reversed(range(len(shape))):
                strides[dim] = step
                step *= max(shape[dim], 1)
            outs.append(buffer.as_strided(shape, strides, 1 if result.numel() else 0))
        given = outs[0] if len(outs) == 1 else tuple(outs)
        found = self.call_of("python, out=", self.python, operands, out=given)
        for mine, out in zip(found, outs, strict=True):
            if mine is not out:
                raise Mismatch("python, out=", "the result is another tensor")
        self.as_before("python, out=", found, first, wanted, operands)
        # In place: the first operand that can take the first result.
        if len(first) == 1:
            for k, operand in enumerate(operands):
                fits = isinstance(operand, torch.Tensor) and operand.shape == first[0].shape
                if fits and operand.dtype == first[0].dtype and not (operand.is_conj() or operand.is_neg()):
                    if torch._debug_has_internal_overlap(operand) == 1:
                        continue
                    fresh = self.operands()
                    try:
                        found = (self.python(*fresh, **self.tree.scalars, out=fresh[k]),)
                    except numjit.errors.OverlapError:
                        continue
                    self.as_before("python, in place", found, first, wanted, operands)
                    break

    def as_before(
        self,
        way: str,
        found: tuple[torch.Tensor, ...],
        first: tuple[torch.Tensor, ...],
        wanted: list[Value],
        operands: list[Any],
    ) -> None:
        """Compare results in another layout with those of the first call.

        That may be another kernel, in which a GPU's compiler fuses other products and sums.
        """
        if self.fused:
            self.compare(way, found, wanted, operands, strides=False)
        else:
            self.identical(way, found, first)

    def run_cpp(self) -> None:
        operands = self.operands()
        dtype = common(tuple(o.detach().cpu() if isinstance(o, torch.Tensor) else o for o in operands))
        if not has_cpp(self.tree, str(dtype)):
            return
        try:
            expected = evaluate(self.tree, operands, self.tree.scalars, fused=self.fused, cpp=dtype)
        except (RefusedError, UndecidedError):
            return
        shape = torch.broadcast_shapes(*(o.shape for o in operands if isinstance(o, torch.Tensor)))
        wanted = []
        for result in expected:
            if not isinstance(result, Value):
                result = Value(
                    torch.tensor(result).to(
                        torch.float32 if dtype.itemsize < 4 and dtype.is_floating_point else dtype
                    ),
                    result,
                )
            wanted.append(stored(result, shape, dtype))
        first = self.call_of("c++", self.text, operands)
        self.compare("c++", first, wanted, operands)
        self.identical("c++, again", self.call_of("c++, again", self.text, operands), first)

    def run_compiled(self, operands: list[Any], wanted: list[Value]) -> None:
        torch._dynamo.reset()
        scalars = self.tree.scalars
        call = torch.compile(
            lambda *xs: self.python(*xs, **scalars), fullgraph=True, backend="aot_eager", dynamic=False
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = call(*operands)
        except Exception as error:
            raise Mismatch("compiled", f"{type(error).__name__}: {str(error)[:600]}") from error
        found = found if isinstance(found, tuple) else (found,)
        self.compare("compiled", found, wanted, operands, strides=False, slack=4.0)

    # ------------------------------------------------------------------------------------- comparisons

    def identical(self, way: str, found: tuple[torch.Tensor, ...], first: tuple[torch.Tensor, ...]) -> None:
        for k, (mine, other) in enumerate(zip(found, first, strict=True)):
            if (
                mine.dtype != other.dtype
                or mine.shape != other.shape
                or not torch.equal(_bits(mine), _bits(other))
            ):
                raise Mismatch(
                    way, f"result {k} is not what the first call answered: {_few(mine)}, {_few(other)}"
                )

    def compare(
        self, way: str, found: tuple[torch.Tensor, ...], wanted: list[Value], operands: list[Any], *,
        strides: bool = True, slack: float = 1.0,
    ) -> None:  # fmt: skip
        if len(found) != len(wanted):
            raise Mismatch(way, f"{len(found)} results, not {len(wanted)}")
        for k, (mine, value) in enumerate(zip(found, wanted, strict=True)):
            label = f"result {k}"
            if mine.dtype != value.proxy.dtype:
                raise Mismatch(way, f"{label} is {mine.dtype}, torch's {value.proxy.dtype}")
            if tuple(mine.shape) != tuple(value.data.shape):
                raise Mismatch(
                    way, f"{label} has shape {tuple(mine.shape)}, torch's {tuple(value.data.shape)}"
                )
            if strides and mine.numel():
                expected = _strides(operands)
                if expected is not None and mine.stride() != expected:
                    raise Mismatch(way, f"{label} has strides {mine.stride()}, torch's {expected}")
            good = agreement(mine, value, slack)
            if not good.all():
                places = (~good).nonzero().tolist()
                place = tuple(places[0])
                bound = 0.0 if value.error is None else value.error[place].item()
                inputs = [
                    o.expand(mine.shape)[place].item() if isinstance(o, torch.Tensor) else o for o in operands
                ]
                raise Mismatch(
                    way,
                    f"{label} at {place} ({len(places)} of {mine.numel()}): {mine[place].item()!r}, torch's "
                    f"{value.data[place].item()!r} +- {slack * bound:.3g}, of operands {inputs}",
                )

    # --------------------------------------------------------------------------------------- gradients

    def run_gradients(self) -> None:
        """Compare derivatives in reverse and forward mode, and second ones, with torch's forward mode."""
        from tests.fuzz.derivatives import check_gradients

        check_gradients(self)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if plain.dtype.is_floating_point and plain.dtype.itemsize > 1:
        plain = torch.where(plain.isnan(), torch.nan, plain)  # nobody says which sign a NaN has
    return torch.empty(plain.shape, dtype=plain.dtype).copy_(plain).reshape(-1).view(torch.uint8)


def _few(tensor: torch.Tensor) -> list[Any]:
    return tensor.detach().cpu().reshape(-1)[:6].tolist()


def _strides(operands: list[Any]) -> tuple[int, ...] | None:
    """Return the strides that a kernel of torch's of as many operands answers; None where there is none."""
    tensors = []
    for operand in operands:
        if isinstance(operand, torch.Tensor):
            plain = torch.zeros(1).as_strided(operand.shape, [0] * operand.ndim)
            buffer = torch.zeros(
                1 + sum((n - 1) * s for n, s in zip(operand.shape, operand.stride(), strict=True))
            )
            tensors.append(buffer.as_strided(operand.shape, operand.stride()) if operand.numel() else plain)
        else:
            return None
    if len(tensors) == 1:
        return torch.neg(tensors[0]).stride()
    if len(tensors) == 2:
        return torch.add(*tensors).stride()
    return torch.addcmul(*tensors).stride() if len(tensors) == 3 else None


def agreement(mine: torch.Tensor, value: Value, slack: float = 1.0) -> torch.Tensor:
    """Return where a result is within the bound of the reference, or may be any."""
    dtype = mine.dtype
    plain = mine.detach().cpu().resolve_conj().resolve_neg()
    data = value.data
    if dtype in (torch.uint16, torch.uint32):
        good = plain.to(torch.int64) == data
    elif dtype == torch.uint64:
        good = plain.contiguous().view(torch.int64) == data
    elif dtype.is_complex:
        target = data.to(dtype)
        near = (plain - target).abs() <= _margin(value, slack)
        parts = [
            _same(a, b) for a, b in zip((plain.real, plain.imag), (target.real, target.imag), strict=True)
        ]
        # What complex products and quotients make of infinities and NaN is pinned elsewhere.
        odd = ~target.isfinite()
        good = near | (parts[0] & parts[1]) | odd
    elif dtype.is_floating_point:
        error = _margin(value, slack)
        wide = data.to(torch.float64)
        low, high = (_stored(wide - error, dtype), _stored(wide + error, dtype))
        own = plain.to(torch.float64)
        good = ((low <= own) & (own <= high)) | _same(own, _stored(data, dtype))
    else:
        good = plain == data.to(dtype)
    if value.unsure is not None:
        good = good | value.unsure
    return good


def _margin(value: Value, slack: float) -> Any:
    if value.error is None:
        # The compiler's own rounding of what is exact eagerly.
        return (
            0.0
            if slack == 1.0
            else slack * 1e-7 * value.data.abs().to(torch.float64).nan_to_num(0.0, 0.0, 0.0)
        )
    return slack * value.error


def _stored(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dtype == torch.float8_e4m3fn:  # which saturates; see docs/semantics.md
            data = torch.where(data.isnan(), data, data.clamp(-448.0, 448.0))
        return data.to(dtype).to(torch.float64)


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())
