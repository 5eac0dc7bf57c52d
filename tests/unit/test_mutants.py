"""The list of faults that can be put back stays in step with numjit's text."""

import collections
import itertools
import re

from tests.mutants import ROOT, all_mutants


def test_every_mutant_changes_text_that_is_there_once_and_stays_python_or_c():
    mutants = all_mutants()
    names = collections.Counter(mutant.fault for mutant in mutants)
    assert [name for name, count in names.items() if count > 1] == []
    for mutant in mutants:
        text = (ROOT / mutant.path).read_text()
        assert text.count(mutant.old) == 1, f"{mutant.fault}: {mutant.path}"
        assert mutant.old != mutant.new
        changed = text.replace(mutant.old, mutant.new)
        if mutant.path.endswith(".py"):
            compile(changed, mutant.path, "exec")
        for test in itertools.takewhile(lambda word: word != "-k", mutant.tests.split()):
            file, _, name = test.partition("::")
            assert (ROOT / file).exists(), f"{mutant.fault}: no tests at {test}"
            last = re.escape(name.rpartition("::")[2].partition("[")[0])
            assert not name or re.search(rf"(def|class) {last}\b", (ROOT / file).read_text()), mutant.fault
