"""Cases G and the drop-in module: torch's documented examples, its scalars, overridden operators."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import itertools
import pickle
import textwrap
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.cuda import jiterator as original

import numjit
from numjit import jiterator
from numjit.errors import ArgumentError, FunctorError
from numjit.jiterator import create_jit_fn, create_multi_output_jit_fn
from numjit.torch.override import OverrideError
from tests.cases import exact, run_python, same
from tests.support.tiers import pairs

DISPATCH_KEY = {"cpu": "CPU", "cuda": "CUDA"}
SCALED = "template <typename T> T scaled(T x, T alpha) { return alpha * x; }"


def near(result, expected):
    torch.testing.assert_close(result, expected, check_stride=True)


# ------------------------------------------------------------------------------ the documented examples


def documented(function):
    """Return the text of every ``Example::`` of a docstring."""
    lines = inspect.getdoc(function).splitlines()
    return [
        textwrap.dedent(
            "\n".join(itertools.takewhile(lambda x: not x or x.startswith("    "), lines[k + 1 :]))
        )
        for k, line in enumerate(lines)
        if line.strip() == "Example::"
    ]


def run_example(text, device):
    """Run an example with numjit's functions; returns its variables, the last expression's as ``answer``."""
    text = text.replace('device="cuda"', f'device="{device}"').replace('"CUDA"', f'"{DISPATCH_KEY[device]}"')
    found = {
        "torch": torch,
        "create_jit_fn": create_jit_fn,
        "create_multi_output_jit_fn": create_multi_output_jit_fn,
    }
    tree = ast.parse(text)
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Assign([ast.Name("answer", ast.Store())], tree.body[-1].value)
        tree.body[-1] = ast.fix_missing_locations(ast.copy_location(last, tree.body[-1]))
    exec(compile(tree, "<example>", "exec"), found)
    return found


def test_there_are_four_documented_examples():
    assert len(documented(original._create_jit_fn)) == 3
    assert len(documented(original._create_multi_output_jit_fn)) == 1


@pytest.mark.parametrize("function", ["_create_jit_fn", "_create_multi_output_jit_fn"])
def test_documented_first_example(function, device):
    """By value, and (in the text for several outputs) through one reference given to ``create_jit_fn``."""
    found = run_example(documented(getattr(original, function))[0], device)
    assert found["a"].device.type == device
    near(found["result"], -found["a"] + 3.14 * found["b"])


def test_documented_example_of_several_functions(device):
    found = run_example(documented(original._create_jit_fn)[1], device)
    near(found["result"], torch.clamp(found["a"].sin() + found["b"].cos(), max=0.0))
    near(found["jitted_fn"](found["a"], found["b"], val=0.75),
         torch.clamp(found["a"].sin() + found["b"].cos(), max=0.75))  # fmt: skip


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_documented_example_of_an_overridden_gelu(device):
    x = torch.tensor([-2.0, -0.5, 0.5, 2.0], device=device)
    before = F.gelu(x)
    found = {}
    try:
        found = run_example(documented(original._create_jit_fn)[2], device)
        assert found["answer"] is True
        assert torch.equal(F.gelu(x), F.relu(x))
        assert torch.equal(torch.nn.GELU()(x), F.relu(x))
    finally:
        if "my_lib" in found:
            found["my_lib"]._destroy()
    assert torch.equal(F.gelu(x), before)


def test_torch_spellings_and_attributes():
    assert jiterator._create_jit_fn is create_jit_fn
    assert jiterator._create_multi_output_jit_fn is create_multi_output_jit_fn
    code = "template <typename T> void pair(T x, T a, T& y, T& z) { y = x + a; z = x - a; }"
    ours, theirs = (module._create_multi_output_jit_fn(code, 2, a=1.5) for module in (jiterator, original))
    for name in ("code_string", "kwargs_dict", "num_outputs", "kernel_name"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name in ("_create_jit_fn", "_create_multi_output_jit_fn"):
        ours, theirs = (
            [(p.name, p.kind) for p in inspect.signature(getattr(module, name)).parameters.values()]
            for module in (jiterator, original)
        )
        assert ours == theirs


# ---------------------------------------------------------------------------------------------- scalars


def test_undeclared_keywords(device):
    function = create_jit_fn(SCALED, alpha=1.0)
    x = torch.ones(3, device=device)
    for name in ("beta", "x", "out"):
        with pytest.raises(KeyError, match=name):
            function(x, **{name: x})
    near(function(x, alpha=2.0), 2 * x)


def test_a_declared_keyword_that_the_code_lacks():
    for make in (create_jit_fn, lambda code, **scalars: create_multi_output_jit_fn(code, 1, **scalars)):
        with pytest.raises(FunctorError, match="beta"):
            make(SCALED, alpha=1.0, beta=2.0)
    with pytest.raises((FunctorError, ArgumentError), match="alpha"):
        create_jit_fn(SCALED, alpha="1")


def test_d1_scalars_are_bound_by_name(device):
    """jiterator binds by the order of declaration and answers 13 and 22."""
    x = torch.tensor([10.0], device=device)
    code = "template <typename T> T f(T x, float a, float b) { return x + 10 * a + b; }"
    assert create_jit_fn(code, b=1, a=2)(x).item() == 31
    assert create_jit_fn(code, b=1, a=2)(x, b=3, a=1).item() == 23
    code = "template <typename T> T f(T b, T x, T a) { return x + 10 * a + b; }"
    assert create_jit_fn(code, a=2, b=1)(x).item() == 31


def test_too_few_and_too_many_operands(device):
    function = create_jit_fn(SCALED, alpha=1.0)
    x = torch.ones(3, device=device)
    with pytest.raises(TypeError, match="'x'"):
        function()
    with pytest.raises(TypeError, match="operands"):
        function(x, x)
    for wrong in (None, "a", [1]):
        with pytest.raises(TypeError, match="alpha"):
            function(x, alpha=wrong)


@pytest.mark.parametrize(
    ("dtype", "alpha", "expected"),
    [
        ("int32", 2.5, [2, 4, -6]),
        ("int32", -2.5, [-2, -4, 6]),
        ("int64", 1e3 + 0.5, [1000, 2000, -3000]),
        ("uint8", -1.5, [255, 254, 3]),
        ("int8", 2.9, [2, 4, -6]),
    ],
)
def test_an_int_t_truncates_a_float_scalar_and_says_so(dtype, alpha, expected, device):
    function = create_jit_fn(SCALED, alpha=1.0)
    x = torch.tensor([1, 2, -3], device=device).to(getattr(torch, dtype))
    with pytest.warns(UserWarning, match=r"alpha=.*truncated") as caught:
        result = function(x, alpha=alpha)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert result.dtype == x.dtype
    assert result.tolist() == expected


def test_scalars_that_lose_nothing_do_not_warn(device):
    function = create_jit_fn(SCALED, alpha=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype, alpha in ((torch.int32, 2.0), (torch.int32, 2), (torch.float32, 2.5), (torch.int64, True)):
            x = torch.tensor([1, 2, -3], device=device).to(dtype)
            same(function(x, alpha=alpha), (x * alpha).to(dtype))


def test_a_float_scalar_of_a_bool_t_is_whether_it_is_not_zero(device):
    """As C++ and jiterator convert it."""
    function = create_jit_fn(SCALED, alpha=1.0)
    x = torch.tensor([True, False], device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert function(x, alpha=0.5).tolist() == [True, False]
    assert function(x, alpha=0.0).tolist() == [False, False]


@pytest.mark.parametrize("alpha", [float("inf"), float("nan"), 1e30])
def test_an_int_t_never_takes_silently_what_it_cannot_hold(alpha, device):
    function = create_jit_fn(SCALED, alpha=1.0)
    x = torch.tensor([1], dtype=torch.int32, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError, UserWarning), match="alpha"):
            function(x, alpha=alpha)


def test_zero_dim_tensors_as_scalars(device):
    """Judged by their dtype, since a GPU's value is not known without a sync."""
    function = create_jit_fn(SCALED, alpha=1.0)
    x = torch.tensor([1, 2], device=device)
    near(function(x.float(), alpha=torch.tensor(2.5, device=device)), x * 2.5)
    near(function(x, alpha=torch.tensor(3, device=device)), x * 3)
    with pytest.warns(UserWarning, match="alpha"):
        result = function(x, alpha=torch.tensor(2.5, device=device))
    assert result.tolist() == [2, 4]
    for real in (x, x.float()):
        with pytest.raises(TypeError, match="alpha"):
            function(real, alpha=torch.tensor(2.5 + 1j, device=device))


