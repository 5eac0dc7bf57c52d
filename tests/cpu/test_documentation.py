"""Every Python example of the README and the docs runs, on the CPU, as it stands."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # One file a page, as a reader would paste it: a functor's source is read from its file.
    script = tmp_path / f"{page.stem}_examples.py"
    script.write_text("\n\n".join(examples(page)))
    exec(compile(script.read_text(), str(script), "exec"), {"__name__": script.stem})
