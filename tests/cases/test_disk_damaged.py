"""No file in a cache folder makes an answer wrong, ends a process, or keeps later ones from working."""

import functools
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from tests.cases import ROOT, environment
from tests.support.damaged_cache import WAYS


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Run all ways on a device; by way what the program says, or how it ended."""

    @functools.cache
    def run(device):
        cache, found = tmp_path_factory.mktemp("cache"), {}
        while set(found) != set(WAYS):
            done = subprocess.run(
                [sys.executable, "-m", "tests.support.damaged_cache", device, *found],
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=environment(NUMJIT_CACHE_DIR=cache),
                check=False,
                timeout=600,
            )
            way = None
            for line in done.stdout.splitlines():
                what, way, *rest = line.split("\t")
                if what == "end":
                    found[way], way = rest, None
            if way is None:
                assert done.returncode == 0, done.stderr
            else:
                found[way] = [f"ended with {done.returncode}", done.stderr]
        return found

    return run


@pytest.mark.parametrize("way", list(WAYS))
def test_damaged_files_are_made_anew_with_one_warning(way, device, outcomes):
    kinds, wrong, warnings, left = outcomes(device)[way]
    assert {".json", ".loop", ".so", ".ltoir", ".o"} - set(kinds.split()) == (
        {".loop", ".so"} if device == "cuda" else set()
    )
    assert wrong == "0"
    # A link to nothing and another user's file are not looked at, so there is nothing to warn of.
    assert warnings == ("0" if way in {"dangling links", "of another user"} else "1")
    # What is not numjit's is left in place, and works without.
    assert left == (kinds if way == "directories" else "")