def test_complex_keywords(device):
    """jiterator refuses them, or reads their real part."""
    function = create_jit_fn(SCALED, alpha=1.0)
    for dtype in (torch.complex64, torch.complex128):
        x = torch.tensor([1 + 2j, -3 - 0.5j], dtype=dtype, device=device)
        near(function(x, alpha=2 - 1j), (2 - 1j) * x)
        near(function(x, alpha=1.5), 1.5 * x)
        near(create_jit_fn(SCALED, alpha=1j)(x), 1j * x)
    with pytest.raises(TypeError, match="'alpha' is complex"):
        function(torch.ones(2, device=device), alpha=1j)


def test_a_parameter_of_a_real_type_takes_no_complex_number(device):
    function = create_jit_fn(
        "template <typename T> T scaled(T x, float alpha) { return alpha * x; }", alpha=1
    )
    for dtype in (torch.float32, torch.complex64):
        x = torch.ones(2, dtype=dtype, device=device)
        near(function(x, alpha=2.5), 2.5 * x)
        with pytest.raises(TypeError, match="alpha"):
            function(x, alpha=2.5 + 1j)


def test_scalars_do_not_take_part_in_the_common_dtype(device):
    """Not even those of a higher kind, unlike `numjit.elementwise`."""
    code = "template <typename T> T f(T x, T y, T alpha) { return x + alpha * y; }"
    function = create_jit_fn(code, alpha=1)
    x, y = torch.ones(3, dtype=torch.int16, device=device), torch.ones(3, dtype=torch.uint8, device=device)
    with pytest.warns(UserWarning, match="truncated"):
        assert function(x, y, alpha=2.5).dtype == torch.int16
    half = torch.ones(3, dtype=torch.float16, device=device)
    assert function(half, x, alpha=2.5).dtype == torch.float16
    assert function(half, half, alpha=70000.0).tolist() == [float("inf")] * 3
    big = create_jit_fn("template <typename T> T f(T x, T a) { return x + a - T(69999); }", a=0.0)
    assert big(half, a=70000.0).tolist() == [2.0] * 3  # the scalar is not rounded to 16 bits


