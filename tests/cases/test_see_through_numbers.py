"""Python numbers inside of a functor under torch.compile: eager's answer, and never a broken graph."""

import math

import pytest
import torch

import numjit
from numjit.torch.compile import explain
from numjit.torch.see_through import plain_numbers
from tests.cases import run_python
from tests.support.scalar_tables import written
from tests.support.tiers import pairs

#: Methods and attributes of numbers: an expression of the operand x and the number, which is a scalar.
METHODS = {
    "complex": ("x * {k}.conjugate() + {k}.real - {k}.imag", 1 + 2j),
    "float": ("x * {k}.conjugate() + {k}.real - {k}.imag", -1.5),
    "int": ("x * {k}.conjugate() + {k}.real - {k}.imag", 3),
    "of a sum": ("x * ({k} + 1j).conjugate()", 0.5),
    "of a literal": ("x * (1 + 2j).conjugate() * {k} + (2.5).real", 2.0),
}
#: What Python raises for, or what torch's compiler cannot trace.
OF_REALS = {
    "sqrt of a negative": ("x + math.sqrt({k})", -1.0),
    "log of 0": ("x + math.log({k})", 0.0),
    "log1p of -1": ("x + math.log1p({k})", -1.0),
    "asin beyond 1": ("x + math.asin({k})", 2.0),
    "atanh of 1": ("x + math.atanh({k})", 1.0),
    "cos of infinity": ("x + math.cos({k})", math.inf),
    "exp overflows": ("x + math.exp({k})", 1000.0),
    "lgamma at its pole": ("x + math.lgamma({k})", 0.0),
    "int // 0": ("x + 1 // {k}", 0),
    "int % 0": ("x + 7 % {k}", 0),
    "float // 0": ("x + 1.0 // {k}", 0.0),
    "float % 0": ("x + 1.0 % {k}", 0.0),
    "int / 0": ("x + 1 / {k}", 0),
    "root of a negative": ("x + {k}**0.5", -8.0),
    "square overflows": ("x + {k}**2", 1e308),
    "literal sqrt": ("x + {k} + math.sqrt(-1.0)", 2.0),
    "literal // 0": ("x + {k} + 1 // 0", 2.0),
    "literal log of 0": ("x + {k} + math.log(0.0)", 2.0),
    "in a condition": ("x if math.sqrt({k}) > 2 else -x", 9.0),
    "largest": ("x + max(math.sqrt({k}), 1)", 9.0),
    "numjit.math": ("x + nm.exp({k}) + nm.sign({k})", 2.5),
    "rounding": ("x + math.floor({k}) + int({k}) + round({k})", 2.75),
    "of an int": ("x + math.floor({k}) + int({k}) + round({k})", 3),
    "invert": ("x + ~{k} - {k}", 3),
    "phase": ("x * cmath.phase({k})", 1 + 2j),
    "abs": ("x * abs({k})", 3 + 4j),
    "abs of exp": ("x * abs(cmath.exp(1j * {k}))", 0.5),
}
#: The same where the operand is complex.
OF_COMPLEX = {
    "complex exp": ("x * cmath.exp(1j * {k})", 0.5),
    "complex sqrt": ("x + cmath.sqrt({k})", -4.0),
    "complex log": ("x * cmath.log({k}, 2)", 0.5),
    "rect": ("x * cmath.rect(1.0, {k})", 0.5),
    "complex power": ("x + {k}**2", 3 + 4j),
    "complex of two": ("x + complex({k}, 2)", 2.5),
}


def check(table, x, folder, backend="eager"):
    """Compare all rows at once: numbers that the compiler knows, and numbers that change."""
    names = [f"k{place}" for place in range(len(table))]
    results = [text.format(k=name) for name, (text, _) in zip(names, table.values(), strict=True)]
    operation = numjit.elementwise(written(f"def block(x, *, {', '.join(names)})", results, folder))
    numbers = [number for _, number in table.values()]
    eager = operation(x, **dict(zip(names, numbers, strict=True)))
    assert explain(operation.__numjit_operation__, [x, *numbers], opaque=False) is None
    torch._dynamo.reset()

    def call(x, *numbers):
        return operation(x, **dict(zip(names, numbers, strict=True)))

    closed = torch.compile(lambda x: call(x, *numbers), fullgraph=True, backend=backend)
    given = torch.compile(call, fullgraph=True, backend=backend)
    given(x, *[number + 1 for number in numbers])  # so that the numbers are some that change
    for found in (closed(x), given(x, *numbers)):
        for name, one, wanted in zip(table, found, eager, strict=True):
            assert one.dtype == wanted.dtype, name
            torch.testing.assert_close(one, wanted, equal_nan=True, msg=f"{name}: {one} is not {wanted}")


def test_methods_and_attributes_of_numbers_are_the_eager_ones(device, tmp_path):
    check(METHODS, torch.tensor([1 + 1j, -2.0], device=device), tmp_path)


def test_functions_of_real_numbers_are_the_eager_ones_and_break_no_graph(device, tmp_path):
    check(OF_REALS, torch.tensor([1.0, -2.0], device=device), tmp_path)


def test_functions_of_complex_numbers_are_the_eager_ones_and_break_no_graph(device, tmp_path):
    check(OF_COMPLEX, torch.tensor([1 + 1j, -2.0], device=device), tmp_path)


