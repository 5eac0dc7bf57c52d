"""Generates the C++ program of a CPU loop around a C++ functor's text."""

from __future__ import annotations

from collections.abc import Sequence

from numjit.dtypes import DType
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.cpp.raw import cpp_type, loaded_element, storage_type
from numjit.functor.cpp.reader import Unit
from numjit.functor.cpp.source import (
    PREAMBLE_FILE,
    USER_FILE,
    call_lines,
    directives,
    header_text,
    library_headers,
    seam_dtypes,
    storage_text,
    user_text,
)
from numjit.functor.cpp.tokens import Source, Token, tokenize
from numjit.functor.signature import Specialisation

__all__ = ["SYMBOL", "host_source", "host_user_text", "user_column", "user_sources"]

#: The loop's exported name.
SYMBOL = "numjit_chunk"

#: Elements that one pass of the vectorised loop takes; broadcast operands are spread over as many.
_BLOCK = 256

# `a / b` becomes `a * numjit_over * b` (numjit/functor/cpp/include/host.h): integer division by zero gives 0.
_SAFE = {
    "/": "* ::numjit_over *",
    "%": "* ::numjit_modulo *",
    "/=": "/= ::numjit_divisor =",
    "%=": "%= ::numjit_divisor =",
}


# By pragmas, since one compiler refuses the other's options. A value that is read unset or not returned is a
# wrong answer at best; the rest is passed on where it concerns the user's own lines.
_DIAGNOSTICS = """#line 1 "numjit/diagnostics"
#if defined(__GNUC__)
// __forceinline__ without `inline`.
#pragma GCC diagnostic ignored "-Wattributes"
#endif
#if defined(__clang__)
#pragma clang diagnostic error "-Wreturn-type"
#pragma clang diagnostic error "-Winfinite-recursion"
#pragma clang diagnostic warning "-Wuninitialized"
#pragma clang diagnostic warning "-Wsometimes-uninitialized"
#pragma clang diagnostic warning "-Wunsequenced"
#elif defined(__GNUC__)
#pragma GCC diagnostic error "-Wreturn-type"
#if __GNUC__ >= 12
#pragma GCC diagnostic error "-Winfinite-recursion"
#endif
#pragma GCC diagnostic warning "-Wuninitialized"
#pragma GCC diagnostic warning "-Wmaybe-uninitialized"
#pragma GCC diagnostic warning "-Wsequence-point"
#pragma GCC diagnostic warning "-Wunused-value"
#endif
"""

# GCC 12.1 and 12.2 make fused operations of `a * c - b * d` beside `a * d + b * c` in vectorised loops in
# spite of -ffp-contract=off (GCC's PR 107647); of elements in a loop's rest they do not.
_NO_FUSION = """#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ == 12 && __GNUC_MINOR__ < 3
#pragma GCC target("no-fma,no-avx512f")
#endif
"""


def _division_edits(unit: Unit) -> list[tuple[int, int, str]]:
    """Return the replacement of every division in the text, macros' bodies included."""
    tokens: list[Token] = [token for token in tokenize(unit.source) if token.kind != "directive"]
    lines = directives(unit)
    tested = {t.text for _, line in lines if line.keyword in {"if", "elif"} for t in line.tokens}
    for _, line in lines:
        if line.keyword == "define" and line.tokens and line.tokens[0].text not in tested:
            tokens.extend(line.body)
    previous = {}
    last = ""
    for token in tokens:
        previous[token.offset] = last
        last = token.text
    return [
        (token.offset, token.offset + len(token.text), _SAFE[token.text])
        for token in tokens
        if token.kind == "punct" and token.text in _SAFE and previous[token.offset] != "operator"
    ]


def _edits(functor: CppFunctor) -> dict[str, list[tuple[int, int, str]]]:
    files = [PREAMBLE_FILE, USER_FILE][-len(functor.units) :]
    return {file: _division_edits(unit) for file, unit in zip(files, functor.units, strict=True)}


def host_user_text(functor: CppFunctor) -> str:
    """Return the user's text as the host compiles it."""
    return user_text(functor, _edits(functor))


def user_sources(functor: CppFunctor) -> dict[str, Source]:
    """Return the user's texts as they were written, by the names that messages call them."""
    files = [PREAMBLE_FILE, USER_FILE][-len(functor.units) :]
    return {file: unit.source for file, unit in zip(files, functor.units, strict=True)}


def user_column(functor: CppFunctor, file: str, line: int, column: int) -> int:
    """Return the user's own column for one that the host's compiler names."""
    sources = user_sources(functor)
    if file not in sources or column == 0:
        return column
    edits = [*_edits(functor)[file], *functor.edits[list(sources).index(file)]]
    for start, stop, new in sorted(edits):
        at_line, at_column = sources[file].position(start)
        if at_line == line and at_column < column:
            column = max(at_column, column - (len(new) - (stop - start)))
    return column


