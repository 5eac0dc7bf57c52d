"""The matrix of PyTorch's own ``test/test_jiterator.py``, and sizes around the borders of blocks and tiles.

What torch's file tests is here under its names. On a GPU every pair of dtypes runs; on the CPU each pair is a
run of the host's compiler, so there every dtype meets itself, the next one and one of another kind.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from numjit.errors import FunctorError
from numjit.jiterator import create_jit_fn, create_multi_output_jit_fn
from tests.support.tiers import pairs
from tests.torch_suite import Operation, on_devices

#: torch's ``all_types_and_complex_and(torch.half, torch.bfloat16)``.
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128",
          "float16", "bfloat16")  # fmt: skip
FUSED = Operation(
    create_jit_fn(
        "template <typename T> T my_fused_kernel(T x, T y, T alpha, T beta) { return alpha * x + beta * y; }",
        alpha=1,
        beta=1,
    ),
    2,
    (((1, ("alpha", 0)), (1, ("beta", 1))),),
    {"alpha": 1, "beta": 1},
)
_PAIRS = list(itertools.product(DTYPES, DTYPES))
#: 33 of the 121: steps of 1 and of 5 along the list above reach every kind from every kind but one.
_CPU_PAIRS = [(left, DTYPES[(k + step) % len(DTYPES)]) for step in (0, 1, 5) for k, left in enumerate(DTYPES)]


def _buffer(dtype, device, count=9):
    return torch.rand(count, device=device).mul(10).type(getattr(torch, dtype))


@pytest.mark.parametrize(("device", "dtypes"), on_devices(_CPU_PAIRS, _PAIRS))
def test_all_dtypes(device, dtypes):
    """test_all_dtype_contiguous and test_all_dtype_noncontiguous."""
    a, b = (_buffer(dtype, device) for dtype in dtypes)
    FUSED.check((a.as_strided((3, 3), (3, 1)), b.as_strided((3, 3), (3, 1))), device)
    FUSED.check((a.as_strided((3, 3), (1, 3)), b.as_strided((3, 1), (1, 3))), device)


@pytest.mark.parametrize(
    ("dtype", "given"),
    pairs(
        ["float32", "float64", "float16", "bfloat16"],
        list(itertools.product([-1, 2.0, None], [3, -4.2, None])),
    ),
    ids=str,
)
def test_extra_args(device, dtype, given):
    given = {name: value for name, value in zip(("alpha", "beta"), given, strict=True) if value is not None}
    FUSED.check((_buffer(dtype, device, 3), _buffer(dtype, device, 3)), device, **given)


def test_bool_extra_args(device):
    function = create_jit_fn(
        "template <typename T> T conditional(T x, T mask, bool is_train) { return is_train ? x * mask : x; }",
        is_train=False,
    )
    a, b = torch.rand(3, device=device), torch.rand(3, device=device)
    assert torch.equal(function(a, b, is_train=True), a * b)
    assert torch.equal(function(a, b, is_train=False), a)
    assert torch.equal(function(a, b), a)


def test_multiple_functors(device):
    function = create_jit_fn(
        """
        template <typename T> T fn(T x, T mask) { return x * mask; }
        template <typename T> T main_fn(T x, T mask, T y) { return fn(x, mask) + y; }
        """
    )
    a, b, c = (torch.rand(3, device=device) for _ in range(3))
    torch.testing.assert_close(function(a, b, c), a * b + c)


def sum_of(count):
    """Return the sum of that many inputs."""
    parameters = ",".join(f"T i{k}" for k in range(count))
    total = "+".join(f"i{k}" for k in range(count))
    code = f"template <typename T> T my_kernel({parameters}) {{ return {total}; }}"
    return Operation(create_jit_fn(code), count, (tuple((1, (k,)) for k in range(count)),))


@pytest.mark.parametrize("count", [1, 5, 8])
def test_various_num_inputs(device, count):
    operation = sum_of(count)
    operation.check([torch.rand(3, device=device).mul(10) for _ in range(count)], device)
    # jiterator compares contiguous tensors only; here each operand is strided in its own way.
    large = [torch.rand(4, 6, 5, device=device) for _ in range(count)]
    operation.check([x.permute(2, 0, 1)[:, k % 2 : k % 2 + 3] for k, x in enumerate(large)], device)
    operation.check([x[k % 4 : k % 4 + 1, ::2] if k else x[:, ::2] for k, x in enumerate(large)], device)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_various_num_outputs(device, count):
    outputs = ", ".join(f"T& out{k}" for k in range(count))
    body = "".join(f"out{k} = input + {k};\n" for k in range(count))
    function = create_multi_output_jit_fn(
        f"template <typename T> void my_kernel(T input, {outputs}) {{ {body} }}", count
    )
    for x in (torch.rand(3, device=device), torch.rand(4, 6, device=device).t()[::2]):
        answer = function(x)
        assert isinstance(answer, torch.Tensor if count == 1 else tuple)
        results = (answer,) if count == 1 else answer
        assert len(results) == count
        for k, result in enumerate(results):
            torch.testing.assert_close(result, x + k, check_stride=True)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("template <typename T> T my _kernel(T x) { return x; }", "line 1"),
        ("template <typename T> Tmy_kernel(T x) { return x; }", "line 1"),
        ("template <typename T> T my_kernel(T x) { return x;", "line 1, column 40"),
        ("template <typename T T my_kernel(T x) { return x; }", "line 1, column 10"),
        ("T my_kernel(T x) { return x; }", "line 1, column 13"),
        ("template <typename T> T my_kernel(T x) return x;", "no function"),
        ("template <typename T> T my_kernel(T x);", "no function"),
        ("", "no function"),
    ],
)
def test_invalid_function_name(code, message):
    """Refused when made, not at the first call; torch's test has the first two."""
    with pytest.raises(FunctorError, match=message):
        create_jit_fn(code)


