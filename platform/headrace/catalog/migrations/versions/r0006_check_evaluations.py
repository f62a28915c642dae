"""What each check of a table found last."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "check_evaluation",
        sa.Column("table_name", sa.String(127), primary_key=True),
        sa.Column("check_name", sa.String(127), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("labels", sa.String(127), nullable=False),
        sa.Column("evaluated_at", sa.DateTime, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
    )
