"""What the driver finds wrong in a range is what Spark finds wrong in it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from harness import Harness
from orders_chain import HOURS, LAYERS, nine_orders

from headrace.engine.backfill import backfill as backfill_module
from headrace.engine.backfill.backfill import backfill
from headrace.engine.backfill.correction import corrections, once
from headrace.engine.backfill.corrections_arrow import few_corrections
from headrace.engine.compaction.compaction import write_local
from headrace.engine.rows.batch_rows import batch_rows
from headrace.engine.spark.persisted import Persisted
from headrace.engine.table.table import Table
from headrace.errors import ConstraintViolated
from headrace.progress import Progress
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.schema import KIND, arrow_schema

RANGES = [
    None,
    LabelRange(HOURS[0], HOURS[1]),
    LabelRange.exactly({HOURS[0], HOURS[2]}),
    LabelRange("1999010100", "1999010123"),
]


def damage(table: Table, chance: random.Random) -> None:
    """Rows of the snapshot lost, changed, moved to another hour, and rows that nobody wrote."""
    rows = table.store.head().read().to_pylist()
    kept: list[dict[str, Any]] = []
    for row in rows:
        fate = chance.random()
        if fate < 0.2:
            continue
        if fate < 0.5:
            row["amount"] = chance.choice([None, Decimal("0.01")])
        if fate > 0.7:
            row["hour"] = chance.choice([*HOURS, None])
        kept.append(row)
    kept.append({"order_id": 99, "user_id": None, "amount": None, "hour": chance.choice(HOURS)})
    write(table, kept)


def write(table: Table, rows: list[dict[str, Any]]) -> None:
    stored = pa.Table.from_pylist(rows, arrow_schema(table.store.schema.stored))
    version = table.store.version
    write_local(table, stored, None, version=version, compacted=version, run_id="test")


def counted(changes: pa.Table, table: Table) -> Counter[tuple[Any, ...]]:
    names = [*table.store.schema.stored_names, KIND]
    return Counter(zip(*(changes.column(name).to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("seed", range(2))
def test_as_spark_finds_it(harness: Callable[..., Harness], seed: int) -> None:
    made = nine_orders(harness({"dwd/paid": LAYERS["dwd/paid"]}, batch_settings=True), compacted=True)
    spark, table = made.sessions.batch, made.table("dwd.paid")
    damage(table, random.Random(seed))
    made.source.put("orders", order_id=2, user_id=1, amount="50.00", hour=HOURS[0])  # some tail, too
    made.source.delete("orders", 5)
    made.step()
    for labels in RANGES:
        expected = batch_rows(spark, made.registry, table, table.reached, labels=labels)
        few = few_corrections(spark, table, table.store.head(), table.store.version, expected, labels)
        assert few is not None
        with Persisted() as persist:
            held = table.store.frame(spark)
            found = once(corrections(table, held, expected, labels, persist), expected, table, persist)
            assert counted(few.changes, table) == counted(found.toArrow(), table), (seed, labels)
            assert few.rows == (held.count() if few.changes.num_rows else 0)


def test_what_is_left_to_spark(harness: Callable[..., Harness]) -> None:
    made = nine_orders(harness({"dwd/paid": LAYERS["dwd/paid"]}, batch_settings=True), compacted=True)
    spark, table = made.sessions.batch, made.table("dwd.paid")
    expected = batch_rows(spark, made.registry, table, table.reached)
    head, version = table.store.head(), table.store.version
    assert few_corrections(spark, table, head, version - 1, expected, None) is None
    assert few_corrections(spark, table, None, version, expected, None) is None
    with pytest.raises(ConstraintViolated, match="order_id"):
        twice = expected.unionAll(expected)
        few_corrections(spark, table, table.store.head(), table.store.version, twice, None)
    rows = table.store.head().read().to_pylist()
    write(table, [*rows, rows[0]])
    assert few_corrections(spark, table, table.store.head(), table.store.version, expected, None) is None
    stg = made.table("stg.orders")
    held = stg.store.frame(spark)
    assert few_corrections(spark, stg, stg.store.head(), stg.store.version, held, None) is None


def test_what_is_still_wrong_after_the_stream_moved_is_corrected(harness: Callable[..., Harness]) -> None:
    """A row changed, a row that nobody wrote, and none missing: compared once more by Spark."""
    made = nine_orders(harness({"dwd/paid": LAYERS["dwd/paid"]}, batch_settings=True), compacted=True)
    table = made.table("dwd.paid")
    rows = table.store.head().read().to_pylist()
    changed = next(row for row in rows if row["order_id"] == 4)
    write(
        table,
        [r | {"amount": Decimal("0.01")} if r is changed else r for r in rows] + [changed | {"order_id": 99}],
    )

    def stream(message: str, *_: int | None) -> None:
        if "correcting rows" in message:
            made.source.put("orders", order_id=2, user_id=1, amount="50.00", hour=HOURS[0])
            made.step()

    result = backfill(made.sessions, made.registry, table, None, run_id="test", progress=Progress(stream))
    assert (result.inserted, result.updated, result.deleted) == (0, 1, 1)
    made.assert_parity()


def test_the_driver_compares_what_it_held_before_the_stream_moved(
    harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = nine_orders(harness({"dwd/paid": LAYERS["dwd/paid"]}, batch_settings=True), compacted=True)
    table = made.table("dwd.paid")
    before = table.store.version

    def stream(message: str, *_: int | None) -> None:
        if "running the query" in message:
            made.source.put("orders", order_id=2, user_id=1, amount="50.00", hour=HOURS[0])
            made.step()

    def by_spark(*_: object) -> None:
        raise AssertionError("Spark compares")

    monkeypatch.setattr(backfill_module, "corrections", by_spark)
    result = backfill(
        made.sessions,
        made.registry,
        table,
        LabelRange(HOURS[0], HOURS[2]),
        run_id="test",
        progress=Progress(stream),
    )
    assert table.store.version > before
    assert (result.inserted, result.updated, result.deleted) == (0, 0, 0)
    made.assert_parity()
