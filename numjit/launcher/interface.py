"""What the launcher's machine code and Python share: tables of 8-byte words, by names of places.

The machine code is the same for every functor, shape and process; all that differs lies in tables: one of
the process (`Api`), one of each functor (`Record`) and one of each planned call (`PlanWord`). They are NumPy
arrays of int64 whose addresses the code is given; Python writes them only while it holds the GIL.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numjit.dtypes import DType

__all__ = [
    "MAX_PARAMETERS",
    "MAX_SLOTS",
    "MAX_WORDS",
    "Api",
    "Guard",
    "Packing",
    "PlanWord",
    "PlannedCall",
    "Record",
    "Span",
]

#: What fits the code's scratch on the stack; calls that need more go the general way.
MAX_PARAMETERS = 64
MAX_WORDS = 512
MAX_SLOTS = 256


class Api(enum.IntEnum):
    """The process: addresses of functions and objects, and offsets in other people's structs."""

    SLOT_CALL = 0  # what calling did before: Python's own slot, which runs __call__
    GET_DIM = enum.auto()  # torch's C functions of a tensor: int (at::Tensor *, what is asked for *)
    GET_SIZES = enum.auto()
    GET_STRIDES = enum.auto()
    GET_DTYPE = enum.auto()
    GET_DEVICE = enum.auto()  # its index; -1 where there is one device of the kind
    GET_START = enum.auto()  # elements between its storage's address and its own
    GET_DATA = enum.auto()  # its own address
    GET_OUT_DATA = enum.auto()  # the same, to be written to: what it shares until then is copied
    CURRENT_STREAM = enum.auto()  # torch: int (int device, void **stream)
    CALL = enum.auto()  # PyObject_Call
    VECTORCALL = enum.auto()
    GET_CONTEXT = enum.auto()  # cuCtxGetCurrent
    SET_CONTEXT = enum.auto()  # cuCtxSetCurrent
    LAUNCH = enum.auto()  # cuLaunchKernel
    SAVE_THREAD = enum.auto()
    RESTORE_THREAD = enum.auto()
    CLEAR_ERROR = enum.auto()
    DICT_NEXT = enum.auto()
    DICT_GET = enum.auto()  # PyDict_GetItemWithError
    LONG_VALUE = enum.auto()  # PyLong_AsLongLongAndOverflow
    INCREF = enum.auto()
    DECREF = enum.auto()
    NEW_TUPLE = enum.auto()
    MODE_COUNT = enum.auto()  # torch: how many dispatch modes are active
    FUNCTION_MODE = enum.auto()  # torch: whether a TorchFunctionMode is active
    KEY_INCLUDED = enum.auto()  # torch: whether all calls of this thread have a dispatch key
    RECORDED_ABOVE = enum.auto()  # and the key that says that they are recorded before autograd
    TRACING_STATE = enum.auto()  # torch: the address of what torch.jit.trace records into, 0 there if nothing
    DEFAULT_DTYPE = enum.auto()  # torch: number of the default dtype
    GRAD_ENABLED = enum.auto()
    REQUIRES_GRAD = enum.auto()  # torch: bool (TensorImpl *)
    TENSOR = enum.auto()  # classes, by identity
    PARAMETER = enum.auto()
    FLOAT = enum.auto()
    INT = enum.auto()
    BOOL = enum.auto()
    COMPLEX = enum.auto()
    TRUE = enum.auto()  # objects
    FALSE = enum.auto()
    NONE = enum.auto()
    OUT_NAME = enum.auto()
    FORWARD = enum.auto()  # names of torch.autograd.forward_ad
    LEVEL_NAME = enum.auto()  # the one that says whether tensors may have tangents
    NO_LEVEL = enum.auto()  # and its value where they have none
    PROFILER = enum.auto()  # names of torch.autograd.profiler
    PROFILING_NAME = enum.auto()  # the one that says whether a profiler records
    EMPTY = enum.auto()  # torch functions: empty_strided(size, stride, dtype)
    WRITTEN = enum.auto()  # counts a write of the tensors of a tuple
    RECORD_OFFSET = enum.auto()  # in an operation: its record (an array)
    TENSOR_OFFSET = enum.auto()  # in a tensor object: its at::Tensor, the address of its TensorImpl
    KEYS_OFFSET = enum.auto()  # in a TensorImpl: its dispatch keys
    OTHER_KEYS = enum.auto()  # those that no plain tensor has
    ITEMS_OFFSET = enum.auto()  # in a tuple: its items
    ITEM_SIZES = enum.auto()  # a table: bytes of an element by the number of its dtype, 0 where unknown