def test_an_integral_parameter_is_loaded_exactly(device):
    """jiterator rounds the int64 to the common float32 first."""
    function = create_jit_fn("template <typename T> T f(T x, long long i) { return x + (i & 1); }")
    i = torch.tensor([2**24, 2**24 + 1, 2**53 + 1], device=device)
    result = function(torch.ones(3, device=device), i)
    assert result.dtype == torch.float32
    assert result.tolist() == [1.0, 2.0, 2.0]


def test_complex_numbers_meet_real_literals(device):
    function = create_jit_fn("template <typename T> T f(T x) { return 2.0 * x + 1 - 0.5f * x; }")
    for dtype in (torch.complex64, torch.complex128):
        x = torch.tensor([1 + 2j, -3 - 0.5j], dtype=dtype, device=device)
        near(function(x), 1.5 * x + 1)


@pytest.mark.parametrize("name", ["s", "l", "N", "idx", "data", "out", "i0"])
def test_any_functor_name(name, device):
    function = create_jit_fn(f"template <typename T> T {name}(T x, T y) {{ return x - y; }}")
    x, y = torch.rand(3, 4, device=device), torch.rand(4, 3, device=device).t()
    for left, right in ((x, x + 1), (x, y), (x[:, ::2], y[:, ::2])):
        same(function(left, right), left - right)


# ------------------------------------------------------------------------------------- outputs, gradients


