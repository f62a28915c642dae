"""PostgreSQL itself as the judge: the dws queries, written for PostgreSQL, over the source tables."""

from __future__ import annotations

from importlib.resources import files

import psycopg

from headrace.demo.multisets import Row

_NAMES = ("user_hour", "gmv_hour", "gmv_day", "gmv_compared", "top_products", "partition_word_count")
TABLES = tuple(f"dws.{name}" for name in _NAMES)


def query(table: str) -> str:
    """The text for one dws table; its columns bear the table's names."""
    return files("headrace.demo").joinpath("oracle", f"{table.partition('.')[2]}.sql").read_text()


def expected(connection: psycopg.Connection, table: str) -> tuple[tuple[str, ...], list[Row]]:
    """Column names and rows as PostgreSQL computes them from what is committed now."""
    with connection.cursor() as cursor:
        cursor.execute(query(table).encode())
        assert cursor.description is not None
        return tuple(column.name for column in cursor.description), cursor.fetchall()
