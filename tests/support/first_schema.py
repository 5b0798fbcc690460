"""Databases of the history with the schema of the first release, whose runs are in the order in which they came."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from mlir_matrix.history import store as module
from mlir_matrix.history.checked import Checked
from mlir_matrix.history.store import Store
from support.recordings import TIMES

_SERVER = "ALTER TABLE {} ALTER COLUMN {} TYPE {}"


def make_old_database(url: str, runs: Iterable[Checked], folder: Path) -> None:
    shutil.copytree(module.MIGRATIONS, folder)
    (folder / "versions" / "v2.py").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MIGRATIONS", folder)
        patch.setattr(module, "REVISION", "1")
        store = Store(url)
        _resize(store, "bigint")
        for number, run in enumerate(runs, 1):
            store.add(run, TIMES[300])
            with store.writing() as connection:
                connection.exec_driver_sql(f"UPDATE results SET run = {number} WHERE run >= {number}")
                connection.exec_driver_sql(f"UPDATE runs SET key = {number} WHERE key >= {number}")
        _resize(store, "integer")
        store.close()


def _resize(store: Store, kind: str) -> None:
    """Set the size of keys: the program of today writes larger ones."""
    with store.writing() as connection:
        if store.is_server:
            for column in (("runs", "key"), ("results", "run")):
                connection.exec_driver_sql(_SERVER.format(*column, kind))
