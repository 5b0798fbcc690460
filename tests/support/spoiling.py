"""Ways to spoil the files of a catalog."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from support.downstream import WORKLOAD, Downstream

Spoil = Callable[[Downstream], object]
#: Files of the catalog, and a source of its workload.
WORK, MINE = "matrix/workloads/mine/workload.yaml", "matrix/suites/mine.yaml"
GOOD = "def workload(x):\n    return x * 2\n"


def edit(file: Path, old: str, new: str) -> None:
    """Change the first occurrence of a text."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def put(path: str, content: str | bytes) -> Spoil:
    return lambda catalog: catalog.write(path, content)


def changed(before: str, after: str) -> Spoil:
    """Change the file of the workload."""
    assert before in WORKLOAD
    return put(WORK, WORKLOAD.replace(before, after))


def link(path: str, target: str) -> Spoil:
    def make(catalog: Downstream) -> None:
        place = catalog.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            place.unlink()
        place.symlink_to(target)

    return make


def folder(path: str) -> Spoil:
    def make(catalog: Downstream) -> None:
        (catalog.root / path).unlink(missing_ok=True)
        (catalog.root / path).mkdir(parents=True)

    return make


def pipe(path: str) -> Spoil:
    def make(catalog: Downstream) -> None:
        place = catalog.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        os.mkfifo(place)

    return make


def gone(path: str) -> Spoil:
    return lambda catalog: (catalog.root / path).unlink()
