"""Faults of what numjit has for torch: overrides, recorders, operators, nested tensors, modules."""

from __future__ import annotations

from tests.mutants import Mutant

__all__ = ["MUTANTS"]

_FUNCTION = "tests/cases/test_torch_dispatch.py"
_ARGUMENTS = "tests/cases/test_checks_of_torch_arguments.py"
_NESTED = "tests/cases/test_torch_nested.py"

MUTANTS = [
    Mutant(
        "A10 a call before autograd goes the warm way",
        "numjit/call/warm.py",
        "        if watches(torch):",
        "        if torch._C._len_torch_dispatch_stack():",
        f"{_FUNCTION}::test_make_fx_records_the_call",
    ),
    Mutant(
        "A10 a gradient before autograd is recorded by numjit",
        "numjit/arrays/torch_state.py",
        "        or is_recorded_above()()\n",
        "",
        f"{_FUNCTION}::test_make_fx_records_a_gradient",
    ),
    Mutant(
        "A10 outputs that are given are not recorded",
        "numjit/torch/recorded.py",
        "out is not None and request.is_plain:",
        "out is not None and not request.is_plain:",
        f"{_FUNCTION}::test_make_fx_records_the_call",
    ),
    Mutant(
        "A10 the launcher does not ask for recorders before autograd",
        "numjit/launcher/program.py",
        'self.jump_if(self.compare("!=", above, 0), self._fail)',
        "del above",
        "tests/unit/test_launcher.py::TestGoesTheGeneralWay",
    ),
    Mutant(
        "A12 a functor asks nobody",
        "numjit/elementwise.py",
        "        if is_overridden(operands, scalars, others):",
        "        if False:",
        f"{_FUNCTION}::test_a_subclass_stays_itself",
    ),
    Mutant(
        "A12 scalars are not asked",
        "numjit/torch/dispatch.py",
        "    return ask(None, *operands, *scalars.values(), *others)",
        "    return ask(None, *operands, *others)",
        f"{_FUNCTION}::test_a_subclass_as_scalar_and_as_output",
    ),
    Mutant(
        "A12 a class sees what backward reads",
        "numjit/torch/recorded.py",
        "                with unseen():\n                    gradients",
        "                if True:\n                    gradients",
        f"{_FUNCTION}::test_a_class_is_asked_about_the_call_and_not_about_its_gradient",
    ),
    Mutant(
        "A12 the drop-in jiterator asks nobody",
        "numjit/jiterator.py",
        "        if is_overridden(tensors, kwargs):",
        "        if False:",
        f"{_FUNCTION}::test_a_subclass_stays_itself",
    ),
    Mutant(
        "A12 the launcher does not ask for function modes",
        "numjit/launcher/program.py",
        'self.jump_if(self.compare("!=", function_mode, 0), self._fail)',
        "del function_mode",
        "tests/unit/test_launcher.py::TestGoesTheGeneralWay",
    ),
    Mutant(
        "A12 what stands for a tensor is a number to an operator",
        "numjit/torch/operator.py",
        'return "T" if place < self._count else "S"',
        'return "S"',
        f"{_FUNCTION}::test_symbolic_trace_records_an_operator_s_overload_of_tensors",
    ),
    Mutant(
        "B5 any number of operands overrides",
        "numjit/torch/override.py",
        "            self._check_fits(operation)\n",
        "",
        _ARGUMENTS,
    ),
    Mutant(
        "B5 flops of any kind are taken",
        "numjit/operators.py",
        "    if flops is not None and (not isinstance(flops, int) or isinstance(flops, bool) or flops < 0):",
        "    if False:",
        _ARGUMENTS,
    ),
    Mutant(
        "B5 a backward that cannot be called is a bare TypeError",
        "numjit/torch/rule.py",
        "            self._check_taken((*grads, *saved), scalars, error)\n",
        "            del error\n",
        _ARGUMENTS,
    ),
    Mutant(
        "B11 jagged tensors are left to torch",
        "numjit/torch/definition.py",
        "        register(full, NestedTensor, self._over_jagged, lib=self._kernels)\n",
        "        del NestedTensor\n",
        _NESTED,
    ),
    Mutant(
        "B11 a gradient of rows is not summed",
        "numjit/torch/graph.py",
        "            gradient = summed(gradient, shape)",
        "            gradient = gradient.sum_to_size(shape)",
        f"{_NESTED}::test_plain_tensors_broadcast_with_rows",
    ),
    Mutant(
        "B13 numjit's estimate wins over the user's formula",
        "numjit/torch/definition.py",
        "table[packet] = by_user[0] if by_user else self._flops",
        "table[packet] = self._flops",
        "tests/cases/test_torch_operator.py::test_a_user_s_flop_formula_wins",
    ),
    Mutant(
        "B15 a module's parameters are no parameters",
        "numjit/torch/module.py",
        "(self.register_parameter if is_parameter else self.register_buffer)(name, value)",
        "self.register_buffer(name, value.detach() if is_parameter else value)",
        "tests/cases/test_torch_module.py",
    ),
    Mutant(
        "D8 calls under way are not waited for",
        "numjit/torch/definition.py",
        "        if self._texts not in ((), texts):",
        "        if False:",
        "tests/cases/test_torch_definition_and_torch_names.py::test_sixteen_threads_register_three_names_over_and_over_and_call_them",
    ),
    Mutant(
        "D8 torch keeps an overload that is gone",
        "numjit/torch/definition.py",
        "        if kept is not found:\n",
        "        if False:\n",
        "tests/cases/test_torch_definition_and_torch_names.py::test_modes_see_the_operator_that_has_the_name_now",
    ),
]