#: Functions of complex elements, and points where some of torch's lose their digits or their zeros' signs.
COMPLEX_FUNCTIONS = [
    *(f"cmath.{name}(x)" for name in ("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos")),
    *(f"cmath.{name}(x)" for name in ("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")),
    *(f"nm.{name}(x)" for name in ("expm1", "log1p", "sigmoid", "sgn", "sinc", "rsqrt")),
    "x**2.5", "-x * x + x / (1 - x)", "x**3 - x.conjugate() * abs(x)", "nm.where(abs(x) > 1, x, 1j * x)",
]  # fmt: skip
POINTS = [0.3 - 0.5j, -1.8e-12 + 7e-12j, 4e-20j, 1.5 - 1e-9j, -0.7 + 2e4j, complex(-3.5, -0.0), -20 + 1j]


@pytest.mark.parametrize(
    ("text", "dtype"), pairs(COMPLEX_FUNCTIONS, [torch.complex64, torch.complex128]), ids=str
)
def test_functions_of_complex_elements_are_the_eager_ones(text, dtype, device, tmp_path):
    operation = numjit.elementwise(written("def block(x)", [text], tmp_path))
    x = torch.tensor(POINTS, dtype=dtype, device=device, requires_grad=True)
    torch._dynamo.reset()
    call = torch.compile(operation, fullgraph=True, backend="aot_eager")
    eps = torch.finfo(dtype).eps
    eager, compiled = operation(x), call(x)
    torch.testing.assert_close(compiled, eager, rtol=32 * eps, atol=0, equal_nan=True)
    for found, wanted in zip(_gradient(compiled, x), _gradient(eager, x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=64 * eps, atol=1e-30, equal_nan=True)


def _gradient(result, x):
    result = torch.view_as_real(result) if result.is_complex() else result
    return torch.view_as_real(torch.autograd.grad(result.sum(), x)[0])


def test_a_function_that_torch_lacks_leaves_one_operation_and_explain_says_why(device):
    operation = numjit.elementwise(lambda x, *, k: x + math.gamma(k))
    x = torch.tensor([1.0, 2.0], device=device)
    torch._dynamo.reset()
    found = torch.compile(lambda x, k: operation(x, k=k), fullgraph=True, backend="eager")(x, 3.5)
    torch.testing.assert_close(found, operation(x, k=3.5))
    assert "gamma" in explain(operation.__numjit_operation__, [x, 3.5], opaque=False)


@pytest.mark.parametrize("distance", [0, 3, 65, -1])
def test_shifts_by_a_number_of_the_call_are_the_eager_ones(distance, device):
    operation = numjit.elementwise(lambda x, *, k: x + (1 << k) + (100 >> k))
    x = torch.tensor([1.0, 2.0], device=device)
    torch._dynamo.reset()
    found = torch.compile(lambda x, k: operation(x, k=k), fullgraph=True, backend="eager")(x, distance)
    torch.testing.assert_close(found, operation(x, k=distance), rtol=0, atol=0)


NUMBERS = [0, 1, -1, 7, -7, 64, 0.0, -0.0, 2.5, -2.5, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("name", plain_numbers.__all__)
def test_operations_on_plain_numbers_raise_nothing(name):
    function = getattr(plain_numbers, name)
    whole = name in {"power", "shift_left", "shift_right"}
    python = {
        "floordiv": lambda x, y: x // y,
        "modulo": lambda x, y: x % y,
        "power": lambda x, y: x**y,
        "ratio": lambda x, y: x / y,
        "shift_left": lambda x, y: x << y if y < 64 else 0,
        "shift_right": lambda x, y: x >> y,
    }[name]
    numbers = [n for n in NUMBERS if isinstance(n, int)] if whole else NUMBERS
    for x in numbers:
        for y in numbers:
            found = function(x, y)
            try:
                wanted = python(x, y)
            except (ArithmeticError, ValueError):
                continue
            assert type(found) is type(wanted)
            assert found == wanted or found != found, (x, y)


def test_a_quotient_by_a_float_zero_has_its_sign():
    assert plain_numbers.ratio(1.0, -0.0) == -math.inf
    assert plain_numbers.ratio(-1, 0) == -math.inf
    assert math.isnan(plain_numbers.ratio(0, 0))
    assert plain_numbers.floordiv(5, 0) == plain_numbers.modulo(5, 0) == 0
    assert math.isnan(plain_numbers.modulo(5.0, 0))


@numjit.elementwise
def multiple(x, y):
    return numjit.math.lcm(x, y)


LEAST_MULTIPLES = """
    import sys, torch
    from tests.cases.test_see_through_numbers import multiple
    device = sys.argv[1]
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        k = torch.arange(-2000, 2000, device=device).to(dtype)
        assert multiple.explain(k, k) is None
        smallest = torch.full_like(k, torch.iinfo(dtype).min)
        compiled = torch.compile(lambda x, y: multiple(x, y), backend="aot_eager", fullgraph=True)
        for x, y in ((k, smallest), (smallest, k), (k, k.flip(0)), (smallest, smallest)):
            assert torch.equal(compiled(x, y), multiple(x, y)), (x, y)
        print("equal", dtype, flush=True)
"""


def test_least_common_multiples_of_the_smallest_integer_do_not_end_the_process(device):
    assert run_python(LEAST_MULTIPLES, device).stdout.count("equal") == 4
