"""What the derivative of a C++ functor takes and returns, and which functors have none; nothing is compiled."""

# ruff: noqa: E501 - functors stay on one line.

import pickle

import pytest

from numjit import dtypes
from numjit.cpu.cpp_source import host_source
from numjit.errors import ArgumentError, AutogradError
from numjit.functor.cpp.derived import derive_cpp
from numjit.functor.cpp.diagnostics import Diagnostic, describe, parse_edg, parse_gnu
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.cpp.source import device_source
from numjit.functor.signature import MISSING, ArgumentType, Output
from numjit.semantics.category import Category

T = "template <typename T> "


def names(functor):
    return [p.name for p in functor.signature.operands], [p.name for p in functor.signature.scalars]


def specialise(functor, *shown):
    types = tuple(ArgumentType(dtypes.from_name(s), Category.DIM) for s in shown)
    return functor.specialise(types, dtypes.float32)


def test_signature_of_a_vjp():
    base = CppFunctor(
        T + "void f(T x, T k, int n, T alpha, T& a, bool& b, T& c) { a = x; b = n; c = k; }",
        scalars={"alpha": 2.0},
    )
    made = derive_cpp(base, "vjp", (0, 3), (True, False, True))
    assert names(made) == (["x", "k", "n", "grad_0", "grad_2"], ["alpha"])
    assert made.signature.scalars[0].default == 2.0
    assert made.signature.outputs == (Output(variable="T"), Output(variable="T"))
    assert made.signature.operands[2].dtype is dtypes.int32
    found = specialise(made, "float16", "float32", "int32", "float32", "float32", "float32")
    assert list(map(str, found.inputs)) == ["float32", "float32", "int32", "float32", "float32", "float32"]
    assert list(map(str, found.outputs)) == ["float32", "float32"]


def test_signature_of_a_jvp():
    base = CppFunctor(T + "void f(T x, T k, T& a, bool& b) { a = x * k; b = x > k; }")
    made = derive_cpp(base, "jvp", (1,), (True, False))
    assert names(made) == (["x", "k", "tangent_k"], [])
    assert made.signature.outputs == (Output(variable="T"),)


def test_own_arguments_decide_the_type():
    """A float64 gradient of a float16 output is converted; it does not make the functor compute in double."""
    made = derive_cpp(CppFunctor(T + "T f(T x) { return x * x; }"), "vjp", (0,), (True,))
    found = specialise(made, "float16", "float64")
    assert list(map(str, found.inputs)) == ["float16", "float16"]
    assert list(map(str, found.outputs)) == ["float16"]
    assert made.bindings(found) == {"T": dtypes.from_name("float16")}


def test_names_stay_apart_when_derived_again():
    first = derive_cpp(CppFunctor(T + "T f(T x, T grad_0) { return x * grad_0; }"), "vjp", (0,), (True,))
    assert names(first)[0] == ["x", "grad_0", "grad_0_"]
    second = derive_cpp(first, "vjp", (0, 1, 2), (True,))
    assert names(second)[0] == ["x", "grad_0", "grad_0_", "grad_0__"]
    assert len(second.signature.outputs) == 3


def test_operands_have_no_defaults_since_others_follow():
    made = derive_cpp(CppFunctor(T + "T f(T x, T y = 2) { return x * y; }"), "vjp", (0,), (True,))
    assert all(p.default is MISSING for p in made.signature.operands)


def test_fingerprints_tell_derivatives_apart():
    base = CppFunctor(T + "T f(T x, T y) { return x * y; }")
    made = [
        derive_cpp(base, *rest, (True,))
        for rest in (("vjp", (0,)), ("vjp", (1,)), ("jvp", (0,)), ("vjp", (0, 1)))
    ]
    made.append(derive_cpp(made[0], "vjp", (0,), (True,)))
    prints = {f.fingerprint() for f in (*made, base)}
    assert len(prints) == 6
    assert derive_cpp(base, "vjp", (0,), (True,)).fingerprint() == made[0].fingerprint()
    assert pickle.loads(pickle.dumps(made[4])).fingerprint() == made[4].fingerprint()


