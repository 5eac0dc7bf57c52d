"""Every shell variant compiles for three architectures without a GPU; its machine code is looked at."""

import functools

import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.bindings.nvrtc")
from numjit import dtypes
from numjit.call import build
from numjit.kernels.spec import FUNCTOR_SYMBOL, InputSlot, OutputSlot, ShellSpec
from numjit.plan.choose import choose
from numjit.plan.coalesce import coalesce
from numjit.toolchain.nvjitlink import link
from numjit.toolchain.nvrtc import compile_ltoir
from tests.support.sass import Cubin
from tests.support.tiers import pairs

WIDE_LOAD = r"LDG\.E(\.EF)?\.128"
WIDE_STORE = r"STG\.E(\.EF)?\.128"
ARCHITECTURES = [(8, 0), (9, 0), (10, 0)]
CTYPE = {
    "bool": "unsigned char", "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "int8": "signed char", "int16": "short", "int32": "int",
    "int64": "long long", "float32": "float", "float64": "double",
}  # fmt: skip


@functools.cache
def functor_code(inputs, output, cc):
    """LTO-IR of a seam function that adds its inputs."""
    kind = CTYPE[output.compute.real.name]
    parameters, real, imag = [], [], []
    for k, dtype in enumerate(inputs):
        native = CTYPE[dtype.compute.real.name]
        parameters += [f"{native} r{k}"] + ([f"{native} i{k}"] if dtype.is_complex else [])
        real.append(f"r{k}")
        imag += [f"i{k}"] if dtype.is_complex else []
    body = f"o[0] = {' + '.join(real)};" + (f" o[1] = {' + '.join(imag)};" if output.is_complex else "")
    declared = ", ".join([f"{kind}* o", *parameters])
    source = f'extern "C" __device__ int {FUNCTOR_SYMBOL}({declared}) {{ {body} return 0; }}'
    return compile_ltoir(source, cc=cc, name="add")


def compiled(shape, rows, operand_dtypes, cc, addresses=None, *, fast_memory=False):
    """Plan a layout (byte strides over `shape`, output first), build its shell around an addition."""
    layout = coalesce(shape, rows)
    sizes = [d.itemsize for d in operand_dtypes]
    launch = choose(layout, sizes, addresses or [0] * len(rows), 1, fast_memory=fast_memory)
    output, *inputs = operand_dtypes
    spec = ShellSpec((OutputSlot(output, output),), tuple(InputSlot(d, d) for d in inputs), launch.variant)
    code, _ = build.shell_code(spec, cc)
    return launch.variant, Cubin(
        link([("shell", code), ("functor", functor_code(tuple(inputs), output, cc))], cc)
    )


def contiguous_rows(shape, operand_dtypes):
    rows = []
    for dtype in operand_dtypes:
        step, strides = dtype.itemsize, []
        for size in reversed(shape):
            strides.append(step)
            step *= size
        rows.append(tuple(reversed(strides)))
    return rows


