"""Writes the headers of the functions whose value numjit computes itself, for C++ functors.

``python -m numjit.rules.cpp_values`` writes them anew; `tests/unit/test_values_text.py` says whether that
was forgotten.
"""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from numjit import dtypes
from numjit.codegen.machine import HOST, Machine
from numjit.rules import complex_math, special
from numjit.rules.special import Function
from numjit.rules.values_text import DEVICE, TextEmitter, alone, merged

__all__ = ["texts"]

#: CUDA's functions that the C library lacks, with the formulas that stand in for them on the CPU.
CUDA: Final[dict[str, Function]] = {
    "rsqrt": special.rsqrt,
    "rcbrt": special.rcbrt,
    "exp10": special.exp10,
    "sinpi": special.sinpi,
    "cospi": special.cospi,
    "erfinv": special.erfinv,
    "erfcx": special.erfcx,
    "erfcinv": special.erfcinv,
    "normcdf": special.normcdf,
    "normcdfinv": special.normcdfinv,
    "cyl_bessel_i0": special.i0,
    "cyl_bessel_i1": special.i1,
}
#: Functions that neither has; functors find them in namespace numjit.
OWN: Final[dict[str, Function]] = {
    "sinc": special.sinc,
    "xlogy": special.xlogy,
    "logaddexp": special.logaddexp,
    "digamma": special.digamma,
    "trigamma": special.trigamma,
    "log_ndtr": special.log_ndtr,
    "gammainc": special.gammainc,
}


class _Written(NamedTuple):
    """A function in C++ on one machine."""

    lines: list[str]
    called: set[str]
    library: set[str]


def _written(name: str, function: Function, machine: Machine) -> _Written:
    parameters = list(inspect.signature(function.formula).parameters)
    bodies, called, library = [], set(), set()
    for dtype in (dtypes.float32, dtypes.float64):
        emitter = TextEmitter(machine, dtype, {f.__name__ for f in (*CUDA.values(), *OWN.values())})
        found = function.formula(*map(emitter.parameter, parameters))
        bodies.append(emitter.write([found], "{}"))
        called |= emitter.called
        library |= emitter.library
    body = merged(*bodies)
    if body is not None:
        lines = ["template <class R>", *_definition("R", name, parameters, body)]
    else:
        lines = [
            line
            for kind, own in zip(("float", "double"), bodies, strict=True)
            for line in _definition(kind, name, parameters, [f"using R = {kind};", *alone(own)])
        ]
    return _Written(lines, called, library)


def _definition(kind: str, name: str, parameters: Sequence[str], body: Sequence[str]) -> list[str]:
    declared = ", ".join(f"{kind} {parameter}" for parameter in parameters)
    return [f"NUMJIT_INLINE {kind} {name}({declared}) {{", *(f"  {line}" for line in body), "}"]


_OPENING = """\
// Functions whose value numjit computes itself: those of CUDA for the CPU, and those of namespace numjit.
// Written by `python -m numjit.rules.cpp_values`; the formulas stand in numjit/rules/special.py.
// Follows core.h. Lines from "//@ words" to "//@" are left out of programs that use none of the words.
#define NUMJIT_VALUES
#ifdef __CUDACC_RTC__
#define NUMJIT_INLINE __forceinline__
#else
#define NUMJIT_INLINE inline
#endif
namespace numjit_special {
template <class... S>
using real_of =
    ::numjit_standard::conditional_t<(::numjit_standard::is_same_v<S, float> && ...), float, double>;
template <class... S>
using if_numbers =
    ::numjit_standard::enable_if_t<(::numjit_standard::is_arithmetic_v<S> && ...), real_of<S...>>;
"""


def _for_numbers(name: str, count: int) -> list[str]:
    """Return a function of namespace numjit: of any numbers, computing in double unless all are float."""
    kinds = [f"S{k}" for k in range(count)]
    declared = ", ".join(f"{kind} x{k}" for k, kind in enumerate(kinds))
    real = f"::numjit_special::if_numbers<{', '.join(kinds)}>"
    given = ", ".join(f"static_cast<R>(x{k})" for k in range(count))
    return [
        f"template <{', '.join(f'class {kind}' for kind in kinds)}>",
        f"NUMJIT_INLINE {real} {name}({declared}) {{",
        f"  using R = {real};",
        f"  return ::numjit_special::{name}({given});",
        "}",
    ]


