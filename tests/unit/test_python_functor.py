"""Python functors: signatures and their errors, specialisation, control flow, helpers, error messages."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
import types
from typing import TypeVar

import numpy as np
import pytest
import torch

from numjit import dtypes
from numjit.errors import ArgumentError, CompilationError, FunctorError, PromotionError
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import MISSING, ArgumentType, Output, Parameter
from numjit.semantics.category import Category
from tests.support.python_cpu import run
from tests.support.threads import in_threads

T = TypeVar("T")
U = TypeVar("U")
SCALE = 2.0
F32 = ArgumentType(dtypes.float32, Category.DIM)
I32 = ArgumentType(dtypes.int32, Category.DIM)
F64 = ArgumentType(dtypes.float64, Category.DIM)


pytestmark = pytest.mark.usefixtures("quick_compilation")


def number(dtype):
    return ArgumentType(dtype, Category.NUMBER)


def specialise(fn, *arguments, default=dtypes.float32, **options):
    functor = fn if isinstance(fn, PythonFunctor) else PythonFunctor(fn, **options)
    return functor.specialise(arguments, default, target="cpu")


class Decorated:
    """What a decorated function looks like to a functor that calls it."""

    def __init__(self, functor):
        self.__numjit_functor__ = functor
        self.__name__ = functor.name


# ------------------------------------------------------------------------------------------- signature


def test_parameters():
    def f(x, y: dtypes.int64, z: T = 2, *, alpha, beta: float = 0.5, m: torch.bool = True) -> T:
        return x

    signature = PythonFunctor(f, scalars={"alpha": 3}).signature
    assert signature.name == "f"
    assert signature.operands == (
        Parameter("x"),
        Parameter("y", dtypes.int64),
        Parameter("z", None, "T", 2),
    )
    assert signature.scalars == (
        Parameter("alpha", default=3),
        Parameter("beta", default=0.5),
        Parameter("m", dtypes.bool_, default=True),
    )
    assert signature.outputs == (Output(variable="T"),)
    assert PythonFunctor(f).signature.scalars[0].default is MISSING


def test_dtypes_of_torch_and_numpy_and_strings():
    def f(a: np.int16, b: np.dtype("float64"), c: torch.bfloat16, d: T) -> (dtypes.bool_, T):
        return a, b

    signature = PythonFunctor(f).signature
    assert [p.dtype for p in signature.operands] == [dtypes.int16, dtypes.float64, dtypes.bfloat16, None]
    assert signature.operands[3].variable == "T"
    assert signature.outputs == (Output(dtypes.bool_), Output(variable="T"))


def test_outputs_are_counted():
    assert len(PythonFunctor(lambda x: (x, x)).signature.outputs) == 2
    assert len(PythonFunctor(lambda x: x).signature.outputs) == 1
    assert len(PythonFunctor(lambda x: divmod(x, 2), outputs=2).signature.outputs) == 2

    def annotated(x) -> tuple[torch.float32, torch.int64]:
        return x, x

    assert PythonFunctor(annotated).signature.outputs == (Output(dtypes.float32), Output(dtypes.int64))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PythonFunctor(print), "must be a function written with def or lambda"),
        (lambda: PythonFunctor(lambda *xs: xs[0]), r"\*xs has no fixed number"),
        (lambda: PythonFunctor(lambda x, **kws: x), r"\*\*kws has no fixed number"),
        (lambda: PythonFunctor(lambda x, *, a: x, scalars={"b": 1}), "has no scalar 'b' .it has a."),
        (lambda: PythonFunctor(lambda x, a=1: x, scalars={"a": 1}), "has no scalar 'a' .it has none."),
        (lambda: PythonFunctor(lambda x, *, a="text": x), "default of 'a' is 'text'"),
        (lambda: PythonFunctor(lambda x: x, outputs=0), "outputs=0; it must be 1 or more"),
        (lambda: PythonFunctor(annotate(x=float)), "operand 'x' is annotated float.*numjit.float64"),
        (lambda: PythonFunctor(annotate(x=bool)), "numjit.bool_"),
        (lambda: PythonFunctor(annotate(x="nonsense")), "annotation is not understood"),
        (lambda: PythonFunctor(annotate(x=list)), "annotate a dtype or a typing.TypeVar"),
        (lambda: PythonFunctor(annotate(**{"return": U})), "annotated U, as no parameter is"),
        (
            lambda: PythonFunctor(annotate(**{"return": (torch.bool, torch.bool)}), outputs=3),
            "make them agree",
        ),
    ],
)
def test_declarations_that_do_not_fit(make, message):
    with pytest.raises(FunctorError, match=message):
        make()


def annotate(**annotations):
    def f(x):
        return x

    f.__annotations__ = annotations
    return f


def test_construction_does_not_import_numba():
    program = (
        "import sys; from numjit.functor.python import PythonFunctor; f = PythonFunctor(lambda x: x);"
        "f.fingerprint(); import numjit.functor.device, numjit.cpu.chunk, numjit.ground.numba_cuda;"
        "print([m for m in ('numba', 'torch', 'cuda') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


# -------------------------------------------------------------------------------------- specialisation


def test_numbers_only_give_the_defaults():
    for default, expected in ((dtypes.float32, dtypes.complex64), (dtypes.float64, dtypes.complex128)):
        outputs = specialise(
            lambda a, b: (a, a + 1, a * 0.5, a * 1j, b, a > 1),
            number(dtypes.int64),
            number(dtypes.bool_),
            default=default,
        ).outputs
        assert outputs == (dtypes.int64, dtypes.int64, default, expected, dtypes.bool_, dtypes.bool_)


def test_unannotated_arguments_keep_their_types():
    found = specialise(lambda x, y, *, alpha: x * alpha + y, F32, I32, number(dtypes.float64))
    assert found.inputs == (dtypes.float32, dtypes.int32, dtypes.float64)
    assert found.outputs == (dtypes.float32,)


def test_annotated_arguments_are_converted():
    def f(c: dtypes.bool_, i: dtypes.int64, x: T, y: T, z: U) -> (T, dtypes.int8, U):
        return (x if c else y), i, z

    found = specialise(f, I32, F32, F32, I32, F64)
    assert found.inputs == (dtypes.bool_, dtypes.int64, dtypes.float32, dtypes.float32, dtypes.float64)
    assert found.outputs == (dtypes.float32, dtypes.int8, dtypes.float64)
    found = specialise(f, I32, F32, number(dtypes.int64), number(dtypes.float64), I32)
    assert found.inputs[2:] == (dtypes.float32, dtypes.float32, dtypes.int32)
    with pytest.raises(PromotionError, match="no common dtype"):
        specialise(f, I32, F32, ArgumentType(dtypes.uint16, Category.DIM), I32, F32)


def test_builtin_annotations_of_scalars():
    def f(x, *, a: float, n: int = 2):
        return x * a + n

    found = specialise(f, F32, number(dtypes.int64), number(dtypes.bool_))
    assert found.inputs == (dtypes.float32, dtypes.float64, dtypes.int64)
    assert found.outputs == (dtypes.float32,)
    with pytest.raises(ArgumentError, match="scalar 'n' is annotated int but was given a float64 number"):
        specialise(f, F32, number(dtypes.int64), number(dtypes.float64))


def test_wrong_number_of_arguments():
    with pytest.raises(ArgumentError, match=r"takes 2 arguments \(x, y\), not 1"):
        specialise(lambda x, y: x + y, F32)


def test_another_number_of_results_than_declared():
    def two(x):
        return x, x

    with pytest.raises(FunctorError, match="returns 2 results where 1 were expected; say outputs=2"):
        specialise(lambda x: two(x), F32)
    assert len(specialise(lambda x: two(x), F32, outputs=2).outputs) == 2
    with pytest.raises(FunctorError, match="returns 1 results where 2"):
        specialise(lambda x: x, F32, outputs=2)


def test_both_targets_agree():
    functor = PythonFunctor(lambda x, y: (x / y, x > y, math.sin(y), x // y, max(x, 0)))
    cpu = functor.specialise((I32, F64), dtypes.float32, target="cpu")
    cuda = PythonFunctor(functor.fn).specialise((I32, F64), dtypes.float32, target="cuda")
    assert cpu == cuda


def test_results_are_cached_until_something_is_rebound():
    scale = 2

    def f(x):
        return x * scale

    functor = PythonFunctor(f)
    first = specialise(functor, I32)
    assert specialise(functor, I32) is first
    assert first.outputs == (dtypes.int32,)
    scale = 2.5
    assert specialise(functor, I32).outputs == (dtypes.float32,)
    x = torch.tensor([2], dtype=torch.int32)
    assert run(functor, x)[0].tolist() == [5.0]
    scale = 4.5
    assert run(functor, x)[0].tolist() == [9.0]


def test_copies():
    functor = PythonFunctor(scaled, scalars={"k": 3})
    for copied in (pickle.loads(pickle.dumps(functor)), copy.deepcopy(functor)):
        assert copied.signature == functor.signature
        assert specialise(copied, F32, number(dtypes.int64)).outputs == (dtypes.float32,)


def scaled(x, *, k=1):
    return x * k * SCALE


def test_threads():
    functor = PythonFunctor(lambda x: math.exp(x) + 1)
    found = in_threads(lambda _: specialise(functor, F32), range(8))
    assert len({id(one) for one in found}) == 1


# ------------------------------------------------------------------------------- what functors may hold


def branches(x, y):
    if x > 0 and not y < 0:
        return x + y
    if 0 < -x < 2 or y == 0:
        return x * 0.5
    return y


def loops(x, y):
    total = 0.0
    for i in range(4):
        if i == 2:
            continue
        total = total + x * i
    while total > 8 and y:
        total /= 2
    return total


def polynomial(x, y):
    result = 0
    for c in (1.0, 0.5, 0.25):
        result = result * x + c
    for i, c in enumerate((1, 2)):
        result += i * c * y
    for c, d in zip((1, 2), (3, 4)):  # noqa: B905
        result += c * d
    return result


def inner_functions(x, y):
    def shift(value, by=1.5):
        return value + by

    return shift(x) * shift(y, 2) + (lambda t: t * t)(y)  # noqa: PLC3002


def weak_conditional(x, y):
    return x if x > y else 1


def in_and_tuples(x, y):
    pair = (x, y, 2.0)
    bonus = 1 if x in (1.0, 2.0) else 0
    return pair[0] * len(pair) + sum(pair) + max(pair) + bonus


def unpacked(x, y):
    a, b = y, x
    a, b = b, a * 2
    return a - b


def rebound_parameter(x, y):
    x += 1
    x *= y
    x -= 2
    return x


CASES = [
    branches,
    loops,
    polynomial,
    inner_functions,
    weak_conditional,
    in_and_tuples,
    unpacked,
    rebound_parameter,
]


@pytest.mark.parametrize("fn", CASES)
def test_statements(fn):
    x, y = torch.tensor([1.0, -1.0, 3.0, -4.0, 0.5]), torch.tensor([2.0, 0.0, -1.0, 5.0, 2.0])
    (result,) = run(PythonFunctor(fn), x, y)
    assert result.dtype == torch.float32
    expected = torch.tensor([fn(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    torch.testing.assert_close(result, expected)


def test_helpers_undecorated_and_of_other_modules():
    tools = types.ModuleType("tools")
    exec("def double(x, *, by=2): return x * by", tools.__dict__)
    (result,) = run(PythonFunctor(lambda x: tools.double(x) + scaled(x, k=3)), torch.tensor([1.0, 2.0]))
    assert result.tolist() == [8.0, 16.0]


def test_helpers_are_typed_at_every_call():
    def helper(x):
        return x * 2 + 1

    results = run(
        PythonFunctor(lambda x, y: (helper(x), helper(y), helper(0.5))),
        torch.tensor([1.5]),
        torch.tensor([2], dtype=torch.int8),
    )
    assert [r.dtype for r in results] == [torch.float32, torch.int8, torch.float32]
    assert [r.item() for r in results] == [4.0, 5, 2.0]


def test_decorated_functions_can_be_called():
    def wide(x: dtypes.float64, *, k):
        return x * k

    called = Decorated(PythonFunctor(wide, scalars={"k": 3}))
    results = run(PythonFunctor(lambda x: (called(x), called(x, k=2))), torch.tensor([1.5, 2.0]))
    assert [r.dtype for r in results] == [torch.float64] * 2
    assert [r.tolist() for r in results] == [[4.5, 6.0], [3.0, 4.0]]


def test_decorated_functions_keep_their_declarations():
    def declared(x, y: dtypes.int64 = 2, *, k: float = 3, m: dtypes.int8 = 4):
        return x * y, k * 1, m + 1

    called = Decorated(PythonFunctor(declared, outputs=3))

    def caller(x):
        a, b, c = called(x)
        return a, b, c, called(x, 2.75)[0]

    found = run(PythonFunctor(caller, outputs=4), torch.tensor([1, 2], dtype=torch.int8))
    assert [r.dtype for r in found] == [torch.int64, torch.float32, torch.int8, torch.int64]
    assert [r.tolist() for r in found] == [[2, 4], [3.0, 3.0], [5, 5], [2, 4]]


def test_decorated_functions_called_with_numbers_only():
    def wide(x: dtypes.float64, *, k: T = 2, m: T = 1j) -> dtypes.float64:
        return x * 1

    called = Decorated(PythonFunctor(wide))
    assert specialise(lambda x: (called(2), called(0.5) + x), F32).outputs == (dtypes.float64, dtypes.float64)


def test_decorated_functions_return_what_they_declare():
    def narrow(x) -> dtypes.int8:
        return x * 1

    called = Decorated(PythonFunctor(narrow))
    assert specialise(lambda x: called(x), ArgumentType(dtypes.int8, Category.DIM)).outputs == (dtypes.int8,)
    with pytest.raises(CompilationError, match="declares a result of int8, but computes float32"):
        specialise(lambda x: called(x), F32)


def test_decorated_functions_in_a_circle():
    scope = {}
    exec("def f(x): return g(x)\ndef g(x): return f(x)", scope)
    functors = {name: PythonFunctor(scope[name]) for name in "fg"}
    scope.update({name: Decorated(functor) for name, functor in functors.items()})
    assert functors["f"].fingerprint() == functors["f"].fingerprint()
    with pytest.raises(CompilationError, match="recursion"):
        specialise(functors["f"], F32)


def test_large_integers_stay_integers():
    found = specialise(lambda x, *, n: (n + 1, x + n, n * 0.5), I32, number(dtypes.uint64))
    assert found.outputs == (dtypes.uint64, dtypes.int32, dtypes.float32)


def test_a_decorated_cpp_functor_is_refused():
    class Cpp:
        kind = "c++"
        name = "square"

    called = Decorated(Cpp())
    with pytest.raises((CompilationError, FunctorError), match=r"only Python functors|capture"):
        specialise(lambda x: called(x), F32)


def test_integer_scalars_are_plain_ints():
    def power_sum(x, *, n):
        total = x * 0
        for i in range(n):
            total = total + x**i
        return total

    (result,) = run(PythonFunctor(power_sum), torch.tensor([2.0, 3.0]), 4)
    assert result.tolist() == [15.0, 40.0]


def test_integer_elements_bound_loops_and_index_tuples():
    def f(n):
        total = 0
        for i in range(n):
            total += i
        return total, (10, 20, 30)[n % 3]

    total, chosen = run(PythonFunctor(f), torch.tensor([0, 3, 5], dtype=torch.int32))
    assert total.tolist() == [0, 3, 10]
    assert chosen.tolist() == [10, 10, 30]


def test_conversions():
    def f(x):
        return int(x), float(int(x)), bool(x), complex(x, 2), int(x > 0)

    found = run(PythonFunctor(f), torch.tensor([2.75, -1.5, 0.0]))
    assert [r.dtype for r in found] == [torch.int64, torch.float32, torch.bool, torch.complex64, torch.int64]
    assert [r.tolist() for r in found[:3]] == [[2, -1, 0], [2.0, -1.0, 0.0], [True, True, False]]
    assert found[3].tolist() == [2.75 + 2j, -1.5 + 2j, 2j]


def test_small_floats_compute_in_float32():
    """Intermediate results are not rounded, and a scalar keeps its precision (cases A1 to A4)."""
    half = torch.tensor([2048.0, 300.0, 1.0], dtype=torch.float16)
    a, b, c = run(PythonFunctor(lambda x, *, alpha: (x + 1 + 1, x * x, x + alpha - 69999)), half, 70000.0)
    assert a[0] == 2050
    assert torch.isinf(b[1])
    assert c[2] == 2
    assert (
        run(PythonFunctor(lambda x: x + 1 + 1), torch.tensor([256.0], dtype=torch.bfloat16))[0].item() == 258
    )


def test_zero_dim_operands_stay_weak_inside():
    x = torch.tensor([1.0, 2.0])
    y = torch.tensor(1e-10, dtype=torch.float64)
    both, own = run(PythonFunctor(lambda x, y: (x + y, y * y)), x, y)
    assert both.dtype == torch.float32
    assert own.dtype == torch.float64


# ---------------------------------------------------------------------------------------------- errors


def bad_helper(x):
    y = x + 1
    return math.sin("text") + y


def unknown_name(x):
    return undefined + x  # noqa: F821


def no_return(x):
    if x > 0:
        return x
    return None


ERRORS = [
    (lambda x: np.exp(x), "numpy.exp works on whole arrays", "np.exp"),
    (lambda x: torch.exp(x), "torch.exp works on whole arrays", "torch.exp"),
    (lambda x: (x > 0) - 1, "- of bool is not supported, as torch refuses it", "(x > 0) - 1"),
    (lambda x: x & 1, "& of float32 is not supported", "x & 1"),
    (lambda x: x < 1j, "complex numbers have no order", "x < 1j"),
    (lambda x: math.exp(x * 1j), "math.exp of complex64 is not supported; use cmath.exp", "math.exp"),
    (lambda x: x.exp(), "elements have no attribute 'exp'", "x.exp()"),
    (lambda x: math.factorial(x), "math.factorial is not supported", "math.factorial"),
    (lambda x: [x, x][0], "a list; use a tuple", "[x, x]"),
    (lambda x: print(x), "print", "print(x)"),
    (lambda x: (x, (x, x)), "a tuple inside a tuple", "(x, (x, x))"),
    (unknown_name, "name 'undefined' is not defined", "return undefined + x"),
    (no_return, "does not return a value on every path", "def no_return"),
    (lambda x: bad_helper(x), "'bad_helper' cannot be compiled", 'math.sin("text")'),
]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(("fn", "reason", "text"), ERRORS, ids=[reason for _, reason, _ in ERRORS])
def test_errors_show_the_line(fn, reason, text, target):
    with pytest.raises((CompilationError, FunctorError)) as caught:
        PythonFunctor(fn).specialise((F32,), dtypes.float32, target=target)
    message = str(caught.value)
    assert reason in message
    assert text in message
    assert __file__ in message
    assert len(message.splitlines()) <= 2


def test_a_good_call_after_a_bad_one():
    functor = PythonFunctor(lambda x: x & 1)
    with pytest.raises(CompilationError):
        specialise(functor, F32)
    assert specialise(functor, I32).outputs == (dtypes.int32,)


def test_recursion():
    def again(x):
        return again(x)

    with pytest.raises(CompilationError, match="recursion is not supported"):
        specialise(again, F32)


def test_captured_arrays():
    table = np.ones(3)
    with pytest.raises((CompilationError, FunctorError), match="pass it as an operand"):
        specialise(lambda x: x * table[0], F32)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_code_that_could_raise_is_refused(target):
    def unpacked(x, *, n):
        first, second = range(n)
        return x + first + second

    with pytest.raises(CompilationError, match="could raise ValueError, which a functor cannot"):
        PythonFunctor(unpacked).specialise((F32, number(dtypes.int64)), dtypes.float32, target=target)


def test_other_users_of_numba_see_no_change():
    import numba

    specialise(lambda x: x * 2 + math.exp(x), F32)
    plain = numba.njit(lambda x: math.exp(x) * 0.5 + max(x, 1) // 2)
    assert plain(2.0) == math.exp(2.0) * 0.5 + 1
    assert "float64" in str(plain.signatures)
    # numjit has rules of its own for plain numbers, and for its own functors only.
    specialise(lambda x, *, n: x + n // 2 + (n << 3) + (1, 2)[n], F32, number(dtypes.int64))
    own = numba.njit(lambda n: (n // 2, n << 3, ~(n > 0), 2**n, (1, 2)[n]))
    assert own(1) == (0, 8, False, 2, 2)
    with pytest.raises(ZeroDivisionError):
        numba.njit(lambda n: 1 // n)(0)
    with pytest.raises(IndexError):
        numba.njit(lambda n: (1, 2)[n])(2)
