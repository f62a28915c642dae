"""What a bulk snapshot must know of a source's tables; nothing is counted."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg import sql

from headrace.sources.postgres.bulk.choice import TableFacts
from headrace.sources.postgres.bulk.columns import copied
from headrace.sources.postgres.tables import connect, describe
from headrace.sources.schema import SourceSchema
from headrace.spec.model import SourceTable

TID_RANGES = 140_000
"""Version of PostgreSQL from which a range of pages is read without the others."""

_TABLE = """
SELECT c.relkind::text, c.relhassubclass, pg_relation_size(c.oid) / current_setting('block_size')::bigint,
  pg_relation_size(c.oid) + coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0)
FROM pg_class c WHERE c.oid = to_regclass(%s)
"""
_GENERATED = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attgenerated <> '' AND attnum > 0
"""


def read_facts(dsn: str, tables: Iterable[SourceTable]) -> list[TableFacts]:
    """The facts of each table, in order. Raises UnknownName where one does not exist."""
    schemas = describe(dsn, tables)
    with connect(dsn) as connection:
        return [_facts(connection, schemas[table]) for table in sorted(schemas)]


def _facts(connection: psycopg.Connection[tuple[object, ...]], schema: SourceSchema) -> TableFacts:
    table = schema.table
    name = f'"{table.schema}"."{table.table}"'
    [(kind, parent, pages, size)] = connection.execute(_TABLE, (name,)).fetchall()
    generated = {str(row[0]) for row in connection.execute(_GENERATED, (name,)).fetchall()}
    ways = [copied(c, generated=c.name in generated) for c in schema.columns]
    hindrance = next((way for way in ways if isinstance(way, str)), None)
    if kind != "r" or parent:
        hindrance = "it is not a plain table, but one of several parts"
    rows = _estimate(connection, table)
    if connection.info.server_version < TID_RANGES:
        pages = 0  # each range would be a scan of the whole table
    return TableFacts(table, rows, int(str(pages)), int(str(size)), hindrance)


def _estimate(connection: psycopg.Connection[tuple[object, ...]], table: SourceTable) -> int:
    """The planner's estimate, which follows the table's size even where it was never analysed."""
    query = sql.SQL("EXPLAIN (FORMAT JSON) SELECT 1 FROM {}").format(
        sql.Identifier(table.schema, table.table)
    )
    [(plan,)] = connection.execute(query).fetchall()
    return int(plan[0]["Plan"]["Plan Rows"])  # type: ignore[index]
