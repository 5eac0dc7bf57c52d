"""Derivatives of whole Python functors: control flow, helpers, types, signatures, identity, errors."""

from __future__ import annotations

import math
import pickle
from typing import TypeVar

import pytest
import torch

import numjit
from numjit import dtypes
from numjit import math as nm
from numjit.elementwise import Elementwise
from numjit.errors import AutogradError, CompilationError
from numjit.functor.derived_python import DerivedFunctor, derive_python
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import MISSING, ArgumentType
from numjit.semantics.category import Category
from tests.support.dual_gradients import gradients, second_gradients, torch_gradients
from tests.support.python_cpu import run
from tests.unit.test_python_functor import Decorated

T = TypeVar("T")
X = torch.tensor([0.5, -1.2, 2.0, 0.1, 3.7], dtype=torch.float64)
Y = torch.tensor([1.5, 0.3, -2.0, 1.1, 0.7], dtype=torch.float64)
ONES = torch.ones_like(X)


pytestmark = pytest.mark.usefixtures("quick_compilation")


def gradient(fn, *arguments, grads=None, outputs=None):
    """Return the gradient by the first operand."""
    functor = fn if isinstance(fn, PythonFunctor) else PythonFunctor(fn)
    grads = [torch.ones_like(arguments[0])] if grads is None else grads
    (found,) = run(derive_python(functor, "vjp", (0,), outputs), *arguments, *grads)
    return found


def operation(functor):
    return Elementwise(functor, {"autotune": False})


# ---------------------------------------------------------------------------------------- control flow


def constant_loop(x):
    total = 0.0
    for i in range(4):
        total = total + x * i
    return total


def dynamic_loop(x):
    total = 0
    for _ in range(int(abs(x)) + 1):
        total += x**2
    return total


def while_loop(x):
    y = 1.0
    while y < 10.0:
        y = y * 2.0 + x * x
    return y


def newton(x):
    guess = 1.0
    for _ in range(30):
        guess = 0.5 * (guess + abs(x) / guess)
    return guess


def horner(x):
    result = 0.0
    for c in (1.0, 0.5, 0.25):
        result = result * x + c
    return result


def one_sided(x):
    result = x * x
    if x > 0:
        result = 1.0
    return result


def early_return(x):
    if x < 0:
        return 0
    if x > 1:
        return x * 3
    return x


def _scaled(value, factor=3.0):
    return value * factor


def helpers(x):
    def inner(value):
        return value * x

    first = _scaled(inner(x))
    return first + _scaled(2.0, factor=x)


def nested_condition(x):
    return (x if x > 0 else -x) if abs(x) > 1 else 0.5 * x


def chained(x):
    return math.exp(x) if 0 < x < 1 or x > 3 else 1.0 / x


def pairs(x):
    a, b = 0.0, x * x
    if x > 0:
        a, b = x, 0.0
    return a * 3 + b


def sums(x):
    return sum((x, x * 2, 1)) + max((x, 1.0 * x, 3))


FUNCTORS = {
    pairs: lambda x: torch.where(x > 0, 3 * x, x * x),
    sums: lambda x: 3 * x + torch.where(x > 3, x, 0 * x),
    constant_loop: lambda x: 6 * x,
    dynamic_loop: lambda x: (x.detach().abs().floor() + 1) * x**2,
    newton: lambda x: x.abs().sqrt(),
    horner: lambda x: x * x + 0.5 * x + 0.25,
    one_sided: lambda x: torch.where(x > 0, 0 * x + 1.0, x * x),
    early_return: lambda x: torch.where(x < 0, 0 * x, torch.where(x > 1, 3 * x, x)),
    helpers: lambda x: 3 * x * x + 2 * x,
    nested_condition: lambda x: torch.where(x.abs() > 1, x.abs(), 0.5 * x),
    chained: lambda x: torch.where(((x > 0) & (x < 1)) | (x > 3), x.exp(), 1 / x),
    (lambda x: (1.0, 2.0, 4.0, 8.0)[int(abs(x))] * x): lambda x: 2.0 ** x.detach().abs().floor() * x,
    (lambda x: x or 1.0): lambda x: x,
}