def test_numbers_of_outputs():
    two = "template <typename T> void two(T x, T& y, T& z) { y = x; z = x; }"
    for count in (1, 3):
        with pytest.raises(FunctorError, match="2"):
            create_multi_output_jit_fn(two, count)
    with pytest.raises(FunctorError, match="2"):
        create_jit_fn(two)
    with pytest.raises(FunctorError, match="takes no tensor"):
        create_jit_fn("template <typename T> T one(T a) { return a; }", a=1.0)


def test_outputs_have_the_common_dtype_of_all_operands(device):
    code = "template <typename T> void both(T x, bool c, T& y, bool& z) { y = c ? x : T(0); z = c; }"
    function = create_multi_output_jit_fn(code, 2)
    x = torch.tensor([1.5, 2.5], device=device)
    y, z = function(x, torch.tensor([True, False], device=device))
    assert (y.dtype, z.dtype) == (torch.float32, torch.float32)
    assert (y.tolist(), z.tolist()) == ([1.5, 0.0], [1.0, 0.0])
    wide = function(x, torch.tensor([2, 0], dtype=torch.int64, device=device))[0]
    assert (wide.dtype, wide.tolist()) == (torch.float32, [1.5, 0.0])


def test_more_than_eight_operands_and_numpy_arrays():
    names = [f"x{k}" for k in range(10)]
    code = (
        f"template <typename T> T f({', '.join(f'T {x}' for x in names)}) {{ return {' + '.join(names)}; }}"
    )
    result = create_jit_fn(code)(*(np.float32([k, -k]) for k in range(10)))
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, np.float32([45, -45]))


def test_gradients_are_detached(device):
    function = create_jit_fn(SCALED, alpha=2.0)
    x = torch.ones(3, device=device, requires_grad=True)
    result = function(x)
    assert not result.requires_grad
    assert result.grad_fn is None
    near(result, 2 * x.detach())
    assert x.grad is None
    assert torch.is_grad_enabled()


def test_pickling_and_copies(device):
    x = torch.ones(3, device=device)
    one = create_jit_fn(SCALED, alpha=2.0)
    two = create_multi_output_jit_fn(
        "template <typename T> void two(T x, T a, T& y, T& z) { y = x + a; z = x - a; }", 2, a=3.0
    )
    for make in (lambda f: pickle.loads(pickle.dumps(f)), copy.copy, copy.deepcopy):
        again = make(one)
        assert again.kwargs_dict == {"alpha": 2.0}
        assert (again(x)[0].item(), again(x, alpha=5.0)[0].item()) == (2.0, 5.0)
        with pytest.raises(KeyError):
            again(x, beta=1.0)
        assert [r[0].item() for r in make(two)(x)] == [4.0, -2.0]


def test_the_defaults_are_kept_apart(device):
    """Two functions of one text; the second's defaults, and a call's values, do not stay."""
    x = torch.ones(1, device=device)
    first, second = create_jit_fn(SCALED, alpha=2.0), create_jit_fn(SCALED, alpha=3.0)
    assert [f(x).item() for f in (first, second, first)] == [2.0, 3.0, 2.0]
    assert [first(x, alpha=7.0).item(), first(x).item()] == [7.0, 2.0]


# ---------------------------------------------------------------- G: torch's operators, both ways to override


RELU = "template <typename T> T my_gelu(T a) { return a > 0 ? a : 0; }"
INVERTED = "template <typename T> T inverted(bool c, T a, T b) { return c ? b : a; }"
#: Adds 1000, so that a result shows whose it is.
SUM = "template <typename T> T my_add(T self, T other, T alpha) { return self + alpha * other + T(1000); }"
CLIPPED = "template <typename T> T my_exp(T x) { return x > T(10) ? T(22026.4657948067) : std::exp(x); }"


@contextlib.contextmanager
def registered(name, function, device):
    """Override through torch's own registration, as the documentation of jiterator shows it."""
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():  # torch warns that a kernel is overridden
            warnings.simplefilter("ignore", UserWarning)
            library.impl(name, function, DISPATCH_KEY[device])
        yield
    finally:
        library._destroy()


def overridden(name, function, device):
    return numjit.override(name, function, device=device)


