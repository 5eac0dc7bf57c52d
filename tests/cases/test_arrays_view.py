"""Cases B: views, offsets and strides, conj and neg bits, what arrays of other libraries may look like."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import numjit
from numjit.errors import ArgumentError, AutogradError, OutputError, UnsupportedArrayError
from tests.cases import (
    ADD,
    CHOOSE,
    IDENTITY,
    INCREMENT,
    KINDS,
    LESS,
    MULTIPLY,
    SQUARE,
    SUM_AND_DIFFERENCE,
    Exporter,
    bits,
    both_kinds,
    build,
    exact,
    holds,
    operands,
    same,
    strided_like,
)

kinds = st.sampled_from(KINDS)


def numbered(*shape, dtype=torch.float32, device="cpu"):
    """Return a tensor that counts from 0."""
    return torch.arange(int(np.prod(shape)), device=device).to(dtype).view(shape)


# ------------------------------------------------------------------------------------------ conj and neg


@both_kinds
def test_b1_conj(kind, device):
    x = torch.tensor([1 + 2j, 3 - 4j], device=device).conj()
    assert x.is_conj()
    result = IDENTITY[kind](x)
    assert not result.is_conj()
    holds(result, [1 - 2j, 3 + 4j], torch.complex64)


@both_kinds
def test_b2_neg(kind, device):
    x = torch.tensor([1 + 2j, 3 - 4j], device=device).conj().imag
    assert x.is_neg()
    holds(IDENTITY[kind](x), [-2, 4], torch.float32)


@both_kinds
def test_conj_and_neg_at_once_and_mixed_with_plain_operands(kind, device):
    stored = torch.tensor([1 + 2j, 3 - 4j], device=device)
    both = torch._neg_view(stored).conj()
    assert both.is_conj()
    assert both.is_neg()
    same(ADD[kind](both, stored), both + stored)
    same(ADD[kind](stored.conj(), 1j), stored.conj() + 1j)
    same(MULTIPLY[kind](stored.conj().imag, stored.real), stored.conj().imag * stored.real)
    same(IDENTITY[kind](stored.conj()[::2]), stored.conj()[::2], strides=False)


@both_kinds
def test_zero_dim_conj_and_neg(kind, device):
    x = torch.tensor(1 + 2j, device=device)
    y = torch.ones(2, dtype=torch.complex64, device=device)
    same(ADD[kind](y, x.conj()), y + x.conj())
    same(ADD[kind](y.real, x.conj().imag), y.real + x.conj().imag)


# ---------------------------------------------------------------------------------------------- autograd


@both_kinds
def test_b4_a_leaf_that_requires_grad(kind, device):
    leaf = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    result = SQUARE[kind](leaf)
    holds(result, [1.0, 4.0, 9.0], torch.float32)
    with torch.no_grad():
        plain = SQUARE[kind](leaf)
    assert not plain.requires_grad
    holds(plain, [1.0, 4.0, 9.0], torch.float32)


@both_kinds
def test_requires_grad_is_never_silently_lost(kind, device):
    leaf = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    result = SQUARE[kind](leaf * 1)
    assert result.requires_grad
    (gradient,) = torch.autograd.grad(result.sum(), leaf)
    holds(gradient, [2.0, 4.0], torch.float32)


def test_a_result_without_a_derivative_is_right_and_says_so_when_asked_for_one(device):
    leaf = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    result = numjit.elementwise("float concrete(float x) { return x * x; }")(leaf)
    holds(result, [1.0, 4.0], torch.float32)
    with pytest.raises(AutogradError, match=r"numjit\.differentiable"):
        result.sum().backward()


@both_kinds
def test_whole_results_of_differentiable_operands_carry_no_gradient(kind, device):
    leaf = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    result = LESS[kind](leaf, 1.5)
    assert not result.requires_grad
    holds(result, [1, 0], torch.bool)


# ------------------------------------------------------------------------------------- slices and offsets


@both_kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_b6_slices_flips_and_offsets(kind, dtype, device):
    x = numbered(6, 8, dtype=dtype, device=device)
    for view in (x.flip(0), x[:, ::2], x[1:], x[3:], x[:, 1:], x[:, 3:7], x[::2, ::3], x.t()[1:], x[-1]):
        assert torch.equal(IDENTITY[kind](view), view)
    flat = numbered(1030, dtype=dtype, device=device)
    for offset in (1, 2, 3):
        assert torch.equal(IDENTITY[kind](flat[offset:]), flat[offset:])
        assert torch.equal(ADD[kind](flat[offset:], flat[:-offset]), flat[offset:] + flat[:-offset])


@both_kinds
def test_b7_bytes_at_every_offset_and_length(kind, device):
    whole = torch.arange(5000, device=device).to(torch.uint8)
    for count in (1, 7, 8, 15, 16, 17, 1023, 1024, 1025, 4097):
        for offset in range(16):
            view = whole[offset : offset + count]
            assert torch.equal(IDENTITY[kind](view), view)


@both_kinds
def test_b7_writing_at_every_offset_and_length(kind, device):
    source = torch.arange(5000, device=device).to(torch.uint8)
    for count in (1, 15, 17, 1025):
        for offset in range(16):
            target = torch.full((5000,), 9, dtype=torch.uint8, device=device)
            IDENTITY[kind](source[:count], out=target[offset : offset + count])
            wanted = torch.full((5000,), 9, dtype=torch.uint8, device=device)
            wanted[offset : offset + count] = source[:count]
            assert torch.equal(target, wanted)


@both_kinds
def test_b8_permuted(kind, device):
    x = numbered(2, 3, 4, device=device).permute(2, 0, 1)
    result = INCREMENT[kind](x)
    assert result.shape == (4, 2, 3)
    assert result.stride() == (1, 12, 4)
    same(result, x + 1)


def _b30(device):
    """Yield name, operands and the strides that SEMANTICS.md's list gives."""
    grid = numbered(3, 4, device=device)
    image = numbered(2, 3, 4, 5, device=device)
    channels_last = image.to(memory_format=torch.channels_last)
    bias = numbered(1, 3, 1, 1, device=device)
    square = numbered(4, 4, device=device)
    yield "transposed", (grid.t(), 1), (1, 4)
    yield "permuted", (numbered(2, 3, 4, device=device).permute(2, 0, 1), 1), (1, 12, 4)
    yield "sliced transpose", (numbered(4, 6, device=device).t()[::2], 1), (1, 3)
    yield "contiguous + transposed", (square, square.t()), (4, 1)
    yield "transposed + contiguous", (square.t(), square), (1, 4)
    yield "bias + channels_last", (bias, channels_last), (60, 1, 15, 3)
    yield "contiguous + channels_last", (image, channels_last), (60, 20, 5, 1)
    yield "channels_last both", (channels_last, channels_last), (60, 1, 15, 3)
    yield "vector + transposed", (numbered(3, device=device), grid.t()), (1, 4)
    yield "contiguous both", (image, image), (60, 20, 5, 1)
    yield "zero-dim + transposed", (torch.tensor(1.0, device=device), grid.t()), (1, 4)
    yield "expanded + contiguous", (numbered(1, 4, device=device).expand(3, 4), grid), (4, 1)


