"""Refuses damaged cubins before the driver sees them: a truncated one makes it read past the end and crash.

A cubin is a 64-bit little-endian ELF file (https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html).
"""

from __future__ import annotations

import struct

from numjit.errors import LaunchError

__all__ = ["require_complete"]

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<4xI16xQQ24x")
_MACHINE_CUDA = 190
_NO_BITS = 8  # a section without bytes in the file


def require_complete(cubin: bytes) -> None:
    """Check that an image is a CUDA ELF file with every section and table inside it.

    Raises
    ------
    LaunchError
        It is not, or it was cut short.
    """
    fault = _fault(cubin)
    if fault:
        raise LaunchError(
            f"a cubin of {len(cubin)} bytes is damaged ({fault}); clear numjit's cache folder and run again"
        )


def _fault(cubin: bytes) -> str:
    if len(cubin) < _HEADER.size:
        return "no ELF header"
    (
        magic,
        bits,
        order,
        _,
        machine,
        _,
        _,
        programs,
        sections,
        _,
        header,
        program,
        program_count,
        section,
        count,
        _,
    ) = _HEADER.unpack_from(cubin)
    if (magic, bits, order, machine) != (b"\x7fELF", 2, 1, _MACHINE_CUDA):
        return "no CUDA ELF file"
    if header != _HEADER.size or section != _SECTION.size:
        return "unknown sizes of ELF headers"
    if programs + program * program_count > len(cubin) or sections + section * count > len(cubin):
        return "cut short"
    for start in range(sections, sections + section * count, section):
        kind, offset, size = _SECTION.unpack_from(cubin, start)
        if kind != _NO_BITS and offset + size > len(cubin):
            return "cut short"
    return ""