def _values() -> str:
    on_host = {name: _written(name, function, HOST) for name, function in {**CUDA, **OWN}.items()}
    on_device = {name: _written(name, function, DEVICE) for name, function in OWN.items()}
    used = sorted(set().union(*(written.library for written in on_device.values())))
    lines = [
        "#ifdef __CUDACC_RTC__", f"namespace std {{ {' '.join(f'using ::{name};' for name in used)} }}",
        "#else", "namespace std = ::std;", *(line for name in CUDA for line in on_host[name].lines), "#endif",
        "}  // namespace numjit_special",
    ]  # fmt: skip
    for name, function in OWN.items():
        host, device = on_host[name].lines, on_device[name].lines
        both = host if host == device else ["#ifdef __CUDACC_RTC__", *device, "#else", *host, "#endif"]
        count = len(inspect.signature(function.formula).parameters)
        lines += [
            f"//@ {' '.join(_users(name, on_device))}",
            "namespace numjit_special {", *both, "}  // namespace numjit_special",
            "namespace numjit_scope {", "namespace numjit {", *_for_numbers(name, count),
            "}", "}  // namespace numjit_scope", "//@",
        ]  # fmt: skip
    return _OPENING + "\n".join([*lines, "#undef NUMJIT_INLINE", ""])


def _users(name: str, written: Mapping[str, _Written]) -> list[str]:
    """Return the functions that a function is needed for."""
    found = [name]
    for one in found:
        found += [other for other in written if one in written[other].called and other not in found]
    return found


_COMPLEX_OPENING = """\
// Functions of complex numbers, made of real ones. Written by `python -m numjit.rules.cpp_values`; the
// formulas stand in numjit/rules/complex_math.py.
// Follows complex.h. Lines from "//@ words" to "//@" are left out of programs that use none of the words.
"""


def _complex_written(name: str, formula: Callable[..., Any], parameters: Sequence[str]) -> _Written:
    """Return a function of complex numbers, `parameters` being what its body calls their parts."""
    bodies, called, library = [], set(), set()
    for dtype in (dtypes.float32, dtypes.float64):
        emitter = TextEmitter(HOST, dtype, complex_math.FORMULAS, is_complex=True)
        found = inspect.unwrap(formula)(*map(emitter.parameter, parameters))
        bodies.append(emitter.write(found, "complex<R>({}, {})"))
        called |= emitter.called
        library |= emitter.library
    body = merged(*bodies)
    assert body is not None, name
    pairs = list(zip(parameters[::2], parameters[1::2], "zw"[: len(parameters) // 2], strict=True))
    declared = ", ".join(f"const complex<R>& {whole}" for _, _, whole in pairs)
    parts = [f"{real} = {whole}.real(), {imag} = {whole}.imag()" for real, imag, whole in pairs]
    lines = [
        "template <class R>", f"NUMJIT_INLINE complex<R> {name}({declared}) {{",
        f"  const R {', '.join(parts)};", *(f"  {line}" for line in body), "}",
    ]  # fmt: skip
    return _Written(lines, called, library)


def _complex_values() -> str:
    written = {name: _complex_written(name, f, "xy") for name, f in complex_math.FORMULAS.items()}
    power = _complex_written("power", complex_math.power_formula, "xyuv")
    written["pow"] = power._replace(lines=["namespace detail {", *power.lines, "}  // namespace detail"])
    used = sorted(set().union(*(one.library for one in written.values())))
    lines = [
        "#ifdef __CUDACC_RTC__", "#define NUMJIT_INLINE __forceinline__",
        "namespace numjit_complex { namespace detail { namespace std {",
        f"{' '.join(f'using ::{name};' for name in used)}", "} } }",
        "#else", "#define NUMJIT_INLINE inline", "#endif",
    ]  # fmt: skip
    for name, one in written.items():
        lines += [
            f"//@ {' '.join(_users(name, written))}",
            "namespace numjit_complex {", *one.lines, "}  // namespace numjit_complex",
            f"namespace numjit_standard {{ using numjit_complex::{name}; }}", "//@",
        ]  # fmt: skip
    return _COMPLEX_OPENING + "\n".join([*lines, "#undef NUMJIT_INLINE", ""])


def texts() -> dict[str, str]:
    """Return the headers by their file names."""
    return {"values.h": _values(), "complex_values.h": _complex_values()}


if __name__ == "__main__":
    folder = pathlib.Path(__file__).parents[1] / "functor/cpp/include"
    for file, text in texts().items():
        (folder / file).write_text(text, encoding="utf-8")
