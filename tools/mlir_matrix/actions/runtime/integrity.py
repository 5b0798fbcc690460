"""Check that an installed package or prefix is complete. A full disk, a clean-up or a killed copy can damage it.

Without this check, an action would fail, blame the code under test, and cache that failure.
"""

from __future__ import annotations

import csv
import json
import os


def damage(site: str) -> str:
    """Return the first damage of the package in the folder ``site``; empty if all files that pip listed are complete.

    Compare sizes instead of hashes: this takes some 30 ms for PyTorch's 12,000 files.
    """
    try:
        records = [name for name in os.listdir(site) if name.endswith(".dist-info")]
        if not records:
            return "it holds no package"
        for name in records:
            with open(f"{site}/{name}/RECORD", encoding="utf-8", newline="") as file:
                for path, _, size in csv.reader(file):
                    if size and not path.startswith("..") and not _has_size(f"{site}/{path}", int(size)):
                        return f"{path} is missing or has another size"
    except (OSError, ValueError, csv.Error) as error:
        return f"it cannot be read: {error}"
    return ""


def lost(prefix: str) -> str:
    """Return the first damage of a prefix; empty if there is none, or if the prefix does not exist.

    Compare sizes, modes and targets of links: this takes some 5 ms for the 1,400 files of an LLVM.
    """
    path = f"{prefix}/.matrix/files.json"
    try:
        with open(path, "rb") as file:
            listed = json.load(file)
        if listed.get("place", "") not in ("", os.path.realpath(prefix)):
            return "it was made for another place, which its programs name"
        for name, (size, _, mode, _) in listed["files"].items():
            path = f"{prefix}/{name}"
            found = os.lstat(path)
            if found.st_size != size or (found.st_mode ^ mode) & 0o111:
                return f"{name} has another size or mode"
        for name, target in listed["links"].items():
            path = f"{prefix}/{name}"
            if os.readlink(path) != target:
                return f"{name} leads elsewhere"
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return f"{path[len(prefix) + 1 :]} cannot be read: {error}" if os.path.isdir(prefix) else ""
    return ""


def _has_size(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size == size
    except OSError:
        return False
