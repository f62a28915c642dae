"""Files of a project that follows a database which exists: its connector, and a stg table of each table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.cases.live import lines, source_lines
from headrace.errors import TerminalError
from headrace.scaffold.files import CONNECTOR, connector
from headrace.sources.database import database
from headrace.sources.schema import SourceSchema
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable
from headrace.spec.sql.literals import quoted

_STG = """\
-- layers/stg/{table}.sql
CREATE MATERIALIZED TABLE stg.{table}
COMMENT '{comment}'
FRESHNESS = DOWNSTREAM
AS
SELECT *
FROM {source}
"""

_SAMPLES = {
    **dict.fromkeys(("smallint", "int", "bigint"), 1),
    "string": "a",
    "boolean": True,
    "date": "2026-01-01",
    "timestamp": "2026-01-01 00:00:00",
    "timestamp_ntz": "2026-01-01 00:00:00",
}
"""A key's value for the first case of a table, by its Spark type."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_LONGEST = 60


@dataclass(frozen=True)
class Found:
    """What a database has.

    Args:
        followed: tables by the names of their stg tables.
        left_out: tables that cannot be followed, and why, with the SQL that helps.
        lacks: what the database must have before it is followed, with the SQL that mends it.
    """

    followed: Mapping[str, SourceSchema]
    left_out: tuple[str, ...]
    lacks: tuple[str, ...]


def shown(url: str) -> str:
    """The URL without its password."""
    return re.sub(r"://([^:/@]*):[^@]*@", r"://\1:…@", url)


def look(url: str, source: str) -> Found:
    """Ask the database; nothing is changed in it.

    Args:
        source: what it is to be called in SQL.
    Raises:
        TerminalError: it is no PostgreSQL, or has no table that can be followed.
        TransientError: it does not answer.
    """
    form = "postgresql://user:password@host:port/database"
    if not url.startswith("postgresql://"):
        raise TerminalError(f"{shown(url)} is no URL of PostgreSQL: {form}")
    at = database(url)
    tables = at.capture(_connector(source, "")).tables
    captured = sorted(tables, key=lambda table: (table[0] != "public", table))  # it has the plain names
    schemas = at.describe([SourceTable(source, s, t) for s, t in captured], lambda table: ())
    left_out = [f"`{t.schema}.{t.table}` {s.refused}" for t, s in schemas.items() if s.refused]
    followed: dict[str, SourceSchema] = {}
    for table, schema in schemas.items():
        if not schema.refused:
            name = _name(table.table)
            followed[_name(f"{table.schema}_{table.table}") if name in followed else name] = schema
    if not followed:
        raise TerminalError(
            f"no table of {shown(url)} can be followed: {'; '.join(left_out) or 'it has none'}"
        )
    checks = at.check(_connector(source, ",".join(_listed(followed))), [s.table for s in followed.values()])
    return Found(followed, tuple(left_out), tuple(c.detail for c in checks if not c.ok))


def _connector(source: str, tables: str) -> Connector:
    config = json.loads(connector(source, []))["config"]
    return Connector(source, CONNECTOR, {**config, "table.include.list": tables})


def _listed(tables: Mapping[str, SourceSchema]) -> list[str]:
    """As Debezium's lists have them: expressions, with commas between."""
    names = ((s.table.schema, s.table.table) for s in tables.values())
    return [".".join(p if _PLAIN.fullmatch(p) else re.escape(p).replace(",", ".") for p in n) for n in names]


def _name(text: str) -> str:
    """A stg table's name."""
    found = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")
    return (found if found[:1].isalpha() else f"t_{found}")[:_LONGEST]


def following(source: str, tables: Mapping[str, SourceSchema]) -> dict[str, str]:
    """The files, by their names in the project."""
    files = {f"deploy/connectors/{source}.json": connector(source, _listed(tables))}
    for name, schema in tables.items():
        captured = schema.table
        parts = (captured.source, captured.schema, captured.table)
        read = ".".join(p if _PLAIN.fullmatch(p) else quoted(p) for p in parts)
        comment = f"As {captured.schema}.{captured.table} has them".replace("'", "''")
        files[f"layers/stg/{name}.sql"] = _STG.format(table=name, comment=comment, source=read)
        files[f"layers/stg/{name}.cases.yml"] = _cases(schema)
    return files


def _cases(schema: SourceSchema) -> str:
    """What the captured table is, and a first case where values of its key are easily made up."""
    types = dict(schema.typed)
    key = {name: _SAMPLES.get(types[name]) for name in schema.key}
    text = "\n".join(source_lines(schema)) + "\n"
    if None in key.values():
        return text
    case = lines("a_row_is_what_the_source_has", {schema.table: [key]}, [key])
    return text + "\ncases:\n" + "\n".join(case) + "\n"
