"""The benchmark of gradients: its bytes, its check, and one tiny run on the CPU."""

import json

import pytest

torch = pytest.importorskip("torch")

from bench import gradients
from bench.gradients import GRADIENT_CASES, main


def test_the_bytes_that_must_move():
    case = next(c for c in GRADIENT_CASES if c.name == "huber f32")
    operands = case.make("cpu", 48 << 10)
    assert [x.requires_grad for x in operands] == [True, False]
    assert [x.numel() for x in operands] == [1024, 1024]
    assert case.moved_bytes(operands, "forward") == 4096 * 3
    assert case.moved_bytes(operands, "backward") == 4096 * 4
    assert case.moved_bytes(operands, "both") == 4096 * 7


def test_a_wrong_gradient_is_seen():
    case = next(c for c in GRADIENT_CASES if c.name == "huber f32")
    operands = case.make("cpu", 48 << 10)
    grad = torch.ones(1024)
    assert gradients._is_right(case, case.functor, operands, grad)
    assert not gradients._is_right(case, lambda x, y: case.eager(x, y) + 1e-3 * x, operands, grad)


def test_a_small_run_on_the_cpu(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.measure.ROUNDS", 1)
    monkeypatch.setattr("bench.measure.BATCH", 1)
    monkeypatch.setattr("bench.measure.WARM_SECONDS", 0.0)
    target = tmp_path / "deep" / "gradients.json"
    options = ["--device", "cpu", "--divide", "16384", "--cases", "swiglu", "huber", "--json", str(target)]
    assert main([*options, "--plot", str(tmp_path / "roof.png")]) == 0
    rows = json.loads(target.read_text())["rows"]
    assert len(rows) == 2 * 3 * 3
    assert {row["provider"] for row in rows} == {"numjit", "numjit C++", "eager"}
    assert all(row["correct"] and row["seconds"] > 0 for row in rows)
    assert "| huber f32 backward |" in capsys.readouterr().out
    assert (tmp_path / "roof.png").stat().st_size > 1000
