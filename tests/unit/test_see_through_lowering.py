"""Torch forms of Python functors answer what the functors themselves do on CPU tensors."""

import math
import typing

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit import dtypes
from numjit import math as nm
from numjit.torch.meta import argument_types
from numjit.torch.see_through.lowered import NotLowerable
from numjit.torch.see_through.lowering import lower
from tests.support.math_cases import BINARY, UNARY, values_of
from tests.support.tiers import pairs

INTEGERS = ["int8", "uint8", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def lowered(operation, values, **options):
    kinds = argument_types(operation.functor, values)
    return lower(operation.functor, kinds, dtypes.as_dtype(torch.get_default_dtype()), **options)


def both(operation, *operands, **scalars):
    """Return what the torch form and the functor answer, each as a tuple."""
    values = operation.__numjit_operation__.binder.bind(operands, scalars)
    ours = lowered(operation, values).build()(*values)
    theirs = operation(*operands, **scalars)
    shorter = lowered(operation, values, gradients=False).build()(*values)
    for one, other in zip(
        ours if isinstance(ours, tuple) else (ours,),
        shorter if isinstance(shorter, tuple) else (shorter,),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    return [x if isinstance(x, tuple) else (x,) for x in (ours, theirs)]


def assert_same(operation, *operands, ulps=0, **scalars):
    """Compare dtype, shape, strides and values; `ulps` of the compute type, 1 of a 16-bit result."""
    ours, theirs = both(operation, *operands, **scalars)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.stride() == other.stride()
        if not one.dtype.is_floating_point and not one.dtype.is_complex:
            assert torch.equal(one, other)
            continue
        eps = torch.finfo(one.dtype).eps
        factor = ulps if one.dtype.itemsize > 2 else min(ulps, 1)
        torch.testing.assert_close(one, other, rtol=factor * eps, atol=factor * eps / 16, equal_nan=True)


def operand(name, count=23, seed=0):
    """Return values of a dtype: small integers of both signs with zeros, and floats around 0."""
    dtype = getattr(torch, name)
    generator = torch.Generator().manual_seed(seed)
    if name == "bool":
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.randn(count, generator=generator, dtype=torch.float64) * 3
        if dtype.is_complex:
            values = torch.complex(values, torch.randn(count, generator=generator, dtype=torch.float64))
        return values.to(dtype)
    return torch.randint(0 if name == "uint8" else -7, 8, (count,), generator=generator).to(dtype)


# ------------------------------------------------------------------------------------ operators, exactly

OPERATORS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "divmod": lambda x, y: (divmod(x, y)[1], divmod(x, y)[0]),
    "number first": lambda x, y: 2 - x * 3 + 1 / y,
    "number divisor": lambda x, y: x // 3 + y % 4 - x // -1,
    "float numbers": lambda x, y: 0.1 * x - y / 3.0,
    "compare": lambda x, y: (x < y, x <= y, x == y, x != 2, 1.5 > y),
    "chained": lambda x, y: -1 < x <= y,
    "and": lambda x, y: x > 0 and y > 0,
    "or not": lambda x, y: not x or y > 0,
    "values of and": lambda x, y: x and y,
    "minimum": lambda x, y: min(x, y, 2),
    "maximum": lambda x, y: max((x, y)),
    "sum": lambda x, y: sum((x, y, x)),
    "negate": lambda x, y: -x + +y,
    "abs": lambda x, y: abs(x) - abs(y),
    "square": lambda x, y: x**2 + y**3,
    "conversion": lambda x, y: float(x) + int(y),
    "bool": lambda x, y: bool(x) + (y > 0),
}


#: By the dtype of the first operand (and what tells it from another), the second one.
OPERANDS = {
    "int8": operand("int8", seed=1),
    "bfloat16": operand("bfloat16", seed=1),
    "float32": operand("float32", seed=1),
    "int32": operand("float16", seed=1),
    "uint8": operand("int8", seed=1),
    "int32 and 0-dim": operand("float64", 1, seed=1)[0],
    "int32 and number": 2.5,
}


@pytest.mark.parametrize(
    ("name", "first"), [*pairs(OPERATORS, list(OPERANDS)[:4]), *pairs(OPERATORS, list(OPERANDS)[4:])]
)
def test_operators_agree_exactly(name, first):
    assert_same(numjit.elementwise(OPERATORS[name]), operand(first.split()[0]), OPERANDS[first])


INTEGER_OPERATORS = {
    "bits": lambda x, y: (x & y, x | y, x ^ y, ~x),
    "left shift": lambda x, y: x << y,
    "right shift": lambda x, y: x >> y,
    "shifts by numbers": lambda x, y: (x << 2) + (y >> 1) + (x << 70),
    "smallest": lambda x, y: (x // y, x % y),
    "powers": lambda x, y: x**y,
    "gcd": lambda x, y: (math.gcd(x, y), nm.lcm(x, y)),
}


@pytest.mark.parametrize("name", INTEGER_OPERATORS)
def test_integer_operators_agree_exactly(name):
    operation = numjit.elementwise(INTEGER_OPERATORS[name])
    for dtype in INTEGERS:
        info = torch.iinfo(getattr(torch, dtype))
        edges = torch.tensor([info.min, info.max, 0, 1], dtype=getattr(torch, dtype))
        x = torch.cat([operand(dtype), edges.repeat_interleave(4)])
        y = torch.cat([operand(dtype, seed=1), edges.repeat(4)])
        if dtype != "uint8":
            y[-1] = -1
            x[-1] = info.min
        if name == "gcd":  # of the smallest integer torch gives the negative divisor
            x = torch.where(x == info.min, 1, x)
            y = torch.where(y == info.min, 1, y)
        if name == "powers":
            y = y.clamp(-3, 7)
        assert_same(operation, x, y)


def test_bool_operators_agree():
    operation = numjit.elementwise(lambda x, y: (x + y, x * y, x & y, x | y, x ^ y, ~x, x < y, x / (y + 1)))
    assert_same(operation, operand("bool"), operand("bool", seed=1))


def test_complex_operators_agree():
    @numjit.elementwise
    def operation(x, y):
        z = complex(x.real, y.imag) + 2j
        return x * y + 1, x / y, abs(x), x.conjugate() - z, x.imag, x == y, x**2

    for name in ("complex64", "complex128"):
        assert_same(operation, operand(name), operand(name, seed=1), ulps=8)


# -------------------------------------------------------------------------------------- math functions

#: numjit's own formula is another than torch's: units in the last place that they may differ by.
LOOSE = {"digamma": 4000, "lgamma": 64, "erfinv": 64, "sinc": 64, "tan": 16, "i0": 64, "logaddexp": 64}


UNARY_NAMES = [name for name in UNARY if name not in {"angle", "bitwise_not", "frac", "logit"}]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *pairs(UNARY_NAMES, ["float32", "int32", "bfloat16", "float64"]),
        *pairs(["frac", "logit"], ["float32", "bfloat16", "float64"]),
    ],
)
def test_unary_functions_agree(name, dtype):
    function, x = getattr(nm, name), values_of(dtype)
    if name in {"sin", "cos", "tan", "sinc", "digamma", "lgamma", "i0"}:
        x = x[(x.abs() < 30) & (x.abs() > 1e-6)]
    assert_same(numjit.elementwise(lambda x: function(x)), x, ulps=max(2 * UNARY[name], LOOSE.get(name, 0)))


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_agree(name):
    function = getattr(nm, name)
    operation = numjit.elementwise(lambda x, y: function(x, y))
    floats = name not in {"gcd", "lcm"} and not name.startswith(("bitwise", "left", "right"))
    integers = name not in {"logaddexp", "hypot", "nextafter"}
    for dtype in (["float32", "float64"] if floats else []) + (["int32", "uint8"] if integers else []):
        x, y = operand(dtype, 60), operand(dtype, 60, seed=1)
        assert_same(operation, x, y, ulps=max(2 * BINARY[name], LOOSE.get(name, 0)))