@both_kinds
@pytest.mark.parametrize("case", range(12))
def test_b30_strides(kind, case, device):
    name, (x, y), strides = list(_b30(device))[case]
    result = ADD[kind](x, y)
    assert result.stride() == strides, name
    same(result, x + y)


def odd_strides(rank, device):
    """Return a size-2 tensor of which no two dimensions coalesce: no odd stride is twice another."""
    buffer = torch.arange(rank * rank + 1, device=device).to(torch.int8)
    return buffer.as_strided((2,) * rank, tuple(2 * k + 1 for k in range(rank)))


@both_kinds
@pytest.mark.parametrize("rank", [7, 12, 16])
def test_b32_many_dimensions(kind, rank, device):
    x = odd_strides(rank, device)
    same(INCREMENT[kind](x), x + 1)


@both_kinds
def test_b32_twenty_six_dimensions(kind, device):
    x = odd_strides(26, device)
    try:
        result = INCREMENT[kind](x)
    except numjit.NumjitError as error:
        assert "dimensions" in str(error)  # noqa: PT017 - either answer is right
        same(INCREMENT[kind](x[(0,) * 22]), x[(0,) * 22] + 1)
    else:
        assert torch.equal(result.cpu(), odd_strides(26, "cpu") + 1)  # on CUDA torch itself cannot


@both_kinds
def test_sixty_four_dimensions_that_coalesce(kind, device):
    x = torch.arange(6.0, device=device).view((1,) * 62 + (2, 3))
    same(INCREMENT[kind](x), x + 1)
    same(INCREMENT[kind](x.transpose(0, 63)), x.transpose(0, 63) + 1)


@both_kinds
def test_b34_zero_dim_operands_alone(kind, device):
    x, y = torch.tensor(1.5, device=device), torch.tensor(2.0, device=device)
    result = ADD[kind](x, y)
    assert result.shape == ()
    same(result, x + y)


# --------------------------------------------------------------------------------------------- properties

