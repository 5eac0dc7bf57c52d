"""Kernels of functors that use their index or raw operands: nothing is called, nothing is spilled."""

import importlib.util

import pytest

import numjit
from numjit import dtypes
from numjit.call import build
from numjit.functor.signature import ArgumentType
from numjit.kernels.spec import InputSlot, OutputSlot, ShellSpec
from numjit.plan.choose import choose
from numjit.plan.coalesce import coalesce
from numjit.semantics.category import Category
from tests.support.sass import Cubin

if importlib.util.find_spec("numba_cuda") is None:
    pytest.skip("numba-cuda is not installed", allow_module_level=True)

CC = (9, 0)
kinds = pytest.mark.parametrize("kind", ["python", "c++"])


def gather(x, table: numjit.raw):
    return x + table[numjit.index()]


GATHER = {
    "python": numjit.elementwise(gather),
    "c++": numjit.elementwise(
        "template <class T, class U> T g(T x, numjit::raw<U> t, numjit::index i) { return x + T(t[i]); }"
    ),
}
NUMBERED = {
    "python": numjit.elementwise(lambda x: x + numjit.index()),
    "c++": numjit.elementwise("template <class T> T n(T x, numjit::index i) { return x + T(i); }"),
}


def linked(functor, shape, strides, *, raw=None, x=dtypes.float32):
    """Link the kernel of a call with one operand of these strides, and perhaps a raw one."""
    functor = functor.__numjit_functor__
    arguments = [ArgumentType(x, Category.DIM)]
    slots = [InputSlot(x, x)]
    if raw is not None:
        arguments.append(ArgumentType(raw, Category.DIM))
        slots.append(InputSlot(dtypes.int64, None, raw=True))
    slots.append(InputSlot(dtypes.int64, None, is_index=True))
    specialisation = build.specialise(functor, tuple(arguments), dtypes.float32, "cuda")
    dense = [1] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        dense[d] = dense[d + 1] * shape[d + 1]
    rows = [[4 * s for s in dense], [x.itemsize * s for s in strides], dense]
    layout = coalesce(shape, rows)
    launch = choose(layout, [4, x.itemsize, 1], [0, 0, 0], 1, virtual=1)
    outputs = tuple(OutputSlot(dtype, dtypes.float32) for dtype in specialisation.outputs)
    spec = ShellSpec(outputs, tuple(slots), launch.variant)
    return Cubin(build.link_kernel(functor, specialisation, spec, CC)), launch.variant


@kinds
@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((4096,), (1,), "contiguous"),
        ((64, 256), (256, 1), "contiguous"),
        ((64, 256), (0, 1), "strided"),
        ((128, 128), (1, 128), "tiled"),
        ((3, 50, 70), (1, 3, 150), "strided"),
    ],
)
def test_the_index_in_every_kind_of_kernel(kind, shape, strides, expected):
    cubin, variant = linked(NUMBERED[kind], shape, strides)
    assert variant.kind == expected
    cubin.assert_lean()


@kinds
def test_the_index_does_not_narrow_accesses(kind):
    cubin, variant = linked(NUMBERED[kind], (1 << 20,), (1,))
    assert [str(access) for access in variant.accesses[:2]] == ["u16", "u16"]
    assert cubin.count(r"LDG\.E(\.EF)?\.128")
    assert cubin.count(r"STG\.E(\.EF)?\.128")


@kinds
@pytest.mark.parametrize(
    ("stored", "load"),
    [
        ("float32", r"LDG\.E\."),
        ("float16", r"LDG\.E\.U16"),
        ("float64", r"LDG\.E\.64"),
        ("uint8", r"LDG\.E\.U8"),
    ],
)
def test_raw_operands_load_what_is_stored_by_the_read_only_path(kind, stored, load):
    cubin, _ = linked(GATHER[kind], (1000,), (1,), raw=dtypes.from_name(stored))
    cubin.assert_lean()
    assert cubin.count(load + r".*CONSTANT")
