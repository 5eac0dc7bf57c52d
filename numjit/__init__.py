"""numjit: write a function of one element, get a GPU operation over whole tensors.

``import numjit`` loads neither torch nor Numba and does not touch CUDA; that happens at the first call.
"""

from __future__ import annotations

__version__ = "0.1.0"  # first: submodules read it

from typing import TYPE_CHECKING, Any

from numjit import math
from numjit.ahead.warmup import Warmed, warmup
from numjit.dtypes import DType
from numjit.elementwise import Elementwise, elementwise
from numjit.errors import NumjitError
from numjit.functor.markers import index
from numjit.torch.by_hand import Differentiable, differentiable
from numjit.torch.override import override
from numjit.value_and_grad import value_and_grad

if TYPE_CHECKING:
    from numjit.ahead.operand import Operand
    from numjit.operators import torch_op
    from numjit.torch.operator import TorchOp

if TYPE_CHECKING:  # a checker would refuse instances as annotations of functors' parameters
    bfloat16: Any
    bool_: Any
    complex64: Any
    complex128: Any
    float8_e4m3fn: Any
    float8_e5m2: Any
    float16: Any
    float32: Any
    float64: Any
    int8: Any
    int16: Any
    int32: Any
    int64: Any
    raw: Any
    uint8: Any
    uint16: Any
    uint32: Any
    uint64: Any
else:
    from numjit.dtypes import (
        bfloat16,
        bool_,
        complex64,
        complex128,
        float8_e4m3fn,
        float8_e5m2,
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from numjit.functor.markers import raw

__all__ = [
    "DType",
    "Differentiable",
    "Elementwise",
    "NumjitError",
    "Operand",
    "TorchOp",
    "Warmed",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "differentiable",
    "elementwise",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "index",
    "int8",
    "int16",
    "int32",
    "int64",
    "math",
    "override",
    "raw",
    "torch_op",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "warmup",
]

#: What takes milliseconds to load and most processes do without.
_LAZY = {
    "Operand": "numjit.ahead.operand",
    "TorchOp": "numjit.torch.operator",
    "torch_op": "numjit.operators",
    "jiterator": "numjit.jiterator",
    "torch_sharding": "numjit.torch.sharding",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LAZY[name])
    found = globals()[name] = getattr(module, name, module)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