ways = pytest.mark.parametrize("way", [registered, overridden])
makers = pytest.mark.parametrize("make", [create_jit_fn, numjit.elementwise])


@ways
@makers
def test_g1_gelu(make, way, device):
    x = torch.tensor([-2.0, -0.5, 0.5, 2.0], device=device)
    before = F.gelu(x), F.gelu(x, approximate="tanh")
    with way("aten::gelu", make(RELU), device):
        plain = F.gelu(x), torch.nn.GELU()(x), torch.ops.aten.gelu(x)
        strided = F.gelu(x[::2]), F.gelu(x.double()), F.gelu(x.half()), F.gelu(x[:0])
        # Refused, not taken for the other formula.
        refusal = (KeyError, TypeError) if way is registered else ArgumentError
        with pytest.raises(refusal, match="approximate"):
            F.gelu(x, approximate="tanh")
        again = F.gelu(x)
    for result in (*plain, again):
        same(result, F.relu(x))
    for result, operand in zip(strided, (x[::2], x.double(), x.half(), x[:0]), strict=True):
        same(result, F.relu(operand))
    assert torch.equal(F.gelu(x), before[0])
    assert torch.equal(F.gelu(x, approximate="tanh"), before[1])


@pytest.mark.parametrize(
    ("dtypes", "how"),
    pairs(
        [("float32", "float32"), ("complex64", "float32"), ("float32", "float64"), ("int64", "float16")],
        list(itertools.product([create_jit_fn, numjit.elementwise], [registered, overridden])),
    ),
)
def test_g2_where_inverted(dtypes, how, device):
    (left, right), (make, way) = dtypes, how
    c = torch.tensor([True, False, True], device=device)
    a = torch.tensor([1, 2, 3], device=device).to(getattr(torch, left))
    b = torch.tensor([-1.5, -2.5, -3.5], device=device).to(getattr(torch, right))
    if a.is_complex():
        a = a * (1 + 2j)
    expected = torch.where(~c, a, b), torch.where(~c[:, None], a, b), torch.where(~c, a, a[0])
    with way("aten::where.self", make(INVERTED), device):
        results = torch.where(c, a, b), torch.where(c[:, None], a, b), torch.where(c, a, a[0])
    for result, wanted in zip(results, expected, strict=True):
        same(result, wanted)


@ways
def test_g2_where_with_numbers(way, device):
    c, a = torch.tensor([True, False], device=device), torch.tensor([1.0, 2.0], device=device)
    whole = torch.tensor([1, 2], device=device)
    expected = torch.where(~c, a, 2.5), torch.where(~c, 2, a), torch.where(~c, whole, 7)
    with way("aten::where.self", create_jit_fn(INVERTED), device):
        results = torch.where(c, a, 2.5), torch.where(c, 2, a), torch.where(c, whole, 7)
    for result, wanted in zip(results, expected, strict=True):
        same(result, wanted)


def _python_add(self, other, *, alpha=1):
    return self + alpha * other + 1000


def _additions(x, y, whole, half):
    """Return what G3 names, and what else reaches ``aten::add.Tensor``."""
    return {
        "x + 2": x + 2,
        "2 + x": 2 + x,
        "x + 2.5": x + 2.5,
        "alpha=3": x.add(y, alpha=3),
        "alpha=0.5": torch.add(x, y, alpha=0.5),
        "number, alpha": x.add(2, alpha=3),
        "int x + 2.5": whole + 2.5,
        "2.5 + int x": 2.5 + whole,
        "int x + 2": whole + 2,
        "int x + float y": whole + y,
        "half + 2": half + 2,
        "half + 0-dim": half + torch.tensor(2.0, dtype=torch.float64),
        "0-dim + half": torch.tensor(2.0, dtype=torch.float64) + half,
        "x + 1j": x + 1j,
        "broadcast": x[:, None] + y,
        "strided": x[::2] + y[::2],
    }


