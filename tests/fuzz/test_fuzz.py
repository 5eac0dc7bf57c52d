"""Random functors, a few seconds of each profile; ``python -m tests.fuzz`` runs for longer."""

import collections
import os

import pytest
import torch

from tests.fuzz.generate import PROFILES
from tests.fuzz.session import fuzz, trial_of
from tests.fuzz.tree import cpp_text, has_cpp, python_text

#: Seconds of each profile, and how many trees a slow machine judges in them all the same.
SECONDS = float(os.environ.get("NUMJIT_FUZZ_SECONDS", "3"))
LEAST = 4


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("profile", [profile.name for profile in PROFILES])
def test_random_functors_answer_as_torch_does(profile, device):
    report = None
    for report in fuzz(5_000_000, seconds=SECONDS, device=device, profile=profile, shrinking=20):
        if report.failures:
            break
    assert report is not None
    assert not report.failures, report.failures[0]
    judged = report.count("same") + report.count("refused")
    if judged < LEAST:  # a machine under load: some trees all the same
        for report in fuzz(
            6_000_000, seconds=300, limit=3 * LEAST, device=device, profile=profile, shrinking=20
        ):
            assert not report.failures, report.failures[0]
        judged += report.count("same") + report.count("refused")
    assert judged >= LEAST
    assert report.count("same")


def test_a_seed_gives_the_same_tree_and_operands_again():
    for seed in range(30):
        one, other = (trial_of(seed, "cpu", collections.Counter()) for _ in range(2))
        assert one[0] == other[0]
        assert python_text(one[1].tree) == python_text(other[1].tree)
        for a, b in zip(one[1].operands(), other[1].operands(), strict=True):
            assert type(a) is type(b)
            if isinstance(a, torch.Tensor):
                assert (a.dtype, a.shape, a.stride(), a.is_conj(), a.is_neg()) == (
                    b.dtype, b.shape, b.stride(), b.is_conj(), b.is_neg(),
                )  # fmt: skip


def test_trees_are_python_and_many_are_cpp():
    texts = 0
    for seed in range(200):
        _, trial = trial_of(seed, "cpu", collections.Counter())
        compile(python_text(trial.tree), "<tree>", "exec")
        if trial.cpp and has_cpp(trial.tree, "float32"):
            texts += "template <typename T>" in cpp_text(trial.tree)
    assert texts >= 10
