"""C++ for elements: the types of values, loads from what is stored, and the class ``numjit::raw``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numjit.dtypes import DType
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.signature import Specialisation

__all__ = ["RAW_MEMORY", "Load", "cpp_type", "loaded_element", "raw_class", "raw_loads", "storage_type"]

#: What generated code hands to a parameter ``numjit::raw<T>``: ``{address, size, number of its load}``.
RAW_MEMORY = "::numjit_scope::numjit::raw_memory"

_STORAGES = {
    "bool": "numjit_storage::Bool",
    "float16": "numjit_storage::Half",
    "bfloat16": "numjit_storage::Bfloat",
    "float8_e4m3fn": "numjit_storage::E4m3",
    "float8_e5m2": "numjit_storage::E5m2",
    "complex32": "numjit_storage::Complex<numjit_storage::Half>",
    "complex64": "numjit_storage::Complex<float>",
    "complex128": "numjit_storage::Complex<double>",
}
_SCALARS = {"float32": "float", "float64": "double"}
_KIND_CODES = {"b": 100, "i": 200, "u": 300, "f": 400, "c": 500}


class Load(NamedTuple):
    """How the elements of a raw operand are read."""

    stored: DType
    wanted: DType


def storage_type(dtype: DType) -> str:
    """Return the C++ type that stands for a stored element type."""
    known = _STORAGES.get(dtype.name) or _SCALARS.get(dtype.name)
    return known or f"::numjit_standard::{dtype.name}_t"


def cpp_type(dtype: DType) -> str:
    """Return the C++ type in which a functor sees values of a dtype: its compute type."""
    if dtype.is_complex:
        return f"::numjit_complex::complex<{cpp_type(dtype.compute.real)}>"
    name = dtype.compute.name
    return "bool" if name == "bool" else _SCALARS.get(name) or f"::numjit_standard::{name}_t"


def loaded_element(address: str, stored: DType, wanted: DType, view: str = "") -> str:
    """Return C++ that reads the element at an address and gives it as the functor sees it."""
    expression = f"numjit_storage::Access<{storage_type(stored)}>::load({address})"
    if "conj" in view and stored.is_complex:
        expression = f"numjit_storage::conjugate({expression})"
    if "neg" in view:
        expression = f"numjit_storage::negate({expression})"
    if stored is wanted:
        return expression
    expression = f"numjit_storage::Convert<{cpp_type(wanted)}>::from({expression})"
    if wanted.compute is not wanted:
        expression = f"numjit_storage::Access<{storage_type(wanted)}>::round({expression})"
    return expression


def raw_loads(functor: CppFunctor, specialisation: Specialisation) -> dict[int, Load]:
    """Return, for the position of each raw operand, how its elements are read."""
    return {
        k: Load(specialisation.arguments[k].dtype, specialisation.inputs[k])
        for k in sorted(functor.signature.raws)
    }


def raw_class(loads: Sequence[Load]) -> str:
    """Return the text of ``numjit::raw`` for a program with these loads.

    The number of an object's load is a constant of the call, so that after inlining one load is left.
    """
    cases = "".join(
        f"    if constexpr (::numjit_standard::numjit_code<T>::value == {_code(load.wanted)})\n"
        f"      if (load_ == {number})\n"
        f"        return static_cast<T>({_at(load)});\n"
        for number, load in enumerate(loads)
    )
    return f"""
namespace numjit_scope {{
namespace numjit {{
struct raw_memory {{
  long long data, size;
  int load;
}};
template <class T>
class raw {{
 public:
  raw(raw_memory memory) : data_(memory.data), size_(memory.size), load_(memory.load) {{}}
  long long size() const {{ return size_; }}
  T operator[](long long i) const {{
{cases}    return T();
  }}

 private:
  long long data_, size_;
  int load_;
}};
}}  // namespace numjit
}}  // namespace numjit_scope
"""


def _code(dtype: DType) -> int:
    """Return the ``numjit_code`` (core.h) of a dtype's compute type."""
    compute = dtype.compute
    return _KIND_CODES[compute.kind] + compute.itemsize


def _at(load: Load) -> str:
    address = f"reinterpret_cast<const char*>(data_ + i * {load.stored.itemsize})"
    return loaded_element(address, load.stored, load.wanted)
