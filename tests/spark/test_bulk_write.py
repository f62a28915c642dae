"""Rows of a bulk snapshot in a stg table: by Arrow and by Spark the same, and events after it win."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from harness import Captured, Harness
from harness import Source as Events

from headrace.engine.ingest.direct import agrees
from headrace.engine.snapshot.write import Cut, Target, commit_load, plan_query
from headrace.store.delta.parts import PREFIX, remove_uncommitted
from headrace.store.schema import KIND, VERSION

ODD = {
    "odd": Captured(
        (
            ("id", "bigint"), ("n", "numeric(12,2)"), ("wide", "numeric(38,10)"), ("note", "text"),
            ("at", "timestamp with time zone"), ("plain", "timestamp without time zone"), ("day", "date"),
            ("r", "real"), ("d", "double precision"), ("by", "bytea"), ("ok", "boolean"), ("s", "smallint"),
        ),
        ("id",),
    )
}  # fmt: skip
QUERY = """CREATE MATERIALIZED TABLE stg.odd PARTITIONED BY (h)
WITH ('partition.fields.h.date-formatter' = 'yyyyMMddHH') FRESHNESS = DOWNSTREAM AS
SELECT *, date_format(at, 'yyyyMMddHH') AS h FROM shop.public.odd
WHERE date_format(at, 'yyyyMMddHH') >= ${start_date} AND date_format(at, 'yyyyMMddHH') <= ${end_date}"""
BEGUN = datetime(2026, 11, 20, 10, tzinfo=UTC)


def odd(key: int, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(name for name, _ in ODD["odd"].columns)
    return row | {"id": key, "at": BEGUN + timedelta(minutes=key)} | values


ROWS = [
    odd(1, n=Decimal("9999999999.99"), wide=Decimal("-1234567890123456789012345678.0123456789"), note=""),
    odd(2, at=datetime(9000, 12, 31, 23, 59, 59, 999999, UTC), plain=datetime(1, 1, 1), r=float("nan")),
    odd(3, at=datetime(1970, 1, 1, tzinfo=UTC), d=float("-inf"), by=b"\x00\xff", ok=False, s=-32768),
    odd(4, at=datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),  # before the open range
    odd(5, at=None, note="no hour"),
    odd(6, note="a\n\"b,'\\N\t€", r=-0.0, d=5e-324, by=b"", ok=True, day=datetime(1582, 10, 10).date()),
    odd(200, n=Decimal("-0.01"), wide=Decimal("1E-10"), plain=datetime(9999, 12, 31, 23, 59, 59, 999999)),
]


def load(shop: Harness, rows: list[dict[str, Any]], *, by_arrow: bool = True, restart: int = 900) -> Target:
    table = shop.table("stg.odd")
    query = plan_query(table)
    assert (query is not None) == (table.store.version == 0)
    target = Target(table, query if by_arrow else None, shop.root / "staged")
    cut = Cut(restart, {"shop.public.odd": {0: 0}}, "load")
    for place in range(2):
        part = pa.Table.from_pylist(rows[place::2], schema=target.arrow)
        target.take(iter([part.slice(0, 1), part.slice(1)]), place, cut.sequence(table))
    commit_load(shop.sessions.batch, target, cut)
    target.discard()
    return target


@pytest.fixture
def empty(harness: Callable[..., Harness]) -> Callable[[], Harness]:
    return lambda: harness({"stg/odd": QUERY}, source=Events(ODD))


def dump(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


def test_arrow_gives_what_spark_does(empty: Callable[[], Harness]) -> None:
    shop = empty()
    table = shop.table("stg.odd")
    query = plan_query(table)
    assert query is not None
    sample = pa.Table.from_pylist(ROWS, schema=Target(table, query, Path()).arrow)
    assert agrees(shop.sessions.batch, table, query, sample)
    other = replace(query, bounds=())
    assert not agrees(shop.sessions.batch, table, other, sample)
    by_arrow, by_spark = empty(), empty()
    load(by_arrow, ROWS)
    load(by_spark, ROWS, by_arrow=False)
    assert dump(by_arrow.rows("stg.odd")) == dump(by_spark.rows("stg.odd"))
    assert [row[0] for row in by_arrow.rows("stg.odd")] == [1, 2, 200, 3, 6]


@pytest.mark.parametrize("by_arrow", [True, False])
def test_the_commit_says_all_and_other_engines_read_the_snapshot(
    empty: Callable[[], Harness], by_arrow: bool
) -> None:
    shop = empty()
    load(shop, ROWS, by_arrow=by_arrow)
    store = shop.table("stg.odd").store
    commit = store.commit
    assert (commit.version, commit.loaded, commit.rows, commit.kinds) == (1, 1, 5, {"+I": 5})
    assert commit.accounting["events"] == 7 and commit.accounting["filtered"] == 2
    assert commit.offsets == {"shop.public.odd": {0: 0}}
    assert commit.high == f"{0:04X}{899:016X}"
    assert store.pin.compacted == 1 and not store.cold
    with duckdb.connect() as engine:
        engine.register("snapshot", DeltaTable(str(store.snapshot.path)).to_pyarrow_dataset())
        found = engine.execute("SELECT id, h, n FROM snapshot WHERE id >= 6 ORDER BY id").fetchall()
    assert found == [(6, "2026112010", None), (200, "2026112013", Decimal("-0.01"))]
    changes = store.changelog.read(0, 1)
    assert set(changes.column(KIND).to_pylist()) == {"+I"} and set(changes.column(VERSION).to_pylist()) == {1}
    before = dump(shop.rows("stg.odd"))
    shop.open()  # a restarted server
    assert dump(shop.rows("stg.odd")) == before
    spark = shop.sessions.batch.read.format("delta").load(str(store.snapshot.path))
    assert spark.where("h = '2026112010' AND at >= TIMESTAMP '2026-11-20 10:06:00'").count() == 1


def test_events_after_the_snapshot_win_and_each_applies_once(empty: Callable[[], Harness]) -> None:
    shop = empty()
    load(shop, ROWS, restart=1_000)  # as old as the first event: a transaction that was under way
    shop.source.rows["odd"] = {row["id"]: json_row(row) for row in ROWS}
    shop.source.put("odd", **json_row(odd(1, note="changed")))
    shop.source.delete("odd", 3)
    shop.source.put("odd", **json_row(odd(7, note="new")))
    events = shop.source.take()
    shop.feed(events)
    shop.feed([])
    ids = {row[0]: row[3] for row in shop.rows("stg.odd")}
    assert ids == {1: "changed", 2: None, 6: ROWS[5]["note"], 7: "new", 200: None}
    commit = shop.table("stg.odd").store.commit
    assert (commit.version, commit.loaded) == (2, 1)
    assert (commit.accounting["inserted"], commit.accounting["updated"], commit.accounting["deleted"]) == (
        1,
        1,
        1,
    )


def test_a_load_that_was_interrupted_after_its_commit_is_corrected(empty: Callable[[], Harness]) -> None:
    shop = empty()
    load(shop, ROWS)
    again = [odd(1, note="changed meanwhile"), *ROWS[1:2], odd(8)]
    load(shop, again, restart=2_000)
    commit = shop.table("stg.odd").store.commit
    assert (commit.version, commit.loaded, commit.rows) == (2, 2, 3)
    assert {row[0]: row[3] for row in shop.rows("stg.odd")} == {1: "changed meanwhile", 2: None, 8: None}
    loaded = shop.table("stg.odd").store.loaded_rows(shop.sessions.batch)
    assert sorted(row["id"] for row in loaded.collect()) == [1, 2, 8]


def test_files_that_were_not_committed_are_removed(empty: Callable[[], Harness]) -> None:
    shop = empty()
    table = shop.table("stg.odd")
    target = Target(table, plan_query(table), shop.root / "staged")
    target.take(iter([pa.Table.from_pylist(ROWS, schema=target.arrow)]), 0, "")
    assert list(table.store.root.rglob(f"{PREFIX}*"))
    assert shop.rows("stg.odd") == []
    assert remove_uncommitted(table.store.root) == 1 + 4
    assert not list(table.store.root.rglob(f"{PREFIX}*"))


def test_an_empty_source_table_is_loaded_too(empty: Callable[[], Harness]) -> None:
    shop = empty()
    load(shop, [])
    assert shop.table("stg.odd").store.commit.loaded == 1
    assert shop.rows("stg.odd") == []


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    """The row as Debezium writes it, as far as these events need."""
    at = row["at"]
    plain: dict[str, Any] = dict.fromkeys(row)
    return plain | {"id": row["id"], "note": row["note"], "at": at and at.isoformat().replace("+00:00", "Z")}
