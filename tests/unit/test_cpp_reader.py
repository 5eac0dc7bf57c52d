"""The reader of C++ functors: which function is the entry, what it takes, where text is wrong."""

# ruff: noqa: E501 - functors stay on one line beside what they must answer.

import copy
import pickle

import pytest

from numjit import dtypes
from numjit.errors import ArgumentError, FunctorError, PromotionError
from numjit.functor.cpp import functor as cuda_cpp
from numjit.functor.cpp.functor import CppFunctor, set_return_type_prober
from numjit.functor.cpp.tokens import Source, read_directive, tokenize
from numjit.functor.signature import MISSING, ArgumentType
from numjit.semantics.category import Category


def names(text, **given):
    """Entry name and the names of its operands."""
    functor = CppFunctor(text, **given)
    return functor.name, [p.name for p in functor.signature.operands]


def arguments(*shown):
    """Argument types from names: a trailing # marks a number, a trailing 0-dim mark is @."""
    categories = {"#": Category.NUMBER, "@": Category.ZERO_DIM}
    return tuple(
        ArgumentType(dtypes.from_name(s.rstrip("#@")), categories.get(s[-1], Category.DIM)) for s in shown
    )


def specialise(text, *shown, **given):
    made = CppFunctor(text, **given).specialise(arguments(*shown), dtypes.float32)
    return [str(d) for d in made.inputs], [str(d) for d in made.outputs]


ENTRIES = [
    ("template <typename T> T f(T x, T y) { return x + y; }", ("f", ["x", "y"])),
    ("template<class T>T f(T x){return x;}", ("f", ["x"])),
    ("float f(float a) { return a; }", ("f", ["a"])),
    ("// T g(T x) { {{\n/* } } */ template <typename T> T f(T x) { return x; }", ("f", ["x"])),
    (
        "#define TWICE(v) ((v) + \\\n   (v))\ntemplate <typename T> T f(T x) { return TWICE(x); }",
        ("f", ["x"]),
    ),
    ("#define HD __host__ __device__ inline\ntemplate <typename T> HD T f(T x) { return x; }", ("f", ["x"])),
    ("int helper(int i) { return i; }\ntemplate <typename T> T f(T x) { return helper(x); }", ("f", ["x"])),
    ("struct S { int a; int get() const { return a; } };\nint f(int x) { return S{x}.get(); }", ("f", ["x"])),
    (
        "template <class T> struct S { T a; T get(T b) { return a; } };\nint f(int x) { return x; }",
        ("f", ["x"]),
    ),
    ("enum class E : int { a, b };\nunion U { int i; float f; };\nint f(int x) { return x; }", ("f", ["x"])),
    ("using real = float;\ntypedef double wide;\nwide f(real x) { return x; }", ("f", ["x"])),
    (
        "template <typename T> __device__ __forceinline__ constexpr T f(T x) noexcept { return x; }",
        ("f", ["x"]),
    ),
    (
        "[[nodiscard]] static inline float f([[maybe_unused]] float x) noexcept(true) { return x; }",
        ("f", ["x"]),
    ),
    ("__attribute__((const)) float f(float x) { return x; }", ("f", ["x"])),
    ("template <typename T> auto f(T x) -> T { return x; }", ("f", ["x"])),
    ("template <typename T> auto f(T x) -> decltype(x < x ? x : x) { return x; }", ("f", ["x"])),
    ("template <typename T> std::complex<T> f(const std::complex<T>& x) { return x; }", ("f", ["x"])),
    (
        "const char* words() { return \"}{ < >\"; }\nchar c() { return '}'; }\nint f(int x) { return x; }",
        ("f", ["x"]),
    ),
    ('const char* raw() { return R"x()"} { )x"; }\nint f(int x) { return x; }', ("f", ["x"])),
    ("int f(int x) { return x < 3 && x > 1 ? x >> 1 : x << 2; }", ("f", ["x"])),
    ("constexpr int table[] = {1, 2, (3 < 4)};\nint f(int x) { return table[x]; }", ("f", ["x"])),
    ("constexpr auto twice = [](auto x) { return x + x; };\nint f(int x) { return twice(x); }", ("f", ["x"])),
    (
        "int later(int x);\nint f(int x) { return later(x); }\nint later(int x) { return x; }",
        ("later", ["x"]),
    ),
    ("template <typename T> T f(T x, T y = T(1)) { return x; }", ("f", ["x", "y"])),
    ("float f(float, float) { return 1; }", ("f", ["operand0", "operand1"])),
    ("float f() { return 1; }", ("f", [])),
    ("float f(void) { return 1; }", ("f", [])),
    ("namespace k { float g(float x) { return x; } }\nfloat f(float y) { return k::g(y); }", ("f", ["y"])),
    ("float f(float y) { return y; }\nnamespace k { float g(float x) { return x; } }", ("f", ["y"])),
    ("namespace k { float g(float x) { return x; } }", ("g", ["x"])),
    ('extern "C" { float f(float x) { return x; } }', ("f", ["x"])),
    (
        "struct V { float a; };\nV operator+(V x, V y) { return x; }\nfloat f(float x) { return x; }",
        ("f", ["x"]),
    ),
    (
        "struct V { float a; };\nfloat f(float x) { return x; }\nbool operator<(V x, V y) { return true; }",
        ("f", ["x"]),
    ),
    (
        "struct V { V(float); float g(); };\nfloat f(float x) { return x; }\nfloat V::g() { return 1; }",
        ("f", ["x"]),
    ),
    (
        "template <class T> T f(T x) { return x; }\ntemplate <> float f<float>(float y) { return y; }",
        ("f", ["x"]),
    ),
    ("template <class T> T f(T x) { return x; }\ntemplate float f(float y);", ("f", ["x"])),
    ("float f(float x) { return x; }\nfloat f(float x, float y) { return x; }", ("f", ["x", "y"])),
    ("#if 0\nfloat broken(float x) {\n#endif\nfloat f(float x) { return x; }", ("f", ["x"])),
    ("#ifdef __CUDACC__\nfloat f(float x) {\n#else\nfloat g(float x) {\n#endif\n return x; }", ("f", ["x"])),
    ("#ifndef ABSENT\n#define R float\n#endif\nR f(R x) { return x; }", ("f", ["x"])),
    ('static_assert(sizeof(int) == 4, "four");\nfloat f(float x) { return x; }', ("f", ["x"])),
    ("template <typename T, int N = 3> T f(T x) { return x * N; }", ("f", ["x"])),
    (
        "template <class A, class B = std::is_same<A, bool>> struct S {};\nfloat f(float x) { return x; }",
        ("f", ["x"]),
    ),
    ("#error don't\nfloat f(float x) { return x; }", ("f", ["x"])),
    ("float f(float x) { return 1'000.0f * x + 0x1p-3f; }", ("f", ["x"])),
    ("MACRO_FROM_A_HEADER(int)\nfloat f(float x) { return x; }", ("f", ["x"])),
    ("int f(int x) { /* é λ */ return x; }  // ünïcode", ("f", ["x"])),
]


