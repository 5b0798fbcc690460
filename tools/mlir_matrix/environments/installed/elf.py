"""Read the headers of ELF files."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

#: The first bytes of every ELF file.
MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_X86_64 = 62
_EXECUTABLES = frozenset({2, 3})
_PT_DYNAMIC, _PT_INTERP = 2, 3
_DT_RUNPATH = 29
#: The most bytes of a dynamic section to read. Real ones have a few hundred.
_MOST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Elf:
    """How a dynamically linked file finds its libraries."""

    #: Whether it is a program, which names a loader.
    interpreted: bool
    #: Whether it has a RUNPATH, which overrides the RPATH of the program that loads it.
    runpath: bool


def read_elf(path: Path) -> Elf | None:
    """Read a dynamically linked file for x86-64; return None for anything else, however broken."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER.size)
            if head[:6] != MAGIC + b"\x02\x01" or len(head) < _HEADER.size:
                return None
            _, kind, machine, _, _, offset, _, _, _, size, count, *_ = _HEADER.unpack(head)
            if kind not in _EXECUTABLES or machine != _X86_64 or size != _SEGMENT.size:
                return None
            file.seek(offset)
            table = file.read(size * count)
            segments = [_SEGMENT.unpack_from(table, at) for at in range(0, len(table) - size + 1, size)]
            dynamic = next((each for each in segments if each[0] == _PT_DYNAMIC), None)
            if dynamic is None:
                return None
            file.seek(dynamic[2])
            entries = file.read(min(dynamic[5], _MOST))
    except (OSError, OverflowError, ValueError):
        return None
    tags = {struct.unpack_from("<q", entries, at)[0] for at in range(0, len(entries) - 15, 16)}
    return Elf(interpreted=any(each[0] == _PT_INTERP for each in segments), runpath=_DT_RUNPATH in tags)
