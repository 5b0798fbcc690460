"""The catalogs that a home is used with: what one of them needs is nothing that another may remove."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mlir_matrix.digest import digest_value
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.files import write_text
from mlir_matrix.paths import Home

Roots = tuple[Path, ...]


def remember(home: Home, roots: Sequence[Path]) -> Path:
    """Note that a home is used with these folders together, and return the note. Best effort: a home may be read-only."""
    note = _note(home, roots)
    if not note.exists():
        with suppress(InfrastructureError):
            write_text(note, json.dumps(_absolute(roots)) + "\n")
    return note


def others(home: Home, roots: Sequence[Path]) -> Iterator[Roots]:
    """With what else it was used, as far as that is still there; what is not is forgotten."""
    own = _note(home, roots)
    for note in sorted(own.parent.glob("*.json")):
        try:
            found = tuple(map(Path, json.loads(note.read_bytes())))
        except (OSError, ValueError, TypeError):
            found = ()
        if not found or not all(map(Path.is_dir, found)):
            with suppress(OSError):
                note.unlink()
        elif note != own:
            yield found


def _note(home: Home, roots: Sequence[Path]) -> Path:
    """One file for each, so that nobody writes over what another has noted."""
    return home.cache / "catalogs" / f"{digest_value(_absolute(roots))[:16]}.json"


def _absolute(roots: Sequence[Path]) -> list[str]:
    return [os.path.realpath(root) for root in roots]
