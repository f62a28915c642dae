"""The refresh workflows that a workflow scheduler keeps."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "refresh_workflow",
        sa.Column("table_name", sa.String(127), primary_key=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("freshness_seconds", sa.Float, nullable=False),
        sa.Column("levels", sa.Integer, nullable=False),
        sa.Column("suspended", sa.Boolean, nullable=False),
        sa.Column("changed_at", sa.DateTime, nullable=False),
    )
