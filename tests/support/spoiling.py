"""Ways to spoil the files of a catalog."""

from __future__ import annotations

import os
from collections.abc import Callable

from support.downstream import Downstream

Spoil = Callable[[Downstream], object]


def put(path: str, content: str | bytes) -> Spoil:
    return lambda catalog: catalog.write(path, content)


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
