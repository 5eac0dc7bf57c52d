"""Device functions in the user's own kernels, run: values against numjit's own call of the functor."""

import numpy as np
import pytest
import torch

import numjit
from tests.compile.test_device_function import BOTH, GATHER, GELU, kinds

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")


def launched(kernel, out, *arrays):
    """Run a kernel over torch tensors, on torch's stream."""
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    size = out[0].numel() if isinstance(out, tuple) else out.numel()
    views = [
        cuda.as_cuda_array(array, sync=False)
        for array in (*arrays, *(out if isinstance(out, tuple) else (out,)))
    ]
    cuda.jit(kernel)[(size + 127) // 128, 128, stream](*views)
    torch.cuda.synchronize()
    return out


@kinds
def test_one_result_and_a_scalar(kind):
    f = GELU[kind].device_function(numjit.float32)

    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = f(x[i], 0.25)

    x = torch.randn(1000, device="cuda")
    torch.testing.assert_close(launched(kernel, torch.empty_like(x), x), GELU[kind](x, k=0.25))


@kinds
def test_several_results(kind):
    f = BOTH[kind].device_function(numjit.float64, numjit.float64)

    def kernel(x, y, s, less, z):
        i = cuda.grid(1)
        if i < s.size:
            s[i], less[i], z[i] = f(x[i], y[i])

    x, y = torch.randn(2, 1000, dtype=torch.float64, device="cuda")
    out = (
        torch.empty_like(x),
        torch.empty(1000, dtype=torch.bool, device="cuda"),
        x.to(torch.complex128) * 0,
    )
    launched(kernel, out, x, y)
    for result, expected in zip(out, BOTH[kind](x, y), strict=True):
        assert torch.equal(result, expected)


@kinds
def test_raw_operands_and_the_index(kind):
    f = GATHER[kind].device_function(numjit.float32, numjit.int64)

    def kernel(table, k, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = f(table, k[i], i)

    table = torch.randn(50, device="cuda")
    k = torch.randint(0, 50, (1000,), device="cuda")
    assert torch.equal(launched(kernel, torch.empty(1000, device="cuda"), table, k), GATHER[kind](table, k))


def test_several_functions_of_one_name():
    texts = ["template <class T> T f(T x) { return x + 1; }", "template <class T> T f(T x) { return x * 3; }"]
    one, two = (numjit.elementwise(text).device_function(numjit.float32) for text in texts)
    three, four = (
        numjit.elementwise(fn).device_function(numjit.float32) for fn in (lambda x: x * 5, lambda x: x - 7)
    )

    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = four(three(two(one(x[i]))))

    x = torch.arange(300.0, device="cuda")
    expected = (np.arange(300.0) + 1) * 15 - 7
    assert launched(kernel, torch.empty_like(x), x).tolist() == expected.tolist()
