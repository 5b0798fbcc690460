"""Link a kernel with the driver into a static executable, by one call of Zig's linker (about 15 ms).

params   none is read
inputs   ``object``: the kernel, which defines ``_mlir_ciface_main``; ``driver``, ``runtime``: what ``link_kit`` makes
outputs  ``kernel``: the executable

The other functions of a kernel may have any name, also one of C, such as ``main`` or ``round``. This module renames them in a
copy of the object before it links, so that neither side ever calls a function of the other.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.mlir import interface
from mlir_matrix.actions.params import NoParams
from mlir_matrix.actions.tools.link_kit import zig, zig_environment

_ENTRY = interface.ENTRY.encode()
_PREFIX = b"kernel."
_ELF = (
    "ld.lld",
    "-static",
    "--gc-sections",
    "--strip-all",
    "--build-id=none",
    "--no-demangle",
    "-z",
    "noexecstack",
    "--error-limit=0",
)
#: A call with a type other than the function's traps. Assertions call `puts` like that, and so end the program. The stack has
#: the same size as on other targets.
_WASM = (
    "wasm-ld",
    "--gc-sections",
    "--strip-all",
    "--export-memory",
    "--stack-first",
    "-z",
    "stack-size=67108864",
    "--build-id=none",
    "--no-demangle",
    "--error-limit=0",
)
_WASM_MAGIC = b"\0asm"
_UNDEFINED = re.compile(r"undefined symbol: (\S+)")


def run(action: Action[NoParams]) -> None:
    """Link the kernel. Raise ActionFailed for an invalid object, a missing entry point or undefined symbols."""
    data = Path(action.inputs["object"]).read_bytes()
    wasm = data.startswith(_WASM_MAGIC)
    # On WebAssembly, the start-up code calls C's main by a name that no kernel has.
    renamed, flags = (data, _WASM) if wasm else (rename_symbols(data), _ELF)
    output = Path(action.outputs["kernel"]).absolute()
    with tempfile.TemporaryDirectory(prefix="link-", dir=".") as folder:
        scratch = Path(folder).absolute()
        (scratch / "kernel.o").write_bytes(renamed)
        done = subprocess.run(
            [zig(), *flags, "-o", str(output), "kernel.o",
             str(Path(action.inputs["driver"]).absolute()), str(Path(action.inputs["runtime"]).absolute())],
            cwd=scratch, env=zig_environment(scratch), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise ActionFailed(_reason(done.stderr), diagnostics=_without_folders(done.stderr, scratch))


def _reason(errors: str) -> str:
    missing = sorted(set(_UNDEFINED.findall(errors)))
    if interface.ENTRY in missing:
        return f"the kernel has no entry point {interface.ENTRY}"
    if missing:
        return f"the kernel needs {', '.join(missing)}, which neither the driver nor libm has"
    return "the kernel cannot be linked"


def _without_folders(errors: str, scratch: Path) -> str:
    """Return diagnostics without names of folders, because diagnostics are cached."""
    return errors.replace(f"{scratch}/", "").replace(f"{scratch.parent}/", "")


@dataclass(frozen=True, kw_only=True)
class _Section:
    header: int  # offset of its header in the file
    kind: int
    offset: int
    size: int
    link: int


_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB = 2
_RELOCATABLE = 1
_UNDEFINED_SECTION = 0
_LOCAL_BINDING = 0


def rename_symbols(data: bytes) -> bytes:
    """Prefix ``kernel.`` to every visible symbol that an ELF object defines, except the entry point.

    The string table with the new names moves to the end of the file, because it grows. Nothing else moves.
    """
    try:
        sections = _sections(data)
        result = bytearray(data)
        for table in (section for section in sections if section.kind == _SYMTAB):
            strings = sections[table.link]
            names = bytearray(data[strings.offset : strings.offset + strings.size])
            for place, name in _shown(data, table, bytes(names)):
                struct.pack_into("<I", result, place, len(names))
                names += _PREFIX + name + b"\0"
            struct.pack_into("<QQ", result, strings.header + 24, len(result), len(names))
            result += names
    except (struct.error, IndexError, ValueError) as error:
        raise ActionFailed("the kernel is not a 64-bit little-endian ELF object", diagnostics=str(error)) from error
    return bytes(result)


def _sections(data: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(data)
    if header[0][:6] != b"\x7fELF\x02\x01" or header[1] != _RELOCATABLE:
        raise ValueError(f"begins with {data[:18]!r}")
    start, size, count = header[6], header[11], header[12]
    if count == 0 and start != 0:  # too many sections for the field: the size of the first section is their number
        count = _SECTION.unpack_from(data, start)[5]
    places = [start + index * size for index in range(count)]
    fields = [_SECTION.unpack_from(data, place) for place in places]
    return [
        _Section(header=place, kind=field[1], offset=field[4], size=field[5], link=field[6])
        for place, field in zip(places, fields, strict=True)
    ]


def _shown(data: bytes, table: _Section, names: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the position of the name's offset, and the name, of all visible symbols."""
    for place in range(table.offset, table.offset + table.size, _SYMBOL.size):
        start, info, _, section, _, _ = _SYMBOL.unpack_from(data, place)
        name = names[start : names.index(b"\0", start)]
        if info >> 4 != _LOCAL_BINDING and section != _UNDEFINED_SECTION and name != _ENTRY:
            yield place, name
