"""What a Python functor reads and goes unnoticed, and what it may not do and is not told."""

from __future__ import annotations

from tests.mutants import Mutant

__all__ = ["MUTANTS"]

READ = "tests/cases/test_fingerprint_of_what_is_read.py"
REFUSED = "tests/cases/test_captured_and_diagnosis.py"

MUTANTS = [
    Mutant(
        "A2 members of enumerations",
        "numjit/functor/fingerprint.py",
        "for name, member in cls.__members__.items():",
        "for name, member in ():",
        f"{READ}::test_an_edit_is_another_functor_for_either_compiler",
    ),
    Mutant(
        "A2 fields of named tuples",
        "numjit/functor/fingerprint.py",
        "            self.add(cls._fields)",
        "            self.add(len(cls._fields))",
        f"{READ}::test_an_edit_is_another_functor_for_either_compiler",
    ),
    Mutant(
        "A2 modules under another name",
        "numjit/functor/fingerprint.py",
        "            if value.__name__ not in _CONSTANT_MODULES:",
        "            if False:",
        f"{READ}::test_what_cannot_be_followed_is_refused_by_name",
    ),
    Mutant(
        "A2 attributes of classes and functions",
        "numjit/functor/fingerprint.py",
        "                _check_leftover(value, leftover)",
        "                pass",
        f"{READ}::test_what_cannot_be_followed_is_refused_by_name",
    ),
    Mutant(
        "A2 keyword defaults changed in place",
        "numjit/functor/fingerprint.py",
        "for name in fn.__kwdefaults__ or ():",
        "for name in ():",
        f"{READ}::test_a_keyword_default_changed_in_place",
    ),
    Mutant(
        "A2 globals of Numba functions",
        "numjit/functor/scalars/session.py",
        "if isinstance(inner, pytypes.FunctionType):  # Numba keeps",
        "if False:  # Numba keeps",
        f"{READ}::test_a_global_of_a_numba_function_is_not_frozen",
    ),
    Mutant(
        "A2 names behind many others",
        "numjit/functor/bytecode.py",
        '_BETWEEN = frozenset({"CACHE", "EXTENDED_ARG", ',
        '_BETWEEN = frozenset({"CACHE", ',
        f"{READ}::test_a_name_behind_many_others_is_followed",
    ),
    Mutant(
        "A2 signatures of wrapped functions",
        "numjit/functor/bytecode.py",
        'if not {"__wrapped__", "__signature__"} & vars(fn).keys():',
        "if True:",
        f"{READ}::test_a_wrapper_has_the_signature_of_its_own_code",
    ),
    Mutant(
        "A2 numbers of classes of their own",
        "numjit/functor/scalars/constants.py",
        "        known = plain(value.value)\n",
        "        known = value.value\n",
        f"{READ}::test_members_and_numbers_of_own_classes_are_plain_numbers",
    ),
    Mutant(
        "A2 comparing strings",
        "numjit/functor/scalars/constants.py",
        "if all(isinstance(side, enum.Enum | str) for side in sides):",
        "if False:",
        f"{READ}::test_members_and_numbers_of_own_classes_are_plain_numbers",
    ),
    Mutant(
        "A2 compiled calls and what is rebound",
        "numjit/torch/see_through/watch.py",
        'return [f"{name} is None"] if is_object and not is_intrinsic(value) else []',
        "return []",
        f"{READ}::test_a_compiled_call_notices_what_is_rebound",
    ),
    Mutant(
        "A4 random numbers",
        "numjit/functor/captured.py",
        "if root in _RANDOM or (root in _ARRAYS and _draws(module, name)):",
        "if False:",
        f"{REFUSED}::test_helpers_are_searched {REFUSED}::test_each_has_its_line_and_its_cure",
    ),
    Mutant(
        "A8 variables without a value",
        "numjit/functor/scalars/unset_pass.py",
        "            if found is not None:\n                name, error_place",
        "            if False:\n                name, error_place",
        f"{REFUSED}::test_a_variable_that_a_path_leaves_unset",
    ),
    Mutant(
        "A8 inner functions without a value",
        "numjit/functor/scalars/unset_pass.py",
        "    checked = known.functions() if functions_only else None",
        "    checked = frozenset() if functions_only else None",
        f"{REFUSED}::test_a_variable_that_a_path_leaves_unset",
    ),
    Mutant(
        "A8 loops that have a turn",
        "numjit/functor/scalars/constants.py",
        "return int(branch.falsebr) if isinstance(turns, tuple | range) and len(turns) > 0 else None",
        "return None",
        f"{REFUSED}::test_a_variable_that_every_path_sets",
    ),
    Mutant(
        "A8 loops without a turn",
        "numjit/functor/scalars/constants.py",
        "isinstance(turns, tuple | range) and len(turns) > 0 else None",
        "isinstance(turns, tuple | range) else None",
        f"{REFUSED}::test_a_variable_that_a_path_leaves_unset",
    ),
    Mutant(
        "B1 long tuples",
        "numjit/functor/bytecode.py",
        "        if instruction.offset in implicit:",
        "        if False:",
        f"{REFUSED}::test_any_number_of_results_and_arguments",
    ),
    Mutant(
        "B1 gradients by many operands",
        "numjit/functor/scalars/seeds.py",
        "    target.register_model(DirectionType, target.models.OpaqueModel)\n",
        "",
        f"{REFUSED}::test_a_gradient_by_as_many_operands_as_make_long_calls",
    ),
    Mutant(
        "B1 operators of many results",
        "numjit/torch/schema.py",
        'return chr(ord("a") + place) if place < 26 else f"a{place}"',
        'return chr(ord("a") + place)',
        f"{REFUSED}::test_many_results_are_one_operator_under_torch_compile",
    ),
    Mutant(
        "B6 coloured words",
        "numjit/functor/scalars/diagnosis.py",
        '_COLOUR.sub("", str(link))',
        "str(link)",
        f"{REFUSED}::test_numbas_colours_are_not_shown",
    ),
    Mutant(
        "B7 Numba's words",
        "numjit/functor/scalars/diagnosis.py",
        "    return worded(text)\n",
        "    return text\n",
        f"{REFUSED}::test_each_has_its_line_and_its_cure",
    ),
    Mutant(
        "B8 captured names",
        "numjit/functor/fingerprint.py",
        "error.message(subject, name)",
        "error.message()",
        f"{READ}::test_what_cannot_be_followed_is_refused_by_name",
    ),
]
