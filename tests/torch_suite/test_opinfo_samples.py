"""All samples of torch's five ``jiterator_*`` OpInfos, in every dtype they name, by `numjit.jiterator`.

None is skipped: the dtypes that torch's own tests skip for jiterator (bool), what is undefined in jiterator
(bool bytes other than 0 and 1) and what they expect to fail (conj, neg and neg-conj views) are here too.
"""

from __future__ import annotations

import copy
import itertools

import pytest
import torch

from tests.support.tiers import pairs
from tests.torch_suite import DTYPES, OPERATIONS, REPRESENTATIVE, on_devices, opinfos, scalar_sets
from tests.torch_suite.conftest import PROPERTY

#: Samples that torch's generators give at least, by operation; an empty generator must not pass.
FLOORS = {
    "jiterator_unary": 30,
    "jiterator_binary": 90,
    "jiterator_4inputs_with_extra_args": 100,
    "jiterator_binary_return_by_ref": 90,
    "jiterator_2inputs_2outputs": 100,
}
#: Larger samples are called with the default scalars only: they add elements, not cases.
LARGE = 2**16

operations = pytest.mark.parametrize("operation", OPERATIONS)


def generate(info, device, dtype):
    """Return what ``info.reference_inputs`` yields, which holds all of ``info.sample_inputs``.

    Those iterators format a traceback for every sample (a fifth of the time); their generators do not.
    """
    torch.manual_seed(0)
    function = info.reference_inputs_func or info.sample_inputs_func
    return list(function(info, device, getattr(torch, dtype), False))


def samples(operation, device, dtype):
    """Return the operands of every sample.

    The OpInfos that are no elementwise binary ones for torch have 9 samples only. They get those also as
    non-contiguous tensors, and all pairs of the binary generators.
    """
    info = opinfos()[operation]
    made = generate(info, device, dtype)
    assert all(not sample.kwargs for sample in made)
    if info.reference_inputs_func is None:
        made += [sample.noncontiguous() for sample in made]
    operands = [(sample.input, *sample.args) for sample in made]
    if info.reference_inputs_func is None:
        for sample in generate(opinfos()["jiterator_binary"], device, dtype):
            if device != "cpu" or sample.input.numel() <= LARGE:
                x, y = sample.input, *sample.args
                operands.append((x, y) if OPERATIONS[operation].operands == 2 else (x, y, y, x))
    return operands


def numel(operands):
    return max(x.numel() for x in operands if isinstance(x, torch.Tensor))


def keywords(operation, device, dtype, operands):
    """Return the sets of keyword scalars that a sample is called with besides the defaults."""
    values = [3, 1] if dtype == "bool" else [3, -2]
    # A float where the default is an int compiles anew: on the CPU not for all dtypes, nor 0-dim operands.
    if device != "cpu" or (dtype in REPRESENTATIVE and all(x.ndim for x in operands)):
        values += [3.14, -4.2]  # the values of the OpInfos, which their generator forgets to pass on
    return scalar_sets(OPERATIONS[operation].scalars, values)


def test_the_functors_are_those_of_torch():
    infos = opinfos()
    assert set(infos) == set(OPERATIONS)
    for name, operation in OPERATIONS.items():
        assert infos[name].op.code_string.split() == operation.function.code_string.split()
        assert infos[name].op.kwargs_dict == operation.function.kwargs_dict
        assert infos[name].op.num_outputs == len(operation.terms)
        dtypes = {str(dtype).removeprefix("torch.") for dtype in infos[name].supported_dtypes("cuda")}
        assert dtypes == set(DTYPES)


@pytest.mark.parametrize(("dtype", "operation"), pairs(DTYPES, OPERATIONS))
def test_samples(operation, dtype, device, record_property):
    made = samples(operation, device, dtype)
    calls = 0
    for operands in made:
        OPERATIONS[operation].check(operands, device)
        calls += 1
        if numel(operands) <= LARGE:
            for given in keywords(operation, device, dtype, operands):
                OPERATIONS[operation].check(operands, device, **given)
                calls += 1
    assert len(made) >= FLOORS[operation]
    record_property(PROPERTY, [operation, device, dtype, len(made), calls])


