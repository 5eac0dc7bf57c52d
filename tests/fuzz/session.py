"""A run of the fuzzer: seeds to trials, a clock, what was met, what failed."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import hashlib
import random
import time
import traceback
from collections.abc import Iterator

import torch

from tests.fuzz.generate import PROFILES, directed_tree, pair_profile, pairs, random_call, random_tree
from tests.fuzz.rules import RULES
from tests.fuzz.shrink import script, shrink
from tests.fuzz.tree import Assign, python_text
from tests.fuzz.trial import Mismatch, Trial

__all__ = ["Report", "fuzz", "run_worker", "trial_of"]


@dataclasses.dataclass
class Report:
    """What a run did.

    Attributes
    ----------
    outcomes
        How many trials were the same, refused by both, undecided, or failed, by profile.
    trees
        Digests of the distinct trees that were judged.
    met
        How often each rule was judged with each dtype of an operand.
    failures
        A script for each mismatch.
    """

    outcomes: collections.Counter[tuple[str, str]] = dataclasses.field(default_factory=collections.Counter)
    trees: set[str] = dataclasses.field(default_factory=set)
    met: collections.Counter[tuple[str, str]] = dataclasses.field(default_factory=collections.Counter)
    failures: list[str] = dataclasses.field(default_factory=list)

    def count(self, outcome: str) -> int:
        """Return how many trials ended so."""
        return sum(n for (_, found), n in self.outcomes.items() if found == outcome)


def trial_of(
    seed: int,
    device: str,
    counts: collections.Counter[str],
    profile: str | None = None,
    pair: tuple[str, str] | None = None,
) -> tuple[str, Trial]:
    """Return the trial of a seed, and its profile's name; the same for the same seed and counts.

    Of a pair of rule and dtype it is of that rule, with operands of that dtype.
    """
    rng = random.Random(seed)
    chosen = rng.choices(PROFILES, [p.weight for p in PROFILES])[0]
    if profile is not None:
        chosen = next(p for p in PROFILES if p.name == profile)
    if pair is not None:
        chosen = pair_profile(pair)
    tree = random_tree(rng, chosen, counts) if pair is None else directed_tree(rng, chosen, pair[0])
    call = random_call(rng, chosen, tree)
    # Compiling and deriving take seconds where a call takes a tenth of one.
    trial = Trial(
        tree,
        call,
        device,
        cpp=chosen.cpp,
        compiled=rng.random() < 0.12,
        gradients=chosen.smooth and rng.random() < 0.5,
    )
    return chosen.name, trial


def fuzz(
    first: int, *, seconds: float, limit: int | None = None, device: str = "cpu", profile: str | None = None,
    shrinking: float = 30.0, step: int = 1, pair: tuple[str, str] | None = None,
) -> Iterator[Report]:  # fmt: skip
    """Yield the report after every trial, until the time is over or `limit` trials are made.

    Parameters
    ----------
    first, step
        Seeds are `first`, ``first + step``, ...
    seconds
        Of the whole run.
    shrinking
        Seconds that making one failure smaller may take.
    profile, pair
        Trees of one kind alone, or of one rule with one dtype. Otherwise every second tree is of a pair,
        until each of this process's has been judged (or could not be, three times).
    """
    report, end, seed = Report(), time.monotonic() + seconds, first
    pending = collections.deque((one, 3) for one in pairs()[first % step :: step])
    if profile is not None or pair is not None:
        pending.clear()
    counts: collections.Counter[str] = collections.Counter()
    made = 0
    while time.monotonic() < end and (limit is None or made < limit):
        # A tree depends on its seed alone, so that a failure can be drawn again.
        directed, tries = pair, 1
        if pending and made % 2:
            directed, tries = pending.popleft()
        name, trial = trial_of(seed, device, collections.Counter(), profile, directed)
        try:
            outcome = trial.run()
        except Mismatch as mismatch:
            outcome = "mismatch"
            trial, mismatch = shrink(trial, mismatch, shrinking)
            report.failures.append(script(trial, mismatch, f"{seed} {' '.join(directed or ())}".strip()))
        except Exception:  # noqa: BLE001 -- the run goes on, and fails for it
            report.failures.append(f"# seed {seed}: the fuzzer itself failed\n{traceback.format_exc()}")
            outcome = "error"
        report.outcomes[name, outcome] += 1
        if outcome in ("same", "refused", "mismatch"):
            report.trees.add(hashlib.sha256(python_text(trial.tree).encode()).hexdigest()[:16])
            if outcome == "same":
                used = {node.name for node in trial.tree.nodes() if node.kind == "rule"}
                used |= {s.operator for s in trial.tree.statements() if isinstance(s, Assign) and s.operator}
                for rule in used & set(RULES):
                    counts[rule] += 1
                    for dtype in set(trial.call.dtypes):
                        report.met[rule, dtype] += 1
        if directed is not None:
            if outcome in ("same", "refused"):
                report.met[directed] += 1
            elif outcome == "undecided" and tries > 1:
                pending.append((directed, tries - 1))
        yield report
        made += 1
        seed += step


def run_worker(arguments: argparse.Namespace, worker: int) -> Report:
    """Return the report of one process of the command line: it takes every so many-th seed."""
    torch.set_num_threads(1)
    last = Report()
    for report in fuzz(
        arguments.seed + worker,
        step=arguments.workers,
        seconds=arguments.seconds,
        limit=None if arguments.trees is None else -(-arguments.trees // arguments.workers),
        device=arguments.device,
        profile=arguments.profile,
        pair=tuple(arguments.pair) if arguments.pair else None,
        shrinking=arguments.shrink,
    ):
        last = report
    return last
