"""Keep the digests of the IR after each step of tests."""

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"


def upgrade() -> None:
    """Add the table of IR, and the column that names the IR of a result."""
    op.create_table(
        "ir",
        sa.Column("key", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        # JSON: pairs of the name of a step and the SHA-256 of its IR.
        sa.Column("levels", sa.Text, nullable=False),
    )
    # Null for tests without IR, and in runs of older programs.
    op.add_column("results", sa.Column("ir", sa.Integer, nullable=True))
