"""What a captured database of MySQL's kind says about its tables."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import UnknownName
from headrace.sources.columns import SourceColumn, not_named
from headrace.sources.database import Table
from headrace.sources.mysql.client import Client, quoted
from headrace.sources.mysql.types import column, not_carried, temporal
from headrace.sources.schema import MYSQL, SourceSchema
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable

_COLUMNS = """
SELECT column_name, column_type, is_nullable FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_UNIQUE = """
SELECT index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR '\\n'), MAX(nullable = 'YES')
FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND non_unique = 0 GROUP BY index_name ORDER BY index_name
"""
_FINGERPRINT = """
SELECT %s, MD5(GROUP_CONCAT(CONCAT_WS(' ', ordinal_position, column_name, column_type, is_nullable,
    column_key, extra) ORDER BY ordinal_position))
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
"""
_CAPTURABLE = """
SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'
    AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
"""
_PRIMARY = "PRIMARY"


def fingerprints(client: Client, tables: Iterable[SourceTable]) -> dict[SourceTable, str]:
    """See `sources.database.ColumnWatch`."""
    named = {str(place): table for place, table in enumerate(sorted(tables))}
    if not named:
        return {}
    client.rows("SET SESSION group_concat_max_len = 1048576")
    # One look-up a table: a list of tables would let the server open all that there are.
    query = " UNION ALL ".join([_FINGERPRINT] * len(named))
    asked = [part for place, table in named.items() for part in (place, table.schema, table.table)]
    return {named[str(place)]: str(found) for place, found in client.rows(query, asked)}


def described(client: Client, table: SourceTable, declared: tuple[str, ...] = ()) -> SourceSchema:
    """The schema of a captured table. Raises UnknownName where it does not exist.

    Args:
        declared: what the connector's `message.key.columns` says of it.
    """
    rows = client.rows(_COLUMNS, (table.schema, table.table))
    if not rows:
        raise UnknownName(
            f"the source table `{table}` does not exist in the database. Next: create it, or remove "
            f"the layer file that reads it"
        )
    key, refused = _key(client, table, declared)
    columns: list[SourceColumn] = []
    left_out: list[tuple[str, str]] = []
    for own, kind, nullable in rows:
        required = str(nullable) == "NO" and temporal(str(kind))
        why = not_named(str(own)) or not_carried(str(kind))
        if why is None:
            columns.append(column(str(own), f"{kind} not null" if required else str(kind)))
        else:
            left_out.append((str(own), why))
            if str(own) in key:
                refused = f"cannot be followed by its key column `{own}`: {why}. Next: another PRIMARY KEY"
    # `binlog_row_image` is FULL, which Debezium sees to.
    return SourceSchema(
        table, tuple(columns), () if refused else key, True, tuple(left_out), refused, dialect=MYSQL
    )


def _key(client: Client, table: SourceTable, declared: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The key columns, or why there are none."""
    name = quoted(table.schema, table.table)
    indexes = {
        str(index): (tuple(str(columns).split("\n")), bool(nullable))
        for index, columns, nullable in client.rows(_UNIQUE, (table.schema, table.table))
    }
    primary = indexes.get(_PRIMARY, ((), False))[0]
    if declared and set(declared) != set(primary):
        for columns, nullable in indexes.values():
            if set(columns) == set(declared) and not nullable:
                return columns, ""
        return (), (
            f"is keyed by ({', '.join(declared)}) in `message.key.columns`, and no unique index over NOT "
            f"NULL columns says that these tell its rows apart. Next: ALTER TABLE {name} ADD UNIQUE (…)"
        )
    if primary:
        return primary, ""
    return (), (
        "has no primary key, so its rows cannot be told apart. Next: "
        f"ALTER TABLE {name} ADD PRIMARY KEY (…); or, with a unique index over NOT NULL columns, "
        f'"message.key.columns": "{table.schema}.{table.table}:…" in the connector\'s file'
    )


def captured(client: Client, connector: Connector) -> set[Table]:
    """Database and name of the tables that Debezium will capture."""
    found = [(str(s), str(t)) for s, t in client.rows(_CAPTURABLE)]
    return {(s, t) for s, t in found if connector.captures(s, t)}