# ------------------------------------------------------------------------------------- numbers as operands


def number_samples(device, dtype):
    """Return torch's samples with Python numbers on either side, which it has for other operators.

    Its generators ask the OpInfo whether the operator takes numbers (jiterator does not), and yield those
    with NaN, infinities and 0-dim tensors of another dtype for comparisons only.
    """
    from torch.testing._internal.opinfo import core

    info = copy.copy(opinfos()["jiterator_binary"])
    info.supports_rhs_python_scalar = info.supports_one_python_scalar = True
    options = {"device": device, "dtype": getattr(torch, dtype), "requires_grad": False}
    made = list(core.generate_elementwise_binary_with_scalar_samples(info, **options))
    info.name = "eq"
    made += core.generate_elementwise_binary_with_scalar_and_type_promotion_samples(info, **options)
    return [(sample.input, *sample.args) for sample in made]


@pytest.mark.parametrize(("device", "dtype"), on_devices(("bool", "complex64", "int32"), DTYPES))
def test_torch_samples_with_numbers(device, dtype, record_property):
    made = number_samples(device, dtype)
    for operands in made:
        OPERATIONS["jiterator_binary"].check(operands, device)
    assert len(made) >= 18
    assert any(not isinstance(operands[0], torch.Tensor) for operands in made)
    assert any(not isinstance(operands[1], torch.Tensor) for operands in made)
    record_property(PROPERTY, ["jiterator_binary, numbers", device, dtype, len(made), len(made)])


_NUMBERS = (True, 3, -2.5, 1.5 - 2j)
#: Every kind of number on either side of one operation; the others share what is behind it.
_BINARY_CASES = [("jiterator_binary", position, number) for position in (0, 1) for number in _NUMBERS]
_OTHER_CASES = [
    (name, 1, number)
    for name in OPERATIONS
    if name != "jiterator_binary" and OPERATIONS[name].operands > 1
    for number in (True, -2.5)
]


@pytest.mark.parametrize(
    ("device", "case"),
    on_devices(
        [(*case, "int32") for case in _BINARY_CASES] + [(*case, "float32") for case in _OTHER_CASES[1::2]],
        [(*case, dtype) for case in _BINARY_CASES + _OTHER_CASES for dtype in DTYPES],
    ),
)
def test_numbers_of_every_kind_in_every_place(device, case):
    name, position, number, dtype = case
    operation = OPERATIONS[name]
    for shape in ((5, 3), (812,)):
        tensor = torch.testing.make_tensor(shape, dtype=getattr(torch, dtype), device=device)
        operands = [tensor] * operation.operands
        operands[position] = number
        operation.check(operands, device)


#: With a number of few bits: whether a 0-dim operand is rounded to 16 bits on a GPU does not matter for it.
_ZERO_DIM = {"bool": True, "int64": 5, "float64": -2.75, "complex128": 1.5 - 2j}


@pytest.mark.parametrize(
    ("device", "dtypes"),
    on_devices(
        [("bfloat16", "int64"), ("bfloat16", "complex128"), ("int32", "bool"), ("int32", "float64")],
        list(itertools.product(DTYPES, _ZERO_DIM)),
    ),
)
def test_type_promotion_with_zero_dim_tensors(device, dtypes):
    operation = OPERATIONS["jiterator_binary"]
    with_dims, without = (getattr(torch, dtype) for dtype in dtypes)
    x = torch.testing.make_tensor((5, 3), dtype=with_dims, device=device)
    random = torch.testing.make_tensor((), dtype=without, device="cpu")
    for y in (random, torch.tensor(_ZERO_DIM[dtypes[1]], dtype=without, device=device)):
        operation.check((x, y), device)
        operation.check((y, x), device)


# --------------------------------------------------------------------------------------- conj and neg views


def _negative_conjugate(x):
    return -x.conj_physical()


def _negative_conjugate_view(x):
    return torch._neg_view(x).conj()


#: By torch's name of the test: the dtype it takes, the physical operation, its view.
VIEWS = {
    "test_conj_view": ("complex64", torch.conj_physical, torch.conj),
    "test_neg_view": ("float64", torch.neg, torch._neg_view),
    "test_neg_conj_view": ("complex128", _negative_conjugate, _negative_conjugate_view),
}