@pytest.mark.parametrize("fn", FUNCTORS, ids=lambda fn: fn.__name__)
def test_control_flow(fn):
    found = gradient(fn, X)
    (wanted,) = torch_gradients(FUNCTORS[fn], [X], ONES)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)


def test_a_loop_that_runs_until_it_is_done():
    def by_hand(value):
        y, slope = 1.0, 0.0
        while y < 10.0:
            y, slope = y * 2.0 + value * value, slope * 2.0 + 2 * value
        return slope

    wanted = torch.tensor([by_hand(value) for value in X.tolist()], dtype=torch.float64)
    torch.testing.assert_close(gradient(while_loop, X), wanted)


# ------------------------------------------------------------------------------------------- functors


def test_several_results_and_operands():
    functor = PythonFunctor(lambda x, y: (x * y, x > y, math.sin(x)))
    derived = derive_python(functor, "vjp", (0, 1), (True, False, True))
    assert [p.name for p in derived.signature.operands] == ["x", "y", "grad_0", "grad_2"]
    by_x, by_y = run(derived, X, Y, ONES, 3 * ONES)
    torch.testing.assert_close(by_x, Y + 3 * X.cos())
    torch.testing.assert_close(by_y, X)


def test_the_tangents_of_several_results():
    functor = PythonFunctor(lambda x, y: (x * y, x > y, math.sin(x)))
    derived = derive_python(functor, "jvp", (0, 1), (True, False, True))
    assert [p.name for p in derived.signature.operands] == ["x", "y", "tangent_x", "tangent_y"]
    first, second = run(derived, X, Y, ONES, 2 * ONES)
    torch.testing.assert_close(first, Y + 2 * X)
    torch.testing.assert_close(second, X.cos())


def test_a_result_that_does_not_depend_on_the_operand():
    functor = PythonFunctor(lambda x, y: (y * 2, 1.0))
    first, second = run(derive_python(functor, "vjp", (0, 1)), X, Y, ONES, ONES)
    assert first.equal(torch.zeros_like(X))
    assert second.equal(2 * ONES)
    tangents = run(derive_python(functor, "jvp", (0,)), X, Y, ONES)
    assert all(not tangent.any() for tangent in tangents)


@pytest.mark.parametrize("names", [("float16", "float32"), ("float32", "float64"), ("bfloat16", "float16")])
def test_mixed_dtypes(names):
    first, second = (getattr(torch, name) for name in names)
    x, y = X.to(first), Y.to(second)
    functor = PythonFunctor(lambda x, y: x * y + math.exp(x))
    gradient = torch.ones_like(x * y)
    by_x, by_y = gradients(functor, [x, y], gradient)
    wanted = torch_gradients(lambda x, y: x * y + torch.exp(x), [x.double(), y.double()], gradient.double())
    assert by_x.dtype == by_y.dtype == torch.promote_types(first, second)
    torch.testing.assert_close(by_x.double(), wanted[0], rtol=2e-2, atol=1e-2)
    torch.testing.assert_close(by_y, x.to(by_y.dtype))