COMBINATIONS = [
    (torch.float32, torch.float32),
    (torch.int8, torch.int64),
    (torch.float16, torch.float32),
    (torch.complex64, torch.complex64),
]


@settings(max_examples=100)
@given(kind=kinds, drawn=operands(1), dtype=st.sampled_from([torch.float32, torch.uint8, torch.complex128]))
def test_identity_over_random_layouts(kind, drawn, dtype, device):
    (x,) = build(drawn, [dtype], device)
    result = IDENTITY[kind](x)
    same(result, x, strides=False)
    if x.numel():
        assert result.stride() == torch.neg(x).stride()
    assert torch.equal(bits(result), bits(x))


@settings(max_examples=100)
@given(kind=kinds, drawn=operands(2), dtypes=st.sampled_from(COMBINATIONS))
def test_sum_over_random_layouts(kind, drawn, dtypes, device):
    x, y = build(drawn, dtypes, device, special=False)
    result = ADD[kind](x, y)
    same(result, x + y, strides=False)
    strided_like(result, drawn, torch.add)


@settings(max_examples=100)
@given(kind=kinds, drawn=operands(3), dtypes=st.sampled_from(COMBINATIONS[:2]))
def test_choice_over_random_layouts(kind, drawn, dtypes, device):
    mask, a, b = build(drawn, (torch.bool, *dtypes), device)
    result = CHOOSE[kind](mask, a, b)
    same(result, torch.where(mask, a, b), strides=False)
    strided_like(result, drawn, torch.addcmul)


@settings(max_examples=100)
@given(kind=kinds, drawn=operands(2), dtypes=st.sampled_from(COMBINATIONS[:3]))
def test_two_results_over_random_layouts(kind, drawn, dtypes, device):
    x, y = build(drawn, dtypes, device)
    first, second = SUM_AND_DIFFERENCE[kind](x, y)
    same(first, x + y, strides=False)
    same(second, x - y, strides=False)
    strided_like(first, drawn, torch.add)
    assert second.stride() == first.stride()


@settings(max_examples=60)
@given(kind=kinds, drawn=operands(2), number=st.sampled_from([2, 0.5, True]))
def test_numbers_beside_random_layouts(kind, drawn, number, device):
    x, _ = build(drawn, (torch.float16, torch.float16), device)
    same(ADD[kind](x, number), x + number)
    same(ADD[kind](number, x), number + x)


@settings(max_examples=60)
@given(kind=kinds, data=st.data())
def test_numpy_views_over_random_layouts(kind, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    for axis in range(len(shape)):
        step = data.draw(st.sampled_from([1, -1, 2, -2]))
        array = array[(slice(None),) * axis + (slice(None, None, step),)]
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    result = ADD[kind](array, array)
    assert type(result) is np.ndarray
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, array + array)


# -------------------------------------------------------------------------------------------- other arrays


@both_kinds
def test_numpy_arrays_in_and_out(kind):
    x, y = np.int32([1, 2, 3]), np.float16([0.5, 0.25, 0.125])
    result = ADD[kind](x, y)
    assert type(result) is np.ndarray
    assert result.dtype == np.float16  # torch's rule: NumPy's own answer is float64
    np.testing.assert_array_equal(result, np.float16([1.5, 2.25, 3.125]))
    out = np.zeros(3, np.float32)
    assert ADD[kind](x, y, out=out) is out
    np.testing.assert_array_equal(out, [1.5, 2.25, 3.125])


@both_kinds
def test_libraries_may_be_mixed_and_the_first_decides(kind):
    array, tensor = np.float32([1, 2]), torch.tensor([10.0, 20.0])
    assert type(ADD[kind](array, tensor)) is np.ndarray
    assert type(ADD[kind](tensor, array)) is torch.Tensor
    holds(ADD[kind](tensor, array), [11.0, 22.0], torch.float32)


@both_kinds
def test_misaligned_numpy_arrays_are_right_or_refused(kind):
    raw = np.zeros(17, np.uint8)
    odd = raw[1:].view(np.float32)
    odd[:] = [1, 2, 3, 4]
    np.testing.assert_array_equal(IDENTITY[kind](odd), [1, 2, 3, 4])
    with pytest.raises(OutputError, match="aligned"):
        IDENTITY[kind](np.float32([5, 6, 7, 8]), out=odd)
    np.testing.assert_array_equal(odd, [1, 2, 3, 4])


