"""Finds damage in compiled files before their readers do: one cut short makes drivers and loaders crash.

They are 64-bit little-endian ELF files (https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html).
"""

from __future__ import annotations

import pathlib
import struct

__all__ = ["CUDA", "build_id", "elf_fault"]

#: The machine that cubins are for.
CUDA = 190
_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<4xI16xQQ24x")
_SEGMENT = struct.Struct("<8xQ16xQ16x")
_NOTE = struct.Struct("<III")
_NOTES = 4  # a segment of notes
_BUILD_ID = 3  # a note
_NO_BITS = 8  # a section without bytes in the file


def elf_fault(image: bytes, machine: int | None = None) -> str:
    """Return what is wrong with an ELF file; empty where every section, segment and table is inside it.

    Parameters
    ----------
    image
        The file.
    machine
        Whose code it must hold; None for any.
    """
    if len(image) < _HEADER.size:
        return "no ELF header"
    (
        magic, bits, order, _, found, _, _, programs, sections, _, header, program, program_count, section,
        count, _,
    ) = _HEADER.unpack_from(image)  # fmt: skip
    if (magic, bits, order) != (b"\x7fELF", 2, 1) or machine not in (None, found):
        return "no CUDA ELF file" if machine == CUDA else "no ELF file"
    if header != _HEADER.size or (count and section != _SECTION.size):
        return "unknown sizes of ELF headers"
    if programs + program * program_count > len(image) or sections + section * count > len(image):
        return "cut short"
    for start in range(sections, sections + section * count, _SECTION.size):
        kind, offset, size = _SECTION.unpack_from(image, start)
        if kind != _NO_BITS and offset + size > len(image):
            return "cut short"
    if program == _SEGMENT.size:
        for start in range(programs, programs + program * program_count, _SEGMENT.size):
            offset, size = _SEGMENT.unpack_from(image, start)
            if offset + size > len(image):
                return "cut short"
    return ""


def build_id(path: pathlib.Path) -> str:
    """Return the number by which a linker tells files of other contents apart; empty where there is none.

    It takes 20 us, whatever the file's size.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size or header[:6] != b"\x7fELF\x02\x01":
                return ""
            *_, programs, _, _, _, size, count, _, _, _ = _HEADER.unpack(header)
            file.seek(programs)
            table = file.read(size * count)
            for start in range(0, len(table) - _SEGMENT.size + 1, max(size, _SEGMENT.size)):
                if int.from_bytes(table[start : start + 4], "little") == _NOTES:
                    offset, length = _SEGMENT.unpack_from(table, start)
                    file.seek(offset)
                    found = _build_id_of(file.read(min(length, 1 << 16)))
                    if found:
                        return found
    except OSError:
        pass
    return ""


def _build_id_of(notes: bytes) -> str:
    at = 0
    while at + _NOTE.size <= len(notes):
        name_size, size, kind = _NOTE.unpack_from(notes, at)
        name = at + _NOTE.size
        content = name + (name_size + 3 & ~3)
        if kind == _BUILD_ID and notes[name : name + name_size] == b"GNU\0":
            return notes[content : content + size].hex()
        at = content + (size + 3 & ~3)
    return ""
