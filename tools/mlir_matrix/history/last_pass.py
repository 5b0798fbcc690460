"""Find the last recorded run in which tests passed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from mlir_matrix.base.text import now
from mlir_matrix.history.checked import GOOD
from mlir_matrix.history.spool import Spool
from mlir_matrix.history.store import behaviours, results, runs, sets, tests
from mlir_matrix.history.transfer import open_own


@dataclass(frozen=True)
class LastPass:
    """The last run in which a test passed, or failed as expected."""

    run: str
    ended: str
    version: str
    #: Folder, commit and ``dirty`` of each catalog.
    catalogs: Sequence[Mapping[str, Any]]
    #: Releases of components, and digests of environments, of this test.
    pins: Mapping[str, str]
    environments: Mapping[str, str]
    #: How this test ended.
    outcome: str


def last_passes(state: Path, ids: Collection[str], warn: Callable[[str], object]) -> dict[str, LastPass]:
    """Return the last pass of each test that has one on this machine. Runs of the spool join the database before.

    Raise UsageError, InfrastructureError.
    """
    if Spool(state).is_off:
        return {}
    of = results.c
    last = (
        sa.select(of.test, tests.c.id, sa.func.max(of.run).label("run"))
        .join_from(results, tests, tests.c.key == of.test)
        .where(of.state == GOOD, tests.c.id.in_(ids))
        .group_by(of.test, tests.c.id)
        .subquery("last")
    )
    both = (of.test == last.c.test) & (of.run == last.c.run) & (of.state == GOOD)
    about_run = (runs.c.id, runs.c.ended, runs.c.version, runs.c.catalogs)
    columns = (last.c.id, *about_run, sets.c.pins, sets.c.environments, behaviours.c.outcome)
    statement = (
        sa.select(*columns)
        .select_from(results.join(last, both))
        .join(runs, runs.c.key == of.run)
        .join(sets, sets.c.key == of.pins)
        .join(behaviours, behaviours.c.key == of.behaviour)
    )
    with closing(open_own(state, now(), warn)) as store, store.reading() as connection:
        rows = connection.execute(statement).all()
    return {
        test: LastPass(run, ended, version, json.loads(catalogs), json.loads(pins), json.loads(environments), outcome)
        for test, run, ended, version, catalogs, pins, environments, outcome in rows
    }
