"""PyTorch's own tests of jiterator with numjit in its place; here is the oracle that they share.

Every functor of torch's five ``jiterator_*`` OpInfos is a sum of products, so the oracle evaluates it term by
term in float64 (complex numbers as two reals, integers in int64) and knows how large the terms are, which is
what bounds the rounding error of any order of evaluation and of fused multiply-adds.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from numjit.jiterator import create_jit_fn, create_multi_output_jit_fn

#: The dtypes that every jiterator OpInfo names.
DTYPES = ("bfloat16", "bool", "complex128", "complex64", "float16", "float32", "float64", "int16", "int32",
          "int64", "int8", "uint8")  # fmt: skip
#: One of each kind and of each way to compute: on the CPU, where every combination of types is one more run
#: of the host's compiler (0.3 s), what varies more than the OpInfos' own samples is checked for these.
REPRESENTATIVE = ("bfloat16", "bool", "complex64", "float32", "int32")

Number = bool | int | float | complex
#: A product of operands and scalars, by position and by name, with its sign.
Term = tuple[int, tuple[int | str, ...]]
#: A real number's value, or real and imaginary part.
Parts = tuple[torch.Tensor, ...]


def on_devices(on_cpu: Sequence[Any], on_cuda: Sequence[Any]) -> list[Any]:
    """Return parameters ``(device, value)``: some values on the CPU, others on a GPU."""
    return [pytest.param("cpu", value, id=f"cpu-{_label(value)}") for value in on_cpu] + [
        pytest.param("cuda", value, id=f"cuda-{_label(value)}", marks=pytest.mark.gpu) for value in on_cuda
    ]


def _label(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclasses.dataclass(frozen=True)
class Operation:
    """A functor and what it computes.

    Attributes
    ----------
    function
        Made by `numjit.jiterator`.
    operands
        How many tensors it takes.
    terms
        For each output the terms whose sum it is.
    scalars
        The declared scalars with their defaults.
    """

    function: Callable[..., Any]
    operands: int
    terms: tuple[tuple[Term, ...], ...]
    scalars: Mapping[str, Number] = dataclasses.field(default_factory=dict)

    def check(self, operands: Sequence[Any], device: str, **given: Number) -> None:
        """Call the functor and compare dtype, device, shape, strides and values with the oracle.

        Parameters
        ----------
        operands
            Tensors and Python numbers.
        device
            Where the result has to be.
        **given
            Keyword scalars of the call.
        """
        assert len(operands) == self.operands
        kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        dtype = elementwise_dtypes(*operands, type_promotion_kind=kind)[1]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = self.function(*operands, **given)
        integral = not (dtype.is_floating_point or dtype.is_complex)
        truncates = integral and any(isinstance(v, float) and v != int(v) for v in given.values())
        said = {str(w.message) for w in caught if "ComplexHalf" not in str(w.message)}
        assert all("truncated" in message for message in said)
        assert bool(said) == truncates
        results = (answer,) if isinstance(answer, torch.Tensor) else answer
        assert len(results) == len(self.terms)
        tensors = [x for x in operands if isinstance(x, torch.Tensor)]
        layout = torch.add(*operands[:2]) if self.operands > 1 else torch.add(operands[0], operands[0])
        shape = torch.broadcast_shapes(*(x.shape for x in tensors))
        values = Values(operands, {**self.scalars, **given}, dtype, device)
        wanted = torch.device(device)
        for result, terms in zip(results, self.terms, strict=True):
            assert result.dtype == dtype
            assert result.device.type == wanted.type
            assert wanted.index in (None, result.device.index)
            assert result.shape == shape
            assert not result.is_conj()
            assert not result.is_neg()
            assert not result.requires_grad
            if result.numel():
                assert result.stride() == layout.stride()
                values.compare(result, terms)


class Values:
    """The operands and scalars of one call in the dtype that the functor sees, ready for the oracle."""

    def __init__(
        self, operands: Sequence[Any], scalars: Mapping[str, Number], dtype: torch.dtype, device: str
    ) -> None:
        self.dtype = dtype
        self.inexact = dtype.is_floating_point or dtype.is_complex
        # What the functor computes in. Nothing that comes by value is rounded to 16 bits, in torch neither.
        narrow = {
            torch.float16: torch.float32,
            torch.bfloat16: torch.float32,
            torch.complex32: torch.complex64,
        }
        self.compute = narrow.get(dtype, dtype)
        self.values: dict[int | str, Parts] = {}
        for k, value in enumerate(operands):
            if isinstance(value, torch.Tensor):
                plain = value.resolve_conj().resolve_neg()
                by_value = not value.ndim and value.device.type == "cpu"
                self.values[k] = self._wide(plain.to(device).to(self.compute if by_value else dtype))
            else:
                self.values[k] = self._wide(self._scalar(value).to(device))
        for name, value in scalars.items():
            self.values[name] = self._wide(self._scalar(value).to(device))

    def _scalar(self, value: Number) -> torch.Tensor:
        """Convert a number to T as C++ does."""
        if self.dtype == torch.bool:
            return torch.tensor(bool(value))
        if not self.inexact:
            assert not isinstance(value, complex)
            return torch.tensor(int(value)).to(self.dtype)
        wide = torch.complex128 if isinstance(value, complex) else torch.float64
        return torch.tensor(value, dtype=wide).to(self.compute)

    def _wide(self, value: torch.Tensor) -> Parts:
        """Return a tensor's parts: one in float64 or int64, or real and imaginary."""
        if value.is_complex():
            return (value.real.double(), value.imag.double())
        return (value.double() if self.inexact else value.long(),)

    def compare(self, got: torch.Tensor, terms: Sequence[Term]) -> None:
        """Assert that a result's values are those of a sum of products."""
        expected = _evaluate(self.values, terms)
        if self.dtype == torch.bool:
            assert torch.equal(got, (expected[0] != 0).expand(got.shape))
            return
        if not self.inexact:
            assert torch.equal(got, expected[0].to(self.dtype).expand(got.shape))
            return
        parts = (got.real, got.imag) if got.is_complex() else (got,)
        for k, (part, wanted) in enumerate(zip(parts, expected, strict=True)):
            rounded, full = wanted.to(part.dtype), wanted.expand(part.shape)
            other = (part != rounded) & ~(part.isnan() & rounded.isnan())
            if other.any():
                sizes = _evaluate(
                    {
                        name: tuple(v.expand(part.shape)[other].abs() for v in value)
                        for name, value in self.values.items()
                    },
                    terms,
                    magnitudes=True,
                )[k]
                self._compare_rounding(part[other], full[other], sizes)

    def _compare_rounding(self, got: torch.Tensor, wanted: torch.Tensor, size: torch.Tensor) -> None:
        """Compare values that are not the nearest ones, within the error that the terms' sizes allow."""
        stored, computed = torch.finfo(got.dtype), torch.finfo(self.compute)
        wide = got.double()
        bound = stored.eps * wanted.abs() + 4 * computed.eps * size + stored.smallest_normal * stored.eps
        right = wide.isfinite() & wanted.to(got.dtype).isfinite() & ((wide - wanted).abs() <= bound)
        if self.dtype.is_complex:
            # A product that leaves the range is inf or NaN by the order of evaluation: torch's own kernels
            # differ between vector loop, remainder and GPU.
            leaves = ~wanted.to(got.dtype).isfinite() | ~(size <= computed.max)
            right |= leaves & ~wide.isfinite()
        if not right.all():
            first = int((~right).nonzero()[0])
            pytest.fail(
                f"{int((~right).sum())} values are wrong; the first is {float(got[first])} where "
                f"{float(wanted[first])} is right (absolute values of the terms sum to {float(size[first])})"
            )


