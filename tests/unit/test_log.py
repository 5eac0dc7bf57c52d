"""What numjit says of its doings: the loggers of its topics, and ``NUMJIT_LOG``."""

import os
import subprocess
import sys

import pytest

CODE = """
import numjit, numpy as np
f = numjit.elementwise(lambda x: x + {number})
for count in (3, 3, 4):
    f(np.ones(count, np.float32))
"""


def said(tmp_path, topics, number=1):
    """What a new process with a cache of its own prints to stderr, a line each."""
    env = {**os.environ, "NUMJIT_LOG": topics, "NUMJIT_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", CODE.format(number=number)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stderr.splitlines()


def test_topics_say_what_was_compiled_found_and_planned(tmp_path):
    status, first = said(tmp_path, "compile, plan")
    assert status == 0
    compiled = [line for line in first if line.startswith("numjit.compile: compiled the CPU loop")]
    planned = [line for line in first if line.startswith("numjit.plan: planned")]
    assert len(compiled) == 1
    assert ["(3,)" in planned[0], "(4,)" in planned[1], len(planned)] == [True, True, 2]
    assert len(first) == 3
    status, second = said(tmp_path, "all")
    assert status == 0
    assert [line for line in second if "found the CPU loop" in line]
    assert not [line for line in second if "compiled" in line]


def test_nothing_is_said_unasked_and_a_topic_that_there_is_not_is_an_error(tmp_path):
    assert said(tmp_path, "") == (0, [])
    status, lines = said(tmp_path, "compile,planets", number=2)
    assert status == 1
    assert "NUMJIT_LOG" in lines[-1]
    assert "compile, plan, launcher, torch" in lines[-1]


def test_programs_take_the_loggers_for_themselves(caplog):
    import numpy as np

    import numjit

    with caplog.at_level("DEBUG", "numjit.plan"):
        numjit.elementwise(lambda x: x - 1)(np.ones(3))
    assert [record.name for record in caplog.records] == ["numjit.plan"]
    assert "float64" in caplog.text


@pytest.mark.parametrize("text", ["1", "compile plan", "compile;plan"])
def test_what_is_no_list_of_topics_is_refused(monkeypatch, text):
    from numjit import config
    from numjit.errors import SettingsError

    monkeypatch.setenv("NUMJIT_LOG", text)
    with pytest.raises(SettingsError, match="NUMJIT_LOG"):
        config.log_topics()
