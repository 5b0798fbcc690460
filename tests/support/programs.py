"""Programs and extension modules that the machine's loader refuses."""

from __future__ import annotations

from pathlib import Path

#: What is changed in a real program, and what the loader then says.
LOST_LIBRARY = (
    (b"libc.so.6", b"lost.so.6"),
    "error while loading shared libraries: lost.so.6: cannot open shared object file",
)
NEW_VERSION = (b"GLIBC_2.34", b"GLIBC_9.34"), "version `GLIBC_9.34' not found"


def unloadable(path: Path, change: tuple[bytes, bytes], of: str = "/bin/cat") -> Path:
    """Make a copy of a program or a library with another name in it."""
    text = Path(of).read_bytes()
    assert change[0] in text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.replace(*change))
    path.chmod(0o755)
    return path