PYTHON_MATH = {
    "logs": lambda x: (math.log(x, 3), math.log2(x), math.log1p(x)),
    "angles": lambda x: (math.degrees(x), math.radians(x), math.atan2(x, 2)),
    "roundings": lambda x: (math.floor(x), math.ceil(x), math.trunc(x), round(x), round(x, 2)),
    "parts": lambda x: (math.modf(x)[0], math.modf(x)[1], math.fabs(x), math.copysign(1.0, x)),
    "remainders": lambda x: (math.fmod(x, 3), math.hypot(x, 2, x), math.ldexp(x, 3)),
    "questions": lambda x: (math.isnan(x), math.isinf(x), math.isfinite(x)),
    "powers": lambda x: (math.pow(x, 2.5), x**0.5, x**-1, x**-2, x**-0.5, x**4, x**7, 2**x),
    "clamp": lambda x: (nm.clamp(x, -1, 2), nm.clamp(x, lo=0.5), nm.clamp(x, hi=x / 2)),
    "options": lambda x: (
        nm.softplus(x, beta=2.0),
        nm.logit(nm.sigmoid(x), eps=1e-3),
        nm.round(x, decimals=1),
    ),
    "where": lambda x: nm.where(x > 0, x, 0.0),
}


@pytest.mark.parametrize("name", PYTHON_MATH)
def test_python_math_agrees(name):
    operation = numjit.elementwise(PYTHON_MATH[name])
    for dtype in ("float16", "float32", "float64"):
        assert_same(operation, operand(dtype).abs() + 0.1 if name == "logs" else operand(dtype), ulps=8)


