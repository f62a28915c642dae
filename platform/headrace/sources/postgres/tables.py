"""What a captured PostgreSQL database says about its tables, and reading it at a known position."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg

from headrace.errors import TransientError, UnknownName
from headrace.sources.columns import not_named
from headrace.sources.postgres.keys import UniqueIndex, row_key
from headrace.sources.postgres.types import column, not_carried
from headrace.sources.schema import MessageKey, SourceSchema
from headrace.spec.model import SourceTable

_COLUMNS = """
WITH RECURSIVE typed AS (
    SELECT attrelid, attnum, attname, attgenerated, atttypid AS type, atttypmod AS modifier FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
  UNION ALL
    SELECT attrelid, attnum, attname, attgenerated, typbasetype, typtypmod
    FROM typed JOIN pg_type t ON t.oid = type WHERE typtype = 'd'
)
SELECT attname, format_type(type, modifier), relreplident = 'f', typtype, attgenerated <> ''
FROM typed JOIN pg_type t ON t.oid = type JOIN pg_class c ON c.oid = attrelid
WHERE typtype <> 'd' ORDER BY attnum
"""
_UNIQUE = """
SELECT c.relname, array_agg(coalesce(a.attname, '') ORDER BY k.n), i.indisprimary, i.indisreplident,
    i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
        AND bool_and(coalesce(a.attnotnull, false))
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, n) ON k.n <= i.indnkeyatts
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass(%s) AND i.indisunique GROUP BY i.indexrelid, c.relname ORDER BY c.relname
"""


_HEIRS = """
SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class c ON c.oid = inhparent
WHERE c.oid = to_regclass(%s) AND c.relkind = 'r' ORDER BY 1
"""

_FINGERPRINT = """
SELECT n.name, concat_ws(' ',
    (SELECT md5(string_agg(concat_ws(' ', attnum, attname, atttypid, atttypmod), ',' ORDER BY attnum))
     FROM pg_attribute WHERE attrelid = to_regclass(n.name) AND attnum > 0 AND NOT attisdropped),
    (SELECT relreplident FROM pg_class WHERE oid = to_regclass(n.name)),
    coalesce((SELECT indkey::text FROM pg_index WHERE indrelid = to_regclass(n.name) AND indisprimary),
        (SELECT string_agg(concat_ws(' ', indexrelid, indisreplident), ',' ORDER BY indexrelid)
         FROM pg_index WHERE indrelid = to_regclass(n.name) AND indisunique)),
    (SELECT 'heirs' FROM pg_class c WHERE oid = to_regclass(n.name) AND relkind = 'r'
     AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid)))
FROM unnest(%s::text[]) AS n(name)
"""


def fingerprints(
    connection: psycopg.Connection[tuple[object, ...]], tables: Iterable[SourceTable]
) -> dict[SourceTable, str]:
    """A text for each captured table that is another one after its columns, key or identity were changed.

    A change of a row is seen by nobody before the columns that it was made with: asked after a message was
    read, the answer is of the columns that the message was made with, or of later ones.
    """
    names = {quoted(table): table for table in tables}
    rows = connection.execute(_FINGERPRINT, (list(names),)).fetchall()
    return {names[str(name)]: str(found) for name, found in rows}


def published(
    connection: psycopg.Connection[tuple[object, ...]], publication: str
) -> frozenset[tuple[str, str]]:
    """Schema and name of the tables whose changes a publication gives under these names.

    One that gives changes under the names of partitions has these in place of their table.
    """
    query = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s"
    rows = connection.execute(query, (publication,)).fetchall()
    return frozenset((str(schema), str(table)) for schema, table in rows)


def quoted(table: SourceTable) -> str:
    """The captured table's name as PostgreSQL reads it, with its schema."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in (table.schema, table.table))


def connect(dsn: str, **options: str) -> psycopg.Connection[tuple[object, ...]]:
    """A connection with UTC timestamps. Raises TransientError where the server does not answer.

    Args:
        options: further connection parameters of libpq.
    """
    try:
        connection = psycopg.connect(dsn, connect_timeout=10, autocommit=True, **options)  # type: ignore[arg-type]
    except psycopg.OperationalError as error:
        raise TransientError(
            f"the source database does not answer: {error}. Next: `headrace status`"
        ) from error
    connection.execute("SET timezone = 'UTC'")
    return connection


def describe(
    dsn: str, tables: Iterable[SourceTable], declared: MessageKey = lambda table: ()
) -> dict[SourceTable, SourceSchema]:
    """Read the schemas of captured tables. Raises UnknownName where one does not exist.

    Args:
        declared: what the connector's `message.key.columns` says of a table.
    """
    with connect(dsn) as connection:
        return {table: described(connection, table, declared(table)) for table in tables}


def described(
    connection: psycopg.Connection[tuple[object, ...]], table: SourceTable, declared: tuple[str, ...] = ()
) -> SourceSchema:
    """As `describe`, of one table."""
    name = quoted(table)
    rows = connection.execute(_COLUMNS, (name,)).fetchall()
    if not rows:
        raise UnknownName(
            f"the source table `{table}` does not exist in the database. Next: create it, or remove "
            f"the layer file that reads it"
        )
    full = bool(rows[0][2])
    indexes = [
        UniqueIndex(str(index), tuple(map(str, cs)), bool(primary), bool(identity), bool(plain))  # type: ignore[call-overload]
        for index, cs, primary, identity, plain in connection.execute(_UNIQUE, (name,)).fetchall()
    ]
    found = row_key(f"{table.schema}.{table.table}", name, indexes, full=full, declared=declared)
    heirs = [str(heir) for (heir,) in connection.execute(_HEIRS, (name,)).fetchall()]
    key, refused = found.columns, found.refused or _inherited(name, heirs)
    columns, left_out = [], []
    for own, kind, _, typtype, generated in rows:
        why = not_named(str(own)) or not_carried(str(kind), str(typtype), generated=bool(generated))
        if why is None:
            columns.append(column(str(own), str(kind)))
        else:
            left_out.append((str(own), why))
            if str(own) in key:
                refused = f"cannot be followed by its key column `{own}`: {why}. Next: another PRIMARY KEY"
    return SourceSchema(table, tuple(columns), () if refused else key, full, tuple(left_out), refused)


def _inherited(name: str, heirs: list[str]) -> str:
    """Why a table cannot be followed that others inherit from; "" where there are none."""
    if not heirs:
        return ""
    undone = "; ".join(f"ALTER TABLE {heir} NO INHERIT {name}" for heir in heirs)
    return (
        f"has heirs ({', '.join(heirs)}): their rows are read with its own, and their changes come under "
        f"other names. Next: stg tables of the heirs in place of this one, or {undone}"
    )
