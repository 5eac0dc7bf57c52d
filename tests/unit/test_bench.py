"""The benchmark harness: its bookkeeping, and one tiny run on the CPU."""

import json

import pytest

torch = pytest.importorskip("torch")

from bench.__main__ import main
from bench.cases import CASES
from bench.measure import same
from bench.report import losses, median_rows, plot, plot_sizes, table


def row(case, provider, fraction, **more):
    found = {"case": case, "provider": provider, "fraction": fraction, "seconds": 1 / fraction, "goal": 0.98}
    return {**found, "correct": True, "bytes": 1 << 20, **more}


def test_losses_name_the_best_peer_beyond_the_margin():
    rows = [
        row("a", "numjit", 0.9),
        row("a", "numjit C++", 0.95),
        row("a", "eager", 0.955),
        row("a", "CuPy", 0.5),
    ]
    assert losses(rows) == []
    assert losses([*rows, row("a", "jiterator", 0.97)]) == ["a: jiterator 0.970, numjit 0.950"]


def test_medians_over_runs_and_one_wrong_run_is_wrong():
    runs = [row("a", "numjit", f) for f in (0.5, 0.9, 0.8)]
    (merged,) = median_rows(runs)
    assert merged["fraction"] == 0.8
    assert len(merged["runs"]) == 3
    (merged,) = median_rows([*runs, row("a", "numjit", 0.7, correct=False)])
    assert merged["correct"] is False


def test_results_are_compared_with_tolerance_and_dtype():
    x = torch.ones(3)
    assert same(x, x + 1e-7, 8.0)
    assert not same(x, x + 1e-3, 8.0)
    assert not same(x.double(), x, 8.0)
    assert not same((x, x), (x, x * torch.nan), 8.0)


def test_the_bytes_that_must_move_leave_broadcasts_out():
    case = next(c for c in CASES if c.name == "row broadcast")
    operands = (torch.ones(4, 8), torch.ones(8))
    assert case.moved_bytes(operands, (torch.ones(4, 8),)) == 4 * (32 + 8 + 32)
    assert case.moved_bytes((torch.ones(1).expand(4),), (torch.ones(4),)) == 4 * (1 + 4)


