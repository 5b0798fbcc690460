"""Add the runs of results documents to a history: those of CI jobs, of shards, and merged ones."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import UsageError
from mlir_matrix.history.checked import Checked, check
from mlir_matrix.history.record import make_recording
from mlir_matrix.history.spool import SpoolError
from mlir_matrix.history.store import Store, runs
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.merge import read_results, result_of

_AGAIN = "make it again with: matrix run --results FILE"


def read_run(file: Path) -> Checked:
    """Read the run of a file of ``matrix run --results``. Raise UsageError.

    Its identifier is a digest of its host, start and command, so that each reading gives the same.
    """
    document = read_results(file)
    about = document["run"]
    # ascii(), because names in the file need not be UTF-8.
    identifier = digest_value(ascii([about["host"], about["started"], about["command"]]))[:32]
    # Older programs did not write what selected the tests; no suite is called thus.
    selecting = about.get("selecting", ["?"])
    found = [result_of(entry) for entry in document["tests"]]
    causes = document["causes"] if "causes" in document else causes_of(found)
    try:
        recording = make_recording(
            identifier, found, about, selecting, {}, causes=causes, interrupted=document["interrupted"]
        )
        return check(recording)
    except UnicodeEncodeError as error:
        raise UsageError(f"{file}: {error.object!a} is not UTF-8; {_AGAIN}") from None
    except SpoolError as error:
        raise UsageError(f"{file}: {error}; {_AGAIN}") from None


def add_run(store: Store, run: Checked, stored: str) -> bool:
    """Add a run of a file; return False if the history has it, or has recorded it itself. Raise InfrastructureError."""
    same = sa.select(runs.c.key).where(
        runs.c.host == run.host, runs.c.started == run.started, runs.c.command == run.command
    )
    with store.reading() as connection:
        if connection.execute(same).first() is not None:
            return False
    return store.add(run, stored)
