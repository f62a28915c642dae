"""An independent engine: a scenario's tables computed by DuckDB from the source's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import duckdb
import sqlglot
from harness import Captured, Key, Row
from scenario import Declared

Rows = Counter[tuple[Any, ...]]

_TYPES = {"text": "VARCHAR"}
_RANGE = {"${start_date}": "'1970010100'", "${end_date}": "'9999010123'"}


class Duck:
    """DuckDB over the rows of a source. Spark's SQL is translated by sqlglot."""

    def __init__(self, sources: Mapping[str, Captured], tables: Mapping[str, Declared]) -> None:
        self.sources = sources
        self.tables = tables
        self.connection = duckdb.connect()  # its own order of NULLs is what sqlglot translates Spark's to
        self.connection.execute("SET TimeZone = 'UTC'")  # as the warehouse's sessions
        for schema in {"stg", *(name.split(".")[0] for name in tables)}:
            self.connection.execute(f"CREATE SCHEMA {schema}")
        for name, captured in sources.items():
            columns = ", ".join(f"{n} {_TYPES.get(t, t)}" for n, t in captured.columns)
            self.connection.execute(f"CREATE TABLE stg.{name} ({columns})")
        self.queries = {name: translate(table.sql) for name, table in tables.items()}

    def compute(self, rows: Mapping[str, Mapping[Key, Row]]) -> dict[str, Rows]:
        """Rows of every table, stg and derived, as multisets, over these source rows."""
        found = {}
        for name, captured in self.sources.items():
            self.connection.execute(f"DELETE FROM stg.{name}")
            held = [tuple(r.values()) for r in rows.get(name, {}).values()]
            if captured.partition is not None:  # its stg table keeps what lies in the open range
                held = [r for r in held if dict(zip(_names(captured), r, strict=True))[captured.partition]]
            if held:
                marks = ", ".join("?" * len(captured.columns))
                self.connection.executemany(f"INSERT INTO stg.{name} VALUES ({marks})", held)
            found[f"stg.{name}"] = Counter(self.connection.execute(f"SELECT * FROM stg.{name}").fetchall())
        for name, query in self.queries.items():
            self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")
            found[name] = Counter(self.connection.execute(f"SELECT * FROM {name}").fetchall())
        return found

    def close(self) -> None:
        self.connection.close()


def _names(captured: Captured) -> list[str]:
    return [n for n, _ in captured.columns]


def translate(sql: str) -> str:
    """Spark SQL with its range parameters → DuckDB's SQL over everything."""
    for parameter, label in _RANGE.items():
        sql = sql.replace(parameter, label)
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]
