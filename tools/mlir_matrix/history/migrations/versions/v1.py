"""Make the tables of a history."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def _key() -> "sa.Column[int]":
    return sa.Column("key", sa.Integer, sa.Identity(), primary_key=True)


def _text(name: str, length: int = 0) -> "sa.Column[str]":
    return sa.Column(name, sa.String(length) if length else sa.Text, nullable=False)


def _number(name: str, kind: type = sa.Integer, *, nullable: bool = False) -> "sa.Column[int]":
    return sa.Column(name, kind, nullable=nullable)


def upgrade() -> None:
    """Make the tables. Keys of runs grow in the order in which the database gets the runs."""
    op.create_table(
        "runs",
        _key(),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        # The run whose results it repeats. That one may come later, or never.
        sa.Column("same_as", sa.String(32), index=True),
        *(_text(name) for name in ("host", "version", "command", "arguments", "catalogs")),
        # ``started`` and ``ended`` by the clock of the host; ``stored``: when the database got the run.
        *(_text(name, 24) for name in ("started", "ended", "stored")),
        *(_number(name) for name in ("interrupted", "total", "executed", "unexpected")),
    )
    op.create_table("tests", _key(), sa.Column("id", sa.Text, nullable=False, unique=True))
    op.create_table(
        "behaviours",
        _key(),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        *(_text(name) for name in ("outcome", "stage", "text")),
    )
    op.create_table(
        "sets",
        _key(),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        *(_text(name) for name in ("pins", "environments")),
    )
    op.create_table(
        "results",
        # A run may execute a test several times; ``nr`` counts the results of a run.
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("test", "run", "nr")),
        _number("behaviour"),
        # 0: unexpected, 1: expected, 2: undecided.
        _number("state", sa.SmallInteger),
        _number("executed", sa.SmallInteger),
        _number("ms"),
        _number("error_used", sa.Float, nullable=True),
        _number("max_ulp", sa.Float, nullable=True),
        _number("pins"),
        # Equal numbers: all static inputs and the host are equal.
        _number("inputs", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("test", "run", "nr"),
        # Without rowid, the rows of a test are stored together.
        sqlite_with_rowid=False,
    )
    op.create_index("results_by_run", "results", ["run"])
    op.create_table(
        "months",
        _number("test"),
        _text("month", 7),
        *(_number(name) for name in ("results", "executed", "unexpected")),
        _number("ms", sa.BigInteger),
        _number("error_used", sa.Float, nullable=True),
        sa.PrimaryKeyConstraint("test", "month"),
    )
    # Runs that another database has.
    op.create_table("pushed", _text("target"), _text("run", 32), sa.PrimaryKeyConstraint("target", "run"))
