"""The catalog's tables, and how its database is opened."""

from __future__ import annotations

import sqlite3
import time

import sqlalchemy as sa

_BUSY_SECONDS = 10

metadata = sa.MetaData()

materialized_table = sa.Table(
    "materialized_table",
    metadata,
    sa.Column("name", sa.String(127), primary_key=True),
    sa.Column("definition", sa.Text, nullable=False),
    sa.Column("definition_hash", sa.String(64), nullable=False),
    sa.Column("freshness_seconds", sa.Float),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("desired", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("updated_at", sa.DateTime, nullable=False),  # UTC
)

reader = sa.Table(
    "reader",
    metadata,
    sa.Column("table_name", sa.String(127), primary_key=True),
    sa.Column("name", sa.String(63), primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),  # changelog version done
    sa.Column("progressed_at", sa.DateTime, nullable=False),  # UTC
    sa.Column("expired", sa.Boolean, nullable=False),
)

alteration = sa.Table(
    "alteration",
    metadata,
    sa.Column("table_name", sa.String(127), primary_key=True),
    sa.Column("property", sa.String(16), primary_key=True),
    sa.Column("value", sa.String(63), nullable=False),
    sa.Column("over", sa.Text, nullable=False),
    sa.Column("altered_at", sa.DateTime, nullable=False),  # UTC
)

decision = sa.Table(
    "decision",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("table_name", sa.String(127), nullable=False),
    sa.Column("decided_at", sa.DateTime, nullable=False),  # UTC
    sa.Column("property", sa.String(16), nullable=False),
    sa.Column("was", sa.String(63), nullable=False),
    sa.Column("became", sa.String(63), nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Index("decision_of_table", "table_name", "id"),
)

former_definition = sa.Table(
    "former_definition",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("table_name", sa.String(127), nullable=False),
    sa.Column("replaced_at", sa.DateTime, nullable=False),  # UTC
    sa.Column("definition", sa.Text, nullable=False),
    sa.Index("former_of_table", "table_name", "id"),
)

refresh_workflow = sa.Table(
    "refresh_workflow",
    metadata,
    sa.Column("table_name", sa.String(127), primary_key=True),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("freshness_seconds", sa.Float, nullable=False),
    sa.Column("levels", sa.Integer, nullable=False),
    sa.Column("suspended", sa.Boolean, nullable=False),
    sa.Column("changed_at", sa.DateTime, nullable=False),  # UTC
)

completion = sa.Table(
    "completion",
    metadata,
    sa.Column("table_name", sa.String(127), primary_key=True),
    sa.Column("through", sa.String(31), nullable=False),  # the newest complete partition
    sa.Column("looked", sa.BigInteger, nullable=False),  # changelog version searched for late data
    sa.Column("late", sa.BigInteger, nullable=False),  # changes that were let be
)

completed_partition = sa.Table(
    "completed_partition",
    metadata,
    sa.Column("table_name", sa.String(127), primary_key=True),
    sa.Column("label", sa.String(31), primary_key=True),
    sa.Column("completed_at", sa.DateTime, nullable=False),  # UTC
    sa.Column("watermark_ms", sa.BigInteger, nullable=False),
    sa.Column("due_ms", sa.BigInteger, nullable=False),  # the watermark from which its run may begin
    sa.Column("outcome", sa.String(31)),  # NULL: its run is to come
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),  # of the changelog
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("reopened", sa.Integer, nullable=False),
    sa.Column("turn", sa.BigInteger, nullable=False),
    sa.Column("finished_at", sa.DateTime),  # UTC
)

captured_table = sa.Table(
    "captured_table",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("columns", sa.Text, nullable=False),  # JSON
    sa.Column("noted_at", sa.DateTime, nullable=False),  # UTC
)

check_evaluation = sa.Table(
    "check_evaluation",
    metadata,
    sa.Column("table_name", sa.String(127), primary_key=True),
    sa.Column("check_name", sa.String(127), primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("passed", sa.Boolean, nullable=False),
    sa.Column("labels", sa.String(127), nullable=False),  # empty: of the whole table
    sa.Column("evaluated_at", sa.DateTime, nullable=False),  # UTC
    sa.Column("result", sa.Text, nullable=False),  # JSON
)

cost = sa.Table(
    "cost",
    metadata,
    sa.Column("hour", sa.DateTime, primary_key=True),  # UTC, its beginning
    sa.Column("table_name", sa.String(127), primary_key=True),  # empty: of all tables of flows together
    sa.Column("work", sa.String(16), primary_key=True),
    sa.Column("core_seconds", sa.Float, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("runs", sa.BigInteger, nullable=False),
    sa.Column("changes", sa.BigInteger, nullable=False),
)


def open_engine(url: sa.URL) -> sa.Engine:
    """An engine for `url`. SQLite gets a write-ahead log and transactions that take the write lock first."""
    engine = sa.create_engine(url, pool_pre_ping=url.get_backend_name() == "postgresql")
    if url.get_backend_name() == "sqlite":
        sa.event.listen(engine, "connect", _on_connect)
        sa.event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    # Python's own transaction handling would begin late and read-only; _on_begin does it instead.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}")
    connection.execute("PRAGMA synchronous = FULL")
    write_ahead(connection)


def write_ahead(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log. SQLite answers "locked" at once, whatever the busy timeout,
    where another connection makes the same switch at this moment."""
    end = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def _on_begin(connection: sa.Connection) -> None:
    # A transaction that first reads and then writes fails with "database is locked" when another
    # one wrote in between, whatever the busy timeout; taking the write lock at once avoids that.
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":  # that only reads
        connection.exec_driver_sql("BEGIN IMMEDIATE")