@both_kinds
def test_b37_a_read_only_producer(kind):
    array = np.float32([1.0, 2.0])
    array.flags.writeable = False
    for producer in (Exporter(array), array):
        result = IDENTITY[kind](producer)
        np.testing.assert_array_equal(np.asarray(result), [1.0, 2.0])
        with pytest.raises(OutputError, match="read-only"):
            IDENTITY[kind](np.float32([3.0, 4.0]), out=producer)
    np.testing.assert_array_equal(array, [1.0, 2.0])


@both_kinds
def test_a_dlpack_producer_is_an_operand_and_an_out(kind, device):
    x = torch.arange(6.0, device=device).view(2, 3).t()
    result = ADD[kind](Exporter(x), x)
    same(result, x + x)
    out = torch.zeros(3, 2, device=device)
    target = Exporter(out)
    assert IDENTITY[kind](x, out=target) is target
    assert torch.equal(out, x)


class Interface:
    """Speaks ``__cuda_array_interface__`` and nothing else."""

    def __init__(self, tensor, typestr, strides):
        self.kept = tensor
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape),
            "typestr": typestr,
            "data": (tensor.data_ptr(), False),
            "strides": strides,
            "version": 3,
        }


@pytest.mark.gpu
@both_kinds
def test_b35_an_interface_with_a_stride_of_32_bytes(kind):
    x = torch.arange(64.0, device="cuda")[::8]
    result = IDENTITY[kind](Interface(x, "<f4", (32,)))
    assert torch.equal(torch.as_tensor(result, device="cuda"), x)


@pytest.mark.gpu
@both_kinds
def test_b36_a_strided_bool_interface(kind):
    x = torch.tensor([True, False, False, True, True, True], device="cuda")[::2]
    result = IDENTITY[kind](Interface(x, "|b1", (2,)))
    assert torch.equal(torch.as_tensor(result, device="cuda"), x)


@pytest.mark.gpu
@both_kinds
def test_an_interface_waits_for_its_stream(kind):
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        x.fill_(3.0)
    foreign = Interface(x, "<f4", None)
    foreign.__cuda_array_interface__["stream"] = side.cuda_stream
    result = torch.as_tensor(INCREMENT[kind](foreign), device="cuda")
    torch.cuda.synchronize()
    assert torch.equal(result, torch.full_like(x, 4.0))


@both_kinds
@pytest.mark.parametrize(
    "thing", [None, "a", [1.0, 2.0], (1,), {}, object()], ids=lambda thing: type(thing).__name__
)
def test_things_that_are_no_arrays_are_refused(kind, thing, device):
    x = torch.ones(2, device=device)
    with pytest.raises(ArgumentError, match=r"'y'.*(pass|array)"):
        ADD[kind](x, thing)
    with pytest.raises(TypeError):
        ADD[kind](x, x, out=thing if thing is not None else "b")
    holds(ADD[kind](x, x), [2.0, 2.0], torch.float32)


@both_kinds
def test_tensor_subclasses_and_parameters_are_tensors(kind, device):
    class Mine(torch.Tensor):
        pass

    x = torch.ones(3, device=device).as_subclass(Mine)
    assert torch.equal(exact(ADD[kind](x, x).as_subclass(torch.Tensor)), exact(torch.full((3,), 2.0)))
    with torch.no_grad():
        holds(ADD[kind](torch.nn.Parameter(torch.ones(2, device=device)), 1), [2.0, 2.0], torch.float32)


@both_kinds
def test_pointer_arithmetic_beyond_2_31_bytes_in_a_view_of_few_elements(kind, device):
    """Byte offsets past 2^31 and 2^32; the memory between is reserved, never touched."""
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 7 << 30:
        pytest.skip("needs 7 GiB of free GPU memory")
    try:
        far = torch.empty((5 << 30) + 64, dtype=torch.uint8, device=device)
    except RuntimeError:
        pytest.skip("5 GiB of address space cannot be reserved here")
    x = far.as_strided((3, 5), (5 << 29, 1), 1)
    x.copy_(numbered(3, 5, dtype=torch.uint8, device=device))
    assert torch.equal(INCREMENT[kind](x), numbered(3, 5, dtype=torch.uint8, device=device) + 1)
    INCREMENT[kind](x, out=x)
    assert torch.equal(x, numbered(3, 5, dtype=torch.uint8, device=device) + 1)


@both_kinds
def test_unsupported_arrays_are_type_errors(kind):
    with pytest.raises(TypeError):
        IDENTITY[kind](np.array(["a", "b"]))
    with pytest.raises(TypeError):
        IDENTITY[kind](np.array([1.0], dtype=">f4"))
    with pytest.raises(TypeError):
        IDENTITY[kind](np.array([object()]))
    assert issubclass(UnsupportedArrayError, TypeError)
