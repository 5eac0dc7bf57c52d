"""The demo and the report on a machine with a GPU."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

from numjit.__main__ import main
from numjit.demo import show, timing, tone
from numjit.tools import info

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("functor", [tone.in_python, tone.in_cuda_cpp], ids=["python", "cuda_cpp"])
def test_functors_agree_with_torch_at_every_level(functor):
    levels = torch.arange(256, dtype=torch.uint8, device="cuda")
    pixels, gains = levels[:, None].expand(256, 3), torch.tensor([0.25, 1.0, 4.0], device="cuda")
    result = functor(pixels, gains)
    assert result.is_cuda
    assert show.compare(result, tone.in_torch(pixels, gains)).largest <= 1


def test_demo_takes_the_gpu_and_shows_the_roof(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 3)
    status = main(["demo", "--output", str(tmp_path)])
    shown = capsys.readouterr()
    assert status == 0, shown
    assert torch.cuda.get_device_name() in shown.out
    fractions = re.findall(r"^numjit, .* (\d\.\d{3})$", shown.out, re.MULTILINE)
    assert len(fractions) == 2
    assert all(0 < float(fraction) < 1.2 for fraction in fractions)
    with Image.open(tmp_path / "tone-mapped.png") as image:
        saved = np.asarray(image.convert("RGB")).astype(int)
    left, right = saved[:, : saved.shape[1] // 2], saved[:, saved.shape[1] // 2 :]
    assert right.mean() > left.mean() + 5


def test_info_names_the_card(capsys):
    assert info.run() == 0
    shown = capsys.readouterr().out
    assert torch.cuda.get_device_name(0) in shown
    major, minor = torch.cuda.get_device_capability(0)
    assert f"capability {major}.{minor}" in shown
