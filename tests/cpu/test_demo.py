"""The demo: its picture, its check against torch, its table, and what it says where something is missing."""

import importlib.util

import numpy as np
import pytest
import torch
from PIL import Image

from numjit.__main__ import main
from numjit.demo import picture, show, timing, tone


def every_pixel_and_gain():
    """All 256 levels in every channel, and gains that reach below and above the ones of the demo."""
    levels = torch.arange(256, dtype=torch.uint8)
    return levels[:, None].expand(256, 3).contiguous(), torch.tensor([0.25, 1.0, 4.0])


@pytest.mark.parametrize("functor", [tone.in_python, tone.in_cuda_cpp], ids=["python", "cuda_cpp"])
def test_functors_agree_with_torch_at_every_level(functor):
    pixels, gains = every_pixel_and_gain()
    result = functor(pixels, gains)
    assert result.dtype == torch.uint8
    assert result.shape == (256, 3)
    assert show.compare(result, tone.in_torch(pixels, gains)).largest <= 1
    assert int(result[0].max()) == 0
    # Rounding included, brighter pixels never come out darker.
    assert bool((result[1:].int() >= result[:-1].int()).all())


def test_torch_answers_the_textbook_formula():
    # Reinhard's extended operator in linear light with a gamma of 2, for a mid grey, by hand.
    pixels, gains = torch.full((1, 3), 128, dtype=torch.uint8), torch.ones(3)
    light = (128 / 255) ** 2 * tone.EXPOSURE
    mapped = light * (1 + light / tone.WHITE**2) / (1 + light)
    assert tone.in_torch(pixels, gains).tolist() == [[int(255 * mapped**0.5 + 0.5)] * 3]


def test_photograph_and_tiling():
    photograph = picture.load()
    assert photograph.shape == (600, 512, 3)
    assert photograph.dtype == np.uint8
    assert photograph.std() > 30
    tiled = picture.tile(torch.from_numpy(photograph.copy()), 2)
    assert tiled.shape == (1200, 1024, 3)
    assert torch.equal(tiled[600:, 512:], tiled[:600, :512])


def test_saved_picture_shows_both_sides(tmp_path):
    before = np.full((50, 70, 3), (10, 20, 30), np.uint8)
    after = np.full((50, 70, 3), (200, 100, 50), np.uint8)
    path = tmp_path / "made" / "here.png"
    picture.save_side_by_side(before, after, path, "brighter")
    shown = np.asarray(Image.open(path).convert("RGB"))
    middle = shown[shown.shape[0] - 45]
    for colour in ((10, 20, 30), (200, 100, 50)):
        assert 68 <= np.all(middle == colour, axis=1).sum() <= 71


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "equal to torch's in all 1,200 values"),
        ({0: 1}, "differs from torch's by at most 1 level, in 1 of 1,200 values"),
        ({0: 1, 5: -9}, "differs from torch's by at most 9 levels, in 2 of 1,200 values"),
    ],
)
def test_comparison_counts_honestly(change, text):
    expected = torch.full((1200,), 100, dtype=torch.uint8)
    result = expected.clone()
    for index, levels in change.items():
        result[index] += levels
    assert str(show.compare(result, expected)) == text


def test_table_shows_ratios_and_the_roof():
    times = {"ours": 0.001, show.TORCH: 0.004}
    plain = show.table(times, None, None)
    assert "roof" not in plain
    assert [line.split()[-1] for line in plain.splitlines()[1:]] == ["4.00", "1.00"]
    roofed = show.table(times, 2_000_000, 4e9)
    assert [line.split()[-1] for line in roofed.splitlines()[1:]] == ["0.500", "0.125"]
    assert len({len(line) for line in roofed.splitlines()}) == 1


def test_providers_take_turns(monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 3)
    calls = []
    measured = timing.medians({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, "cpu")
    assert "".join(calls) == "abababab"
    assert set(measured) == {"a", "b"}
    assert all(0 < seconds < 1 for seconds in measured.values())


def test_demo_runs_from_start_to_end(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 1)
    monkeypatch.setattr(show, "TILES", {"cpu": 1})
    status = main(["demo", "--device", "cpu", "--output", str(tmp_path / "new")])
    shown = capsys.readouterr()
    assert status == 0, shown
    assert "compiling numjit, Python functor ..." in shown.out
    assert shown.out.count("check     numjit, ") == 2
    with Image.open(tmp_path / "new" / "tone-mapped.png") as image:
        assert image.width > 2 * 512
        saved = np.asarray(image.convert("RGB")).astype(int)
    # The right half is the tone-mapped one: brighter, and warmer (more red against blue).
    left, right = saved[:, : saved.shape[1] // 2], saved[:, saved.shape[1] // 2 :]
    assert right.mean() > left.mean() + 5
    assert (right[..., 0] - right[..., 2]).mean() > (left[..., 0] - left[..., 2]).mean() + 5


def test_a_wrong_result_fails_the_demo(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 1)
    monkeypatch.setattr(show, "TILES", {"cpu": 1})
    monkeypatch.setattr(tone, "in_cuda_cpp", lambda pixels, gains: 255 - pixels)
    assert main(["demo", "--device", "cpu", "--output", str(tmp_path)]) == 1
    assert "wrong result from numjit, CUDA C++ functor" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["torch", "matplotlib"])
def test_missing_packages_are_named_with_the_remedy(missing, tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == missing else real(name, *rest)
    )
    assert main(["demo", "--output", str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert f"needs {missing} (" in message
    assert "pip install 'numjit[torch,demo]'" in message
    assert not list(tmp_path.iterdir())


def test_asking_for_a_gpu_that_is_not_there(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["demo", "--device", "cuda", "--output", str(tmp_path)]) == 1
    assert "torch finds no CUDA device" in capsys.readouterr().err
