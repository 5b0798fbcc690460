"""Read files: arrays (``.npy``, ``.npz``, raw elements) or text, recognised by their first bytes.

Nothing is unpickled. Arrays are mapped and not read, so they may be larger than memory. A header cannot claim more than the file
has.
"""

from __future__ import annotations

import lzma
import math
import mmap
import stat
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

import numpy as np

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.dtypes import STORAGE, Array
from mlir_matrix.base.errors import UsageError

_NPY = b"\x93NUMPY"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
#: The first byte of a pickle.
_PICKLE = b"\x80"
#: The most bytes of a member to unpack from an archive. More is a mistake, or an attack.
_LARGEST = 1 << 32
#: Errors of reading a member if the archive is damaged or uses an unknown method.
_BROKEN = (
    ValueError, EOFError, OSError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Raw:
    """How to read raw files, which contain only elements."""

    dtype: str
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ArchiveFile:
    """Several arrays by name, as ``numpy.savez`` writes them."""

    path: Path
    names: tuple[str, ...]

    def read(self, name: str) -> Array:
        """Return one array. Raise UsageError."""
        with zipfile.ZipFile(self.path) as archive:
            size = archive.getinfo(f"{name}.npy").file_size
            if size > _LARGEST:
                raise _unreadable(self.path, f"its member {name} has {size} bytes; unpack it, and compare the files")
            try:
                with archive.open(f"{name}.npy") as file:
                    header = dtypes.read_header(cast(BinaryIO, file), size)
                    flat = np.frombuffer(file.read(), dtype=header.dtype)
            except _BROKEN as error:
                raise _unreadable(self.path, f"its member {name}: {dtypes.why_unreadable(error)}") from None
        return flat.reshape(header.shape, order="F" if header.fortran else "C")


#: An array, an archive of arrays, or text.
Content = Array | ArchiveFile | mmap.mmap


def read(path: Path, raw: Raw | None = None) -> Content:
    """Return the content of a file. ``raw``: how to read files of unknown form. Raise UsageError, OSError."""
    status = path.stat()
    size = status.st_size
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: is a pipe or a device, not a regular file; write its data to a file first")
    if not size:
        raise UsageError(f"{path}: the file is empty: nothing can be compared")
    with open(path, "rb") as file:
        start = file.read(6)
        if start == _NPY:
            return _mapped(path, file)
    if start.startswith(_ZIP):
        return _archive(path)
    if raw is not None:
        return _raw(path, size, raw)
    if start.startswith(_PICKLE):
        raise UsageError(
            f"{path}: looks like a pickle, which is never loaded; write arrays with numpy.save or numpy.savez"
        )
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data.find(b"\0", 0, 1 << 16) >= 0:
        raise UsageError(
            f"{path}: is neither .npy, .npz nor text; for raw elements give --dtype, and --shape for their shape"
        )
    return data


def read_array(path: Path) -> Array:
    """Map the array of a file. Raise OSError, and UsageError for any other content."""
    content = read(path)
    if not isinstance(content, np.ndarray):
        raise UsageError(f"{path}: is no array")
    return content


def _mapped(path: Path, file: BinaryIO) -> Array:
    file.seek(0)
    try:
        header = dtypes.read_header(file, path.stat().st_size)
    except (ValueError, EOFError) as error:
        raise _unreadable(path, dtypes.why_unreadable(error)) from None
    order: Literal["F", "C"] = "F" if header.fortran else "C"
    if not math.prod(header.shape):
        return np.empty(header.shape, dtype=header.dtype)
    return np.memmap(path, dtype=header.dtype, mode="r", offset=file.tell(), shape=header.shape, order=order)


def _archive(path: Path) -> ArchiveFile:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise _unreadable(path, dtypes.why_unreadable(error)) from None
    others = [name for name in names if not name.endswith(".npy")]
    if others:
        raise UsageError(
            f"{path}: holds {others[0]!r}, which is not an array; an .npz file has members called NAME.npy"
        )
    if len(set(names)) != len(names):
        raise UsageError(f"{path}: holds two arrays of one name")
    return ArchiveFile(path, tuple(name.removesuffix(".npy") for name in names))


def _raw(path: Path, size: int, raw: Raw) -> Array:
    storage = STORAGE[raw.dtype]
    shape = raw.shape if raw.shape is not None else (size // storage.itemsize,)
    wanted = math.prod(shape) * storage.itemsize
    if size != wanted:
        raise UsageError(f"{path}: has {size} bytes; {raw.dtype} {list(shape)} takes {wanted}")
    return np.memmap(path, dtype=storage, mode="r", shape=shape)


def parse_shape(text: str) -> tuple[int, ...]:
    """Parse ``2,3,4`` or ``2x3x4``; empty for a scalar. Raise UsageError."""
    parts: Sequence[str] = text.replace("x", ",").split(",") if text.strip() else ()
    try:
        shape = tuple(int(part) for part in parts)
    except ValueError:
        raise UsageError(f"--shape {text}: expected sizes with commas between them, e.g. 2,3,4") from None
    if any(size < 0 for size in shape):
        raise UsageError(f"--shape {text}: a size is 0 or more")
    return shape


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(f"{path}: not a readable array: {why}")
