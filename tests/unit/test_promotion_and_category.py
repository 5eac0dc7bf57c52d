"""Type promotion against torch: all pairs, all categories, all default dtypes."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numjit import dtypes
from numjit.errors import NumjitError, PromotionError
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category
from numjit.semantics.promotion import can_cast, combine, promote_types, result_type
from tests.support import oracle
from tests.support.strategies import (
    ARGUMENT_TYPES,
    ARRAY_CATEGORIES,
    DEFAULT_DTYPES,
    argument_types,
)

NUMBER, ZERO_DIM, DIM = Category.NUMBER, Category.ZERO_DIM, Category.DIM
PAIRS = list(itertools.product(dtypes.ALL, repeat=2))
default_dtypes = pytest.mark.parametrize("default", DEFAULT_DTYPES, ids=str)


def mismatches(cases):
    """What differs among (label, numjit's answer, torch's answer)."""
    return [case for case in cases if case[1] is not case[2]]


def test_every_pair_promotes_or_is_refused_as_torch_does():
    found = mismatches(
        (
            f"{a}, {b}",
            oracle.outcome(promote_types, a, b),
            oracle.outcome(torch.promote_types, oracle.torch_dtype(a), oracle.torch_dtype(b)),
        )
        for a, b in PAIRS
    )
    assert not found


def test_every_pair_can_cast_as_torch_does():
    found = mismatches(
        (f"{a} -> {b}", can_cast(a, b), torch.can_cast(oracle.torch_dtype(a), oracle.torch_dtype(b)))
        for a, b in PAIRS
    )
    assert not found


@default_dtypes
def test_every_pair_of_categories_has_torchs_result_type(default):
    with oracle.default_dtype(default):
        values = [(kind, oracle.argument(kind)) for kind in ARGUMENT_TYPES]
        found = mismatches(
            (
                f"{a}, {b}",
                oracle.outcome(result_type, [a, b], default),
                oracle.outcome(torch.result_type, x, y),
            )
            for (a, x), (b, y) in itertools.product(values, repeat=2)
        )
    assert not found


@default_dtypes
def test_a_real_kernel_agrees_on_every_pair(default):
    # torch.where has a CPU kernel for every dtype; add has none for some that promotion allows. A number
    # beyond int64 is left out: torch first tries to store it in the other operand's dtype.
    kinds = [kind for kind in ARGUMENT_TYPES if kind != (dtypes.uint64, NUMBER)]
    condition = torch.tensor([True, False])
    with oracle.default_dtype(default):
        values = [(kind, oracle.argument(kind)) for kind in kinds]
        found = mismatches(
            (
                f"{a}, {b}",
                oracle.outcome(result_type, [a, b], default),
                oracle.outcome(torch.where, condition, x, y),
            )
            for (a, x), (b, y) in itertools.product(values, repeat=2)
        )
    assert not found


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.builds(ArgumentType, st.sampled_from(dtypes.ALL), st.sampled_from(ARRAY_CATEGORIES)),
        min_size=1,
        max_size=5,
    )
)
def test_any_number_of_arrays(kinds):
    # block_diag promotes a whole list through ATen's n-ary result_type.
    arrays = [oracle.argument(kind) for kind in kinds]
    expected = oracle.outcome(torch.block_diag, *arrays)
    assert oracle.outcome(result_type, kinds, dtypes.float32) is expected


# Those with a clamp kernel.
_CLAMPED = [dtype for dtype in dtypes.ALL if dtype.kind in "bif" and "float8" not in dtype.name] + [
    dtypes.uint8
]
_CLAMPING = (dtypes.int64, dtypes.float64)


@settings(max_examples=200, deadline=None)
@given(
    st.builds(ArgumentType, st.sampled_from(_CLAMPED), st.sampled_from(ARRAY_CATEGORIES)),
    st.sampled_from(_CLAMPING),
    st.sampled_from(_CLAMPING),
    st.sampled_from(DEFAULT_DTYPES),
)
def test_an_array_and_two_numbers(kind, low, high, default):
    kinds = [kind, ArgumentType(low, NUMBER), ArgumentType(high, NUMBER)]
    with oracle.default_dtype(default):
        array, *numbers = map(oracle.argument, kinds)
        expected = oracle.outcome(torch.clamp, array, *numbers)
    assert oracle.outcome(result_type, kinds, default) is expected


@settings(max_examples=300, deadline=None)
@given(st.lists(argument_types(), min_size=1, max_size=4), st.sampled_from(DEFAULT_DTYPES), st.randoms())
def test_numbers_can_be_interleaved_anywhere(kinds, default, random):
    # Only the order within a category can matter.
    shuffled = [
        kind for category in random.sample(list(Category), 3) for kind in kinds if kind.category is category
    ]
    assert oracle.outcome(result_type, kinds, default) is oracle.outcome(
        lambda: result_type(shuffled, default)
    )


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([(dtypes.uint8, DIM), (dtypes.int8, DIM)], dtypes.int16),
        ([(dtypes.float16, DIM), (dtypes.bfloat16, DIM)], dtypes.float32),
        ([(dtypes.int64, DIM), (dtypes.float16, DIM)], dtypes.float16),
        ([(dtypes.float32, DIM), (dtypes.float64, ZERO_DIM)], dtypes.float32),
        ([(dtypes.uint8, DIM), (dtypes.int64, ZERO_DIM)], dtypes.uint8),
        ([(dtypes.int32, DIM), (dtypes.float16, ZERO_DIM)], dtypes.float16),
        ([(dtypes.bfloat16, DIM), (dtypes.complex64, ZERO_DIM)], dtypes.complex64),
        ([(dtypes.float16, DIM), (dtypes.complex128, ZERO_DIM)], dtypes.complex32),
        ([(dtypes.int64, DIM), (dtypes.float64, NUMBER)], dtypes.float32),
        ([(dtypes.bool_, DIM), (dtypes.int64, NUMBER)], dtypes.int64),
        ([(dtypes.float64, DIM), (dtypes.complex128, NUMBER)], dtypes.complex128),
        ([(dtypes.uint16, DIM), (dtypes.int64, NUMBER)], dtypes.uint16),
        ([(dtypes.uint32, DIM), (dtypes.int8, ZERO_DIM)], dtypes.uint32),
        ([(dtypes.uint64, DIM), (dtypes.float16, DIM)], dtypes.float16),
        ([(dtypes.uint16, DIM), (dtypes.complex128, ZERO_DIM)], dtypes.complex128),
        ([(dtypes.float8_e5m2, DIM), (dtypes.float64, ZERO_DIM)], dtypes.float8_e5m2),
        ([(dtypes.float8_e4m3fn, DIM), (dtypes.float64, NUMBER)], dtypes.float8_e4m3fn),
    ],
)
def test_stated_examples(kinds, expected):
    assert result_type([ArgumentType(*kind) for kind in kinds], dtypes.float32) is expected


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (dtypes.uint16, dtypes.int32),
        (dtypes.bool_, dtypes.uint64),
        (dtypes.complex64, dtypes.uint32),
        (dtypes.float8_e4m3fn, dtypes.float32),
        (dtypes.float8_e4m3fn, dtypes.float8_e5m2),
    ],
)
def test_a_refusal_names_both_dtypes_and_the_remedy(a, b):
    with pytest.raises(PromotionError, match=rf"\b{a} and {b}\b.*convert") as caught:
        promote_types(a, b)
    assert isinstance(caught.value, NumjitError)
    assert isinstance(caught.value, TypeError)


def test_no_complex_of_float8():
    kinds = [ArgumentType(dtypes.float8_e5m2, DIM), ArgumentType(dtypes.complex128, NUMBER)]
    with pytest.raises(PromotionError, match="float8_e5m2 and complex64 have no common dtype"):
        result_type(kinds, dtypes.float32)


def test_no_arguments_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        result_type([], dtypes.float32)


# Real torch expressions: add has CPU kernels for these.
_ADDABLE = [
    kind
    for kind in ARGUMENT_TYPES
    if kind.dtype
    not in {dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float8_e4m3fn, dtypes.float8_e5m2}
    # True + True is the int 2 in Python, which is a matter of the operation and not of promotion.
    and kind != (dtypes.bool_, NUMBER)
]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(_ADDABLE), min_size=2, max_size=4),
    st.sampled_from(DEFAULT_DTYPES),
    st.booleans(),
)
def test_combine_follows_a_torch_expression(kinds, default, from_left):
    with oracle.default_dtype(default):
        pending = [(kind, oracle.argument(kind)) for kind in kinds]
        while len(pending) > 1:
            at = 0 if from_left else len(pending) - 2
            (a, x), (b, y) = pending[at : at + 2]
            value = x + y
            found = combine(a, b, default)
            assert found == oracle.argument_type(value)
            pending[at : at + 2] = [(found, value)]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((dtypes.int64, NUMBER), (dtypes.float64, NUMBER), (dtypes.float64, NUMBER)),
        ((dtypes.bool_, NUMBER), (dtypes.bool_, NUMBER), (dtypes.bool_, NUMBER)),
        ((dtypes.uint64, NUMBER), (dtypes.int64, NUMBER), (dtypes.uint64, NUMBER)),
        ((dtypes.float64, NUMBER), (dtypes.complex128, NUMBER), (dtypes.complex128, NUMBER)),
        ((dtypes.float64, NUMBER), (dtypes.int8, ZERO_DIM), (dtypes.float32, ZERO_DIM)),
        ((dtypes.float64, ZERO_DIM), (dtypes.float16, DIM), (dtypes.float16, DIM)),
        ((dtypes.float16, DIM), (dtypes.int64, NUMBER), (dtypes.float16, DIM)),
    ],
)
def test_combine_keeps_the_weaker_category_only_among_weak_values(a, b, expected):
    found = combine(ArgumentType(*a), ArgumentType(*b), dtypes.float32)
    assert type(found) is ArgumentType
    assert found == expected
