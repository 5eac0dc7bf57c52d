"""What signatures say of the index and of raw operands, in both languages, before anything is compiled."""

import inspect
import pickle
import typing

import numpy as np
import pytest

import numjit
from numjit import dtypes
from numjit.errors import FunctorError
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.cpp.raw import Load, raw_class
from numjit.functor.cpp.source import device_source, seam_parameters
from numjit.functor.device_function import argument_types
from numjit.functor.fingerprint import refers_to
from numjit.functor.markers import Raw, index
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.kernels.spec import InputSlot
from numjit.semantics.category import Category

T = typing.TypeVar("T")


def dim(name):
    return ArgumentType(dtypes.from_name(name), Category.DIM)


TEXT = """
template <class T, class U>
void f(const numjit::raw<T>& table, numjit::index i, U x, numjit::raw<std::complex<float>> z, T k,
       T& out, bool& b) {}
"""


def test_cpp_slots_operands_and_scalars():
    functor = CppFunctor(TEXT, scalars={"k": 2})
    signature = functor.signature
    assert [p.name for p in signature.operands] == ["table", "x", "z"]
    assert [p.name for p in signature.scalars] == ["k"]
    assert signature.raws == {0, 2}
    assert functor.uses_index
    # Arguments count operands, then scalars; the index is after them all.
    assert [(slot.position, slot.is_output) for slot in functor.slots] == [
        (0, False), (4, False), (1, False), (2, False), (3, False), (0, True), (1, True),
    ]  # fmt: skip
    assert [t.spelling for t in functor.argument_types][2] == "numjit :: raw < std :: complex < float > >"
    assert signature.operands[2].dtype is dtypes.complex64


def test_cpp_seam_passes_address_and_size_and_the_index_last():
    functor = CppFunctor(
        "template <class T> T f(numjit::index i, numjit::raw<T> t, T k) { return k; }", scalars={"k": 1}
    )
    spec = functor.specialise((dim("float16"), ArgumentType(dtypes.int64, Category.NUMBER)), dtypes.float32)
    assert seam_parameters(functor, spec) == [
        "float* numjit_o0", "long long numjit_i0", "long long numjit_j0", "float numjit_i1",
        "long long numjit_index",
    ]  # fmt: skip
    source = device_source(functor, spec, "sym")
    assert "Access<numjit_storage::Half>::load" in source
    assert (
        "f<float>(numjit_index, ::numjit_scope::numjit::raw_memory{numjit_i0, numjit_j0, 0}, numjit_i1)"
        in source
    )


def test_cpp_programs_without_raw_operands_have_no_part_of_it():
    functor = CppFunctor("template <class T> T f(T x) { return x; }")
    source = device_source(functor, functor.specialise((dim("float32"),), dtypes.float32), "sym")
    assert "raw_memory" not in source
    assert "numjit/storage.h" not in source
    assert not functor.uses_index


@pytest.mark.parametrize(
    ("declared", "given", "taken"),
    [
        ("T x, numjit::raw<T> t", ("float16", "float64"), ("float64", "float64")),
        ("T x, numjit::raw<U> t", ("float16", "float64"), ("float16", "float64")),
        ("T x, numjit::raw<float> t", ("float16", "float64"), ("float16", "float32")),
    ],
)
def test_cpp_promotion(declared, given, taken):
    functor = CppFunctor(f"template <class T, class U = int> T f({declared}) {{ return x; }}")
    assert functor.specialise(tuple(map(dim, given)), dtypes.float32).inputs == tuple(
        map(dtypes.from_name, taken)
    )


def test_cpp_aliases_of_the_index():
    functor = CppFunctor("using number = numjit::index; float f(float x, number i) { return x; }")
    assert functor.uses_index
    assert len(functor.signature.operands) == 1


def test_raw_class_lists_its_loads_once_each():
    text = raw_class([Load(dtypes.bfloat16, dtypes.float32), Load(dtypes.int8, dtypes.int64)])
    assert text.count("if (load_ == ") == 2
    assert "numjit_code<T>::value == 404" in text
    assert "numjit_code<T>::value == 208" in text


def with_raws(
    x: T, a: numjit.raw, b: numjit.raw(T), c: numjit.raw(numjit.float32), d: numjit.raw(np.int16)
) -> T:
    return x


def test_python_annotations():
    signature = PythonFunctor(with_raws).signature
    assert signature.raws == {1, 2, 3, 4}
    assert [(p.dtype, p.variable) for p in signature.operands] == [
        (None, "T"), (None, None), (None, "T"), (dtypes.float32, None), (dtypes.int16, None),
    ]  # fmt: skip
    inputs = PythonFunctor(with_raws).input_dtypes(
        (dim("float16"), dim("bool"), dim("float64"), dim("int8"), dim("int64")), dtypes.float32
    )
    assert [str(dtype) for dtype in inputs] == ["float64", "bool", "float64", "float32", "int16"]


def test_python_raw_of_no_dtype():
    with pytest.raises(FunctorError, match=r"numjit\.raw\('number'\): dtype 'number' is not supported"):

        def functor(x, t: numjit.raw("number")):
            return x


def test_being_raw_is_part_of_the_identity():
    def plain(x, t):
        return x

    def raw(x, t: numjit.raw):
        return x

    raw.__name__ = plain.__name__
    raw.__qualname__ = plain.__qualname__
    assert PythonFunctor(plain).fingerprint() != PythonFunctor(raw).fingerprint()


def test_only_functors_that_mention_the_index_use_it():
    def module(x):
        return x + numjit.index()

    def name(x):
        return x + index()

    def inner(x):
        def deep():
            return index()

        return x + deep()

    def none(x):
        return x.index + len("index")

    for fn in (module, name, inner):
        assert refers_to(fn, index)
        assert PythonFunctor(fn).uses_index
    assert not PythonFunctor(none).uses_index


def test_markers():
    assert repr(numjit.raw) == "numjit.raw"
    assert repr(numjit.raw(numjit.float32)) == "numjit.raw(numjit.float32)"
    assert isinstance(numjit.raw(T), Raw)
    assert pickle.loads(pickle.dumps(numjit.index)) is numjit.index


def test_call_signature_offers_shape_where_nothing_broadcasts():
    def reads(table: numjit.raw):
        return table[0]

    assert "shape" in inspect.signature(numjit.elementwise(reads)).parameters
    assert "shape" not in inspect.signature(numjit.elementwise(with_raws)).parameters


def test_slots_of_a_shell():
    raw = InputSlot(dtypes.int64, None, raw=True)
    assert str(raw) == "raw"
    assert raw.components == 2
    assert InputSlot(dtypes.complex64, None).components == 2
    assert InputSlot(dtypes.int64, None, is_index=True).components == 1


def test_types_of_a_device_function():
    def functor(x, *, a=1, b=2.5, c: int, d):
        return x

    kinds = argument_types(PythonFunctor(functor), [np.float16])
    assert [str(kind.dtype) for kind in kinds] == ["float16", "int64", "float64", "int64", "float64"]
    assert [kind.category for kind in kinds] == [Category.DIM] + [Category.NUMBER] * 4
    named = argument_types(PythonFunctor(functor), ["float32", "uint8", "bool", "complex64", "float16"])
    assert [str(kind.dtype) for kind in named] == ["float32", "int64", "bool", "complex128", "float64"]