class Record(enum.IntEnum):
    """A functor: its parameters, what it captures, and its plans."""

    PARAMETERS = 0
    OPERANDS = enum.auto()
    NAMES = enum.auto()  # one interned str a parameter
    DEFAULTS = enum.auto()  # one object a parameter, 0 where there is none
    GUARD_COUNT = enum.auto()
    GUARDS = enum.auto()  # `Guard` entries of 4 words
    TABLE = enum.auto()  # open addressing: (hash, plan) pairs, plan 0 where free
    MASK = enum.auto()  # slots of the table, less one
    RECENT = enum.auto()  # the plan that was found last, 0 where there is none
    DETACHED = enum.auto()  # 1: gradients are never recorded
    HITS = enum.auto()  # calls answered


class Guard(enum.IntEnum):
    """A captured name: (kind, place, key, value that it must have)."""

    WORD = 0  # the word at address `place`; a missing one counts as None where the value is None
    NAME = 1  # the entry `key` of the dict `place`


class PlanWord(enum.IntEnum):
    """A call made before."""

    OWNER = 0  # the array object itself, kept alive during a call
    WORD_COUNT = enum.auto()
    WORDS = enum.auto()  # what `describe` answered
    CONTEXT = enum.auto()
    DEVICE = enum.auto()
    OUTPUTS = enum.auto()
    ALLOCATIONS = enum.auto()  # per output: the tuple that EMPTY is called with
    GIVEN = enum.auto()  # 1: out= is the only output
    FUNCTION = enum.auto()
    GRID = enum.auto()
    BLOCK = enum.auto()
    SHARED = enum.auto()
    SLOTS = enum.auto()  # kernel parameters, 8 bytes each
    TEMPLATE = enum.auto()  # their values, those that change as 0
    OUTPUT_OFFSETS = enum.auto()  # bytes to add to each output's address
    INPUTS = enum.auto()
    INPUT_TABLE = enum.auto()  # `Span` entries: 6 words an input read from memory
    VALUES = enum.auto()
    VALUE_TABLE = enum.auto()  # (parameter, slot, `Packing`) of each number
    OUT_LOW = enum.auto()  # bytes that `out` covers, from its address
    OUT_HIGH = enum.auto()


class Span(enum.IntEnum):
    """An input read from memory."""

    PARAMETER = 0
    SLOT = enum.auto()
    OFFSET = enum.auto()  # bytes to add to its address
    LOW = enum.auto()  # bytes that it covers, from its address
    HIGH = enum.auto()
    SAME = enum.auto()  # 1: laid out as `out` is, so that both may be one


class Packing(enum.IntEnum):
    """How a Python number becomes a kernel parameter: the parameter's type, what is taken from which kind."""

    FLOAT32_OF_FLOAT = 0
    FLOAT64_OF_FLOAT = enum.auto()
    FLOAT32_OF_INT = enum.auto()
    FLOAT64_OF_INT = enum.auto()
    FLOAT32_OF_BOOL = enum.auto()
    FLOAT64_OF_BOOL = enum.auto()
    INT_OF_INT = enum.auto()
    INT_OF_BOOL = enum.auto()
    BOOL_OF_INT = enum.auto()
    FLOAT32_OF_REAL = enum.auto()
    FLOAT64_OF_REAL = enum.auto()
    FLOAT32_OF_IMAG = enum.auto()
    FLOAT64_OF_IMAG = enum.auto()


class PlannedCall(Protocol):
    """What the launcher is told of a call that was made: `numjit.call.record.Plan`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    memory: tuple[int, ...]
    numbers: tuple[tuple[int, DType], ...]
    offsets: tuple[int, ...]
    kernel: Any
    grid: tuple[int, int, int]
    extents: tuple[int, ...]
    library: str
    fingerprint: str

    @property
    def outputs(self) -> tuple[DType, ...]:
        """The dtypes of the results."""

    @property
    def device(self) -> Any:
        """Where it runs; `index` is the GPU's number."""
