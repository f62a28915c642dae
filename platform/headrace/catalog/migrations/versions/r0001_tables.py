"""What each table shall do and does, its readers, and what statements have set.

Catalogs from before there were migrations have exactly these tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "materialized_table",
        sa.Column("name", sa.String(127), primary_key=True),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("definition_hash", sa.String(64), nullable=False),
        sa.Column("freshness_seconds", sa.Float),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("desired", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("updated_at", sa.DateTime, nullable=False),
    )
    op.create_table(
        "reader",
        sa.Column("table_name", sa.String(127), primary_key=True),
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("progressed_at", sa.DateTime, nullable=False),
        sa.Column("expired", sa.Boolean, nullable=False),
    )
    op.create_table(
        "alteration",
        sa.Column("table_name", sa.String(127), primary_key=True),
        sa.Column("property", sa.String(16), primary_key=True),
        sa.Column("value", sa.String(63), nullable=False),
        sa.Column("over", sa.String(63), nullable=False),
        sa.Column("altered_at", sa.DateTime, nullable=False),
    )
