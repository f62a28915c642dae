"""The columns of captured tables that the tables run by."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "captured_table",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("columns", sa.Text, nullable=False),
        sa.Column("noted_at", sa.DateTime, nullable=False),
    )