def _evaluate(values: Mapping[int | str, Parts], terms: Sequence[Term], *, magnitudes: bool = False) -> Parts:
    """Return the parts of a sum of products; of absolute values, nothing cancels (`magnitudes`)."""
    total: Parts | None = None
    for sign, factors in terms:
        parts = values[factors[0]]
        for factor in factors[1:]:
            parts = _multiply(parts, values[factor], sign=1 if magnitudes else -1)
        if total is None:
            assert sign == 1
            total = parts
        else:
            total = tuple(
                a + b if sign == 1 or magnitudes else a - b for a, b in zip(total, parts, strict=True)
            )
    assert total is not None
    return total


def _multiply(left: Parts, right: Parts, *, sign: int) -> Parts:
    """Multiply numbers by parts; `sign` is -1, or 1 where the parts are magnitudes."""
    if len(left) == 1:
        return (left[0] * right[0],)
    (a, b), (c, d) = left, right
    return (a * c + sign * (b * d), a * d + b * c)


#: The functors of torch's OpInfos, as `torch/testing/_internal/common_methods_invocations.py` has them; that
#: the text is still torch's is a test of its own.
OPERATIONS = {
    "jiterator_unary": Operation(
        create_jit_fn("template <typename T> T unary(T x) { return x * x + x; }"),
        1,
        (((1, (0, 0)), (1, (0,))),),
    ),
    "jiterator_binary": Operation(
        create_jit_fn("template <typename T> T binary(T x, T y, T alpha) { return x + alpha * y; }", alpha=1),
        2,
        (((1, (0,)), (1, ("alpha", 1))),),
        {"alpha": 1},
    ),
    "jiterator_4inputs_with_extra_args": Operation(
        create_jit_fn(
            "template <typename T> T binary(T i0, T i1, T i2, T i3, T alpha, T beta) "
            "{ return alpha * i0 + beta * i1 + i2 + i3; }",
            alpha=1,
            beta=1,
        ),
        4,
        (((1, ("alpha", 0)), (1, ("beta", 1)), (1, (2,)), (1, (3,))),),
        {"alpha": 1, "beta": 1},
    ),
    "jiterator_binary_return_by_ref": Operation(
        create_multi_output_jit_fn(
            """
            template <typename T>
            void binary_return_by_ref(T i0, T i1, T& out0) {
                out0 = i0 + i1;
            }
            """,
            num_outputs=1,
        ),
        2,
        (((1, (0,)), (1, (1,))),),
    ),
    "jiterator_2inputs_2outputs": Operation(
        create_multi_output_jit_fn(
            """
            template <typename T>
            void binary_2outputs(T i0, T i1, T& out0, T& out1) {
                out0 = i0 + i1;
                out1 = i0 - i1;
            }
            """,
            num_outputs=2,
        ),
        2,
        (((1, (0,)), (1, (1,))), ((1, (0,)), (-1, (1,)))),
    ),
}


@functools.cache
def opinfos() -> dict[str, Any]:
    """Return torch's OpInfos of jiterator by name; the import takes seconds, so it waits for a test."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.name: op for op in op_db if op.name.startswith("jiterator_")}


def scalar_sets(scalars: Mapping[str, Number], values: Sequence[Number]) -> list[dict[str, Number]]:
    """Return keyword arguments that give each declared scalar a value, from `values` in turn."""
    turns = itertools.cycle(values)
    return [{name: next(turns) for name in scalars} for _ in values] if scalars else []
