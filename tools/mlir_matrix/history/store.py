"""Keep runs in a database: SQLite or PostgreSQL, by one code. Only ``matrix history`` imports this module.

Each run is one transaction, and its identifier is unique: what is added twice is there once. Keys of runs are in the order in
which the database got them, because clocks of machines disagree.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import alembic.command
import sqlalchemy as sa
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import exc

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import printable
from mlir_matrix.history.checked import BAD, Checked

MIGRATIONS = Path(__file__).with_name("migrations")
#: The newest revision in ``MIGRATIONS``.
REVISION = "1"
#: Another process writes a run in less. Seconds.
_PATIENCE = 20
#: A server that restarts is asked again after these seconds.
_AGAIN = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
#: To read all names takes less time than to look so many up.
_MANY = 5000
_SAFE = "new runs stay on this machine until it has them"
#: Any number: the lock of those who make tables.
_LOCK = 0x6D6C6972
_RESULT = "test, run, nr, behaviour, state, executed, ms, error_used, max_ulp, pins, inputs"
_GIVEN = "id, same_as, host, version, command, arguments, catalogs, started, ended, interrupted"
_RUN = f"{_GIVEN}, stored, total, executed, unexpected"


class ServerAway(InfrastructureError):
    """Raised where a server cannot be reached, or goes away; it may come back."""


class Store:
    """A database with the results of runs."""

    def __init__(self, url: str) -> None:
        """Open a database. Its tables are made, or migrated, when it is first used. Raise UsageError."""
        try:
            parsed = sa.make_url(url)
        except exc.ArgumentError:
            raise UsageError(
                f"'{printable(url)}' is no URL of a database; expected postgresql://… or sqlite:///…"
            ) from None
        kind = parsed.get_backend_name()
        if kind not in ("sqlite", "postgresql"):
            raise UsageError(f"{kind}: unsupported database; expected postgresql://… or sqlite:///…")
        self.is_server = kind == "postgresql"
        #: For messages: without the password.
        self.name = parsed.render_as_string(hide_password=True) if self.is_server else str(parsed.database)
        if self.is_server:
            self._engine = sa.create_engine(
                parsed.set(drivername="postgresql+psycopg"), connect_args={"connect_timeout": 10}
            )
        else:
            # Opening the file takes less than 1 ms. A pool would keep it open, also after a store that nobody closes.
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
                # A question reads whole tables: it needs more memory than most, and takes less time than to compile it.
                connection.exec_driver_sql("SET LOCAL work_mem = '64MB'; SET LOCAL jit = off")
            yield connection

    def _revision(self, connection: sa.Connection) -> str | None:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.scalar(sa.text("SELECT version_num FROM alembic_version"))  # type: ignore[no-any-return] # text

    def _migrate(self, connection: sa.Connection) -> None:
        """Make the tables, or bring them to this version, in the same transaction."""
        if self._current:
            return
        if self.is_server:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
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
        """Raise errors of a database as those of the infrastructure."""
        # COPY is a call of the driver's own.
        driver = self._engine.dialect.loaded_dbapi
        try:
            yield
        except exc.DBAPIError as error:
            raise self._clear(error.orig, gone=error.connection_invalidated) from None
        except driver.Error as error:
            raise self._clear(error, gone=False) from None

    def _clear(self, error: BaseException | None, *, gone: bool) -> InfrastructureError:
        """Return what an error of the driver means."""
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
                # Without a commit, some keys are of no row.
                if not added:
                    self._keys.clear()
        raise AssertionError

    def _add(self, connection: sa.Connection, run: Checked, stored: str) -> bool:
        names, behaviour, states, ran, *rest, pins, inputs = run.columns
        given = (getattr(run, name) for name in _GIVEN.split(", "))
        values = (*given, stored, len(names), sum(ran), states.count(BAD))
        marks = ", ".join(["%s" if self.is_server else "?"] * len(values))
        statement = f"INSERT INTO runs ({_RUN}) VALUES ({marks}) ON CONFLICT (id) DO NOTHING RETURNING key"
        key = connection.exec_driver_sql(statement, values).scalar()
        if key is None:
            return False
        tests = self._places(connection, "tests", "id", names)
        behaviours = self._places(connection, "behaviours", "digest, outcome, stage, text", run.behaviours)
        sets = self._places(connection, "sets", "digest, pins, environments", run.sets)
        places = [map(behaviours.__getitem__, behaviour), states, ran, *rest, map(sets.__getitem__, pins), inputs]
        # Rows of a table come in its order.
        rows = sorted(zip(tests, itertools.repeat(key), itertools.count(), *places))
        if self.is_server:
            with connection.connection.cursor().copy(f"COPY results ({_RESULT}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        elif rows:
            connection.exec_driver_sql(f"INSERT INTO results ({_RESULT}) VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)
        return True

    def _places(self, connection: sa.Connection, table: str, columns: str, values: Sequence[Any]) -> list[int]:
        """Return the keys of values, which are added where they are new; each is a text, or begins with one."""
        texts = values if columns == "id" else [value[0] for value in values]
        known = self._keys.setdefault(table, {})
        for _ in range(2):
            with suppress(KeyError):
                return list(map(known.__getitem__, texts))
            known |= self._found(connection, table, columns, texts)
        # In the same order everywhere, so that no two processes wait for each other.
        missing = sorted({each for each, text in zip(values, texts, strict=True) if text not in known})
        rows = [[each] for each in missing] if columns == "id" else missing
        made = ", ".join(map(self._part, range(columns.count(",") + 1)))
        source = f"SELECT {made} FROM {self._listed} WHERE true ON CONFLICT DO NOTHING"
        connection.execute(sa.text(f"INSERT INTO {table} ({columns}) {source}"), {"values": json.dumps(rows)})
        known |= self._found(connection, table, columns, texts)
        return list(map(known.__getitem__, texts))

    def _found(self, connection: sa.Connection, table: str, columns: str, texts: Sequence[str]) -> dict[str, int]:
        """Return the keys of those texts that are known, or of all that are known."""
        column = columns.partition(",")[0]
        if len(texts) > _MANY:
            rows = connection.exec_driver_sql(f"SELECT {column}, key FROM {table}")
        else:
            given = f"SELECT {self._part(0)} FROM {self._listed}"
            statement = sa.text(f"SELECT {column}, key FROM {table} WHERE {column} IN ({given})")
            rows = connection.execute(statement, {"values": json.dumps([[each] for each in texts])})
        return dict(map(tuple, rows))

    def rows(self, connection: sa.Connection, statement: str, **values: Any) -> Sequence[Any]:
        """Return the rows of a question; ``IN :name`` takes a list of any length."""
        for name, value in values.items():
            if isinstance(value, list):
                # One parameter: SQLite has at most 32,766.
                each = f"= ANY(:{name})" if self.is_server else f"IN (SELECT value FROM json_each(:{name}))"
                statement = statement.replace(f"IN :{name}", each)
                values[name] = value if self.is_server else json.dumps(value)
        return connection.execute(sa.text(statement), values).all()

    @property
    def _listed(self) -> str:
        """The lists in the parameter ``values``, a list in JSON."""
        return "json_array_elements(CAST(:values AS json)) AS each" if self.is_server else "json_each(:values) AS each"

    def _part(self, number: int) -> str:
        return f"each.value ->> {number}" if self.is_server else f"json_extract(each.value, '$[{number}]')"

    def joined(self, column: str) -> str:
        """An aggregate: the integers of a group of :attr:`in_order`, separated by commas."""
        return f"array_to_string(array_agg({column}), ',')" if self.is_server else f"group_concat({column})"

    @property
    def in_order(self) -> str:
        """The results, those of a test in the order of runs. SQLite has them in this order."""
        ordered = "(SELECT * FROM results ORDER BY test, run, nr) AS results"
        return ordered if self.is_server else "results"

    def close(self) -> None:
        self._engine.dispose()

    def shrink(self) -> None:
        """Give the disk back what was removed from SQLite. Raise InfrastructureError."""
        with self._clearly():
            connection = self._engine.raw_connection()
            connection.cursor().execute("VACUUM")
            connection.close()


def _prepare(connection: Any, _record: object) -> None:
    """Take transactions out of the hands of sqlite3, and let readers go on while a run is added."""
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -65536"):
        connection.execute(f"PRAGMA {pragma}")


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
    "file is not a database": "it is no database; move it away, and a new one is made",
    "database disk image is malformed": "it is damaged; move it away, and a new one is made",
}


def _remedies(words: str) -> str:
    if found := _MISSING.search(words):
        return _MISSES.format(found[1] or found[2])
    return next((remedy for start, remedy in _REMEDIES.items() if start in words), words)
