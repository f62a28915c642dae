"""The large table of `incremental`: its rows, and seeded changes of a share of its keys, as Spark plans."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from benchmarks.in_process import feed
from headrace.engine.rows.diff import count_kinds
from headrace.engine.spark.persisted import Persisted
from headrace.engine.table.table import Delta, Table
from headrace.store.schema import DELETE, INSERT, KIND, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST_HOUR = datetime(2026, 1, 1, tzinfo=UTC)
MOST_HOURS = 240
FINE = 1_000_000_000
"""Shares are drawn to this part."""

AMOUNT = "CAST(CAST(pmod(xxhash64({}), 100000) AS DECIMAL(12,0)) / 100 AS DECIMAL(12,2))"


@dataclass(frozen=True)
class Orders:
    """`rows` orders of `rows / 1000` users, evenly over some hours, in the order of their ids."""

    rows: int

    @property
    def hours(self) -> int:
        """A multiple of ten, so that a tenth of the history is some whole hours."""
        return min(MOST_HOURS, max(1, self.rows // 400_000) * 10)

    @property
    def users(self) -> int:
        return max(10, self.rows // 1000)

    def label(self, hour: int) -> str:
        """The partition of the hour with this number."""
        return (FIRST_HOUR + timedelta(hours=hour)).strftime("%Y%m%d%H")

    def frame(self, spark: SparkSession, first: int, last: int) -> DataFrame:
        """The orders with ids in `[first, last)`, unchanged."""
        return spark.range(first, last).selectExpr(
            "id AS order_id",
            f"pmod(xxhash64(id, 1), {self.users}) AS user_id",
            f"{self._hour(f'id * {self.hours} DIV {self.rows}')} AS hour",
            f"{AMOUNT.format('id, 2')} AS amount",
        )

    def _hour(self, number: str) -> str:
        start = int(FIRST_HOUR.timestamp())
        return f"date_format(timestamp_seconds({start} + 3600 * ({number})), 'yyyyMMddHH')"

    def changes(
        self, spark: SparkSession, old: DataFrame, seed: int, share: float, hours: range, new_ids: int
    ) -> DataFrame:
        """Changes of about `share` of all keys, all of them in `hours`: the rows before and after.

        Of the keys a tenth is deleted, a tenth goes to another user, the others have another amount; as many
        are inserted as are deleted.

        Args:
            old: the table's present rows.
            hours: numbers of consecutive hours.
            new_ids: the first id that was never used.
        """
        low, high = self.label(hours[0]), self.label(hours[-1])
        within = min(1.0, share * self.hours / len(hours))
        touched = old.where(
            f"hour BETWEEN '{low}' AND '{high}' AND pmod(xxhash64(order_id, {seed}), {FINE}) "
            f"< {int(within * FINE)}"
        ).selectExpr("*", f"pmod(xxhash64(order_id, {seed + 1}), 10) AS _role")
        columns = ("order_id", "user_id", "hour", "amount")
        before = touched.selectExpr(
            *columns, f"CASE WHEN _role = 0 THEN '{DELETE}' ELSE '{UPDATE_BEFORE}' END AS {KIND}"
        )
        after = touched.where("_role > 0").selectExpr(
            "order_id",
            f"CASE WHEN _role = 1 THEN pmod(user_id + 1, {self.users}) ELSE user_id END AS user_id",
            "hour",
            f"CASE WHEN _role = 1 THEN amount ELSE {AMOUNT.format(f'order_id, {seed + 2}')} END AS amount",
            f"'{UPDATE_AFTER}' AS {KIND}",
        )
        count = max(1, round(self.rows * share / 10))
        hour = self._hour(f"{hours[0]} + pmod(xxhash64(id, 3), {len(hours)})")
        inserted = spark.range(new_ids, new_ids + count).selectExpr(
            "id AS order_id",
            f"pmod(xxhash64(id, 1), {self.users}) AS user_id",
            f"{hour} AS hour",
            f"{AMOUNT.format('id, 2')} AS amount",
            f"'{INSERT}' AS {KIND}",
        )
        return before.unionByName(after).unionByName(inserted)


def apply(spark: SparkSession, table: Table, changes: DataFrame) -> Delta:
    """Commit the changes: a small one from the driver, as flows do, a large one by a Spark job."""
    with Persisted() as persist:
        changes = persist(changes)
        kinds = count_kinds(changes)
        if sum(kinds.values()) > table.limits.small:
            return feed.append(spark, table, changes, kinds)
        return feed.append_local(table, changes.toArrow())
