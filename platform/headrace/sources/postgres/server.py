"""What a PostgreSQL server says of itself, of a connector's replication slot and of its publication."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg

from headrace.errors import TransientError
from headrace.sources.connect import ConnectorStatus
from headrace.sources.health import Alert, Facts, Level, Slot
from headrace.sources.origin import Server
from headrace.sources.postgres.access.functions import GUARDS, Refused, refused
from headrace.sources.postgres.tables import connect, published, quoted
from headrace.spec.model import SourceTable

_SERVER = """
SELECT system_identifier::text,
    CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END,
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0'::pg_lsn,
    coalesce((SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s), '')
FROM pg_control_system()
"""

_SLOT = {
    "": "the source's replication slot `{slot}` is not there any more",
    "lost": "the source's replication slot `{slot}` is lost: it has removed changes that were not read",
}


_RELATIONS = """
SELECT n.name, coalesce(c.oid::bigint, 0), coalesce(c.relkind = 'p', false)
FROM unnest(%s::text[]) AS n(name) LEFT JOIN pg_class c ON c.oid = to_regclass(n.name)
"""
_PUBLICATION = "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = %s)"


def server(dsn: str, slot: str, publication: str, tables: Iterable[SourceTable] = ()) -> Server | None:
    """Ask a source's server; None where it does not answer, or may not say: that is an alarm of `health`.

    Args:
        slot: the connector's replication slot.
        publication: the connector's.
        tables: captured ones.
    """
    names = {quoted(table): table for table in tables}
    try:
        with connect(dsn) as connection:
            [(system, timeline, lsn, status)] = connection.execute(_SERVER, (slot,)).fetchall()
            rows = connection.execute(_RELATIONS, (list(names),)).fetchall()
            held = published(connection, publication)
            [(there,)] = connection.execute(_PUBLICATION, (publication,)).fetchall()
    except (TransientError, psycopg.Error):
        return None
    wrong = _SLOT.get(str(status), "").format(slot=slot) or None
    partitioned = frozenset(names[str(name)] for name, _, parts in rows if parts)
    heard = frozenset(table for table in names.values() if (table.schema, table.table) in held)
    missed = {names[str(name)] for name, relation, _ in rows if there and relation} - heard
    return Server(
        str(system),
        int(str(timeline) or "0", 16),
        int(str(lsn)),
        wrong,
        {names[str(name)]: int(str(relation)) for name, relation, _ in rows},
        heard,
        {t: unpublished(quoted(t), publication, parts=t in partitioned) for t in missed},
        partitioned,
    )


def unpublished(table: str, publication: str, *, parts: bool) -> str:
    """Why changes of a captured table do not come under its name, and the SQL that mends it.

    Args:
        table: as SQL has it.
        parts: whether it is partitioned.
    """
    if parts:
        return (
            f"{table} is partitioned, and publication `{publication}` lacks it or gives its changes "
            f"under the names of its partitions: ALTER PUBLICATION {publication} SET "
            "(publish_via_partition_root = true)"
        )
    return f"{table} is not published: ALTER PUBLICATION {publication} ADD TABLE {table}"


_KEPT = """
SELECT pg_current_wal_lsn() - coalesce(confirmed_flush_lsn, restart_lsn), safe_wal_size, active
FROM pg_replication_slots WHERE slot_name = %s AND NOT pg_is_in_recovery()
"""


def look(dsn: str, name: str, connector: ConnectorStatus | None) -> Facts:
    """Ask a source's database.

    Args:
        name: of the connector's replication slot.
    """
    try:
        with connect(dsn) as connection:
            role, functions = connection.info.user, refused(connection)
            unknown = any(function.name == "pg_current_wal_lsn" for function in functions)
            rows = [] if unknown else connection.execute(_KEPT, (name,)).fetchall()
    except (TransientError, psycopg.Error):
        return Facts(False, None, connector)
    found = None
    if rows and rows[0][0] is not None:
        behind, left, read = rows[0]
        found = Slot(int(str(behind)), None if left is None else int(str(left)), bool(read))
    return Facts(True, found, connector, unnoticed(role, functions))


def unnoticed(role: str, functions: Iterable[Refused]) -> tuple[Alert, ...]:
    """What follows where a role may not call functions."""
    return tuple(
        Alert(Level.ALARM if function.name in GUARDS else Level.WARNING, function.says(role))
        for function in functions
    )
