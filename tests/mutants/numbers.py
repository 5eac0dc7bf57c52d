"""Plain numbers in Python functors, integers that widen, and what a functor does where Python raises."""

from __future__ import annotations

from tests.mutants import Mutant

_SCALARS = "numjit/functor/scalars/"
_TESTS = "tests/cases/test_powers_and_plain_numbers.py::"

MUTANTS = [
    Mutant(
        "A3 int of an element keeps its dtype",
        "numjit/rules/choices.py",
        "    return dtypes.uint64 if element.dtype is dtypes.uint64 else dtypes.int64\n",
        "    return element.dtype if element.dtype.is_integral else dtypes.int64\n",
        _TESTS + "test_int_of_an_element_is_an_int64",
    ),
    Mutant(
        "A3 magnitudes of 16 bits are left to the assembler",
        "numjit/codegen/integers.py",
        "if not machine.is_ptx or x.type.width != 16:",
        "if True:",
        "tests/compile/test_build_gradients.py::test_no_magnitude_of_16_bits_is_left_to_the_assembler",
    ),
    Mutant(
        "A9 integers beyond 64 bits are left to Numba",
        _SCALARS + "session.py",
        "if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:",
        "if isinstance(value, int) and value == 0.5:",
        _TESTS + "test_integers_beyond_64_bits_are_exact_until_used_and_then_refused",
    ),
    Mutant(
        "A9 constants are computed in 64 bits",
        _SCALARS + "constants_pass.py",
        "                    if type(found) in _NUMBERS:\n",
        "                    if type(found) is float:\n",
        _TESTS + "test_integers_beyond_64_bits_are_exact_until_used_and_then_refused",
    ),
    Mutant(
        "A14 numbers alone are left to Numba",
        _SCALARS + "registry.py",
        "        if _is_of_scalars(self.rule, (*args, *kws.values())):\n            found",
        "        if any(isinstance(kind, Strong) for kind in args):\n            found",
        f"{_TESTS}test_every_operator_gives_what_python_gives",
    ),
    Mutant(
        "A14 every exponent counts as natural",
        _SCALARS + "constants_pass.py",
        "        signs = self._signs(self._exponent(value))\n",
        "        signs = self._signs(self._exponent(value)) & NATURAL\n",
        f"{_TESTS}test_a_power_of_a_loops_counter_follows_the_loop "
        f"{_TESTS}test_the_sign_of_an_int_of_the_call_decides_the_type_of_a_power",
    ),
    Mutant(
        "A14 the sign is no part of the warm key",
        "numjit/call/operation.py",
        "        return (fingerprint, signs_of(bound)) if self.reads_signs else fingerprint\n",
        "        return fingerprint\n",
        f"{_TESTS}test_the_sign_of_an_int_of_the_call_decides_the_type_of_a_power",
    ),
    Mutant(
        "A14 the sign is no part of a specialisation",
        "numjit/call/operation.py",
        "            arguments.types = with_signs(arguments.types, arguments.values)\n",
        "            arguments.types = with_signs(arguments.types, [1] * len(arguments.types))\n",
        f"{_TESTS}test_integer_tensors_to_negative_powers_are_refused_as_torch_refuses_them",
    ),
    Mutant(
        "A14 compiled code takes powers of ints for ints",
        "numjit/torch/see_through/program.py",
        "        if key in BY_VALUE and is_open and",
        "        if key is None and is_open and",
        f"{_TESTS}test_compiled_code_has_the_types_and_bits_of_ints_that_only_the_call_knows",
    ),
    Mutant(
        "A15 an item outside a tuple raises",
        _SCALARS + "safe.py",
        "        is_own = _member(held) is not None and place == types.int64\n",
        "        is_own = False\n",
        f"{_TESTS}test_where_python_raises_only_that_result_has_torchs_value",
    ),
    Mutant(
        "A15 a step of 0 raises",
        _SCALARS + "safe.py",
        "        return self.key_of_impl if len(sig.args) == 3 else self.numba_type().get_impl_key(sig)\n",
        "        return self.numba_type().get_impl_key(sig)\n",
        f"{_TESTS}test_a_range_with_a_step_of_0_is_empty",
    ),
    Mutant(
        "A15 what raises is not seen",
        _SCALARS + "safe.py",
        "            if exc_args not in _NEVER:\n",
        "            if exc_args == ():\n",
        "tests/unit/test_python_functor.py::test_code_that_could_raise_is_refused",
    ),
    Mutant(
        "B19 functions of numbers alone are left to Numba",
        _SCALARS + "registry.py",
        "    return all(kind == types.none or argument_type(kind) is not None for kind in kinds)\n",
        "    return False\n",
        "tests/compile/test_numbers_ptx.py::test_every_function_of_numbers_compiles",
    ),
]