@pytest.mark.parametrize(
    "code",
    [
        "template <typename T> T my_kernel(T x) { return x + undeclared_name; }",
        "template <typename T> T my_kernel(T x) { return x +; }",
    ],
)
def test_compile_errors_show_the_line_and_leave_no_trace(device, code):
    with pytest.raises(RuntimeError, match="my_kernel") as caught:
        create_jit_fn(code)(torch.rand(3, device=device))
    assert code in str(caught.value)
    assert len(str(caught.value).splitlines()) < 15
    FUSED.check((torch.rand(3, device=device), torch.rand(3, device=device)), device)


@pytest.mark.parametrize("returns", ["bool", "T"])
def test_bool_functors_answer_the_common_dtype(device, returns):
    """jiterator's outputs have the dtype of the operands, whatever the functor returns."""
    function = create_jit_fn(f"template <typename T> {returns} less(T x, T y) {{ return x < y; }}")
    for dtype in (torch.float32, torch.int64, torch.bool):
        x, y = (torch.tensor(v, device=device).to(dtype) for v in ([0, 1, 0, 1], [0, 0, 1, 1]))
        result = function(x, y)
        assert result.dtype == dtype
        assert torch.equal(result, (x < y).to(dtype))


# ----------------------------------------------------------------------------------- sizes and alignments

_SIZES = sorted({n + d for n in (128, 1024, 2048, 4096) for d in (-3, -1, 0, 1, 2)} | {1, 31, 33})
_WIDTHS = ("int8", "bfloat16", "float32", "float64", "complex128")  # of 1, 2, 4, 8 and 16 bytes


@pytest.mark.parametrize(("device", "dtype"), on_devices(_WIDTHS, DTYPES))
def test_sizes_with_pointer_offsets(device, dtype):
    """Every alignment that a vector load could get wrong, alike and different between the operands."""
    longest = max(_SIZES) + 8
    a, b = _buffer(dtype, device, longest), _buffer(dtype, device, longest)
    offsets = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (2, 4), (7, 5)]
    for size, (left, right) in itertools.product(_SIZES, offsets):
        FUSED.check((a[left : left + size], b[right : right + size]), device)
    for size in _SIZES:
        FUSED.check((a[:size], b[:1]), device)
        FUSED.check((a[1 : 1 + size], b[size : size + 1].expand(size)), device)
        FUSED.check((a[: size // 2 * 2 : 2], b[1 : 1 + size // 2]), device)


@pytest.mark.parametrize(
    ("device", "dtypes"), on_devices([("int8", "float32")], [("int8", "float32"), ("float64", "bfloat16")])
)
def test_sizes_of_matrices_with_odd_rows(device, dtypes):
    """Rows whose length is no multiple of a vector, transposed and broadcast operands, mixed widths."""
    for rows, columns in ((3, 1023), (128, 129), (1, 4097), (127, 33), (5, 2048)):
        a, b = (_buffer(dtype, device, rows * columns).view(rows, columns) for dtype in dtypes)
        FUSED.check((a, b), device)
        FUSED.check((a.t(), b.t()), device)
        FUSED.check((a, b.t().contiguous().t()), device)
        FUSED.check((a[:, 1:], b[:, :-1]), device)
        FUSED.check((a, b[:1]), device)
        FUSED.check((a[:, :1], b), device)
        FUSED.check((a[:, :1], b[:1]), device)