@pytest.mark.parametrize(("kind", "way"), pairs(["jiterator", "c++", "python"], [registered, overridden]))
def test_g3_add_with_wrapped_numbers(kind, way, device):
    made = {
        "jiterator": create_jit_fn(SUM, alpha=1),
        "c++": numjit.elementwise(SUM, alpha=1),
        "python": numjit.elementwise(_python_add),
    }
    x = torch.tensor([1.0, -2.0, 3.0, 0.25], device=device)
    operands = (x, x.flip(0) * 2, torch.tensor([1, 2, 3, -4], device=device), x.half())
    expected = {name: value + 1000 for name, value in _additions(*operands).items()}
    with way("aten::add.Tensor", made[kind], device):
        results = _additions(*operands)
    assert results.keys() == expected.keys()
    for name, result in results.items():
        wanted = expected[name]
        assert result.dtype == wanted.dtype, name
        assert result.device == wanted.device, name
        assert result.stride() == wanted.stride(), name
        # 16-bit: the sum is rounded once here, twice where 1000 was added afterwards.
        spacing = 1.0 if result.dtype == torch.float16 else 1e-4
        torch.testing.assert_close(exact(result), exact(wanted), rtol=0, atol=spacing, msg=name)
    same(x + 2, expected["x + 2"] - 1000)


@pytest.mark.parametrize("make", [create_jit_fn, numjit.elementwise])
def test_override_refuses_an_argument_that_the_functor_lacks(make, device):
    x = torch.ones(3, device=device)
    functor = make("template <typename T> T plain(T self, T other) { return self - other; }")
    with numjit.override("aten::add.Tensor", functor, device=device):
        with pytest.raises(ArgumentError, match=r"alpha=3.*plain"):
            x.add(x, alpha=3)
        zero = x + x
    assert zero.tolist() == [0.0] * 3


def test_g4_removal_restores_the_original(device):
    x = torch.tensor([-1.0, 2.0], device=device)
    before = F.gelu(x)
    handle = numjit.override("aten::gelu", create_jit_fn(RELU), device=device)
    assert torch.equal(F.gelu(x), before)  # made, not installed
    for _ in range(2):
        assert handle.install() is handle
        assert F.gelu(x).tolist() == [0.0, 2.0]
        handle.remove()
        assert torch.equal(F.gelu(x), before)
        handle.remove()
    for _ in range(2):
        with handle as entered:
            assert entered is handle
            assert F.gelu(x).tolist() == [0.0, 2.0]
        assert torch.equal(F.gelu(x), before)
    with pytest.raises(ZeroDivisionError), handle:
        raise ZeroDivisionError
    assert torch.equal(F.gelu(x), before)


def test_a_name_without_its_namespace(device):
    x = torch.tensor([-1.0, 2.0], device=device)
    with numjit.override("gelu", create_jit_fn(RELU), device=device):
        assert F.gelu(x).tolist() == [0.0, 2.0]


def test_g5_overriding_twice(device):
    x = torch.tensor([-1.0, 2.0], device=device)
    before = F.gelu(x)
    first, second = (create_jit_fn(RELU), create_jit_fn(RELU.replace(": 0;", ": -7;")))
    with numjit.override("aten::gelu", first, device=device) as handle:
        for again in (handle, numjit.override("gelu.default", second, device=device)):
            with pytest.raises(OverrideError, match=r"gelu.*already.*remove"):
                again.install()
        assert F.gelu(x).tolist() == [0.0, 2.0]
        with numjit.override("aten::exp", second, device=device):  # another operator is no clash
            assert torch.exp(x).tolist() == [-7.0, 2.0]
        assert F.gelu(x).tolist() == [0.0, 2.0]
    assert torch.equal(F.gelu(x), before)
    with numjit.override("aten::gelu", second, device=device):
        assert F.gelu(x).tolist() == [-7.0, 2.0]
    assert torch.equal(F.gelu(x), before)


