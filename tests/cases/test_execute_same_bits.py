"""An element's bits do not depend on where it lies: in a slice, a rest, a stride or a thread's part."""

import pytest
import torch

import numjit
from tests.cases import bits, both_kinds, pair

SIZE = 1021
OPERATIONS = {
    "product": pair(lambda x, y: x * y, "template <typename T> T f(T x, T y) { return x * y; }"),
    "quotient": pair(lambda x, y: x / y, "template <typename T> T f(T x, T y) { return x / y; }"),
    "sum of products": pair(
        lambda x, y: x * y + y * y - x * x,
        "template <typename T> T f(T x, T y) { return x * y + y * y - x * x; }",
    ),
    "two results": pair(
        lambda x, y: (x * y - y * 3, x * y + y * 3),
        "template <typename T> void f(T x, T y, T& a, T& b) { a = x * y - y * T(3); b = x * y + y * T(3); }",
    ),
    "function": pair(
        lambda x, y: numjit.math.exp(x) * y - x,
        "template <typename T> T f(T x, T y) { return std::exp(x) * y - x; }",
    ),
}
WRITTEN_OUT = numjit.elementwise(
    "template <typename T> std::complex<T> f(T a, T b, T c, T d) {"
    " return std::complex<T>(a * c - b * d, a * d + b * c); }"
)
#: Every operation in complex numbers, the sums of products in all others.
CASES = [(name, dtype) for name in OPERATIONS for dtype in (torch.complex64, torch.complex128)] + [
    (name, dtype)
    for name in ("sum of products", "two results")
    for dtype in (torch.float16, torch.float32, torch.float64)
]


def values(dtype, device, count=2):
    source = torch.Generator().manual_seed(3)
    return [torch.randn(SIZE, generator=source, dtype=torch.complex128 if dtype.is_complex else torch.float64)
            .to(dtype).to(device) for _ in range(count)]  # fmt: skip


def results(functor, *operands):
    made = functor(*operands)
    return made if isinstance(made, tuple) else (made,)


def check(functor, operands):
    """Compare the whole with slices, strides, broadcast operands and single elements."""
    whole = results(functor, *operands)
    for cut in (
        slice(1, None),
        slice(3, 12),
        slice(5, 6),
        slice(7, -2),
        slice(None, None, 3),
        slice(2, 900, 7),
    ):
        for part, full in zip(results(functor, *(x[cut] for x in operands)), whole, strict=True):
            assert torch.equal(bits(part), bits(full[cut])), cut
    wide = [torch.stack([x, x], dim=1).t()[1] for x in operands]
    for part, full in zip(results(functor, *wide), whole, strict=True):
        assert torch.equal(bits(part), bits(full))
    spread = results(functor, operands[0][11:12].expand(SIZE), *operands[1:])
    single = results(functor, operands[0][11:12].expand(SIZE).contiguous(), *operands[1:])
    for part, full in zip(spread, single, strict=True):
        assert torch.equal(bits(part), bits(full))


@both_kinds
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_an_elements_bits_do_not_depend_on_its_place(name, dtype, kind, device):
    check(OPERATIONS[name][kind], values(dtype, device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_complex_product_written_out_is_the_same_in_every_place(dtype, device):
    check(WRITTEN_OUT, values(dtype, device, 4))


def test_the_number_of_threads_changes_nothing():
    x, y = (v.repeat(400) for v in values(torch.complex64, "cpu"))
    product = OPERATIONS["product"]["c++"]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = product(x, y)
        torch.set_num_threads(3)
        assert torch.equal(bits(product(x, y)), bits(one))
    finally:
        torch.set_num_threads(before)
