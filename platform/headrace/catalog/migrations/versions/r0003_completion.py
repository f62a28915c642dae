"""Which partitions are complete, what came of it, and which late data has opened again."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "completion",
        sa.Column("table_name", sa.String(127), primary_key=True),
        sa.Column("through", sa.String(31), nullable=False),
        sa.Column("looked", sa.BigInteger, nullable=False),
        sa.Column("late", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "completed_partition",
        sa.Column("table_name", sa.String(127), primary_key=True),
        sa.Column("label", sa.String(31), primary_key=True),
        sa.Column("completed_at", sa.DateTime, nullable=False),
        sa.Column("watermark_ms", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.String(31)),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("reopened", sa.Integer, nullable=False),
        sa.Column("turn", sa.BigInteger, nullable=False),
        sa.Column("finished_at", sa.DateTime),
    )