def test_a_small_run_on_the_cpu(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.measure.ROUNDS", 1)
    monkeypatch.setattr("bench.measure.BATCH", 1)
    target = tmp_path / "deep" / "results.json"
    monkeypatch.setattr(
        "sys.argv",
        ["bench", "--device", "cpu", "--divide", "16384", "--cases", "axpy f32", "--json", str(target),
         "--plot", str(tmp_path / "roof.png"), "--providers", "numjit", "numjit C++", "eager"],
    )  # fmt: skip
    assert main() == 0
    document = json.loads(target.read_text())
    assert {r["provider"] for r in document["rows"]} == {"numjit", "numjit C++", "eager"}
    assert all(r["correct"] for r in document["rows"])
    assert "| axpy f32 |" in capsys.readouterr().out
    assert (tmp_path / "roof.png").stat().st_size > 1000


def test_tables_and_plots(tmp_path):
    rows = [row("2^10", "numjit", 0.5), row("2^12", "numjit", 0.9), row("2^10", "CuPy", 0.1, seconds=None)]
    document = {"rows": rows, "roof": 3e12, "environment": {"device": "card", "torch": "2"}}
    assert "| 2^12 | 0.900 | - | 0.98 |" in table(rows)
    plot(document, tmp_path / "a.svg")
    plot_sizes(document, tmp_path / "b.png")
    assert (tmp_path / "a.svg").exists()
    assert (tmp_path / "b.png").exists()


def test_host_times_every_provider_on_the_cpu(tmp_path, monkeypatch, capsys):
    from bench import host

    monkeypatch.setattr(host, "BATCH", 2)
    monkeypatch.setattr(host, "ROUNDS", 1)
    every = host.host_cases("cpu", peers=False)
    some = {name: every[name] for name in ("add", "registered add")}
    monkeypatch.setattr(host, "host_cases", lambda device, peers: some)
    assert (
        host.main(
            ["--device", "cpu", "--json", str(tmp_path / "host.json"), "--plot", str(tmp_path / "host.png")]
        )
        == 0
    )
    document = json.loads((tmp_path / "host.json").read_text())
    found = document["microseconds"]
    assert set(found["add"]) == {"numjit", "numjit C++", "eager"}
    assert set(found["registered add"]) == {"numjit", host.BARE}
    assert all(value > 0 for times in found.values() for value in times.values())
    assert document["goals"]["registered add"] == {host.BARE: 1.3}
    shown = capsys.readouterr().out
    assert "| add |" in shown
    assert "x bare operator (1.30)" in shown


def test_host_times_are_compared_turn_by_turn():
    from bench import host

    times = {"numjit": [6.0, 6.2, 4.0, 4.2, 4.1], "eager": [8.0, 8.0, 5.0, 5.0, 5.0]}  # the machine speeds up
    ratios = host.paired(times, lambda own, other: own / other)
    assert ratios == {"eager": pytest.approx(0.8)}
    more = host.paired({**times, host.LAUNCH: [5.0, 5.0, 3.0, 3.0, 3.0]}, lambda own, other: own - other)
    assert more[host.LAUNCH] == pytest.approx(1.1)
    assert host.paired({"numba": [1.0]}, max) == {}
    rows = {name: {"numjit": 1.0, **dict.fromkeys(peers, 2.0)} for name, peers in (
        ("add", ["eager", host.LAUNCH]), ("arrays", [host.IN_PYTHON]), ("recorded", [host.BY_HAND]),
    )}  # fmt: skip
    rows["add"][host.IN_PYTHON] = 3.0
    assert host._drawn(rows) == {"add": {"numjit": 1.0, "eager": 2.0, host.LAUNCH: 2.0}}
    shown = host.table(rows, {"add": {"eager": 0.75}}, {"add": {"eager": 0.61}})
    assert "0.61 x eager (0.75)" in shown


def test_the_operators_that_are_timed_are_operators_and_answer_alike():
    from bench import host

    calls = host.host_cases("cpu", peers=False)["registered add"].calls
    results = {name: call(*operands, **keywords) for name, (call, operands, keywords) in calls.items()}
    torch.testing.assert_close(results["numjit"], results[host.BARE], rtol=0, atol=0)
    packets = {str(call) for call, _, _ in calls.values()}
    assert packets == {"numjit_bench.add", "numjit_bench.bare_add"}


def test_recorded_calls_are_timed_beside_torch_and_a_function_by_hand():
    import torch

    from bench import host

    rows = {
        name: case.calls
        for name, case in host.host_cases("cpu", peers=False).items()
        if host.BY_HAND in case.calls
    }
    assert list(rows) == [
        "add, requires_grad",
        "add, forward + backward",
        "gelu, requires_grad",
        "gelu, forward + backward",
    ]
    for calls in rows.values():
        results = {name: call(*operands, **keywords) for name, (call, operands, keywords) in calls.items()}
        assert set(results) == {"numjit", "numjit C++", "eager", host.BY_HAND}
        for result in results.values():
            torch.testing.assert_close(result, results["eager"])


def test_first_calls_are_measured_in_fresh_processes(tmp_path, capsys, monkeypatch):
    from bench import first_call

    monkeypatch.setattr(first_call, "PROCESSES", 1)
    target, picture = tmp_path / "deep" / "first.json", tmp_path / "deeper" / "first.png"
    arguments = ["--device", "cpu", "--providers", "numjit C++", "--layouts", "8 inputs"]
    assert first_call.main([*arguments, "--json", str(target), "--plot", str(picture)]) == 0
    document = json.loads(target.read_text())
    found = {row["state"]: row for row in document["rows"]}
    assert set(found) == set(first_call.STATES)
    assert found["on disk"]["seconds"] < found["new functor, new process"]["seconds"]
    on_gpu = first_call.rows_of("numjit C++", "8 inputs", "cuda", {"on disk": 0.02, "new functor": 0.1})
    assert [row["goal"] for row in on_gpu] == [0.1, 0.010]
    assert found["on disk"]["goal"] is None  # the goals are a GPU's
    assert document["numba imported with everything on disk"] == {"numjit C++, 8 inputs": False}
    assert "| on disk: 8 inputs |" in capsys.readouterr().out
    assert picture.stat().st_size > 1000


def test_a_program_that_fails_leaves_the_others(tmp_path, monkeypatch, capsys):
    from bench import first_call

    def process(provider, layout, device, cache, tag, *, more, timeout=0.0):
        if provider == "torch.compile":
            raise RuntimeError("no backend")
        if layout == "mixed" and not more:
            raise first_call.subprocess.TimeoutExpired("python", 90)
        return {"import": 0.1, "first": 0.2, "numba": False, "new functor": 0.3, "new layout": 0.4}

    monkeypatch.setattr(first_call, "_process", process)
    target = tmp_path / "first.json"
    assert first_call.main(["--device", "cpu", "--json", str(target)]) == 1
    document = json.loads(target.read_text())
    assert document["failed"]["torch.compile, contiguous"] == "no backend"
    assert "90" in document["failed"]["numjit, mixed"]
    kept = [
        row["state"] for row in document["rows"] if (row["provider"], row["layout"]) == ("numjit", "mixed")
    ]
    assert kept == ["cold", "new layout", "new functor"]
    assert first_call.main(["--device", "cpu", "--seconds", "-1"]) == 0
    assert "skipped" in capsys.readouterr().out


def test_the_programs_cover_every_provider():
    from bench import first_call

    assert {provider for provider, _ in first_call.programs("cuda")} == set(first_call.PROVIDERS)
    assert {provider for provider, _ in first_call.programs("cpu")} == {
        "numjit",
        "numjit C++",
        "torch.compile",
    }
