"""What a range holds is the same whether the driver or Spark's files have the rows that it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, nine_orders

from headrace.engine.backfill.held_rows import held_rows, warm_heads
from headrace.engine.rows.batch_rows import batch_rows
from headrace.engine.table.table import Table
from headrace.spec.partitions.label_range import LabelRange

CHAIN = {k: LAYERS[k] for k in ("dwd/paid", "dwd/cities", "dws/by_user", "dws/events", "dws/active")}
LABEL = "date_format(at, 'yyyyMMddHH')"
BOUND = f"WHERE {LABEL} >= ${{start_date}} AND {LABEL} <= ${{end_date}}"
TIMED = {
    "dwd/timed": layer(
        "dwd.timed",
        "order_id",
        "SELECT order_id, user_id, "
        "to_timestamp(hour, 'yyyyMMddHH') + make_dt_interval(0, 0, order_id * 8 - 8) AS at "
        "FROM stg.orders WHERE amount IS NOT NULL OR order_id > 4",
        partitioned=False,
    ),
    "dwd/labelled": layer(
        "dwd.labelled", "order_id", f"SELECT order_id, at, {LABEL} AS hour FROM dwd.timed {BOUND}"
    ),
    "dws/hourly": layer(
        "dws.hourly",
        "user_id, hour",
        f"SELECT user_id, {LABEL} AS hour, count(*) AS cnt FROM dwd.timed {BOUND} GROUP BY user_id, 2",
    ),
    "dws/wall": layer(  # times without a zone, and no parameter that bounds them
        "dws.wall",
        "hour",
        "SELECT date_format(wall, 'yyyyMMddHH') AS hour, max(order_id) AS latest FROM dwd.wall GROUP BY hour",
    ),
    "dwd/named": layer(  # the time is a name that the query itself gives
        "dwd.named",
        "order_id",
        "SELECT order_id, at + INTERVAL '1' HOUR AS later, date_format(later, 'yyyyMMddHH') AS hour "
        "FROM dwd.timed",
    ),
    "dwd/wall": layer(
        "dwd.wall",
        "order_id",
        "SELECT order_id, CAST(at AS TIMESTAMP_NTZ) AS wall FROM dwd.timed",
        partitioned=False,
    ),
}
RANGES = [
    None,
    LabelRange(HOURS[1], HOURS[2]),
    LabelRange.exactly({HOURS[0], HOURS[2]}),
    LabelRange("0001010100", "9999123123"),
]


def counted(made: Harness, table: Table, held: Any, labels: LabelRange | None) -> Counter[tuple[Any, ...]]:
    rows = batch_rows(
        made.sessions.batch,
        made.registry,
        table,
        table.reached,
        labels=labels,
        held=held,
    ).toArrow()
    return Counter(zip(*(rows.column(n).to_pylist() for n in table.store.schema.stored_names), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("layers", [CHAIN, TIMED])
def test_the_driver_has_what_spark_reads(harness: Callable[..., Harness], layers: dict[str, str]) -> None:
    made = nine_orders(harness(layers, batch_settings=True), compacted=True)
    made.source.put("users", user_id=1, city="Oslo")
    made.source.put("orders", order_id=3, user_id=1, amount="50.00", hour=HOURS[2])  # some tail, too
    made.source.put("orders", order_id=10, user_id=None, amount=None, hour=None)
    made.source.delete("orders", 5)
    made.step()
    full = 0
    for table in made.derived:
        heads = warm_heads(made.registry, table)
        for labels in RANGES:
            held = held_rows(made.registry, table, heads, table.reached, labels)
            assert held is not None
            read = counted(made, table, None, labels)
            assert counted(made, table, held, labels) == read, (table.name, labels)
            full += len(read)
    assert full > 50


def test_only_the_rows_of_the_range_are_taken(harness: Callable[..., Harness]) -> None:
    made = nine_orders(harness({**CHAIN, **TIMED}, batch_settings=True), compacted=True)
    taken = {}
    for name in ("dwd.paid", "dwd.labelled", "dws.hourly", "dws.wall", "dwd.cities"):
        table = made.table(name)
        heads = warm_heads(made.registry, table)
        held = held_rows(made.registry, table, heads, table.reached, LabelRange(HOURS[1], HOURS[1]))
        assert held is not None
        taken[name] = [rows.num_rows for rows in held]
    assert taken == {
        "dwd.paid": [3],
        "dwd.labelled": [4],  # the ninth order is of the hour before, and later
        "dws.hourly": [4],
        "dws.wall": [4],
        "dwd.cities": [3, 0],
    }


def test_spark_reads_the_time_of_the_labels_alone(harness: Callable[..., Harness]) -> None:
    made = nine_orders(harness(TIMED, batch_settings=True), compacted=True)
    table = made.table("dwd.labelled")
    rows = batch_rows(
        made.sessions.batch, made.registry, table, table.reached, labels=LabelRange(HOURS[0], HOURS[0])
    )
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThanOrEqual(at,2026-11-20" in plan and "LessThan(at,2026-11-20" in plan


def test_what_spark_must_read(harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch) -> None:
    made = nine_orders(harness(CHAIN, batch_settings=True), compacted=True)
    table, labels = made.table("dwd.paid"), LabelRange(HOURS[0], HOURS[1])
    heads, reached = warm_heads(made.registry, table), table.reached
    assert held_rows(made.registry, table, dict.fromkeys(heads), reached, labels) is None  # not warm
    older = {name: version - 1 for name, version in reached.items()}
    assert held_rows(made.registry, table, heads, older, labels) is None
    made.limit(range_rows=5)  # six in the range
    assert held_rows(made.registry, table, heads, reached, labels) is None
    assert held_rows(made.registry, table, heads, reached, LabelRange(HOURS[0], HOURS[0])) is not None
