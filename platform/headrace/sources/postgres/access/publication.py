"""A PostgreSQL connector's publication, made here in Debezium's place.

With `publication.autocreate.mode` `filtered`, Debezium looks at the publication's tables on the connection by
which it then streams. PostgreSQL opens them for that, keeps their columns as they are now, and by these it
decodes what was written before an ALTER TABLE: values come out wrong, or the process dies of it, and with it
the whole server, at each attempt again (seen with PostgreSQL 18.4 and Debezium 3.7). So who registers a
connector makes its publication, and Debezium is told that it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import psycopg
from psycopg import sql

from headrace.errors import TerminalError
from headrace.sources.connect import ConnectorFile
from headrace.sources.postgres.tables import connect, published
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable

MODE = "publication.autocreate.mode"
_ALL_TABLES = "all_tables"
"""Debezium's default."""
_OPTION = "publish.via.partition.root"
"""Debezium's, of which true is the default here."""

BY_ROOT = " WITH (publish_via_partition_root = true)"
"""Else the changes of a partitioned table come under the names of its partitions."""


def made_here(file: ConnectorFile) -> bool:
    """Whether Debezium would look at the publication's tables."""
    return file.config.get("plugin.name") == "pgoutput" and file.config.get(MODE) == "filtered"


def as_registered(file: ConnectorFile) -> ConnectorFile:
    """The connector as Connect is to have it, once its publication is there."""
    return replace(file, config={**file.config, MODE: "disabled"}) if made_here(file) else file


def ensure_publication(dsn: str, connector: Connector, tables: Sequence[SourceTable] = ()) -> None:
    """Make the connector's publication where its mode asks for it; a `filtered` one has what is captured now.

    Args:
        tables: those that it must hold.
    Raises:
        TerminalError: it lacks one of `tables`, or the role may not make or change it.
    """
    name = connector.publication
    mode = connector.config.get(MODE, _ALL_TABLES)
    with connect(dsn) as connection:
        try:
            _make(connection, connector, name, mode)
        except psycopg.errors.InsufficientPrivilege as error:
            raise TerminalError(
                f"{connector.path}: publication `{name}` cannot be made: {str(error).strip()}. Next: let the "
                f'owner of the tables make it, and set "{MODE}": "disabled"'
            ) from None
        held = published(connection, name)
    for table in tables:
        if (table.schema, table.table) not in held:
            raise TerminalError(
                f"publication `{name}` lacks `{table.schema}.{table.table}`. Next: ALTER PUBLICATION {name} "
                f"ADD TABLE {table.schema}.{table.table}, then `headrace up`"
            )


def _make(
    connection: psycopg.Connection[tuple[object, ...]], connector: Connector, name: str, mode: str
) -> None:
    query = "SELECT puballtables, pubviaroot FROM pg_publication WHERE pubname = %s"
    found = connection.execute(query, (name,)).fetchone()
    by_root = connector.config.get(_OPTION) != "false"
    options = BY_ROOT if by_root else ""
    if mode == _ALL_TABLES and found is None:
        statement = "CREATE PUBLICATION {} FOR ALL TABLES" + options
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
    if mode != "filtered" or (found is not None and found[0]):
        return
    if found is not None and by_root and not found[1]:
        change = "ALTER PUBLICATION {} SET (publish_via_partition_root = true)"
        connection.execute(sql.SQL(change).format(sql.Identifier(name)))
    tables = captured(connection, connector, partitions=True)
    if not tables or (found is not None and tables == _listed(connection, name)):
        return
    listed = sql.SQL(", ").join(sql.Identifier(*t) for t in sorted(tables))
    change = (
        "CREATE PUBLICATION {} FOR TABLE {}" + options
        if found is None
        else "ALTER PUBLICATION {} SET TABLE {}"
    )
    connection.execute(sql.SQL(change).format(sql.Identifier(name), listed))


def captured(
    connection: psycopg.Connection[tuple[object, ...]], connector: Connector, *, partitions: bool
) -> set[tuple[str, str]]:
    """Schema and name of the tables that Debezium will capture.

    Args:
        partitions: whether those are among them that are partitions of another one.
    """
    query = (
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname <> 'information_schema' "
        "AND n.nspname !~ '^pg_' AND (%s OR NOT c.relispartition)"
    )
    found = [(str(s), str(t)) for s, t in connection.execute(query, (partitions,)).fetchall()]
    return {(s, t) for s, t in found if connector.captures(s, t)}


def _listed(connection: psycopg.Connection[tuple[object, ...]], name: str) -> set[tuple[str, str]]:
    """The tables that were put into the publication, partitions not followed."""
    query = (
        "SELECT n.nspname, c.relname FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid "
        "JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE p.pubname = %s"
    )
    return {(str(s), str(t)) for s, t in connection.execute(query, (name,)).fetchall()}