def test_only_derivatives_take_the_header():
    base = CppFunctor(T + "T f(T x) { return x * x; }")
    made = derive_cpp(base, "vjp", (0,), (True,))
    f32 = dtypes.float32
    assert "numjit/dual.h" not in device_source(base, specialise(base, "float32"), "seam")
    program = device_source(made, specialise(made, "float32", "float32"), "seam")
    assert '"numjit/dual.h"' in program
    assert '"numjit/dual_complex.h"' not in program
    assert '#line 1 "functor"' in program
    assert '"numjit/dual_complex.h"' in device_source(
        made, specialise(made, "complex64", "complex64"), "seam"
    )
    assert '"numjit/dual.h"' in host_source(
        made, specialise(made, "float32", "float32"), [f32, f32], [f32], ["", ""]
    )


@pytest.mark.parametrize(
    ("text", "active", "words"),
    [
        ("float f(float x) { return x; }", (0,), "parameter 'x' has the type 'float'"),
        (T + "T f(T x, double y) { return x; }", (1,), "parameter 'y' has the type 'double'"),
        (T + "float f(T x) { return 1; }", (0,), "result 0 has the type 'float'"),
        (T + "T f(T x, numjit::raw<T> y) { return x; }", (1,), "raw operand 'y'"),
        (T + "std::complex<float> f(T x) { return 1; }", (0,), "result 0"),
    ],
)
def test_functors_without_a_derivative(text, active, words):
    with pytest.raises(AutogradError, match=r"numjit\.differentiable") as caught:
        derive_cpp(CppFunctor(text), "vjp", active, (True,))
    assert words in str(caught.value)
    assert str(caught.value).startswith("functor 'f'")


@pytest.mark.parametrize(
    ("kind", "active", "outputs"),
    [("grad", (0,), (True,)), ("vjp", (), (True,)), ("vjp", (1, 0), (True,)), ("vjp", (0, 0), (True,)), ("vjp", (2,), (True,)),
     ("vjp", (-1,), (True,)), ("vjp", (0,), (False,)), ("vjp", (0,), (True, True))],
)  # fmt: skip
def test_requests_that_do_not_fit(kind, active, outputs):
    with pytest.raises(ArgumentError, match="functor 'f'"):
        derive_cpp(CppFunctor(T + "T f(T x, T y) { return x * y; }"), kind, active, outputs)


def test_integers_have_no_derivative():
    made = derive_cpp(CppFunctor(T + "T f(T x) { return x * x; }"), "vjp", (0,), (True,))
    with pytest.raises(AutogradError, match="int64 has no derivative"):
        specialise(made, "int64", "int64")


GNU = """functor: In instantiation of 'T f(T) [with T = numjit_dual::Dual<float, 1, float>]':
functor:3:9: error: cannot convert 'numjit_dual::Dual<float, 1, float>' to 'float' in initialization
functor:4:9: error: no matching function for call to 'curious(numjit_dual::Dual<float, 1, float>&)'
functor:4:9: error: no type named '__type' in 'struct __gnu_cxx::__promote<numjit_dual::Dual<float, 1, float>, false>'
"""
CLANG = [
    "no viable conversion from 'numjit_dual::Dual<float, 1, float>' to 'float'",
    "no viable conversion from returned value of type 'numjit_dual::Dual<float, 1, float>' to function return type 'float'",
    "static assertion failed due to requirement 'never<float>': a cast that drops the derivative: keep T",
]
EDG = """functor(2): error: no instance of overloaded function "std::curious" matches the argument list
            argument types are: (numjit_dual::lifted<float, 1>)
    return std::curious(x);
           ^
functor(3): error: no operator "%" matches these operands: numjit_dual::Dual<numjit_dual::Dual<float, 1, float>, 2, float> % int
    return x % 2;
           ^
"""


def test_what_compilers_say_is_told_in_the_users_terms():
    def told(errors):
        return describe("f", "the CPU", errors, lambda file, line: "", "")

    gnu = told(parse_gnu(GNU))
    assert "line 3, column 9: T becomes float here, a cast that drops the derivative" in gnu
    assert "line 4, column 9: no derivative for curious; write it with numjit.differentiable" in gnu
    assert "__type" not in gnu
    for said in CLANG:
        clang = told(parse_gnu(f"functor:2:9: error: {said}\n"))
        assert "line 2, column 9: " in clang
        assert "a cast that drops the derivative" in clang
        assert "numjit_dual" not in clang
        assert "requirement" not in clang
    edg = told(parse_edg(EDG))
    assert "line 2, column 10: no derivative for curious" in edg
    assert "these operands: T % int" in edg
    assert told(
        [Diagnostic("functor", 1, 0, 'static assertion failed with "no derivative for j0; write it"')]
    ).endswith("line 1: no derivative for j0; write it")