# ----------------------------------------------------------------------------------------- statements

SCALE = 1.5
TAPS = (0.25, 0.5, 0.25)
T = typing.TypeVar("T")


def helper(x, power=2, *, shift=0.0):
    if x < 0:
        return -x
    return x**power + shift


@numjit.elementwise
def decorated(x: numjit.float32, y=1):
    return x * y


def early_return(x, y, *, low=-1.0, high=1):
    if x < low:
        return low * y
    if x > high:
        return high
    y = y + 1
    return x * y


def assigned_in_arms(x, y):
    if x > y:
        z = x
        x, y = y, x
    elif x == y:
        z = 0
    else:
        z = y * 2
        if z > 1:
            z -= 1
    return x - y + z


def loops(x, y):
    total = 0.0
    for k, tap in enumerate(TAPS):
        if k == 1:
            continue
        total += tap * x
    for k in range(8):
        if total > y:
            break
        total = total + k
    n = 3
    while n > 0:
        total *= 2
        n -= 1
    return total


def weak_arms(x, y):
    step = 1.0 if x > 0 else 2
    count = 0
    for k in range(3):
        count += 1 if y > k else 0
    return x * step, count, step


def scalar_arms(x, *, alpha=1.0, flag=True):
    if alpha > 0.5:  # noqa: SIM108 - the statement is what is tested
        y = x * alpha
    else:
        y = 1 / (alpha - 0.25)
    if flag:
        return y, alpha
    return -y, alpha * 2


def calls(x, y):
    def inner(z):
        return z * SCALE

    twice = lambda z: inner(inner(z))  # noqa: E731
    return helper(x) + helper(y, 3, shift=0.5) + decorated(x, y) + twice(x)


def several(x, y):
    pair = (x, y)
    first, (second, third) = pair[1], (pair[0], x + y)
    return first, second, third, first


def unused(x, y):
    return x


def numbers_only(x, y):
    return 1, 2.5, True


def nested_conditions(x, y):
    return (x if x > y else -y) if x * y > 0 else (0 if y else x)


STATEMENTS = {
    f.__name__: f
    for f in (early_return, assigned_in_arms, loops, weak_arms, calls, several, unused, numbers_only,
              nested_conditions)
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "float64"])
def test_statements_agree_exactly(name, dtype):
    ulps = 2 if name == "calls" else 0  # a power that is a helper's argument is pow() in compiled code
    assert_same(numjit.elementwise(STATEMENTS[name]), operand(dtype), operand(dtype, seed=1), ulps=ulps)


@pytest.mark.parametrize("alpha", [0.75, 0.125, 1, True])
@pytest.mark.parametrize("flag", [True, False])
def test_python_numbers_decide_without_computing_both_arms(alpha, flag):
    assert_same(numjit.elementwise(scalar_arms), operand("float32"), alpha=alpha, flag=flag)
    assert_same(numjit.elementwise(scalar_arms), operand("int32"), alpha=alpha, flag=flag)


def test_a_scalar_divides_by_zero_as_floats_do():
    assert_same(numjit.elementwise(lambda x, *, a=0.0: x + 1 / a), operand("float32"), a=0.0)


def test_annotated_dtypes_agree():
    def shared(x: T, y: T, w: numjit.float32) -> (numjit.bool_, T):
        return x > y, x * y * w

    operation = numjit.elementwise(shared)
    assert_same(operation, operand("int32"), operand("float16", seed=1), operand("float64", seed=2))
    assert_same(operation, operand("int32"), operand("int32", seed=1), 2)


def test_a_parameter_of_a_narrower_dtype_agrees():
    def narrow(x: numjit.float16):
        return x * 3

    assert_same(numjit.elementwise(narrow), operand("float32"))


# ---------------------------------------------------------------------------------------------- layout


def layouts():
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    return {
        "contiguous": (x, x + 1),
        "transposed": (x.transpose(1, 3), x.transpose(1, 3)),
        "one transposed": (x.mT, x.mT.contiguous()),
        "channels last": (x.to(memory_format=torch.channels_last), x),
        "both channels last": (x.to(memory_format=torch.channels_last),) * 2,
        "bias": (x, torch.arange(5.0)),
        "bias first": (torch.arange(3.0).reshape(3, 1, 1), x.to(memory_format=torch.channels_last)),
        "expanded": (x[:, :1].expand(2, 3, 4, 5), x),
        "outer": (torch.arange(3.0)[:, None], torch.arange(4.0)),
        "sliced": (x[..., ::2], x[..., 1::2].sum(-1, keepdim=True)),
        "0-dim": (x[0, 0, 0, 0], x[0, 0, 0, 1]),
        "number": (x.mT, 2.0),
        "empty": (x[:0], x[:0]),
    }