def test_integers_beside_differentiated_operands():
    functor = PythonFunctor(lambda x, n: x**n * n + (n // 2))
    (found,) = run(derive_python(functor, "vjp", (0,)), X, torch.tensor([1, 2, 3, 0, 2]), ONES)
    n = torch.tensor([1, 2, 3, 0, 2], dtype=torch.float64)
    torch.testing.assert_close(found, n * n * X ** (n - 1))


def test_scalars():
    def axpy(x, y, *, alpha=2.0):
        return alpha * x + y

    functor = PythonFunctor(axpy)
    derived = derive_python(functor, "vjp", (0, 2))
    (scalar,) = derived.signature.scalars
    assert scalar.default == 2.0
    by_x, by_alpha = run(derived, X, Y, ONES, torch.tensor(3.0))
    assert by_x.equal(3 * ONES)
    assert by_alpha.equal(X)
    assert operation(derive_python(functor, "vjp", (0,)))(X, Y, ONES).equal(2 * ONES)
    assert operation(derive_python(functor, "vjp", (0,)))(X, Y, ONES, alpha=5.0).equal(5 * ONES)


def test_declared_types():
    """Annotations, type variables and overridden defaults stay; inputs are converted before."""

    def f(x: dtypes.float32, y: T, z: T = 1, *, alpha: float = 2.0) -> T:
        return x * y * z * alpha

    functor = PythonFunctor(f, scalars={"alpha": 4})
    derived = derive_python(functor, "vjp", (0, 1))
    operands = derived.signature.operands
    assert [(p.dtype, p.variable) for p in operands] == [
        (dtypes.float32, None), (None, "T"), (None, "T"), (None, None),
    ]  # fmt: skip
    assert [p.default for p in operands] == [MISSING] * 4
    assert derived.signature.scalars[0].default == 4
    by_x, by_y = run(derived, X, Y.float(), ONES.float(), ONES, 4.0)
    torch.testing.assert_close(by_x, (4 * Y).float().double())
    torch.testing.assert_close(by_y, (4 * X.float()).double())


def test_names_that_are_taken():
    def seed(grad_0, tangent_x, pull, *, result=1.0, index=2.0):
        return grad_0 * tangent_x * pull * result * index

    functor = PythonFunctor(seed)
    derived = derive_python(functor, "vjp", (0,))
    assert [p.name for p in derived.signature.operands] == ["grad_0", "tangent_x", "pull", "grad_0_"]
    (found,) = run(derived, X, Y, ONES, 3 * ONES, 1.0, 2.0)
    torch.testing.assert_close(found, 6 * Y)
    pushed = derive_python(PythonFunctor(lambda x, tangent_x: x * tangent_x), "jvp", (0,))
    assert pushed.signature.operands[-1].name == "tangent_x_"
    assert run(pushed, X, Y, ONES)[0].equal(Y)


def test_index_and_raw_operands():
    def f(x, table: numjit.raw):
        return x * table[numjit.index()] + table[int(abs(x))] + len(table)

    functor = PythonFunctor(f)
    derived = derive_python(functor, "vjp", (0,))
    assert derived.uses_index
    found = operation(derived)(X, Y, ONES)
    assert found.equal(Y)
    second = derive_python(derived, "vjp", (0, 2))
    by_x, by_gradient = operation(second)(X, Y, ONES, ONES)
    assert by_x.equal(0 * ONES)
    assert by_gradient.equal(Y)
    assert not derive_python(PythonFunctor(horner), "vjp", (0,)).uses_index


def test_numjit_index_in_the_last_dimension_and_beyond():
    x = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    derived = derive_python(PythonFunctor(lambda x: x * x * numjit.index()), "vjp", (0,))
    assert operation(derived)(x, torch.ones_like(x)).equal(2 * x * x)


# -------------------------------------------------------------------------------------- higher orders


def test_third_derivatives():
    derived = PythonFunctor(lambda x: math.exp(x * x))
    for _ in range(3):
        derived = derive_python(derived, "jvp", (0,))
    (found,) = run(derived, X, ONES, ONES, ONES)
    torch.testing.assert_close(found, (8 * X**3 + 12 * X) * torch.exp(X * X))


def test_forward_over_reverse():
    hessian = derive_python(derive_python(PythonFunctor(lambda x, y: x**3 * y), "vjp", (0, 1)), "jvp", (0, 1))
    by_x, by_y = run(hessian, X, Y, ONES, ONES, 0 * ONES)
    torch.testing.assert_close(by_x, 6 * X * Y)
    torch.testing.assert_close(by_y, 3 * X**2)


def test_loops_and_branches_twice():
    for fn in (dynamic_loop, newton, horner, one_sided, early_return, helpers, chained):
        found, _ = second_gradients(PythonFunctor(fn), [X], ONES, [ONES])
        x = X.clone().requires_grad_()
        (first,) = torch.autograd.grad(FUNCTORS[fn](x).sum(), x, create_graph=True)
        (wanted,) = (
            torch.autograd.grad(first.sum(), x, allow_unused=True) if first.requires_grad else (0 * X,)
        )
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10, msg=fn.__name__)


def test_a_derivative_inside_of_what_is_differentiated():
    """The two perturbations are not confused: d/dx of x * d/dy(y * z) at z = x is 2 x."""
    inner = Decorated(derive_python(PythonFunctor(lambda y, z: y * z), "vjp", (0,)))
    found = gradient(lambda x: x * inner(1.0 * x, x, 1.0), X)
    torch.testing.assert_close(found, 2 * X)


def test_a_decorated_functor_inside():
    def square(x: T) -> T:
        return x * x

    def narrow(x: dtypes.float32):
        return x * 3

    squared, narrowed = Decorated(PythonFunctor(square)), Decorated(PythonFunctor(narrow))
    torch.testing.assert_close(gradient(lambda x: squared(x) * 2, X), 4 * X)
    torch.testing.assert_close(gradient(lambda x: narrowed(x) * x, X), 6 * X, rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------------------------------- identity


def test_a_rebound_variable_gives_a_new_derivative():
    factor = 2.0

    def f(x):
        return x * factor

    derived = derive_python(PythonFunctor(f), "vjp", (0,))
    twice = derive_python(derived, "vjp", (1,))
    call = operation(derived)
    before, twice_before = derived.fingerprint(), twice.fingerprint()
    assert call(X, ONES).equal(2 * ONES)
    factor = 5.0
    assert call(X, ONES).equal(5 * ONES)
    assert run(twice, X, ONES, ONES)[0].equal(5 * ONES)
    assert derived.fingerprint() != before
    assert twice.fingerprint() != twice_before
    factor = 2.0
    assert derived.fingerprint() == before


def test_a_helper_that_is_rebound(monkeypatch):
    derived = derive_python(PythonFunctor(lambda x: _scaled(x)), "vjp", (0,))
    before = derived.fingerprint()
    assert run(derived, X, ONES)[0].equal(3 * ONES)
    monkeypatch.setitem(globals(), "_scaled", lambda value: value * 7.0)
    assert derived.fingerprint() != before
    assert run(derived, X, ONES)[0].equal(7 * ONES)


def test_a_name_that_becomes_the_index():
    def number():
        return 4

    place = number

    def f(x):
        return x * place()

    derived = derive_python(PythonFunctor(f), "vjp", (0,))
    assert operation(derived)(X, ONES).equal(4 * ONES)
    place = numjit.index
    assert operation(derived)(X, ONES).equal(torch.arange(5, dtype=torch.float64))


def test_fingerprints_tell_derivatives_apart():
    functor = PythonFunctor(lambda x, y: (x * y, x + y))
    made = [
        functor,
        derive_python(functor, "vjp", (0,)),
        derive_python(functor, "vjp", (1,)),
        derive_python(functor, "vjp", (0, 1)),
        derive_python(functor, "jvp", (0,)),
        derive_python(functor, "vjp", (0,), (True, False)),
        derive_python(derive_python(functor, "vjp", (0,)), "vjp", (0,)),
        derive_python(PythonFunctor(lambda x, y: (x * y, x - y)), "vjp", (0,)),
    ]
    assert len({one.fingerprint() for one in made}) == len(made)
    again = derive_python(PythonFunctor(lambda x, y: (x * y, x + y)), "vjp", (0,))
    assert again.fingerprint() == made[1].fingerprint()


def test_pickles():
    derived = derive_python(PythonFunctor(horner), "jvp", (0,))
    copied = pickle.loads(pickle.dumps(derived))
    assert isinstance(copied, DerivedFunctor)
    assert copied.fingerprint() == derived.fingerprint()
    assert run(copied, X, ONES)[0].equal(run(derived, X, ONES)[0])


# --------------------------------------------------------------------------------------------- errors


def refused(fn, *arguments, **options):
    with pytest.raises(CompilationError) as caught:
        gradient(fn, *(arguments or (X,)), **options)
    return str(caught.value)


def mixes_up(x):
    count = int(x)
    return x + count


@pytest.mark.parametrize(
    "fn",
    [
        mixes_up,
        lambda x: float(int(x)) + x,
        lambda x: (x if x > 0 else int(x)) + x,
        lambda x: math.exp(int(x)),
        lambda x: _scaled(int(x)),
        lambda x: max(int(x), x),
        lambda x: nm.where(x > 0, int(x), x),
    ],
    ids=range(7),
)
def test_an_integer_may_not_become_a_number(fn):
    message = refused(fn)
    assert "int() of a differentiated value" in message
    assert "numjit.differentiable" in message
    assert "test_derived_python.py:" in message
    twice = derive_python(derive_python(PythonFunctor(fn), "vjp", (0,)), "vjp", (0,))
    with pytest.raises(CompilationError, match=r"numjit\.differentiable"):
        run(twice, X, ONES, ONES)


def test_the_users_line_is_shown():
    message = refused(mixes_up)
    assert "return x + count" in message
    assert "functor 'mixes_up'" in message


def test_an_integer_result_has_no_gradient():
    functor = PythonFunctor(lambda x: (x, int(x)))
    assert gradient(functor, X, grads=[ONES], outputs=(True, False)).equal(ONES)
    assert "int() of a differentiated" in refused(functor, grads=[ONES, ONES])


def test_integers_may_count_and_compare():
    def f(x):
        n = int(x) + 1
        k = n * 2 % 5
        return x * 2 if k > 1 and n != 3 else x

    found = gradient(f, X)
    n = X.trunc() + 1
    wanted = torch.where((torch.remainder(n * 2, 5) > 1) & (n != 3), 2.0, 1.0)
    assert found.equal(wanted.double())


def test_what_cannot_be_differentiated_by():
    message = refused(horner, torch.tensor([1, 2]), grads=[torch.ones(2)])
    assert "'x' is int64" in message
    assert "numjit.differentiable" in refused(lambda x: nm.logit(0.5, x), X)
    functor = PythonFunctor(lambda x, *, alpha: x * alpha)
    with pytest.raises(CompilationError, match="'alpha' is a Python number"):
        run(derive_python(functor, "vjp", (1,)), X, ONES, 2.0)


def test_a_complex_tangent_of_a_real_parameter():
    derived = derive_python(PythonFunctor(horner), "jvp", (0,))
    with pytest.raises(CompilationError, match="the tangent of 'x' is complex128"):
        run(derived, X, ONES.to(torch.complex128))


@pytest.mark.parametrize(
    ("active", "outputs", "message"),
    [
        ((), None, "ascending positions"),
        ((1, 0), None, "ascending positions"),
        ((5,), None, "ascending positions"),
        ((2,), None, "raw operand 'table'"),
        ((0,), (True, True), "has 1 results"),
        ((0,), (False,), "has 1 results"),
    ],
)
def test_derivatives_that_do_not_fit(active, outputs, message):
    def f(x, y, table: numjit.raw):
        return x * y * table[0]

    with pytest.raises(AutogradError, match=message):
        derive_python(PythonFunctor(f), "vjp", active, outputs)


def test_errors_of_the_functor_itself_are_its_own():
    assert "elements have no attribute 'foo'" in refused(lambda x: x.foo)


def test_the_value_is_the_functors_own():
    """Branches on a differentiated value take the side that the functor takes, to the last bit."""
    values = torch.linspace(-3, 3, 257)

    def f(x):
        return 1.0 * x if math.sin(x) * 1.5 + x**3 / 7.0 > 0.25 else 2.0 * x

    (own,) = run(PythonFunctor(f), values)
    found = gradient(f, values)
    assert found.equal((own / values).round().where(values != 0, found))


def test_number_arguments_beside():
    """A Python number in place of an operand stays weak."""
    functor = PythonFunctor(lambda x, y: x * y)
    kinds = (ArgumentType(dtypes.float16, Category.DIM), ArgumentType(dtypes.float64, Category.NUMBER))
    derived = derive_python(functor, "vjp", (0,))
    made = derived.specialise((*kinds, kinds[0]), dtypes.float32, target="cpu")
    assert made.outputs == (dtypes.float16,)
