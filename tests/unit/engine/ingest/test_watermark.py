"""How far tables are in their sources' time: what micro-batches tell, and what follows for other tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from stored_support import append, made, no_jvm  # noqa: F401

from headrace.engine.ingest.gate import Gate
from headrace.engine.ingest.watermark import SourceTime, watermark
from headrace.engine.partitions.completion import PartitionCompletion
from headrace.engine.table.table import Registry
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.transactions import Transactions
from headrace.spec.model import SourceTable, TableName
from headrace.store.record.commits import Commit, latest
from headrace.store.record.watermark import KEPT, Watermark

ORDERS, MARKER, LOG = "shop.public.orders", "shop.public.headrace_marker", "shop.transaction"


def event(
    topic: str, ms: int, *, op: str | None = "c", transaction: str | None = None, value: str = "{}"
) -> Event:
    return Event(topic, 0, 0, "{}", op, None, "{}", 1, ms, None, value.encode(), transaction)


def begin(name: str) -> Event:
    return event(LOG, 0, op=None, value=json.dumps({"status": "BEGIN", "id": f"{name}:1", "ts_ms": 1}))


def end(name: str, ms: int, orders: int = 0) -> Event:
    counts = [{"data_collection": "public.orders", "event_count": orders}] if orders else []
    content = {"status": "END", "id": f"{name}:9", "ts_ms": ms, "data_collections": counts}
    return event(LOG, 0, op=None, value=json.dumps(content))


class Flowing:
    """A flow's stg table, and the micro-batches that it applies."""

    def __init__(self, *, announced: bool) -> None:
        gate = Gate([Transactions(LOG, [ORDERS])] if announced else [])
        store = SimpleNamespace(version=0, watermark=Watermark(), commit=Commit("stg.orders", "stream", 0))
        source = SourceTable("shop", "public", "orders")
        name = TableName("stg", "orders")
        self.table: Any = SimpleNamespace(name=name, store=store, spec=SimpleNamespace(source=source))
        self.active = {name}
        self.gate, self.time = gate, SourceTime(gate)

    def batch(self, *events: Event, whole: bool = True) -> int:
        """The watermark after a micro-batch of these messages."""
        ready, _ = self.gate.admit(events, {})
        self.table.store.version += 1
        self.time.small(ready, [self.table], self.active, whole=whole)
        return int(self.table.store.watermark.newest)

    def large(self, newest: int, *, whole: bool = True) -> int:
        self.table.store.version += 1
        self.table.store.commit = replace(self.table.store.commit, source_ms=newest)
        self.time.large([self.table], self.active, whole=whole)
        return int(self.table.store.watermark.newest)


# -- of a stg table ---------------------------------------------------------------------------------------


def test_a_transaction_that_came_in_whole_moves_it() -> None:
    flow = Flowing(announced=True)
    assert flow.batch(begin("7"), event(ORDERS, 500, transaction="7"), end("7", 500, orders=1)) == 500
    assert flow.batch(begin("8"), end("8", 600)) == 600  # of another table, such as a heartbeat's


def test_one_that_is_not_whole_holds_it_and_all_after_it() -> None:
    flow = Flowing(announced=True)
    first = event(ORDERS, 500, transaction="7")
    assert flow.batch(begin("7"), first, end("7", 500, orders=2), begin("8"), end("8", 600)) == 0
    assert flow.batch(begin("9"), end("9", 700)) == 0
    assert flow.batch(event(ORDERS, 500, transaction="7")) == 700


def test_a_batch_that_left_something_behind_moves_nothing() -> None:
    flow = Flowing(announced=True)
    assert flow.batch(begin("7"), end("7", 500), whole=False) == 0
    assert flow.batch() == 500


def test_without_announcements_a_batch_counts_when_the_next_one_is_in() -> None:
    flow = Flowing(announced=False)
    assert flow.batch(event(ORDERS, 500), event(MARKER, 510, op="u")) == 0
    assert flow.batch(event(ORDERS, 505)) == 510
    assert flow.batch(event(MARKER, 900, op="u"), whole=False) == 510
    assert flow.batch() == 510


def test_a_first_snapshot_tells_nothing() -> None:
    flow = Flowing(announced=False)
    flow.batch(event(ORDERS, 500, op="r"))
    assert flow.batch() == 0
    assert flow.large(600) == 0 == flow.large(700)


def test_large_batches_move_it_one_after_the_other() -> None:
    flow = Flowing(announced=True)
    flow.batch(begin("7"), event(ORDERS, 500, transaction="7"), end("7", 500, orders=1))
    assert flow.large(800) == 500
    assert flow.large(900, whole=False) == 500
    assert flow.large(950) == 800