@pytest.mark.gpu
def test_the_other_device_keeps_its_kernel():
    on_cpu = torch.tensor([-1.0, 2.0])
    on_gpu, before = on_cpu.cuda(), F.gelu(on_cpu)
    with numjit.override("aten::gelu", create_jit_fn(RELU)):  # a GPU's by default
        assert torch.equal(F.gelu(on_cpu), before)
        with numjit.override("aten::gelu", create_jit_fn(RELU.replace(": 0;", ": -7;")), device="cpu"):
            assert (F.gelu(on_cpu).tolist(), F.gelu(on_gpu).tolist()) == ([-7.0, 2.0], [0.0, 2.0])
        assert torch.equal(F.gelu(on_cpu), before)
        assert F.gelu(on_gpu).tolist() == [0.0, 2.0]
    torch.testing.assert_close(F.gelu(on_gpu).cpu(), before)


def test_what_cannot_be_overridden():
    functor = create_jit_fn(RELU)
    for name in ("aten::no_such_operator", "aten::gelu.no_such_overload", "nowhere::gelu", "aten::"):
        with pytest.raises(OverrideError, match="operator"):
            numjit.override(name, functor)
    with pytest.raises(OverrideError, match=r"'tpu'.*'cuda' or 'cpu'"):
        numjit.override("aten::gelu", functor, device="tpu")
    with pytest.raises(OverrideError, match=r"aten::gelu.*is a int.*numjit\.elementwise"):
        numjit.override("aten::gelu", 3, device="cpu")
    with pytest.raises(OverrideError, match=r"'aten::add\.'.*no overload after the dot"):
        numjit.override("aten::add.", lambda x, y: x, device="cpu")


@ways
@makers
def test_g7_the_literal_of_a_clipped_exp(make, way, device):
    x = torch.tensor([11.0, 0.0, 10.0], device=device)
    with way("aten::exp", make(CLIPPED), device):
        result, double = torch.exp(x), torch.exp(x.double())
    assert result[0].item() == float(np.float32(22026.4657948067))
    assert double[0].item() == 22026.4657948067
    near(result[1:], torch.exp(x[1:]))


# ------------------------------------------------------------------------------------------------ autograd


@ways
def test_the_operators_own_gradient_under_an_override(way, device):
    """The forward values are the functor's; backward is torch's formula for the operator."""
    values = torch.tensor([-2.0, -0.5, 0.5, 2.0], device=device)
    x = values.clone().requires_grad_()
    F.gelu(x).sum().backward()
    expected = x.grad
    x = values.clone().requires_grad_()
    with way("aten::gelu", create_jit_fn(RELU), device):
        result = F.gelu(x)
        result.sum().backward()
    assert torch.equal(result.detach(), F.relu(values))
    assert result.requires_grad
    assert torch.equal(x.grad, expected)


@ways
@pytest.mark.parametrize("kind", ["jiterator", "python"])
def test_the_gradient_of_add_under_an_override(kind, way, device):
    """Not recorded a second time by `numjit.elementwise`, which has gradients of its own."""
    functor = create_jit_fn(SUM, alpha=1) if kind == "jiterator" else numjit.elementwise(_python_add)
    x = torch.ones(3, 2, device=device, requires_grad=True)
    y = torch.ones(2, device=device, requires_grad=True)
    weight = torch.arange(6.0, device=device).view(3, 2)
    with way("aten::add.Tensor", functor, device):
        result = x.add(y, alpha=3)
    assert result.tolist() == [[1004.0, 1004.0]] * 3
    (result * weight).sum().backward()
    assert x.grad.tolist() == weight.tolist()
    assert y.grad.tolist() == [18.0, 27.0]


@ways
def test_an_override_serves_conj_and_neg_views(way, device):
    z = torch.tensor([1 + 2j, 3 - 4j], device=device)
    with way("aten::add.Tensor", create_jit_fn(SUM, alpha=1), device):
        results = z.conj() + z, z.conj().imag + z.real
    assert results[0].tolist() == [1002 + 0j, 1006 + 0j]
    assert results[1].tolist() == [999.0, 1007.0]


def test_modules_are_there_without_an_import_of_their_own():
    program = """
        import numjit
        assert {"jiterator", "torch_sharding"} <= set(dir(numjit))
        print(callable(numjit.jiterator.create_jit_fn), callable(numjit.torch_sharding.register_pointwise))
    """
    assert run_python(program).stdout.split() == ["True", "True"]
