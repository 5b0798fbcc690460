"""Keep runs in a database, SQLite or PostgreSQL, by SQLAlchemy Core. Only ``matrix history`` imports this module.

Each run is one transaction, and its identifier is unique, so adding a run twice has no effect. The key of a run is the time of its
start, in milliseconds, or a little more, so that keys are in the order of starts.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import exc
from sqlalchemy.dialects import sqlite

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import printable
from mlir_matrix.base.text import milliseconds
from mlir_matrix.history.checked import BAD, Checked

MIGRATIONS = Path(__file__).with_name("migrations")
#: The newest revision in ``MIGRATIONS``.
REVISION = "5"
#: Seconds to wait for another process, which writes a run in less.
_PATIENCE = 20
#: Seconds between attempts to connect to a server, which may be restarting.
_AGAIN = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
#: From this number on, reading all names is faster than looking them up.
_MANY = 5000
_SAFE = "new runs stay on this machine until it has them"
#: The number of the lock for creating tables; any number works.
_LOCK = 0x6D6C6972


def _table(name: str, columns: str) -> sa.TableClause:
    return sa.table(name, *map(sa.column, columns.split()))


#: The tables that the migrations create.
_FROM_RUN = "id same_as host version command arguments catalogs started ended interrupted"
runs = _table("runs", f"key {_FROM_RUN} stored total executed unexpected")
tests = _table("tests", "key id")
behaviours = _table("behaviours", "key digest outcome stage text")
sets = _table("sets", "key digest pins environments")
results = _table("results", "test run nr behaviour state executed ms error_used max_ulp pins inputs cause costs ir")
causes = _table("causes", "key digest cause kind name file title example next")
costs = _table("costs", "key digest exact")
ir = _table("ir", "key digest levels")
months = _table("months", "test month results executed unexpected ms error_used")
pushed = _table("pushed", "target run")


def among(column: sa.ColumnElement[Any], values: Iterable[int]) -> sa.ColumnElement[bool]:
    """Return the condition that a column has one of these numbers. Use literals: SQLite allows at most 32,766 parameters."""
    numbers = sa.bindparam(None, list(values), sa.Integer, expanding=True, literal_execute=True)
    return column.in_(numbers)


class ServerAway(InfrastructureError):
    """Raised if a server cannot be reached or closes the connection. It may come back."""


class Store:
    """A database with the results of runs."""

    def __init__(self, url: str) -> None:
        """Open a database. Its first use creates or migrates the tables. Raise UsageError."""
        try:
            parsed = sa.make_url(url)
        except exc.ArgumentError:
            raise UsageError(
                f"'{printable(url)}' is not the URL of a database; expected postgresql://… or sqlite:///…"
            ) from None
        kind = parsed.get_backend_name()
        if kind not in ("sqlite", "postgresql"):
            raise UsageError(f"{kind}: unsupported database; expected postgresql://… or sqlite:///…")
        self.is_server = kind == "postgresql"
        #: For messages: without the password.
        self.name = parsed.render_as_string(hide_password=True) if self.is_server else str(parsed.database)
        #: INSERT with ON CONFLICT, as the database has it.
        self.insert: Any
        if self.is_server:
            from sqlalchemy.dialects.postgresql import insert

            self.insert = insert
            self._engine = sa.create_engine(
                parsed.set(drivername="postgresql+psycopg"), connect_args={"connect_timeout": 10}
            )
        else:
            self.insert = sqlite.insert
            # No pool: opening the file takes less than 1 ms, and a pool would keep it open if nobody closes the store.
            self._engine = sa.create_engine(
                parsed.set(drivername="sqlite"), poolclass=sa.NullPool, connect_args={"timeout": _PATIENCE}
            )
            sa.event.listen(self._engine, "connect", _prepare)
            sa.event.listen(self._engine, "begin", _begin)
        self._current = False
        self._keys: dict[str, dict[str, int]] = {}

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Return a connection with a transaction. Raise InfrastructureError."""
        with self._clearly(), self._engine.begin() as connection:
            self._migrate(connection)
            yield connection
        self._current = True

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Return a connection for questions. Raise InfrastructureError."""
        if not self._current:
            with self._clearly(), self._engine.connect().execution_options(reading=True) as connection:
                self._current = self._revision(connection) == REVISION
            if not self._current:
                with self.writing():
                    pass
        with self._clearly(), self._engine.connect().execution_options(reading=True) as connection:
            if self.is_server:
                # A question reads whole tables: it needs much memory, and compiling it takes longer than running it.
                settings = (("work_mem", "64MB"), ("jit", "off"))
                connection.execute(sa.select(*(sa.func.set_config(*setting, True) for setting in settings)))
            yield connection

    def _revision(self, connection: sa.Connection) -> str | None:
        return MigrationContext.configure(connection).get_current_revision()

    def _migrate(self, connection: sa.Connection) -> None:
        """Create the tables, or migrate them to this version, in the same transaction."""
        if self._current:
            return
        if self.is_server:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        found = self._revision(connection)
        if found != REVISION:
            config = Config(attributes={"connection": connection})
            config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
            config.set_main_option("path_separator", "os")
            try:
                alembic.command.upgrade(config, "head")
            except CommandError:
                text = str(found)
                is_newer = text.isdecimal() and int(text) > int(REVISION)
                raise InfrastructureError(
                    f"{self.name}: its schema is {printable(text)}, newer than {REVISION}, which this program knows; "
                    "upgrade mlir-matrix"
                    if is_newer
                    else f"{self.name}: its schema is {printable(text)}, which no release of this program has; restore the "
                    "database from a backup, or name another one"
                ) from None

    @contextmanager
    def _clearly(self) -> Iterator[None]:
        """Raise errors of a database as InfrastructureError."""
        # COPY is a call of the driver, whose errors SQLAlchemy does not wrap.
        driver = self._engine.dialect.loaded_dbapi
        try:
            yield
        except exc.DBAPIError as error:
            raise self._clear(error.orig, gone=error.connection_invalidated) from None
        except driver.Error as error:
            raise self._clear(error, gone=False) from None

    def _clear(self, error: BaseException | None, *, gone: bool) -> InfrastructureError:
        """Return the error for an error of the driver."""
        first = str(error).strip().partition("\n")[0]
        if self.is_server and (gone or isinstance(error, self._engine.dialect.loaded_dbapi.OperationalError)):
            return ServerAway(f"{self.name}: {first}; {_SAFE}")
        return InfrastructureError(f"{self.name}: {_remedies(first)}; {_SAFE}")

    def add(self, run: Checked, stored: str) -> bool:
        """Add a run; return False if it is already there. Raise InfrastructureError."""
        for pause in (*_AGAIN, None):
            added = False
            try:
                with self.writing() as connection:
                    new = self._add(connection, run, stored)
                added = True
                return new
            except ServerAway:
                if pause is None:
                    raise
                time.sleep(pause)
            finally:
                # Without a commit, some cached keys belong to no row.
                if not added:
                    self._keys.clear()
        raise AssertionError

    def _add(self, connection: sa.Connection, run: Checked, stored: str) -> bool:
        names, behaviour, states, ran, *rest, pins, inputs, cause, cost, levels = run.columns
        counts = {"total": len(names), "executed": sum(ran), "unexpected": states.count(BAD)}
        row = {name: getattr(run, name) for name in _FROM_RUN.split()}
        statement = self.insert(runs).on_conflict_do_nothing().returning(runs.c.key)
        # A clock that is fast must not make a run the latest for ever.
        # The clock of a machine may be at 1970 or before; questions need keys above 0.
        key = max(milliseconds(min(run.started, stored)), 1)
        while connection.scalar(statement, {**row, **counts, "stored": stored, "key": key}) is None:
            if connection.scalar(sa.select(runs.c.key).where(runs.c.id == run.id)) is not None:
                return False
            key += 1
        of_tests = self._places(connection, tests, [(name,) for name in names])
        of_behaviours = self._places(connection, behaviours, run.behaviours)
        of_sets = self._places(connection, sets, run.sets)
        of_causes = self._places(connection, causes, run.causes)
        of_costs = self._places(connection, costs, run.costs)
        of_ir = self._places(connection, ir, run.ir)
        places = (
            of_tests, [key] * len(names), range(len(names)), map(of_behaviours.__getitem__, behaviour), states, ran, *rest,
            map(of_sets.__getitem__, pins), inputs, (None if each is None else of_causes[each] for each in cause),
            (None if each is None else of_costs[each] for each in cost),
            (None if each is None else of_ir[each] for each in levels),
        )  # fmt: skip
        # In the order of the table, whose key is the first three values.
        rows = sorted(zip(*places, strict=True))
        if self.is_server:
            columns = ", ".join(results.c.keys())
            with connection.connection.cursor().copy(f"COPY results ({columns}) FROM STDIN") as copy:
                for each in rows:
                    copy.write_row(each)
        elif rows:
            # By the driver, to avoid a dictionary for each row.
            connection.exec_driver_sql(str(sa.insert(results).compile(connection)), rows)
        return True

    def _places(self, connection: sa.Connection, table: sa.TableClause, rows: Sequence[tuple[str, ...]]) -> list[int]:
        """Return the keys of rows, whose first value is their name. Add new rows."""
        key, name, *_ = table.c
        names = [row[0] for row in rows]
        # Another process may have removed IR that no result has any more.
        known = {} if table is ir else self._keys.setdefault(table.name, {})
        if not known.keys() >= set(names):
            known |= _found(connection, table, names)
        # Sorted, so that no two processes wait for each other.
        new = sorted({row for row in rows if row[0] not in known})
        if new:
            columns = table.c.keys()[1:]
            # With RETURNING, SQLAlchemy sends many rows in one statement.
            statement = self.insert(table).on_conflict_do_nothing().returning(name, key)
            connection.execute(statement, [dict(zip(columns, row, strict=True)) for row in new])
            known |= _found(connection, table, names)
        return [known[each] for each in names]

    def close(self) -> None:
        self._engine.dispose()

    def shrink(self) -> None:
        """Shrink the file of SQLite after removals. Raise InfrastructureError."""
        with self._clearly():
            connection = self._engine.raw_connection()
            connection.cursor().execute("VACUUM")
            connection.close()


def _found(connection: sa.Connection, table: sa.TableClause, names: Collection[str]) -> dict[str, int]:
    """Return the keys of rows by name: of these names, or of all if they are many."""
    key, name, *_ = table.c
    statement = sa.select(name, key)
    if len(names) <= _MANY:
        statement = statement.where(name.in_(names))
    return dict(map(tuple, connection.execute(statement)))


def _prepare(connection: Any, _record: object) -> None:
    """Disable implicit transactions of sqlite3, and allow reading while a run is added."""
    connection.isolation_level = None
    _write_ahead(connection)
    for pragma in ("synchronous = NORMAL", "cache_size = -65536"):
        connection.execute(f"PRAGMA {pragma}")


def _write_ahead(connection: Any) -> None:
    """Switch a file to a write-ahead log. Raise the driver's error if other processes use the file for too long."""
    # SQLite does not wait here by itself: of two processes that switch at once, one fails.
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _begin(connection: sa.Connection) -> None:
    reading = connection.get_execution_options().get("reading")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


_MISSES = "its table {} is missing; restore a backup, or move the database away, and a new one is made"
#: As SQLite and PostgreSQL name a missing table.
_MISSING = re.compile(r'no such table: (\w+)|relation "(\w+)" does not exist')
_REMEDIES: Mapping[str, str] = {
    # Only a database without this table gets tables.
    "already exists": _MISSES.format("alembic_version"),
    "database is locked": f"another process has locked it for {_PATIENCE} s",
    "database or disk is full": "the disk is full",
    "attempt to write a readonly database": "it cannot be written",
    "unable to open database file": "it cannot be opened or made",
    "file is not a database": "it is not a database; move it away, and a new one is made",
    "database disk image is malformed": "it is damaged; move it away, and a new one is made",
}


def _remedies(words: str) -> str:
    if found := _MISSING.search(words):
        return _MISSES.format(found[1] or found[2])
    return next((remedy for start, remedy in _REMEDIES.items() if start in words), words)