@pytest.mark.parametrize(("dtype", "cc"), pairs(dtypes.ALL, ARCHITECTURES), ids=str)
def test_contiguous_operands_of_every_dtype_use_128_bit_accesses(dtype, cc):
    kinds = (dtype, dtype, dtype)
    variant, cubin = compiled((1 << 20,), contiguous_rows((1 << 20,), kinds), kinds, cc)
    cubin.assert_lean()
    assert variant.kind == "contiguous"
    loads = 2 * variant.unroll * variant.vector * dtype.itemsize // 16
    found = cubin.count(WIDE_LOAD), cubin.count(WIDE_STORE)
    if dtype.itemsize == 16:  # the edge's single elements are 128-bit accesses as well
        assert found >= (loads, loads // 2)
    else:
        assert found == (loads, loads // 2)
    assert cubin.registers <= 64


@pytest.mark.parametrize(
    ("kinds", "cc"),
    pairs([("bfloat16",) * 2, ("uint8",) * 2, ("float32",) * 2, ("float16",) * 3], [(9, 0), (10, 0)]),
    ids=str,
)
def test_launch_shapes_for_a_fast_memory_are_as_lean(kinds, cc):
    kinds = [getattr(dtypes, name) for name in kinds]
    variant, cubin = compiled((1 << 20,), contiguous_rows((1 << 20,), kinds), kinds, cc, fast_memory=True)
    cubin.assert_lean()
    assert variant.block == 128
    assert variant.unroll == (2 if len(kinds) == 2 and kinds[0].itemsize < 4 else 1)
    step = variant.vector * kinds[0].itemsize // 16
    steps = step * (variant.unroll + (variant.unroll > 1))  # of whole blocks, and of the last one
    assert (cubin.count(WIDE_LOAD), cubin.count(WIDE_STORE)) == ((len(kinds) - 1) * steps, steps)


MIXED = [
    ("float32", "float32", "bfloat16"),
    ("float32", "uint8", "float32"),
    ("float64", "int32", "float16"),
    ("complex64", "complex64", "complex64"),
    ("int64", "bool", "int64"),
]


@pytest.mark.parametrize(("names", "cc"), pairs(MIXED, ARCHITECTURES, all_of=0), ids=str)
def test_mixed_dtypes_have_no_narrow_access_in_the_main_loop(names, cc):
    kinds = tuple(map(dtypes.from_name, names))
    variant, cubin = compiled((1 << 20,), contiguous_rows((1 << 20,), kinds), kinds, cc)
    cubin.assert_lean()
    for access, dtype in zip(variant.accesses, kinds, strict=True):
        assert access.width == min(16, variant.vector * dtype.itemsize)
    assert cubin.count(WIDE_LOAD) > 0
    assert cubin.count(WIDE_STORE) > 0


LAYOUTS = {
    "row": ((512, 1024), [(4096, 4), (4096, 4), (0, 4)], 2),
    "column": ((512, 1024), [(4096, 4), (4096, 4), (4, 0)], 1),
    "outer": ((512, 1024), [(4096, 4), (4, 0), (0, 4)], 1),
    "permuted": (
        (8, 16, 32, 64),
        [(131072, 8192, 256, 4), (131072, 256, 4096, 4), (131072, 8192, 256, 4)],
        2,
    ),
    "bias": ((8, 64, 56, 56), [(802816, 12544, 224, 4), (802816, 12544, 224, 4), (0, 4, 0, 0)], 1),
}


@pytest.mark.parametrize(("name", "cc"), pairs(LAYOUTS, ARCHITECTURES, all_of=0), ids=str)
def test_strided_layouts_keep_128_bit_accesses_along_the_inner_dimension(name, cc):
    shape, rows, vectors = LAYOUTS[name]
    variant, cubin = compiled(shape, rows, (dtypes.float32,) * 3, cc)
    cubin.assert_lean()
    assert variant.kind == "strided"
    assert variant.index_bits == 32
    assert cubin.count(WIDE_STORE) >= variant.unroll
    assert cubin.count(WIDE_LOAD) >= vectors * variant.unroll
    assert cubin.registers <= 64


OTHERS = {
    "transposed": ((1000, 1001), [(4004, 4), (4, 4000), (4004, 4)]),
    "edge": ((100, 37), [(148, 4), (256, 4), (0, 4)]),
    "64-bit": ((3, 5), [(20, 4), (1 << 32, 4), (20, 4)]),
    "rank 6": ((2, 2, 2, 2, 2, 2), [tuple(4 * 3**k for k in range(5, -1, -1))] * 3),
}


@pytest.mark.parametrize(("name", "cc"), pairs(OTHERS, ARCHITECTURES, all_of=0), ids=str)
def test_other_layouts_are_lean(name, cc):
    shape, rows = OTHERS[name]
    variant, cubin = compiled(shape, rows, (dtypes.float32,) * 3, cc)
    cubin.assert_lean()
    assert (variant.index_bits == 64) == (max(map(max, rows)) >= 1 << 31)


@pytest.mark.parametrize(
    ("name", "cc"), pairs(["float32", "bfloat16", "uint8", "float64", "complex128"], ARCHITECTURES), ids=str
)
def test_tiles_read_and_write_128_bits_on_both_sides(name, cc):
    dtype = dtypes.from_name(name)
    size = dtype.itemsize
    rows = [(1024 * size, size), (size, 1024 * size), (1024 * size, size)]
    variant, cubin = compiled((1024, 1024), rows, (dtype,) * 3, cc)
    cubin.assert_lean()
    assert variant.kind == "tiled"
    assert [str(access) for access in variant.accesses] == ["u16", "t16", "u16"]
    passes = variant.tile**2 * size // (16 * variant.block)
    steps = min(2, passes)  # of the loop along the first dimension, in which the functor is called
    assert cubin.count(WIDE_LOAD) >= passes + steps
    assert cubin.count(WIDE_STORE) >= steps
    assert cubin.count(r"BAR\.SYNC") == 1
    assert cubin.registers <= 64


ODD = (1 << 20) + 3
EDGES = {
    "vectors": ((ODD,), [(4,)] * 3, 0, (4, 1), 4 + 1),
    "elements": ((ODD,), [(4,)] * 3, 4, (1, 2), 2 + 1),
    "strided": ((64, 63), [(252, 4), (256, 4), (256, 4)], 0, (1, 2), 2 + 1),
    "vectors that end early": ((100, 37), [(160, 4)] * 3, 0, (4, 1), 4 + 1),
    "tiles": ((1000, 1000), [(4000, 4), (4, 4000), (4000, 4)], 0, (4, 1), 8 + 4 + 1),
    "tiles of elements": ((1000, 1001), [(4004, 4), (4, 4000), (4004, 4)], 0, (1, 1), 2 + 2),
}


@pytest.mark.parametrize("name", EDGES)
def test_the_functor_is_not_repeated_for_edges(name):
    # All of a kernel is compiled before the first result, also what few threads run: an edge may add a vector
    # and an element.
    shape, rows, address, steps, copies = EDGES[name]
    variant, cubin = compiled(shape, rows, (dtypes.float32,) * 3, (9, 0), [address] * 3)
    assert (variant.vector, variant.unroll) == steps
    assert cubin.count("FADD") == copies
