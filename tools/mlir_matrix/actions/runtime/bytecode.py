"""Store compiled Python in a folder, each file with a checksum.

Python verifies only the first 16 bytes of such a file. A file that a full disk has truncated, or that has a wrong bit, ends
every program that imports it. Here it counts as absent, and Python compiles the module again.

A program imports this module first, before it reads such a file. So this module imports nothing that Python would compile.
"""

import os
import sys
import zlib

_OPTION = "matrix_bytecode"
_CHECKSUM = 4
#: ``importlib.machinery.SourceFileLoader``, which has loaded this module.
_Loader = type(__spec__.loader)
_get_data = _Loader.get_data  # type: ignore[union-attr]
_set_data = _Loader.set_data  # type: ignore[union-attr]


def options(folder: object) -> list[str]:
    """Return the options of an interpreter whose program calls :func:`keep_as_told`."""
    return ["-B", "-X", f"pycache_prefix={os.devnull}", "-X", f"{_OPTION}={folder}"]


def keep_as_told() -> None:
    """Store compiled Python in the folder of the interpreter's option; without the option, change nothing."""
    if folder := sys._xoptions.get(_OPTION):
        keep_in(str(folder))


def keep_in(folder: str) -> None:
    """Read compiled Python from a folder and write it there, from now on."""
    sys.pycache_prefix = folder
    sys.dont_write_bytecode = False
    _Loader.get_data = _get_verified  # type: ignore[union-attr]
    _Loader.set_data = _set_with_checksum  # type: ignore[union-attr]


def compile_all(folder: str) -> None:
    """Compile the modules below a folder without running them."""
    for base, _, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith(".py"):
                # Some files are for other versions of Python.
                try:
                    _Loader("module", os.path.join(base, name)).get_code("module")  # type: ignore[call-arg,misc,union-attr]
                except (SyntaxError, ValueError, RecursionError, OSError):
                    continue


def _get_verified(self, path):  # type: ignore[no-untyped-def]
    """Return a file's content. Raise OSError for damaged compiled Python; Python then compiles the module again."""
    data = _get_data(self, path)
    if not path.endswith(".pyc"):
        return data
    code, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    if checksum != _checksum(code):
        raise OSError(f"{path} is damaged")
    return code


def _set_with_checksum(self, path, data, **how):  # type: ignore[no-untyped-def]
    """Write compiled Python with a checksum, which other interpreters ignore."""
    _set_data(self, path, bytes(data) + _checksum(data), **how)


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_CHECKSUM, "little")
