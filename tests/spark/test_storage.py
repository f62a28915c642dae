"""Merged files, retention and vacuum: live reads, parity, backfill and restart stay right."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from harness import Harness
from orders_chain import HOURS, LAYERS, nine_orders

from headrace.catalog import Catalog
from headrace.engine.compaction.compaction import compact, write_snapshot
from headrace.engine.compaction.maintenance import optimize
from headrace.engine.compaction.retention import Limits, record_progress, retain
from headrace.errors import NeedsResync

CHAIN = {k: LAYERS[k] for k in ("dwd/paid", "dws/by_user")}
LIMITS = Limits(changelog=10, vacuum=0, reader=20)


def order(warehouse: Harness, key: int, amount: int) -> None:
    hour = HOURS[key % 3]
    warehouse.source.put("orders", order_id=key, user_id=key % 2, amount=f"{amount}.00", hour=hour)


def tidy(warehouse: Harness, catalog: Catalog, hours: float, *, compacted: bool = True) -> None:
    """Compaction, merging and retention of all tables, some hours from now."""
    for table in warehouse.registry:
        catalog.register(table.spec, table.mode)
        catalog.observe(table.name, "RUNNING")
    for table in warehouse.registry:
        if compacted:
            compact(warehouse.sessions.batch, table, run_id="test")
        record_progress(table, run_id="test")
        optimize(table, bound=2)
        now = time.time() + 3600 * hours
        retain(table, warehouse.registry, catalog, LIMITS, now=now, renew=lambda _table: None)


@pytest.mark.long
def test_nothing_is_missed_after_retention(harness: Callable[..., Harness], catalog: Catalog) -> None:
    warehouse = harness(CHAIN)
    nine_orders(warehouse)
    for round_ in range(4):
        order(warehouse, round_ + 1, 100 + round_)
        warehouse.source.delete("orders", 9 - round_)
        warehouse.step()
    tidy(warehouse, catalog, 0)
    order(warehouse, 1, 1000)
    warehouse.feed()  # dwd and dws stay behind: their frontiers hold stg's snapshot
    tidy(warehouse, catalog, 11)
    tidy(warehouse, catalog, 22)
    stg, dwd = (warehouse.table(n).store for n in ("stg.orders", "dwd.paid"))
    assert stg.changelog.removed > 0 and dwd.changelog.removed > 0
    assert dwd.commit.upstreams["stg.orders"] == stg.version - 1
    warehouse.assert_parity()  # at the recorded frontier, behind stg's newest snapshot

    right = warehouse.rows("dws.by_user")
    warehouse.open()  # as a restarted server does
    assert warehouse.rows("dws.by_user") == right
    warehouse.advance()
    order(warehouse, 2, 2000)
    warehouse.step()
    warehouse.assert_parity()
    result = warehouse.backfill("dwd.paid", HOURS[0], HOURS[1])
    assert (result.inserted, result.updated, result.deleted) == (0, 0, 0)
    with pytest.raises(NeedsResync, match=r"are gone|no snapshot"):
        stg.frame(warehouse.sessions.batch, version=2).count()


def test_a_table_left_behind_needs_a_resync_and_gets_one(
    harness: Callable[..., Harness], catalog: Catalog
) -> None:
    warehouse = harness(CHAIN)
    nine_orders(warehouse)
    paid = warehouse.table("dwd.paid")
    for amount in (50, 60):
        order(warehouse, 1, amount)
        warehouse.source.delete("orders", 9 - amount // 10)
        warehouse.feed()
    stg = warehouse.table("stg.orders")
    compact(warehouse.sessions.batch, stg, run_id="test")
    for table in warehouse.registry:
        catalog.register(table.spec, table.mode)
        catalog.observe(table.name, "RUNNING")
    catalog.observe("dwd.paid", "SUSPENDED")
    said: list[str] = []
    for hours in (0, 30):
        now = time.time() + 3600 * hours
        said = retain(stg, warehouse.registry, catalog, LIMITS, now=now, renew=lambda _table: None)
    assert "`dwd.paid` is abandoned at version 1" in said[0]
    with pytest.raises(NeedsResync, match=r"headrace refresh dwd\.paid --all"):
        warehouse.advance()
    with pytest.raises(NeedsResync):
        warehouse.backfill("dwd.paid", HOURS[0], HOURS[1])
    result = warehouse.backfill("dwd.paid")
    assert result.updated + result.deleted + result.inserted > 0
    assert paid.store.commit.upstreams["stg.orders"] == stg.store.version
    warehouse.advance()
    warehouse.assert_parity()


def test_spark_writes_ranges_of_keys(
    harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.compaction.compaction.FILE_ROWS", 4)
    warehouse = harness({})
    for key in range(1, 41):
        order(warehouse, key * 7 % 41, key)
    warehouse.step()
    table = warehouse.table("stg.orders")
    store = table.store
    rows = store.frame(warehouse.sessions.batch)
    write_snapshot(table, rows, None, version=store.version, compacted=store.version, run_id="test")
    write_snapshot(table, rows, None, version=store.version, compacted=store.version, run_id="test")
    monkeypatch.setattr("headrace.store.live.resident.RESIDENT.budget", 0)
    index = store.open_index(store.pin)
    total = len(index.fragments((), {()}))
    assert total >= 9
    assert len(index.fragments(("order_id",), {(5,)})) <= 3, "at most one a partition"
    assert index.find(("order_id",), {(5,)}).num_rows == 1
    by_key = len(index.fragments(("order_id", "hour"), {(5, HOURS[5 % 3])}))
    assert by_key == 1