@pytest.mark.parametrize(("operation", "view"), pairs(OPERATIONS, VIEWS))
def test_math_views(operation, view, device, record_property):
    """TestMathBits: jiterator expects failure in all three."""
    dtype, physical, lazy = VIEWS[view]
    function = OPERATIONS[operation].function
    made = [operands for operands in samples(operation, device, dtype) if numel(operands) <= LARGE]
    for first, *rest in made:
        viewed = lazy(physical(first))
        assert viewed.is_conj() == ("conj" in view)
        assert viewed.is_neg() == ("neg" in view)
        expected, result = function(first, *rest), function(viewed, *rest)
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
        OPERATIONS[operation].check((viewed, *rest), device)
    assert len(made) >= 25
    record_property(PROPERTY, [f"{operation}, {view[5:]}", device, dtype, len(made), 3 * len(made)])


@pytest.mark.parametrize(
    ("device", "dtype"),
    on_devices(
        ("complex64", "float32"),
        ("complex64", "complex128", "float16", "bfloat16", "float32", "float64", "int8", "int32", "int64"),
    ),
)
def test_views_of_every_operand(device, dtype):
    operation = OPERATIONS["jiterator_binary"]
    lazies = (torch.conj, torch._neg_view) if dtype.startswith("complex") else (torch._neg_view,)
    for shapes in (((20,), (20,)), ((5, 1), (5,)), ((5,), ())):
        x, y = (
            torch.testing.make_tensor(shape, dtype=getattr(torch, dtype), device=device) for shape in shapes
        )
        for lazy in lazies:
            operation.check((lazy(x), lazy(y)), device)
            operation.check((x, lazy(y)), device)


# ------------------------------------------------------------------------- more of what torch's suites check


@operations
def test_non_standard_bool_values(operation, device):
    """TestCommon: any byte other than 0 is true."""
    for operands in samples(operation, device, "bool"):
        if numel(operands) > LARGE:
            continue
        odd = []
        for x in operands:
            true = torch.randint(2, 255, x.shape, dtype=torch.uint8, device=device)
            odd.append(torch.where(x, true, torch.zeros_like(true)).view(torch.bool))
        expected, result = (OPERATIONS[operation].function(*given) for given in (operands, odd))
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (expected, result)), strict=True):
            assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@operations
def test_error_inputs(operation, device):
    """What the OpInfo calls errors are numbers as operands; beside a tensor, numjit takes them."""
    info = opinfos()[operation]
    if info.error_inputs_func is None:
        assert operation not in ("jiterator_binary", "jiterator_binary_return_by_ref")
        return
    made = [error.sample_input for error in info.error_inputs(device)]
    assert len(made) == 3
    for sample in made:
        operands = (sample.input, *sample.args)
        if any(isinstance(x, torch.Tensor) for x in operands):
            OPERATIONS[operation].check(operands, device)


@operations
def test_not_broadcastable(operation, device):
    """TestBinaryUfuncs: shapes that do not go together are refused, and the next good call works."""
    count = OPERATIONS[operation].operands
    for left, right in (((2,), (3,)), ((3, 1), (2, 1)), ((1, 3, 2), (3,)), ((3, 1, 2), (2, 1, 2))):
        if count == 1:
            break
        operands = [torch.ones(left, device=device), *[torch.ones(right, device=device)] * (count - 1)]
        with pytest.raises(ValueError, match="shape"):
            OPERATIONS[operation].function(*operands)
    OPERATIONS[operation].check([torch.ones(3, device=device)] * count, device)


@pytest.mark.gpu
@operations
def test_multiple_devices(operation):
    """TestCommon: each CUDA device in turn, whichever is the current one."""
    count = OPERATIONS[operation].operands
    for index, current in itertools.product(range(torch.cuda.device_count()), repeat=2):
        with torch.cuda.device(current):
            operands = [torch.ones(5, device=f"cuda:{index}")] * count
            OPERATIONS[operation].check(operands, f"cuda:{index}")
            answer = OPERATIONS[operation].function(*operands)
        for result in answer if isinstance(answer, tuple) else (answer,):
            assert result.device == torch.device("cuda", index)
