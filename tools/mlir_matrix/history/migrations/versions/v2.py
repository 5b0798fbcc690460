"""Give runs keys in the order in which they started."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

_RESULTS = "test, {}, nr, behaviour, state, executed, ms, error_used, max_ulp, pins, inputs"


def upgrade() -> None:
    """Change the keys of runs to the milliseconds of their starts, at least 1 apart."""
    connection = op.get_bind()
    moved = op.create_table(
        "moved",
        sa.Column("old", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("new", sa.BigInteger, nullable=False),
    )
    new, rows = 0, []
    runs = sa.text("SELECT key, started, ended, stored FROM runs")
    repair = sa.text("UPDATE runs SET started = stored, ended = stored WHERE key = :key")
    starts = []
    for key, started, ended, stored in connection.execute(runs).all():
        # The program did not check dates, so that February may have 30 days.
        are_dates = _milliseconds(started) and _milliseconds(ended)
        if not are_dates:
            connection.execute(repair, {"key": key})
        # A clock may have been fast.
        starts.append((_milliseconds(min(started, stored) if are_dates else stored), key))
    for start, key in sorted(starts):
        new = max(start, new + 1)
        rows.append({"old": key, "new": new})
    op.bulk_insert(moved, rows)
    op.execute("DROP INDEX results_by_run")
    if connection.dialect.name == "postgresql":
        op.execute("ALTER TABLE runs ALTER COLUMN key TYPE bigint")
        op.execute("ALTER TABLE results ALTER COLUMN run TYPE bigint")
        op.execute("UPDATE results SET run = new FROM moved WHERE run = old")
    else:
        # Rows are stored by their keys, so writing a table in order is faster than moving rows within it.
        columns, values = _RESULTS.format("run"), _RESULTS.format("new")
        op.execute("CREATE TABLE copied AS SELECT * FROM results")
        op.execute("DELETE FROM results")
        op.execute(
            f"INSERT INTO results ({columns}) SELECT {values} FROM copied JOIN moved ON run = old ORDER BY test, new, nr"
        )
        op.execute("DROP TABLE copied")
    # In two steps: a clock at 1970 gives a new key that is another run's old one.
    op.execute("UPDATE runs SET key = (SELECT -new FROM moved WHERE old = key)")
    op.execute("UPDATE runs SET key = -key")
    op.create_index("results_by_run", "results", ["run"])
    op.drop_table("moved")


def _milliseconds(time: str) -> int:
    """Return the milliseconds from 1970 to a time; 0 if no calendar has it."""
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1000)
    except ValueError:
        return 0
