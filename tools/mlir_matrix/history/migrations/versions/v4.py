"""Keep the exact costs of tests."""

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Add the table of costs, and the column that names the costs of a result."""
    op.create_table(
        "costs",
        sa.Column("key", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        # JSON: numbers by the name of the cost.
        sa.Column("exact", sa.Text, nullable=False),
    )
    # Null where costs were not counted.
    op.add_column("results", sa.Column("costs", sa.Integer, nullable=True))
