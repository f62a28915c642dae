"""Write, audit, publish: critical expectations hold before a commit, in stream and batch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Harness, layer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.errors import ConstraintViolated, SpecError, TerminalError
from headrace.quality.blocking import blocking
from headrace.quality.gx import validate
from headrace.quality.suites import suite_of
from headrace.spec.table import load_table

pytestmark = pytest.mark.spark

HOURS = "dws.by_hour"
LAYERS = {
    "dwd/orders": layer("dwd.orders", "order_id", "SELECT order_id, user_id, amount, hour FROM stg.orders"),
    "dws/by_hour": layer(
        HOURS, "hour", "SELECT hour, COUNT(*) AS cnt, SUM(amount) AS amount FROM dwd.orders GROUP BY hour"
    ),
}
ROWS = "checks:\n  - type: expect_column_values_to_be_between\n    kwargs: {column: cnt, max_value: 2}\n"
SETS = "checks:\n  - type: expect_column_sum_to_be_between\n    kwargs: {column: cnt, max_value: 3}\n"


def write(warehouse: Harness, table: str, text: str | None) -> None:
    file = warehouse.table(table).spec.path.with_name(f"{table.split('.')[1]}.checks.yml")
    if text is None:
        file.unlink()
        return
    file.write_text(text)
    stamp = file.stat().st_mtime_ns + 1_000_000
    os.utime(file, ns=(stamp, stamp))


@pytest.fixture(params=["driver", "cluster"])
def warehouse(harness: Callable[..., Harness], request: pytest.FixtureRequest) -> Harness:
    made = harness(LAYERS)
    if request.param == "cluster":
        made.limit(small=-1, changed=-1)
    for order in (1, 2):
        made.source.put("orders", order_id=order, user_id=1, amount="1.00", hour="2026112010")
    made.step()
    return made


def test_a_bad_row_is_stopped_in_the_stream_and_comes_in_once_it_may(warehouse: Harness) -> None:
    write(warehouse, HOURS, ROWS)
    before = warehouse.rows(HOURS)
    warehouse.source.put("orders", order_id=3, user_id=1, amount="1.00", hour="2026112010")
    with pytest.raises(ConstraintViolated, match=r"by_hour.checks.yml:2:5: .*break expectation.*2026112010"):
        warehouse.step()
    assert warehouse.rows(HOURS) == before and len(warehouse.rows("dwd.orders")) == 3
    write(warehouse, HOURS, ROWS.replace("max_value: 2", "max_value: 3"))
    warehouse.advance()
    assert warehouse.rows(HOURS) != before
    warehouse.assert_parity()


def test_a_stg_table_is_held_to_its_own(warehouse: Harness) -> None:
    write(warehouse, "stg.orders", ROWS.replace("column: cnt", "column: order_id"))
    warehouse.source.put("orders", order_id=3, user_id=1, amount="1.00", hour="2026112010")
    events = warehouse.source.take()
    with pytest.raises(ConstraintViolated, match=r"orders.checks.yml.*'order_id': 3"):
        warehouse.feed(list(events))
    assert warehouse.table("stg.orders").store.version == 1
    write(warehouse, "stg.orders", None)
    warehouse.advance(warehouse.feed(list(events)))
    warehouse.assert_parity()


def test_a_bad_batch_leaves_the_partitions_as_they_were(warehouse: Harness) -> None:
    warehouse.source.put("orders", order_id=3, user_id=1, amount="1.00", hour="2026112011")
    warehouse.source.put("orders", order_id=4, user_id=1, amount="1.00", hour="2026112011")
    write(warehouse, HOURS, SETS)
    warehouse.step()  # of a stream's rows together nothing is asked
    store = warehouse.table(HOURS).store
    before, version, snapshot = warehouse.rows(HOURS), store.version, store.snapshot.newest()
    with pytest.raises(ConstraintViolated, match=r"checks.yml:2:5: .*2 rows.*observed: 4.*as they were"):
        warehouse.backfill(HOURS)
    assert (store.version, store.snapshot.newest()) == (version, snapshot)
    assert warehouse.backfill(HOURS, "2026112010", "2026112010").partitions  # its own rows are right
    write(warehouse, HOURS, SETS.replace("max_value: 3", "max_value: 4"))
    warehouse.backfill(HOURS)
    assert warehouse.rows(HOURS) == before


def test_what_cannot_be_asked_is_told_with_its_place(warehouse: Harness) -> None:
    write(warehouse, HOURS, ROWS.replace("column: cnt", "column: cmt"))
    warehouse.source.put("orders", order_id=3, user_id=1, amount="1.00", hour="2026112010")
    with pytest.raises(TerminalError, match=r"by_hour.checks.yml:2:5: .*cannot be evaluated.*`cmt`"):
        warehouse.step()
    write(warehouse, HOURS, ROWS)
    with pytest.raises(ConstraintViolated):
        warehouse.advance()
    write(warehouse, HOURS, "checks: 7\n")  # what was right before counts
    with pytest.raises(ConstraintViolated):
        warehouse.advance()
    warehouse.open()
    with pytest.raises(SpecError, match="`checks` must be a list"):
        warehouse.advance()


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("column_values_to_not_be_null", {"column": "n"}),
    ("column_values_to_be_null", {"column": "t"}),
    ("column_values_to_be_between", {"column": "n", "min_value": 1, "strict_min": True}),
    ("column_values_to_be_between", {"column": "d", "min_value": 0.1, "max_value": 1.5}),
    ("column_values_to_be_between", {"column": "d", "max_value": 1.5, "strict_max": True}),
    ("column_values_to_be_in_set", {"column": "t", "value_set": ["a", "it's \\ here"]}),
    ("column_values_to_not_be_in_set", {"column": "n", "value_set": [1, 7]}),
    ("column_values_to_match_regex", {"column": "t", "regex": r"^[a-z]\d?$"}),
    ("column_values_to_not_match_regex", {"column": "t", "regex": r"\\"}),
    ("column_value_lengths_to_be_between", {"column": "t", "min_value": 1, "max_value": 2}),
    ("column_value_lengths_to_equal", {"column": "t", "value": 1}),
    ("column_values_to_be_between", {"column": "n", "min_value": 2, "row_condition": "t = 'a'"}),
]
VALUES = [
    (1, None, None, None), (2, 1, "a", "0.10"), (3, 2, "", "1.50"), (4, 7, "a1", "1.51"),
    (5, -1, "it's \\ here", "0.00"), (6, 1, "ä", "1.00"),
]  # fmt: skip


def test_sql_says_what_gx_says(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "layers" / "dws" / "t.sql"
    file.parent.mkdir(parents=True)
    file.write_text(layer("dws.t", "id", "SELECT id FROM dwd.x", partitioned=False))
    checks = [
        {"type": f"expect_{kind}", "kwargs": kwargs, "name": f"c{i}"}
        for i, (kind, kwargs) in enumerate(ASKED)
    ]
    file.with_name("t.checks.yml").write_text(json.dumps({"checks": checks}))
    suite = suite_of(load_table(file))
    assert suite is not None
    rows = spark.createDataFrame(VALUES, "id int, n bigint, t string, d string").withColumn(
        "d", F.expr("CAST(d AS DECIMAL(12, 2))")
    )
    rules = blocking(suite, ("id",)).rows
    assert len(rules) == len(ASKED)
    broken = [F.expr(f"count_if(NOT coalesce(({r.holds}), false))").alias(r.name) for r in rules]
    mine = rows.agg(*broken).collect()[0].asDict()
    gx = {r.constraint: (r.error, r.violations) for r in validate(rows, suite, table="dws.t")}
    assert gx == {name: (None, n) for name, n in mine.items()}
    assert all(mine.values())
