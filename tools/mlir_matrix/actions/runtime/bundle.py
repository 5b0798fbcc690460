"""Keep several files in one, for programs whose own code says how many inputs and outputs they have.

Zip archives without compression and without times: equal files give equal bytes.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack(path: str, files: Mapping[str, str | Path]) -> None:
    """Write a bundle of files, by their names in it."""
    with zipfile.ZipFile(path, "w") as bundle:
        for name, file in sorted(files.items()):
            with open(file, "rb") as source, bundle.open(zipfile.ZipInfo(name, _EPOCH), "w", force_zip64=True) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def unpack(path: str, folder: Path, suffix: str = "") -> dict[str, str]:
    """Write the files of a bundle to a folder as ``0``, ``1``, …, each with ``suffix``; return their paths by name."""
    found: dict[str, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path) as bundle:
        for number, name in enumerate(bundle.namelist()):
            found[name] = str(folder / f"{number}{suffix}")
            with bundle.open(name) as source, open(found[name], "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    return found
