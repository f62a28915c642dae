"""What each table's work has cost, by the hour."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "cost",
        sa.Column("hour", sa.DateTime, primary_key=True),
        sa.Column("table_name", sa.String(127), primary_key=True),
        sa.Column("work", sa.String(16), primary_key=True),
        sa.Column("core_seconds", sa.Float, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("runs", sa.BigInteger, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
    )
