"""Kernels of gradients, linked without a GPU: stored dtypes, nothing computed twice, readable code."""

import importlib.util
import math
import re

import pytest

import numjit
from numjit import dtypes
from numjit.call import build
from numjit.errors import ToolchainError
from numjit.functor.signature import ArgumentType
from numjit.kernels.spec import InputSlot, OutputSlot, ShellSpec
from numjit.plan.choose import choose
from numjit.plan.coalesce import coalesce
from numjit.semantics.category import Category
from numjit.toolchain import disassembly
from numjit.torch.watched import derived
from tests.support.magnitudes import MAGNITUDES
from tests.support.sass import Cubin, tool

if importlib.util.find_spec("numba_cuda") is None:
    pytest.skip("numba-cuda is not installed", allow_module_level=True)

CC = (9, 0)
kinds = pytest.mark.parametrize("kind", ["python", "c++"])
PRODUCT = {
    "python": numjit.elementwise(lambda x, y: x * y),
    "c++": numjit.elementwise("template <typename T> T product(T x, T y) { return x * y; }"),
}
LOGISTIC = {
    "python": numjit.elementwise(lambda x: math.tanh(x)),
    "c++": numjit.elementwise("template <typename T> T logistic(T x) { return std::tanh(x); }"),
}


def linked(operation, inputs, stored, *, ptx=False):
    """Link the kernel of contiguous operands of these dtypes, with these dtypes of the results in memory."""
    functor = operation.functor
    arguments = tuple(ArgumentType(dtype, Category.DIM) for dtype in inputs)
    made = build.specialise(functor, arguments, dtypes.float32, "cuda")
    sizes = [dtype.itemsize for dtype in (*stored, *inputs)]
    layout = coalesce((4096,), [[size] for size in sizes])
    launch = choose(layout, sizes, [0] * len(sizes), len(stored))
    outputs = tuple(OutputSlot(*pair) for pair in zip(made.outputs, stored, strict=True))
    slots = tuple(InputSlot(*pair) for pair in zip(made.inputs, inputs, strict=True))
    return build.link_kernel(functor, made, ShellSpec(outputs, slots, launch.variant), CC, ptx=ptx)


@kinds
def test_gradients_of_mixed_dtypes_are_stored_in_their_own(kind):
    gradient = derived(PRODUCT[kind].__numjit_operation__, "vjp", (0, 1), (True,))
    half, single = dtypes.float16, dtypes.float32
    cubin = Cubin(linked(gradient, (half, single, single), (half, single)))
    cubin.assert_lean()
    assert cubin.count(r"F2F|F2FP") >= 1


@kinds
def test_a_real_operand_beside_a_complex_one_stores_the_real_part(kind):
    gradient = derived(PRODUCT[kind].__numjit_operation__, "vjp", (0, 1), (True,))
    inputs = (dtypes.float32, dtypes.complex64, dtypes.complex64)
    Cubin(linked(gradient, inputs, (dtypes.float32, dtypes.complex64))).assert_lean()


@kinds
def test_value_and_partial_share_what_they_compute(kind):
    single = dtypes.float32
    alone = linked(LOGISTIC[kind], (single,), (single,), ptx=True).decode()
    both = linked(numjit.value_and_grad(LOGISTIC[kind]), (single,), (single, single), ptx=True).decode()
    assert len(re.findall(r"ex2\.approx", both)) == len(re.findall(r"ex2\.approx", alone)) > 0


def test_machine_code_as_text(monkeypatch):
    tool("cuobjdump")
    text = disassembly.sass(linked(PRODUCT["c++"], (dtypes.float32,) * 2, (dtypes.float32,)))
    assert "FMUL" in text
    with pytest.raises(ToolchainError, match="cannot read"):
        disassembly.sass(b"no cubin")
    monkeypatch.setattr(disassembly.shutil, "which", lambda name: None)
    monkeypatch.setattr(disassembly.sysconfig, "get_path", lambda kind: "/nonexistent")
    with pytest.raises(ToolchainError, match="pip install nvidia-cuda-cuobjdump"):
        disassembly.sass(b"")


@pytest.mark.parametrize("dtype", [dtypes.float8_e5m2, dtypes.float64], ids=str)
def test_no_sign_is_left_to_the_assembler(dtype):
    own = numjit.elementwise(lambda x: math.copysign(x, x) * math.copysign(2.0, x))
    assert "copysign" not in linked(own, (dtype,), (dtype,), ptx=True).decode()


@pytest.mark.parametrize("name", MAGNITUDES)
def test_no_magnitude_of_16_bits_is_left_to_the_assembler(name):
    magnitude = MAGNITUDES[name]
    below = numjit.elementwise(lambda x: x < magnitude(x))
    code = linked(below, (dtypes.int16,), (dtypes.bool_,), ptx=True).decode()
    assert "abs.s16" not in code
    assert "neg.s16" not in code
    assert "setp.gt.s16" in code or "setp.lt.s16" in code
