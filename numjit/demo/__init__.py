"""``python -m numjit demo``: the main job on a real picture, checked against torch and timed."""

from __future__ import annotations

from numjit.demo.show import run

__all__ = ["run"]
