"""Decompress a part of a file as a stream, by the ending of its name, with what Python has and ``zstd`` where it is."""

from __future__ import annotations

import bz2
import lzma
import os
import shutil
import subprocess
import threading
import zlib
from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import suppress

from mlir_matrix.environments.install import xz
from mlir_matrix.names import printable

_READ = 1 << 20

#: What is raised, at any time, for bytes that are not what they should be; EOFError where they end too early.
DAMAGED = (lzma.LZMAError, zlib.error, ValueError, OSError, EOFError)


class UnknownCompression(Exception):
    """Nothing here decompresses this; the message says why, as the end of a sentence."""


def decompressed(
    descriptor: int, offset: int, length: int, suffix: str, helpers: Executor | None
) -> Generator[bytes, None, None]:
    """The content of the archive ``data.tar`` + ``suffix`` at ``offset``. ``helpers`` take it apart where that is possible."""
    match suffix:
        case ".xz":
            return xz.decompressed(descriptor, offset, length, helpers)
        case ".gz":
            return _gzip(_raw(descriptor, offset, length))
        case ".bz2":
            return _bzip2(_raw(descriptor, offset, length))
        case ".zst":
            program = shutil.which("zstd")
            if program is None:
                raise UnknownCompression("is compressed with zstd, and there is no program 'zstd' on PATH")
            return _zstd(_raw(descriptor, offset, length), program)
        case "":
            return _raw(descriptor, offset, length)
    raise UnknownCompression(f"is compressed in a way that is not known here: 'data.tar{printable(suffix)}'")


def _raw(descriptor: int, offset: int, length: int) -> Generator[bytes, None, None]:
    for place in range(offset, offset + length, _READ):
        yield os.pread(descriptor, min(_READ, offset + length - place), place)


def _gzip(packed: Generator[bytes, None, None]) -> Generator[bytes, None, None]:
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for data in packed:
        rest = data
        while rest and not decompressor.eof:
            yield decompressor.decompress(rest, 4 * _READ)
            rest = decompressor.unconsumed_tail


def _bzip2(packed: Generator[bytes, None, None]) -> Generator[bytes, None, None]:
    decompressor = bz2.BZ2Decompressor()
    for data in packed:
        if not decompressor.eof:
            yield decompressor.decompress(data, 4 * _READ)
        while not decompressor.eof and not decompressor.needs_input:
            yield decompressor.decompress(b"", 4 * _READ)


def _zstd(packed: Generator[bytes, None, None], program: str) -> Generator[bytes, None, None]:
    process = subprocess.Popen(
        [program, "-dc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    sink = process.stdin

    def feed() -> None:
        # It ends before the end of its input when the input is damaged, or when we want no more.
        with suppress(OSError), sink:
            for data in packed:
                sink.write(data)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        while data := process.stdout.read(_READ):
            yield data
        if process.wait() != 0:
            raise ValueError("zstd says so")
    finally:
        process.kill()
        process.wait()
        feeder.join()
        process.stdout.close()
