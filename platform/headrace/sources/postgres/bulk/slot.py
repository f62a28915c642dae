"""The replication slot of a bulk snapshot, made as Debezium makes it.

The publication is there before: what is decoded of a change is decided by the catalog as it was then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from headrace.errors import TerminalError
from headrace.sources.postgres.bulk.choice import slot_name
from headrace.sources.postgres.tables import connect
from headrace.spec.connector import Connector

_SLOT = re.compile(r"[a-z0-9_]{1,63}")


@dataclass(frozen=True)
class Exported:
    """A new slot and the snapshot of the moment from which it streams.

    Args:
        lsn: the consistent point: what was committed before is in the snapshot, the rest comes by the slot.
        restart: where decoding begins to read. A transaction that commits after the consistent point may
            have written changes before it, but none before this.
        snapshot: for `SET TRANSACTION SNAPSHOT`, while the block lasts.
    """

    lsn: int
    restart: int
    snapshot: str


def slot_exists(dsn: str, name: str) -> bool:
    with connect(dsn) as connection:
        found = connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (name,))
        return found.fetchone() is not None


def drop_slot(dsn: str, name: str) -> None:
    """Drop it where it exists; what still holds it is ended first."""
    with connect(dsn) as connection:
        query = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s"
        found = connection.execute(query, (name,)).fetchone()
        if found is None:
            return
        if found[0] is not None:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (found[0],))
        connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))


@contextmanager
def exported(dsn: str, connector: Connector) -> Iterator[Exported]:
    """Create the connector's slot and export its snapshot until the block ends; the slot stays."""
    name = slot_name(connector.config)
    if not _SLOT.fullmatch(name):
        raise TerminalError(f"{connector.path}: `{name}` is no name of a replication slot")
    with connect(dsn, replication="database") as replication:
        # The simple protocol: the only one that a replication connection has for its own commands.
        made = replication.pgconn.exec_(
            f"CREATE_REPLICATION_SLOT \"{name}\" LOGICAL pgoutput (SNAPSHOT 'export')".encode()
        )
        if made.status != psycopg.pq.ExecStatus.TUPLES_OK:
            said = made.get_error_message().strip()
            raise TerminalError(f"replication slot `{name}` cannot be made: {said}")
        point, snapshot = (str((made.get_value(0, i) or b"").decode()) for i in (1, 2))
        with connect(dsn) as connection:
            query = "SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
            row = connection.execute(query, (name,)).fetchone()
        restart = str(row[0]) if row is not None else "0/0"
        yield Exported(lsn(point), lsn(restart), snapshot)


def lsn(text: str) -> int:
    """`16/B374D848` as a number."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