@pytest.mark.parametrize("name", layouts())
@pytest.mark.parametrize(
    "functor", [lambda x, y: x * 2 + y, lambda x, y: (y, x, 1.0)], ids=["computed", "handed on"]
)
def test_results_have_the_strides_of_the_functor(name, functor):
    assert_same(numjit.elementwise(functor), *layouts()[name])


def test_results_are_never_the_operands():
    x = torch.ones(3)
    values = [x, x]
    operation = numjit.elementwise(lambda x, y: (x, y, x.real))
    for result in lowered(operation, values).build()(*values):
        assert result.data_ptr() != x.data_ptr()
    results = lowered(numjit.elementwise(lambda x, y: (z := x + y, z)), values).build()(*values)
    assert results[0].data_ptr() != results[1].data_ptr()


# ------------------------------------------------------------------------------------------ gradients


@pytest.mark.parametrize(
    "functor",
    [
        lambda x: math.sqrt(x) if x > 0 else 2 * x,
        lambda x: 0.0 if x == 0 else math.sin(x) / x,
        lambda x: math.log(x) * x if x > 1 and x < 5 else x / (x + 9),
    ],
    ids=["sqrt", "sinc", "log"],
)
def test_arms_that_are_not_taken_have_no_part_in_the_gradient(functor):
    x = torch.tensor([-2.0, -1.0, 0.0, 0.5, 2.0, 6.0], dtype=torch.float64, requires_grad=True)
    operation = numjit.elementwise(functor)
    form = lowered(operation, [x]).build()
    (gradient,) = torch.autograd.grad(form(x).sum(), x)
    assert gradient.isfinite().all()
    step = 1e-6
    expected = (form(x.detach() + step) - form(x.detach() - step)) / (2 * step)
    inside = x.detach() != 0  # a jump, or a kink, there
    torch.testing.assert_close(gradient[inside], expected[inside], rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------------------------------- refusals


def _while(x):
    while x > 1:
        x = x / 2
    return x


REFUSED = {
    "while": (_while, "while loop"),
    "index": (lambda x: x + numjit.index(), "index"),
    "gamma": (lambda x: math.gamma(x), "no counterpart"),
    "number of turns": (None, "number of turns"),
    "recursion": (None, "calls itself"),
    "too long": (None, "unroll"),
}


def _growing(x):
    a = b = x
    for _ in range(12):
        if a * a + b * b < 4:
            a, b = a * a - b * b + x, 2 * a * b
    return a


def _turns(x, *, n=3):
    for _ in range(n):
        x = x * 2
    return x


def _recursive(x):
    return _recursive(x - 1) if x > 0 else x


def _long(x):
    for _ in range(1500):
        x = x * 2 + 1
    return x


REFUSED["number of turns"] = (_turns, "number of turns")
REFUSED["recursion"] = (_recursive, "calls itself")
REFUSED["too large"] = (_growing, "operations")
REFUSED["too long"] = (_long, "unroll")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_says_why(name):
    functor, reason = REFUSED[name]
    operation = numjit.elementwise(functor)
    with pytest.raises(NotLowerable, match=reason):
        lowered(operation, operation.__numjit_operation__.binder.bind((torch.ones(3),), {}))


@pytest.mark.parametrize("dtype", ["float8_e5m2", "uint16"])
def test_dtypes_that_torch_hardly_computes_with_are_refused(dtype):
    x = torch.ones(3).to(getattr(torch, dtype))
    with pytest.raises(NotLowerable, match="hardly"):
        lowered(numjit.elementwise(lambda x: x), [x])


def test_raw_operands_are_refused():
    def gather(x, table: numjit.raw):
        return table[int(x)]

    with pytest.raises(NotLowerable, match="raw"):
        lowered(numjit.elementwise(gather), [torch.ones(3), torch.ones(3)])


def test_a_function_without_source_is_refused():
    space = {}
    exec("def f(x): return x + 1", space)
    with pytest.raises(NotLowerable, match="source"):
        lowered(numjit.elementwise(space["f"]), [torch.ones(3)])


def test_the_right_one_of_several_lambdas_in_a_line_is_read():
    first, second, third = (lambda x: x + 1), (lambda x: x + 2), (lambda x: x + 1.0)
    for k, functor in enumerate((first, second, third)):
        text = lowered(numjit.elementwise(functor), [torch.ones(3, dtype=torch.int32)]).source
        assert ("(1)", "(2)", "(1.0)")[k] in text


def test_the_text_is_plain_torch():
    text = lowered(numjit.elementwise(lambda x: 0.5 * x), [torch.ones(3, dtype=torch.float16)]).source
    assert "p_x.to(torch.float32)" in text
    assert "(0.5) * v1" in text
    assert "torch.float16" in text
