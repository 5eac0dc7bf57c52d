"""The table of scalar functions: what is written from it is what ships."""

import pathlib

import pytest

from numjit.rules.write import REGIONS, written

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("name", REGIONS)
def test_what_is_written_from_the_table_ships(name):
    """Run ``python -m numjit.rules.write`` after a change of the table."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert written(text, REGIONS[name]) == text
    for region in REGIONS[name]:
        assert text.count(f"numjit.rules: {region}") == 1
    assert text.count("numjit.rules: end") == len(REGIONS[name])
