"""Prepare a package for Bazel's actions: few files, and compiled Python.

    PYTHON -I prepare.py interpreter|site|prefix FOLDER

A remote executor checks each input file of each action. So this script removes files that no action reads, and moves the
standard library into one archive, which Python finds by itself. It runs in the package's interpreter and imports only the
standard library. The same package gives the same bytes everywhere; its bytecode does not depend on the times of files.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from py_compile import PycInvalidationMode

#: Removed from prefixes: documentation, and the character sets of the C library other than UTF-8.
LEFT_OUT = (
    *(f"usr/share/{name}" for name in ("doc", "man", "locale", "info", "lintian", "zoneinfo")),
    "usr/lib/*/gconv",
)
#: Removed from wheels, like tests and stubs: headers.
HEADERS = "*/include"
_EPOCH = (1980, 1, 1, 0, 0, 0)
#: Kept as files: the landmark by which Python finds its folder, and libraries for the loader.
_LANDMARK, _LIBRARIES = "os.py", "lib-dynload"
#: Folders with files that do not compile, relative to the package.
_NOT_COMPILED = r"(/.*)?/(tests?|lib2to3|idlelib)/"


def prepare(part: str, folder: Path) -> None:
    """Change a package in place: a copy, no link to an installed one."""
    if folder.is_symlink():
        raise SystemExit(f"{folder} is a link to {folder.resolve()}; expected a copy of it")
    if part == "site":
        for headers in _own(folder, HEADERS):
            shutil.rmtree(headers)
        for tests in [path.parent for path in folder.rglob("tests/__init__.py")]:
            shutil.rmtree(tests, ignore_errors=True)
        for stub in [*folder.rglob("*.pyi")]:
            stub.unlink()
        _compile(folder, beside=False)
        return
    for each in _own(folder, *LEFT_OUT):
        shutil.rmtree(each, ignore_errors=True)
    if part == "interpreter":
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        library = folder / f"usr/lib/python{version}"
        _compile(library, beside=True)
        _archive(library, library.with_name(f"python{version.replace('.', '')}.zip"))


def _own(folder: Path, *patterns: str) -> list[Path]:
    """Return what patterns find in a folder, without what only a link leads to: that may be of another package."""
    found = [each for pattern in patterns for each in folder.glob(pattern)]
    return [each for each in found if each.resolve() == folder.resolve() / each.relative_to(folder)]


def _compile(folder: Path, *, beside: bool) -> None:
    """Compile all modules; ``beside``: write bytecode next to its source, as in archives."""
    compileall.compile_dir(
        folder, quiet=2, workers=0, legacy=beside, stripdir=str(folder), maxlevels=100,
        rx=re.compile(re.escape(str(folder)) + _NOT_COMPILED), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )  # fmt: skip


def _archive(library: Path, archive: Path) -> None:
    """Move the modules of an interpreter into an archive, without compression: it is read more often than sent."""
    with zipfile.ZipFile(archive, "w") as file:
        for path in _modules(library):
            file.writestr(zipfile.ZipInfo(str(path.relative_to(library)), _EPOCH), path.read_bytes())
    for path in sorted(library.iterdir()):
        if path.name in (_LANDMARK, _LIBRARIES):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _modules(library: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(library):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", _LIBRARIES))
        for name in sorted(names):
            path = Path(base, name)
            # Links might point to files of the machine.
            if path.is_file() and not path.is_symlink():
                yield path


if __name__ == "__main__":
    prepare(sys.argv[1], Path(sys.argv[2]))
