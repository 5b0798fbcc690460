"""SHA-256 of values and of files. A value's digest is that of its canonical JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

_CHUNK = 1 << 20
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(value: object) -> bytes:
    """Return a JSON value as canonical bytes: sorted keys, no spaces, UTF-8."""
    return _encode(value).encode()


def digest_value(value: object) -> str:
    """Return the hexadecimal SHA-256 of a JSON value."""
    return hashlib.sha256(_encode(value).encode()).hexdigest()


def digest_bytes(data: bytes) -> str:
    """Return the hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def check_line(name: str, data: bytes) -> bytes:
    """Return the last line of a kept file, a digest of its name and its data: they are whole, and belong to the name."""
    return digest_bytes(name.encode() + b"\n" + data).encode()


def digest_pieces(pieces: Iterable[bytes]) -> str:
    """Return the hexadecimal SHA-256 of bytes that come in pieces."""
    state = hashlib.sha256()
    for piece in pieces:
        state.update(piece)
    return state.hexdigest()


def digest_file(path: Path | str) -> str:
    """Return the hexadecimal SHA-256 of a file's content."""
    with open(path, "rb") as file:
        head = file.read(_CHUNK)
        if len(head) < _CHUNK:
            return hashlib.sha256(head).hexdigest()
        state = hashlib.sha256(head)
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


def digest_if_readable(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's content, empty if it cannot be read."""
    try:
        return digest_file(path)
    except OSError:
        return ""
