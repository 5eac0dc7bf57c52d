"""A warm call checks all that a cold one does: every odd operand after plain ones of the same layout."""

import functools
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from tests.cases import ROOT, environment
from tests.support.odd_operands import ways

TENSORS = ("call", "C++", "detached", "prepared", "operator", "jiterator", "out")


@functools.cache
def answers(device):
    """Run all ways; returns by way and operand what calls answered, or how the process ended."""
    found = {}
    while True:
        command = [sys.executable, "-W", "ignore", "-m", "tests.support.odd_operands", device, *found]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment(), check=False, timeout=300
        )
        begun = None
        for line in done.stdout.splitlines():
            what, name, *rest = line.split("\t")
            begun = name if what == "begin" else None
            if what == "end":
                found[name] = rest
        if begun is None:
            assert done.returncode == 0, done.stderr
            return found
        found[begun] = [f"the process ended with {done.returncode}"]


@pytest.mark.parametrize("way", list(ways("cpu")))
def test_odd_operands_after_plain_ones_are_answered_as_in_a_first_call(way, device):
    found = {name: answers(device)[f"{way}/{name}"] for name in ways(device)[way][2]}
    crashed = {name: answer for name, answer in found.items() if len(answer) == 1}
    assert not crashed
    differing = {name: answer for name, answer in found.items() if len(set(answer)) > 1}
    assert not differing


@pytest.mark.parametrize("way", TENSORS)
def test_zero_tensors_are_zeros(way, device):
    for name in ("zero tensor", "part of a zero tensor"):
        assert answers(device)[f"{way}/{name}"][-1].endswith("[0.5, 0.5, 0.5, 0.5, 0.5]")


@pytest.mark.parametrize("way", [*TENSORS, "into", "gradient"])
def test_tensors_whose_memory_was_taken_away_are_refused(way, device):
    for name in ("storage resized to 0", "part of a storage resized to 0", "parameter resized to 0"):
        answer = answers(device)[f"{way}/{name}"][-1]
        assert answer.startswith("UnsupportedArrayError")
        assert "has no memory of its own" in answer


def test_a_zero_gradient_gives_zeros(device):
    for name in ("zero tensor", "part of a zero tensor"):
        assert answers(device)[f"gradient/{name}"][-1].endswith("[0.0, 0.0, 0.0, 0.0, 0.0])")