def _value(index: int, dtype: DType) -> str:
    """Return C++ that reads a by-value argument from its 16-byte slot."""
    slot = f"values + {16 * index}"
    if dtype.is_complex:
        real = cpp_type(dtype.compute.real)
        return f"{cpp_type(dtype)}(numjit_read<{real}>({slot}), numjit_read<{real}>({slot} + sizeof({real})))"
    if dtype.kind == "b":
        return f"(numjit_read<unsigned char>({slot}) != 0)"
    return f"numjit_read<{cpp_type(dtype)}>({slot})"


def _raw_value(index: int) -> str:
    """Return C++ that reads a raw operand's address and size from its slot."""
    return f"numjit_read<long long>(values + {16 * index}), numjit_read<long long>(values + {16 * index + 8})"


def host_source(
    functor: CppFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> str:
    """Return the program whose one symbol, `SYMBOL`, is the loop of the CPU chunk ABI.

    Parameters
    ----------
    functor, specialisation
        What to run, at which types.
    storages
        Per input the dtype it is stored in, None where it comes by value (a raw operand: address and size).
    stored_outputs
        Per output the dtype it is stored in.
    views
        Per input ``""``, ``"conj"``, ``"neg"`` or ``"conj neg"``.
    """
    types = [
        *seam_dtypes(functor, specialisation),
        *stored_outputs,
        *(dtype for dtype in storages if dtype is not None),
    ]
    chosen = library_headers(functor, types, host=True)
    fusion = _NO_FUSION if any(stored.is_complex for stored in stored_outputs) else ""
    return (
        f"{_DIAGNOSTICS}{fusion}{header_text(chosen)}{storage_text(functor, specialisation, chosen)}"
        f"{host_user_text(functor)}"
        f"{_loop(functor, specialisation, storages, stored_outputs, views)}"
    )


def _loop(
    functor: CppFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> str:
    memory = [i for i, stored in enumerate(storages) if stored is not None]
    values = [i for i, stored in enumerate(storages) if stored is None]
    sizes = [dtype.itemsize for dtype in stored_outputs]
    sizes += [stored.itemsize for stored in storages if stored is not None]
    raws = functor.signature.raws
    # The element's number is one operand more, whose "address" is the number itself.
    numbered = len(sizes) if functor.uses_index else -1
    sizes += [1] * functor.uses_index
    count = len(sizes)
    expressions: list[str] = []
    for i, (stored, wanted) in enumerate(zip(storages, specialisation.inputs, strict=True)):
        if stored is None:
            expressions.append(f"v.v{i}")
            continue
        operand = len(stored_outputs) + memory.index(i)
        expressions.append(loaded_element(f"p{operand}", stored, wanted, views[i]))
    lines = [
        f"const {cpp_type(specialisation.inputs[i])} a{i} = {text};"
        for i, text in enumerate(expressions)
        if i not in raws
    ]
    arguments = [f"v.v{i}, v.n{i}" if i in raws else f"a{i}" for i in range(len(storages))]
    arguments.append(f"p{numbered}")
    results = [f"r{j}" for j in range(len(stored_outputs))]
    lines += call_lines(functor, specialisation, arguments, results)
    for j, (stored, made) in enumerate(zip(stored_outputs, specialisation.outputs, strict=True)):
        kept = f"r{j}"
        if stored.compute is not made.compute:
            kept = f"numjit_storage::Convert<{cpp_type(stored)}>::from({kept})"
        lines.append(f"numjit_storage::Access<{storage_type(stored)}>::store(p{j}, {kept});")
    body = "".join(f"  {line}\n" for line in lines)
    fields = "".join(
        f"  long long v{i}, n{i};\n" if i in raws else f"  {cpp_type(specialisation.inputs[i])} v{i};\n"
        for i in values
    )
    made_values = ", ".join(
        _raw_value(n) if i in raws else _value(n, specialisation.inputs[i]) for n, i in enumerate(values)
    )
    pointers = ", ".join(f"{'numjit_index' if k == numbered else 'char*'} p{k}" for k in range(count))
    dense = ", ".join(f"q{k} + i * {'step' if k == numbered else size}" for k, size in enumerate(sizes))
    strided = ", ".join(f"q{k} + i * t{k}" for k in range(count))
    bases = "".join(
        f"  const numjit_index q{k} = reinterpret_cast<numjit_index>(p[{k}]);\n"
        if k == numbered
        else f"  char* const q{k} = p[{k}];\n"
        for k in range(count)
    )
    steps = "".join(f"  const numjit_index t{k} = s[{k} * rank];\n" for k in range(count))
    inputs_dense = "".join(
        f"  spread[{k}] = s[{k} * rank] == 0;\n"
        f"  dense = dense && (spread[{k}] || s[{k} * rank] == {sizes[k]});\n"
        for k in range(len(stored_outputs), count)
        if k != numbered
    )
    step = f"s[{numbered} * rank]" if functor.uses_index else "0"
    outputs_dense = " && ".join(f"s[{j} * rank] == {sizes[j]}" for j in range(len(stored_outputs)))
    sizes_text = ", ".join(map(str, sizes))
    return f"""
namespace {{
using numjit_index = ::std::int64_t;
template <class T>
inline T numjit_read(const char* at) {{
  T value;
  ::std::memcpy(&value, at, sizeof value);
  return value;
}}
struct numjit_values {{
{fields}}};
constexpr int numjit_count = {count};
constexpr int numjit_outputs = {len(stored_outputs)};
constexpr int numjit_block = {_BLOCK};
constexpr int numjit_sizes[] = {{{sizes_text}}};

inline __attribute__((always_inline)) void numjit_element({pointers}, const numjit_values& v) {{
  (void)v;
{body}}}

// Every operand dense: the loop that the compiler vectorises. A step reads and writes its own element
// only, so operands that are one and the same array are no obstacle.
void numjit_dense(char* const* p, const numjit_values& values, numjit_index n, numjit_index step) {{
  (void)step;
  // Local copies: a store through char* may change any other memory.
  const numjit_values v = values;
{bases}#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__)
#pragma GCC ivdep
#endif
  for (numjit_index i = 0; i < n; ++i) numjit_element({dense}, v);
}}

void numjit_strided(char* const* p, const numjit_index* s, numjit_index rank, const numjit_values& values,
                    numjit_index n) {{
  const numjit_values v = values;
{bases}{steps}  for (numjit_index i = 0; i < n; ++i) numjit_element({strided}, v);
}}

// One run along the fastest dimension. An operand that stands still is spread over a small buffer, so
// that the dense loop serves it too.
void numjit_row(char* const* start, const numjit_index* s, numjit_index rank, const numjit_values& v,
                numjit_index n, char (*buffers)[numjit_block * 16]) {{
  bool spread[numjit_count] = {{}};
  bool dense = {outputs_dense};
{inputs_dense}  if (!dense || n < 8) return numjit_strided(start, s, rank, v, n);
  char* p[numjit_count];
  const numjit_index step = {step};
  bool any = false;
  for (int k = 0; k < numjit_count; ++k) {{
    p[k] = start[k];
    if (!spread[k]) continue;
    any = true;
    const numjit_index filled = n < numjit_block ? n : numjit_block;
    const numjit_index bytes = filled * numjit_sizes[k];
    numjit_index have = numjit_sizes[k];
    ::std::memcpy(buffers[k], start[k], have);
    for (; have < bytes; have *= 2)
      ::std::memcpy(buffers[k] + have, buffers[k], have < bytes - have ? have : bytes - have);
    p[k] = buffers[k];
  }}
  if (!any) return numjit_dense(p, v, n, step);
  for (numjit_index done = 0; done < n; done += numjit_block) {{
    numjit_dense(p, v, n - done < numjit_block ? n - done : numjit_block, step);
    for (int k = 0; k < numjit_count; ++k)
      if (!spread[k]) p[k] += numjit_block * (k == {numbered} ? step : numjit_sizes[k]);
  }}
}}
}}  // namespace

extern "C" __attribute__((visibility("default"))) void {SYMBOL}(
    const ::std::int64_t* pointers, const ::std::int64_t* shape, const ::std::int64_t* strides,
    const void* slots, ::std::int64_t rank, ::std::int64_t start, ::std::int64_t stop) {{
  if (start >= stop) return;
  const char* values = static_cast<const char*>(slots);
  const numjit_values v = {{{made_values}}};
  (void)values;
  char buffers[numjit_count][numjit_block * 16];
  numjit_index index[64];
  numjit_index left = start;
  char* p[numjit_count];
  for (int k = 0; k < numjit_count; ++k) p[k] = reinterpret_cast<char*>(pointers[k]);
  for (numjit_index d = 0; d < rank; ++d) {{
    index[d] = d + 1 < rank ? left % shape[d] : left;
    left /= shape[d];
    for (int k = 0; k < numjit_count; ++k) p[k] += index[d] * strides[k * rank + d];
  }}
  while (start < stop) {{
    numjit_index n = shape[0] - index[0];
    if (n > stop - start) n = stop - start;
    numjit_row(p, strides, rank, v, n, buffers);
    start += n;
    index[0] += n;
    for (int k = 0; k < numjit_count; ++k) p[k] += n * strides[k * rank];
    for (numjit_index d = 0; d + 1 < rank && index[d] == shape[d]; ++d) {{
      index[d] = 0;
      ++index[d + 1];
      for (int k = 0; k < numjit_count; ++k)
        p[k] += strides[k * rank + d + 1] - shape[d] * strides[k * rank + d];
    }}
  }}
}}
"""
