"""Why a table's freshness or mode became what it is, and which definitions it had before.

Alembic's own table says which schema a catalog has.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "decision",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("table_name", sa.String(127), nullable=False),
        sa.Column("decided_at", sa.DateTime, nullable=False),
        sa.Column("property", sa.String(16), nullable=False),
        sa.Column("was", sa.String(63), nullable=False),
        sa.Column("became", sa.String(63), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
    )
    op.create_index("decision_of_table", "decision", ["table_name", "id"])
    op.create_table(
        "former_definition",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("table_name", sa.String(127), nullable=False),
        sa.Column("replaced_at", sa.DateTime, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
    )
    op.create_index("former_of_table", "former_definition", ["table_name", "id"])
    with op.batch_alter_table("alteration") as alteration:
        # What a file said of a freshness has its calendar, too.
        alteration.alter_column("over", type_=sa.Text, existing_type=sa.String(63), existing_nullable=False)
    op.execute("DROP TABLE IF EXISTS schema_version")
