"""A C++ functor's derivative takes the branch that the functor takes, whatever it asks about its types."""

# ruff: noqa: E501, ISC004 - C++ stays on lines of its own beside what it must answer.

import pytest
import torch

import numjit
from numjit.errors import AutogradError
from tests.cases import holds

T = "template <typename T> T f(T x)"
#: Each is 3 * x for float32, 5 * x otherwise.
QUESTIONS = [
    "sizeof(T) == 4",
    "sizeof(x) == sizeof(float)",
    "sizeof(x * 2.0f) == 4",
    "sizeof(U) == 4",
    "sizeof(numbers) == 12",
    "sizeof(numbers) / sizeof(numbers[0]) == 3 && alignof(T) == 4",
    "std::is_same<T, float>::value",
    "std::is_same_v<std::decay_t<decltype(x)>, float>",
    "std::is_floating_point_v<T> && std::numeric_limits<T>::digits == 24",
    "std::numeric_limits<T>::epsilon() > T(1e-10)",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_about_types_have_the_functors_answer(question, device):
    text = f"{T} {{ using U = T; T numbers[3] = {{x, x, x}}; (void)numbers; if ({question}) return 3 * x; return 5 * x; }}"
    functor = numjit.elementwise(text)
    for dtype, slope in ((torch.float32, 3.0), (torch.float64, 5.0)):
        x = torch.tensor([0.5, -2.0], dtype=dtype, device=device, requires_grad=True)
        result = functor(x)
        holds(result, [slope * 0.5, slope * -2.0], dtype)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        holds(gradient, [slope, slope], dtype)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{T} {{ struct P {{ T a; }}; return x * T(sizeof(P)); }}", "class"),
        (f"{T} {{ return sizeof x == 4 ? 3 * x : 5 * x; }}", "sizeof"),
        (
            "template <class T> struct K { static constexpr int k = 5; };\n"
            f"template <> struct K<float> {{ static constexpr int k = 3; }};\n{T} {{ return x * T(K<T>::k); }}",
            "line 2: a specialisation for float",
        ),
        (
            "template <class T> T h(T x) { return 5 * x; }\ninline float h(float x) { return 3 * x; }\n"
            f"{T} {{ return h(x); }}",
            "line 2: an overload of 'h' for float",
        ),
    ],
)
def test_what_a_dual_number_cannot_answer_is_refused(text, words, device):
    x = torch.tensor([0.5, 2.0], device=device, requires_grad=True)
    functor = numjit.elementwise(text)
    result = functor(x.detach())
    assert torch.isfinite(result).all()
    with pytest.raises(AutogradError, match=words):
        functor(x).sum().backward()
