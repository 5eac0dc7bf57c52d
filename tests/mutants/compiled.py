"""Compiled functors, complex functions and derivatives at edges: what was wrong, put back."""

from __future__ import annotations

from tests.mutants import Mutant

_GRADIENTS = "tests/cases/test_see_through_gradients.py"
_NUMBERS = "tests/cases/test_see_through_numbers.py"
_COMPLEX = "tests/cases/test_complex_edges.py"
_ELEMENTARY = "numjit/rules/elementary.py"
_FORMULAS = "numjit/rules/complex_math.py"
_NUMPY = f"{_COMPLEX}::test_both_languages_answer_as_numpy"

MUTANTS = [
    Mutant(
        "A18 a compiled common divisor of the smallest integer is torch's",
        "numjit/rules/arithmetic.py",
        "text.fold(_gcd_text)",
        'text.fold(text.called("gcd"))',
        "tests/cases/test_numerics.py::test_common_divisors_of_the_smallest_integer_are_positive",
    ),
    Mutant(
        "A18 functions of complex elements are torch's when compiled",
        "numjit/torch/see_through/program.py",
        "        if domain.is_complex and not is_plain and _is_left_to_numjit(key, values):\n",
        "        if False:\n",
        "tests/cases/test_see_through_numbers.py::test_functions_of_complex_elements_are_the_eager_ones",
    ),
    Mutant(
        "A7 torch differentiates the torch form",
        "numjit/torch/compile.py",
        "    if active:\n        try:",
        "    if not active:\n        try:",
        f"{_GRADIENTS}::test_the_compiled_gradient_is_the_eager_one "
        f"{_GRADIENTS}::test_clamp_with_tensors_as_bounds_passes_the_gradient_on_as_eager_does",
    ),
    Mutant(
        "A7 where() computes its operands for all elements",
        "numjit/torch/see_through/statements.py",
        "scopes[1:] = program.arms(program.truth(arguments[0]), scope)",
        "pass",
        f"{_GRADIENTS}::test_transforms_inside_of_what_is_compiled",
    ),
    Mutant(
        "A7 unused results multiply by zero",
        "numjit/torch/see_through/lowering.py",
        "    if len(found) > 1:  # a result",
        "    if len(found) > 99:  # a result",
        f"{_GRADIENTS}::test_a_result_that_is_not_used_has_no_part_in_the_gradient",
    ),
    Mutant(
        "A16 a number's method gives the number",
        "numjit/torch/see_through/statements.py",
        "            return program.apply(rule, [owner])\n",
        "            return program.apply(rule, [owner]) if owner.is_tensor else owner\n",
        f"{_NUMBERS}::test_methods_and_attributes_of_numbers_are_the_eager_ones",
    ),
    Mutant(
        "B18 Python computes what may raise",
        "numjit/torch/see_through/plain_numbers.py",
        "    if y != 0:\n        return x // y\n",
        "    if True:\n        return x // y\n",
        f"{_NUMBERS}::test_functions_of_real_numbers_are_the_eager_ones_and_break_no_graph "
        f"{_NUMBERS}::test_a_quotient_by_a_float_zero_has_its_sign",
    ),
    Mutant(
        "B18 known numbers that raise",
        "numjit/torch/see_through/program.py",
        "            except (ArithmeticError, TypeError, ValueError):\n                return None\n",
        "            except (ArithmeticError, TypeError, ValueError) as error:\n"
        "                raise NotLowerable(str(error)) from None\n",
        f"{_NUMBERS}::test_functions_of_real_numbers_are_the_eager_ones_and_break_no_graph",
    ),
    Mutant(
        "A5 hyperbolic functions overflow before their product",
        _FORMULAS,
        "    overflows = wide.is_infinite() & x.is_finite()\n",
        "    overflows = x.is_nan()\n",
        _NUMPY,
    ),
    Mutant(
        "A5 roots and logarithms overflow in their sum",
        _FORMULAS,
        '    is_large = size.is_(">", x.largest / 8)\n',
        "    is_large = size.is_nan()\n",
        _NUMPY,
    ),
    Mutant(
        "A5 logarithms cancel near the unit circle",
        _FORMULAS,
        '    is_near = big.is_(">", 0.5) & big.is_("<", 1.5)\n',
        "    is_near = big.is_nan()\n",
        f"{_COMPLEX}::test_large_and_cancelling_arguments_by_name",
    ),
    Mutant(
        "A18 exp overflows before its product",
        _FORMULAS,
        "    is_finite = whole.is_finite()\n",
        '    is_finite = whole.is_(">=", 0.0)\n',
        _NUMPY,
    ),
    Mutant(
        "A18 sigmoid overflows on the left",
        _FORMULAS,
        '    is_right = x.is_(">=", 0.0)\n    decay',
        "    is_right = x.is_number()\n    decay",
        f"{_COMPLEX}::test_functions_of_torch_alone_are_exact",
    ),
    Mutant(
        "A5 complex functions in C++ beside infinities",
        "numjit/functor/cpp/include/complex_values.h",
        "  if (t1 == R(HUGE_VAL)) return complex<R>(R(HUGE_VAL), y);\n",
        "",
        _NUMPY,
    ),
    Mutant(
        "A13 sinc's slope cancels",
        _ELEMENTARY,
        "where(call(abs, turned) < 1.0, series",
        "where(x == 0, series",
        f"{_GRADIENTS}::test_slopes_that_cancel_or_overflow_in_their_formula_are_exact",
    ),
    Mutant(
        "A13 atan2's slope divides by a square",
        _ELEMENTARY,
        "part / size / size)",
        "part / (size * size))",
        f"{_GRADIENTS}::test_slopes_that_cancel_or_overflow_in_their_formula_are_exact",
    ),
    Mutant(
        "B18 a call without a graph is traced into numjit",
        "numjit/torch/compile.py",
        """    torch._dynamo.graph_break(f"{operation.name}: numjit has no graph of a call {what}")
""",
        "",
        "tests/cases/test_torch_compile_odd_calls.py",
    ),
    Mutant(
        "A4 multiples of the smallest integer",
        "numjit/rules/arithmetic.py",
        "if dtype.bits < 32:  # it computes",
        "if dtype.bits < 128:  # it computes",
        "tests/cases/test_see_through_numbers.py::test_least_common_multiples_of_the_smallest_integer_do_not_end_the_process",
    ),
]
