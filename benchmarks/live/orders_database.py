"""The source of the comparison: orders in PostgreSQL, their changes, and what a chain over them must hold.

Users, hours and amounts follow from the order's number, so every group of `dws_user_hour` has one order and a
changed group tells which order it was.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg.sql import SQL, Identifier

from benchmarks.live.contender import DWD, DWS, STG
from headrace.demo.multisets import Comparison, compare, tuples

if TYPE_CHECKING:
    import pyarrow as pa

_HOUR = "to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24')"
EXPECTED = {
    STG: "SELECT order_id, user_id, product_id, amount, status, created_at, updated_at FROM orders",
    DWD: f"SELECT order_id, user_id, amount, {_HOUR} AS logdate FROM orders WHERE amount > 1",
    DWS: f"SELECT user_id, {_HOUR} AS logdate, count(*) AS cnt, sum(amount) AS amt FROM orders "
    "WHERE amount > 1 GROUP BY 1, 2",
}
CREATE = """
DROP TABLE IF EXISTS orders;
CREATE TABLE orders (
  order_id bigint PRIMARY KEY, user_id bigint, product_id int, amount numeric(12,2), status text,
  created_at timestamptz, updated_at timestamptz
);
ALTER TABLE orders REPLICA IDENTITY FULL;
DO $$ BEGIN  -- each contender's connector makes a publication of its own
  IF to_regrole('headrace_source') IS NOT NULL THEN
    EXECUTE format('GRANT CREATE ON DATABASE %I TO headrace_source', current_database());
    ALTER TABLE orders OWNER TO headrace_source;
  END IF;
END $$;
"""
FILL = """
INSERT INTO orders
SELECT g, g % 5000, g % 200, ((g % 10000) / 7.0)::numeric(12,2), 'new',
       timestamptz '2026-11-01 00:00Z' + g * interval '1 second', timestamptz '2026-11-01 00:00Z'
FROM generate_series(1, {}) g
"""
STRIDE = 1000
"""Orders between two small updates: each has orders of its own."""


class OrdersDatabase:
    """The table `orders` of one database. A context manager."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True, application_name="bench")
        self._connection.execute("SET timezone = 'UTC'")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def create(self, rows: int) -> None:
        """The table anew, with orders 1 to `rows`."""
        self._connection.execute(CREATE)
        self._connection.execute(FILL.format(rows).encode())
        self._connection.execute("VACUUM ANALYZE orders")
        self._connection.execute("CHECKPOINT")

    def update_some(self, turn: int, *, first: int, count: int) -> float:
        """One transaction: another amount for orders `turn * STRIDE + first` and those after it.

        Returns:
            Epoch seconds at which the commit was acknowledged.
        """
        low = turn * STRIDE + first
        self._connection.execute(
            "UPDATE orders SET amount = amount + 10, status = 'paid' WHERE order_id BETWEEN %s AND %s",
            (low, low + count - 1),
        )
        return time.time()

    def update_all(self) -> tuple[int, float]:
        """One transaction over every order. Returns their number and when the commit was acknowledged."""
        changed = self._connection.execute("UPDATE orders SET amount = amount + 1").rowcount
        return changed, time.time()

    def remove_some(self) -> float:
        """Delete one order in 250, and let as many fall below the amount that `dwd_orders` asks for."""
        with self._connection.transaction():
            self._connection.execute("DELETE FROM orders WHERE order_id % 250 = 7")
            self._connection.execute("UPDATE orders SET amount = 0.5 WHERE order_id % 250 = 9")
        return time.time()

    def groups(self) -> dict[tuple[int, str], int]:
        """The order of each group of `dws_user_hour`."""
        found = self._connection.execute(f"SELECT user_id, {_HOUR}, order_id FROM orders".encode())
        return {(user, hour): order for user, hour, order in found}

    def compare(self, table: str, rows: pa.Table) -> Comparison:
        """A contender's rows of one table with what PostgreSQL computes itself."""
        with self._connection.cursor() as cursor:
            cursor.execute(EXPECTED[table].encode())
            assert cursor.description is not None
            columns = [column.name for column in cursor.description]
            return compare(columns, table=tuples(rows, columns), expected=cursor.fetchall())

    def drop_slot(self, slot: str, publication: str) -> None:
        """Remove what a connector that was deleted left, once it has let go of it."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self._connection.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                    "WHERE slot_name = %s",
                    [slot],
                )
                break
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        self._connection.execute(SQL("DROP PUBLICATION IF EXISTS {}").format(Identifier(publication)))
