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

#: Columns of results that later migrations add.
_ADDED = ("cause", "costs", "ir")
_SERVER = "ALTER TABLE {} ALTER COLUMN {} TYPE {}"


def make_old_database(url: str, runs: Iterable[Checked], folder: Path) -> None:
    shutil.copytree(module.MIGRATIONS, folder)
    for later in ("v2.py", "v3.py", "v4.py", "v5.py"):
        (folder / "versions" / later).unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MIGRATIONS", folder)
        patch.setattr(module, "REVISION", "1")
        store = Store(url)
        _change(store, "bigint", *(f"ADD COLUMN {name} integer" for name in _ADDED))
        for number, run in enumerate(runs, 1):
            store.add(run, TIMES[300])
            with store.writing() as connection:
                connection.exec_driver_sql(f"UPDATE results SET run = {number} WHERE run >= {number}")
                connection.exec_driver_sql(f"UPDATE runs SET key = {number} WHERE key >= {number}")
        _change(store, "integer", *(f"DROP COLUMN {name}" for name in _ADDED))
        store.close()


def _change(store: Store, kind: str, *column_changes: str) -> None:
    """Set the size of keys, and the columns of results: the program of today writes larger keys and more columns."""
    with store.writing() as connection:
        for column_change in column_changes:
            connection.exec_driver_sql(f"ALTER TABLE results {column_change}")
        if store.is_server:
            for column in (("runs", "key"), ("results", "run")):
                connection.exec_driver_sql(_SERVER.format(*column, kind))