def test_a_table_that_left_its_flow_stays_where_it_is() -> None:
    flow = Flowing(announced=True)
    flow.batch(begin("7"), end("7", 500))
    flow.active.clear()
    assert flow.batch(begin("8"), end("8", 600)) == 500


def test_a_message_without_a_time_is_no_progress() -> None:
    flow = Flowing(announced=True)
    flow.batch(begin("7"), end("7", 500))
    old = {"status": "END", "id": "8:9", "data_collections": []}
    assert flow.batch(begin("8"), event(LOG, 0, op=None, value=json.dumps(old))) == 500
    assert flow.gate.sources[0].complete_ms == 500


# -- by version -------------------------------------------------------------------------------------------


def test_marks_rise_with_versions() -> None:
    mark = Watermark()
    assert (mark.newest, mark.at(9)) == (0, 0)
    mark.move(3, 0)
    for version, ms in ((3, 100), (3, 150), (5, 200), (4, 999), (6, 180), (7, 300)):
        mark.move(version, ms)
    assert [mark.at(v) for v in (2, 3, 4, 5, 6, 7, 8)] == [0, 150, 150, 200, 200, 300, 300]
    assert mark.newest == 300


def test_old_versions_are_forgotten_and_never_guessed() -> None:
    mark = Watermark()
    for version in range(KEPT + 2):
        mark.move(version, version + 1)
    assert mark.at(5) == 0 and mark.at(KEPT) == KEPT + 1 and len(mark) <= KEPT


# -- of a derived table -----------------------------------------------------------------------------------


def tables() -> tuple[Any, Any, Any, Registry]:
    """Two tables, and one that reads both."""

    def table(name: str, *upstreams: TableName) -> Any:
        store = SimpleNamespace(version=1, watermark=Watermark(), commit=Commit(name, "stream", 1))
        parsed = TableName.parse(name)
        return SimpleNamespace(
            name=parsed,
            store=store,
            spec=SimpleNamespace(upstreams=upstreams, partition_format=None),
            reached={},
        )

    left, right = table("stg.a"), table("stg.b")
    joined = table("dwd.c", left.name, right.name)
    return left, right, joined, Registry({t.name: t for t in cast("Any", (left, right, joined))})


def test_it_is_the_least_of_its_upstreams_at_what_it_has_reached() -> None:
    left, right, joined, registry = tables()
    left.store.watermark.move(1, 100)
    left.store.watermark.move(2, 200)
    right.store.watermark.move(1, 150)
    assert watermark(registry, joined) == 0
    joined.reached = {"stg.a": 1, "stg.b": 1}
    assert watermark(registry, joined) == 100
    joined.reached = {"stg.a": 2, "stg.b": 1}
    assert watermark(registry, joined) == 150
    right.store.watermark.move(1, 180)  # heartbeats move a table on whose version stays
    assert watermark(registry, joined) == 180


def test_tables_without_partitions_pass_it_on() -> None:
    left, right, joined, registry = tables()
    for table in (left, right):
        table.store.watermark.move(1, 100)
    joined.reached = {"stg.a": 1, "stg.b": 1}
    nothing = cast("Any", None)
    PartitionCompletion(nothing, registry, {}, runs=nothing, loading=nothing).look()
    assert joined.store.watermark.newest == 100


def test_it_never_goes_back() -> None:
    left, right, joined, registry = tables()
    for table in (left, right):
        table.store.watermark.move(1, 100)
    joined.reached = {"stg.a": 1, "stg.b": 1}
    assert watermark(registry, joined) == 100
    joined.reached = {}
    assert watermark(registry, joined) == 100


def test_only_a_rewind_takes_it_back() -> None:
    marks = Watermark()
    marks.move(3, 100)
    marks.move(4, 200)
    marks.move(5, 150)
    assert marks.newest == 200
    marks.go_back(6, 100)
    assert (marks.newest, marks.at(5), marks.at(6)) == (100, 200, 100)
    marks.move(7, 120)
    assert (marks.at(6), marks.at(7)) == (100, 120)


# -- on disk ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_jvm")
def test_each_commit_says_it_and_a_restart_goes_on_from_there(tmp_path: Path) -> None:
    table = made(tmp_path)
    append(table, ("+I", 1, "1.00"))
    assert table.commit.watermark_ms == 0
    table.watermark.move(table.version, 12_345)
    append(table, ("+I", 2, "1.00"))
    found = latest(table.changelog.path)
    assert found is not None and found[1].watermark_ms == 12_345
    reopened = made(tmp_path)
    assert (reopened.watermark.newest, reopened.watermark.at(1)) == (12_345, 0)


def test_a_record_from_before_has_none() -> None:
    assert Commit.decode('{"table": "dwd.t", "mode": "stream", "version": 4}').watermark_ms == 0
