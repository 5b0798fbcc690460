"""Keep the cause of each failure."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the table of causes, and the column that names the cause of a result."""
    texts = ("cause", "kind", "name", "file", "title", "example", "next")
    op.create_table(
        "causes",
        sa.Column("key", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
    )
    # Null for expected results, and in runs of older programs.
    op.add_column("results", sa.Column("cause", sa.Integer, nullable=True))
