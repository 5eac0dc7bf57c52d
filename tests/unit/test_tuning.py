"""Autotuning's decisions: what wins, what is remembered, what a class of layouts is."""

import json

import pytest

from numjit.call import tuning
from numjit.call.tuning import Trial, fastest, layout_class
from numjit.errors import ArgumentError
from numjit.plan.choose import ALTERNATIVES, DEFAULT


def trials(default, **others):
    found = [Trial(DEFAULT, default)]
    return found + [Trial(ALTERNATIVES[int(k[1:])], seconds) for k, seconds in others.items()]


def test_the_defaults_stay_unless_another_is_clearly_faster():
    assert fastest(trials(1.0, a0=0.995)) == DEFAULT
    assert fastest(trials(1.0, a0=0.98, a2=0.9)) == ALTERNATIVES[2]
    assert fastest(trials(1.0, a1=1.2)) == DEFAULT


def test_classes_are_powers_of_two():
    assert layout_class("v", 1) == "v 2^0"
    assert layout_class("v", 1024) == "v 2^10"
    assert layout_class("v", 1025) == "v 2^11"
    assert layout_class("w", 1024) != layout_class("v", 1024)


@pytest.fixture
def timed(monkeypatch, tmp_path):
    """Replace the clock by a table; returns the list of what was tried."""
    tried = []

    def fake(knobs, launch, stream):
        launch()
        tried.append(knobs)
        return Trial(knobs, 0.5 if knobs == ALTERNATIVES[1] else 1.0)

    monkeypatch.setattr(tuning, "_try", fake)
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "_winners", tuning.Memo(8))
    return tried


def test_the_winner_is_found_once_and_remembered_on_disk(timed, monkeypatch, tmp_path):
    launched = []

    def launcher(knobs):
        return lambda: launched.append(knobs)

    assert tuning.best("key", "card", 0, launcher) == ALTERNATIVES[1]
    assert timed == [DEFAULT, *ALTERNATIVES]
    assert tuning.best("key", "card", 0, launcher) == ALTERNATIVES[1]
    monkeypatch.setattr(tuning, "_winners", tuning.Memo(8))  # another process
    assert tuning.best("key", "card", 0, launcher) == ALTERNATIVES[1]
    assert len(timed) == 1 + len(ALTERNATIVES)
    (file,) = tmp_path.rglob("*.json")
    assert json.loads(file.read_bytes()[:-40])["block"] == ALTERNATIVES[1].block
    tuning.best("key", "another card", 0, launcher)
    assert len(timed) == 2 * (1 + len(ALTERNATIVES))


def test_the_command_line_finds_operations_and_says_what_is_wrong(capsys):
    from numjit.ahead.command import find_operation
    from numjit.tools import tune

    assert find_operation("bench.cases:add").__name__ == "add"
    for name, told in (("sin", "is a builtin_function_or_method"), ("nothing", "has no attribute")):
        with pytest.raises(ArgumentError, match=told):
            find_operation(f"math:{name}")
        assert tune.run(f"math:{name}", ["16"], ["float32"]) == 2
        assert told in capsys.readouterr().err


def test_what_was_tried_is_shown_with_the_winner(capsys):
    from numjit.tools import tune

    tune._show(trials(1.0e-4, a1=0.5e-4))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "50.00 us <- kept" in lines[1]
    assert "kept" not in lines[0]


def test_tuning_without_a_gpu_says_so(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    from numjit.tools import tune

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert tune.run("bench.cases:add", ["16"], ["float32"]) == 1
    assert "no GPU" in capsys.readouterr().err
