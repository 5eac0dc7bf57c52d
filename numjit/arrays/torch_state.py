"""What torch is doing in the calling thread, as far as a call has to know: modes, tracing, transforms."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["is_recorded_above", "torch_if_ready", "watches"]


def torch_if_ready() -> Any:
    """Return torch where it is loaded; None before, and while it is being imported."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and hasattr(torch, "func") else None


@functools.cache
def is_recorded_above() -> Callable[[], bool]:
    """Return what says whether calls are recorded before autograd: ``make_fx(..., pre_dispatch=True)``.

    Such a mode is not among those that torch counts.
    """
    import torch

    core = torch._C
    return functools.partial(core._dispatch_tls_is_dispatch_key_included, core.DispatchKey.PreDispatch)


def watches(torch: Any) -> bool:
    """Whether a mode, a tracer or a transform is to see calls: fake tensors, ``make_fx``, ``vmap``."""
    core = torch._C
    return bool(
        core._len_torch_dispatch_stack()
        or core._is_tracing()
        or is_recorded_above()()
        or core._are_functorch_transforms_active()
    )