@pytest.mark.parametrize(("text", "expected"), ENTRIES)
def test_entry_and_operands(text, expected):
    assert names(text) == expected
    assert names(text.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize("name", ["s", "l", "N", "idx", "data", "main_", "numjit_functor"])
def test_any_name_is_a_functors(name):
    assert names(f"template <typename T> T {name}(T x) {{ return x; }}")[0] == name


def test_entry_by_name():
    text = "float a(float x) { return x; }\nfloat b(float x, float y) { return x; }\nfloat a(float p, float q) { return p; }"
    assert names(text, entry="b") == ("b", ["x", "y"])
    assert names(text, entry="a") == ("a", ["p", "q"])
    assert (
        names("namespace k { int g(int x) { return x; } } int f(int y) { return y; }", entry="k::g")[0] == "g"
    )
    with pytest.raises(FunctorError, match=r"entry='c' names no function.*a, b"):
        CppFunctor(text, entry="c")


@pytest.mark.parametrize(
    ("declared", "dtype"),
    [
        ("bool", "bool"), ("char", "int8"), ("signed char", "int8"), ("unsigned char", "uint8"), ("short", "int16"),
        ("unsigned short int", "uint16"), ("int", "int32"), ("unsigned", "uint32"), ("long", "int64"),
        ("long long", "int64"), ("unsigned long long", "uint64"), ("long unsigned int", "uint64"), ("int8_t", "int8"),
        ("std::uint64_t", "uint64"), ("size_t", "uint64"), ("float", "float32"), ("double", "float64"),
        ("std::complex<float>", "complex64"), ("complex<double>", "complex128"), ("const float&", "float32"),
        ("float const &", "float32"), ("::std::int16_t", "int16"),
    ],
)  # fmt: skip
def test_concrete_types(declared, dtype):
    functor = CppFunctor(f"int f({declared} x) {{ return 0; }}")
    assert str(functor.signature.operands[0].dtype) == dtype


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int f(float* p) { return 0; }", "float\\*"),
        ("int f(float&& p) { return 0; }", "float&&"),
        ("int f(float p[3]) { return 0; }", "left over"),
        ("int f(__half p) { return 0; }", "compute in float"),
        ("int f(std::complex<int> p) { return 0; }", "float and double"),
        ("int f(auto x) { return 0; }", "template parameter"),
        ("int f(Foo x) { return 0; }", "'Foo x'"),
        ("int f(long double x) { return 0; }", "no dtype"),
        ("template <class... T> int f(T... x) { return 0; }", "chooses types only"),
        ("template <int N> int f(int x) { return N; }", "chooses types only"),
        ("int f(int x, ...) { return 0; }", "fixed number"),
        ("int f(int x) { return 0; ", "never closed"),
        ("int f(int x) { return (0]; }", "meets"),
        ("int f(int x) { return 0; }}", "closes nothing"),
        ("int f(int x) { return 'a; }", "never closed"),
        ("int f(int x) { return 0; } /* ", "never closed"),
        ("#if 1\nint f(int x) { return 0; }", "add #endif"),
        ("int x = 3;", "defines no function"),
        ("", "defines no function"),
        ("void f(int x) {}", "returns void"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(FunctorError, match=message):
        CppFunctor(text)


def test_place_of_an_error():
    with pytest.raises(FunctorError) as caught:
        CppFunctor("// one\ntemplate <typename T>\nT f(T x, T* y) { return x; }")
    assert str(caught.value).splitlines() == [
        "C++ functor, line 3, column 11: 'T*' is no type of one element; take inputs by value and outputs as T&",
        "    T f(T x, T* y) { return x; }",
        "              ^",
    ]


def test_outputs():
    text = "template <typename T> void f(T x, T y, T& a, bool& b) { a = x; b = true; }"
    functor = CppFunctor(text, outputs=2)
    assert [p.name for p in functor.signature.operands] == ["x", "y"]
    assert [(o.dtype, o.variable) for o in functor.signature.outputs] == [(None, "T"), (dtypes.bool_, None)]
    assert specialise(text, "int8", "uint8")[1] == ["int16", "bool"]
    both = CppFunctor("float f(int& a, float x) { a = 1; return x; }")
    assert [str(o.dtype) for o in both.signature.outputs] == ["float32", "int32"]
    for stated in (0, 1, 3, -1):
        with pytest.raises(ValueError, match=f"outputs={stated}"):
            CppFunctor(text, outputs=stated)


def test_scalars_are_bound_by_name():
    functor = CppFunctor(
        "template <class T> T f(float b, T x, T a = T(7)) { return x; }", scalars={"a": 2, "b": 1.5}
    )
    assert [(p.name, p.default) for p in functor.signature.scalars] == [("b", 1.5), ("a", 2)]
    assert [(p.name, p.default) for p in functor.signature.operands] == [("x", MISSING)]
    assert [(s.is_output, s.position) for s in functor.slots] == [(False, 1), (False, 0), (False, 2)]
    with pytest.raises(FunctorError, match=r"functor 'f': scalar 'gamma' is no parameter"):
        CppFunctor("float f(float x) { return x; }", scalars={"gamma": 1})
    with pytest.raises(ArgumentError, match="'x'"):
        CppFunctor("float f(float x) { return x; }", scalars={"x": None})


@pytest.mark.parametrize(
    ("written", "value"),
    [("1", 1), ("-2.5f", -2.5), ("T(3)", 3), ("true", True), ("0x10u", 16), ("1e-3", 1e-3), ("g(x)", MISSING), ("a + b", MISSING)],
)  # fmt: skip
def test_default_arguments(written, value):
    functor = CppFunctor(f"template <class T> T f(T x, T y = {written}) {{ return x; }}")
    assert functor.signature.operands[1].default == value


@pytest.mark.parametrize(
    ("text", "shown", "inputs", "outputs"),
    [
        ("template <class T> T f(T x, T y) {}", ["float16", "bfloat16"], ["float32"] * 2, ["float32"]),
        ("template <class T> T f(T x, T y) {}", ["int32", "float64#"], ["float32"] * 2, ["float32"]),
        ("template <class T> T f(T x, T y) {}", ["float16", "float64#"], ["float16", "float32"], ["float16"]),
        ("template <class T> T f(T x, T y) {}", ["float32", "float64@"], ["float32"] * 2, ["float32"]),
        ("template <class T> T f(T x, T y) {}", ["float32", "complex128#"], ["complex64"] * 2, ["complex64"]),
        ("template <class T> T f(T x, long long i) {}", ["float32", "int64"], ["float32", "int64"], ["float32"]),
        ("template <class T> T f(bool c, T a, T b) {}", ["bool", "int8", "int8"], ["bool", "int8", "int8"], ["int8"]),
        ("template <class T, class U> U f(T a, U b) {}", ["int8", "float64"], ["int8", "float64"], ["float64"]),
        ("template <class T, class U> U f(T a, T b) {}", ["int8", "uint8"], ["int16"] * 2, ["int16"]),
        ("template <class T, class U = float> U f(T a) {}", ["int8"], ["int8"], ["float32"]),
        ("template <class T> bool f(T a) {}", ["complex64"], ["complex64"], ["bool"]),
        ("template <class T> std::complex<T> f(T a) {}", ["float64"], ["float64"], ["complex128"]),
        ("template <class T> std::complex<T> f(T a) {}", ["float16"], ["float16"], ["complex32"]),
        ("template <class T> T f(std::complex<T> z) {}", ["complex128"], ["complex128"], ["float64"]),
        ("template <class T> std::complex<T> f(std::complex<T> z, T y) {}", ["float32", "float64"], ["complex128", "float64"], ["complex128"]),
        ("using R = double; R f(R a) {}", ["int8"], ["float64"], ["float64"]),
    ],
)  # fmt: skip
def test_specialisation(text, shown, inputs, outputs):
    assert specialise(text, *shown) == (inputs, outputs)


def test_specialisation_errors():
    with pytest.raises(PromotionError):
        specialise("template <class T> T f(T x, T y) {}", "uint16", "int8")
    with pytest.raises(ArgumentError, match="takes 1 inputs, but 2"):
        specialise("template <class T> T f(T x) {}", "int8", "int8")
    with pytest.raises(FunctorError, match="T = complex64"):
        specialise("template <class T> std::complex<T> f(T x) {}", "complex64")


def test_auto_asks_a_compiler(monkeypatch):
    monkeypatch.setattr(cuda_cpp, "_prober", None)  # puts back what the process has
    text = "template <class T> auto f(T x) { return x; }"
    with pytest.raises(FunctorError, match="takes a compiler to know"):
        specialise(text, "float16")
    set_return_type_prober(lambda *_: 404)
    assert specialise(text, "float16")[1] == ["float16"]
    assert specialise(text, "int32")[1] == ["float32"]


def test_copies_and_fingerprints():
    functor = CppFunctor("float f(float x, float a) { return x; }", scalars={"a": 1}, options=("-g",))
    for copied in (pickle.loads(pickle.dumps(functor)), copy.deepcopy(functor)):
        assert copied.signature == functor.signature
        assert copied.fingerprint() == functor.fingerprint()
    others = [
        CppFunctor("float f(float x, float a) { return a; }", scalars={"a": 1}, options=("-g",)),
        CppFunctor("float f(float x, float a) { return x; }", scalars={"a": 1}),
        CppFunctor("float f(float x, float a) { return x; }", options=("-g",)),
        CppFunctor(
            "float f(float x, float a) { return x; }", scalars={"a": 1}, options=("-g",), preamble="int i;"
        ),
    ]
    assert len({f.fingerprint() for f in [functor, *others]}) == 5


def test_preamble_gives_aliases_and_macros():
    functor = CppFunctor("R f(R x, I i) { return x; }", preamble="using R = double;\n#define I long long")
    assert [str(p.dtype) for p in functor.signature.operands] == ["float64", "int64"]


def test_tokens():
    source = Source('a>>=b->*c // x \\\n still\n# define F(x) "a//b" /* multi\nline */ x\nu8R"(")" 1e+3 .5')
    assert [t.text for t in tokenize(source) if t.kind != "directive"] == [
        "a", ">", ">", "=", "b", "->*", "c", 'u8R"(")"', "1e+3", ".5",
    ]  # fmt: skip
    (directive,) = [read_directive(source, t) for t in tokenize(source) if t.kind == "directive"]
    assert directive.takes_arguments
    assert [t.text for t in directive.body] == ['"a//b"', "x"]
