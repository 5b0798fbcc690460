"""Decompress an .xz block by block, several blocks at a time.

Half of a release is one or two archives; on one core each, they would be waited for long after all others are done.
Debian's are written in blocks of 24 MiB that stand for themselves, and the index at the end says where each begins.
"""

from __future__ import annotations

import lzma
import os
import zlib
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass

_HEADER = 12
_MAGIC, _FOOTER_MAGIC = b"\xfd7zXZ\x00", b"YZ"
#: A dictionary larger than this is nobody's package.
_MEMORY = 512 << 20
#: Larger blocks are decompressed one after the other, as a stream: the index may be a lie.
_LARGEST_BLOCK = 64 << 20
_READ = 1 << 20
_AHEAD = 3


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its place in the file, and its size once decompressed."""

    offset: int
    length: int
    size: int


def decompressed(descriptor: int, offset: int, length: int, helpers: Executor | None) -> Generator[bytes, None, None]:
    """The content of the .xz at ``offset`` of a file. Raises lzma.LZMAError, EOFError where it ends too early."""
    found = blocks(descriptor, offset, length) if helpers is not None else ()
    if helpers is None or len(found) < 2 or any(block.size > _LARGEST_BLOCK for block in found):
        yield from _one_by_one(descriptor, offset, length)
        return
    head = os.pread(descriptor, _HEADER, offset)
    waiting = deque(found)
    coming: deque[Future[list[bytes]]] = deque()
    try:
        while waiting or coming:
            while waiting and len(coming) < _AHEAD:
                coming.append(helpers.submit(_decode, descriptor, head, waiting.popleft()))
            yield from coming.popleft().result()
    finally:
        # The descriptor is closed by whoever opened it: nobody may read from it then.
        for future in coming:
            if not future.cancel():
                future.exception()


def _one_by_one(descriptor: int, offset: int, length: int) -> Generator[bytes, None, None]:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    end = offset + length
    while not decompressor.eof:
        data = os.pread(descriptor, min(_READ, end - offset), offset) if decompressor.needs_input else b""
        if decompressor.needs_input and not data:
            raise EOFError
        offset += len(data)
        piece = decompressor.decompress(data, 4 * _READ)
        if piece:
            yield piece


def _decode(descriptor: int, head: bytes, block: Block) -> list[bytes]:
    # A stream of this block alone, with an index and an end of its own: so sizes and checksum are the library's to judge.
    # In pieces: memory of their size is used again, where 24 MiB would be given back and cleared anew each time.
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    length = (block.length + 3) // 4 * 4
    data = head + os.pread(descriptor, length, block.offset) + _ending(head[6:8], block)
    pieces = [decompressor.decompress(data, _READ)]
    while not decompressor.eof and not decompressor.needs_input:
        pieces.append(decompressor.decompress(b"", _READ))
    if not decompressor.eof:
        raise EOFError
    return pieces


def _ending(flags: bytes, block: Block) -> bytes:
    index = b"\0" + b"".join(map(_number, (1, block.length, block.size)))
    index += bytes(-len(index) % 4)
    index += zlib.crc32(index).to_bytes(4, "little")
    footer = (len(index) // 4 - 1).to_bytes(4, "little") + flags
    return index + zlib.crc32(footer).to_bytes(4, "little") + footer + _FOOTER_MAGIC


def _number(value: int) -> bytes:
    coded = bytearray()
    while value >= 0x80:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*coded, value))


def blocks(descriptor: int, offset: int, length: int) -> tuple[Block, ...]:
    """The blocks, by the index; none where there is not exactly one stream with an index that makes sense."""
    if length < 2 * _HEADER or os.pread(descriptor, 6, offset) != _MAGIC:
        return ()
    footer = os.pread(descriptor, _HEADER, offset + length - _HEADER)
    size = (int.from_bytes(footer[4:8], "little") + 1) * 4
    if footer[10:] != _FOOTER_MAGIC or size > length - 2 * _HEADER or size > _READ:
        return ()
    numbers = _numbers(os.pread(descriptor, size, offset + length - _HEADER - size))
    count = next(numbers, 0)
    found, place = [], offset + _HEADER
    for _ in range(min(count, size)):
        packed, plain = next(numbers, 0), next(numbers, 0)
        found.append(Block(place, packed, plain))
        place += (packed + 3) // 4 * 4
    return tuple(found) if place == offset + length - _HEADER - size else ()


def _numbers(index: bytes) -> Iterator[int]:
    # Seven bits a byte, the lowest first; the index begins with a zero and ends with padding and its checksum.
    value = shift = 0
    for byte in index[1:-4]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield value
            value = shift = 0
