"""Rows of every table add up, whatever wrote them; what does not is told."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from feeding import feed_large
from harness import Harness
from orders_chain import HOURS, LAYERS, change, corrupt, nine_orders

from headrace.engine.compaction.compaction import compact
from headrace.engine.proof.accounting import accounting
from headrace.errors import TerminalError
from headrace.results import CommitAccount
from headrace.store.record.account import accounts
from headrace.store.record.commits import HISTORY, told
from headrace.store.tables import StoredTable

CHAIN = {name: LAYERS[name] for name in ("dwd/paid", "dws/by_user", "dws/top")}


def unbalanced(warehouse: Harness) -> dict[str, list[str]]:
    found = {str(table.name): accounting(table).problems for table in warehouse.registry}
    return {name: what for name, what in found.items() if what}


def newest_accounts(warehouse: Harness, name: str) -> list[CommitAccount]:
    return accounts(told(warehouse.table(name).store.changelog.path, HISTORY))


@pytest.mark.long
def test_all_tables_add_up_at_every_step(harness: Callable[..., Harness]) -> None:
    """Refreshes of few and of many rows, a first load, backfills, compactions and a restart."""
    warehouse, chance = harness(CHAIN), Random(3)
    for step in range(4):
        for _ in range(9):
            change(warehouse.source, chance)
        if step == 2:
            warehouse.limit(small=0, changed=0)  # all of it by Spark
        if step == 3:
            for name in ("users", "orders"):
                events = [e for e in warehouse.source.events if e.topic.endswith(name)]
                if events:
                    feed_large(warehouse, warehouse.table(f"stg.{name}"), events)
            warehouse.source.take()
        warehouse.step()
        if step == 1:
            warehouse.backfill("dws.by_user")
        for table in warehouse.registry:
            if step % 2:
                compact(warehouse.sessions.batch, table, run_id="test")
        assert not unbalanced(warehouse), step
    warehouse.open()
    assert not unbalanced(warehouse)
    for table in warehouse.registry:
        found = accounting(table)
        assert (found.rows, found.version) == (len(warehouse.rows(str(table.name))), table.store.version)
        assert found.commits == found.version
        assert found.snapshot_rows is not None


def test_a_commit_says_what_it_read_and_what_it_did(harness: Callable[..., Harness]) -> None:
    warehouse = nine_orders(harness(CHAIN))
    source = warehouse.source
    source.put("orders", order_id=1, user_id=1, amount="1.50", hour=HOURS[1])
    source.put("orders", order_id=10, user_id=0, amount="0.00", hour=HOURS[1])
    source.delete("orders", 2)
    warehouse.step()
    newest, first, *_ = newest_accounts(warehouse, "dwd.paid")
    assert (newest.reads, newest.before, newest.after) == ({"stg.orders": 4}, 9, 8)
    assert (newest.inserted, newest.updated, newest.deleted) == (0, 1, 1)
    assert (first.reads, first.before, first.inserted, first.after) == ({"stg.orders": 9}, 0, 9, 9)
    events = newest_accounts(warehouse, "stg.orders")[0].events
    assert {name: n for name, n in events.items() if n} == {
        "events": 3,
        "inserted": 1,
        "updated": 1,
        "deleted": 1,
    }


def test_a_backfill_that_mends_damage_counts_what_it_finds(harness: Callable[..., Harness]) -> None:
    warehouse = nine_orders(harness(CHAIN), compacted=True)
    corrupt(warehouse, "dwd.paid", HOURS[0])
    [told] = unbalanced(warehouse)["dwd.paid"]
    assert told == "version 1 has 9 rows, its snapshot's files have 6"
    warehouse.backfill("dwd.paid")
    assert not unbalanced(warehouse)
    mended = newest_accounts(warehouse, "dwd.paid")[0]
    assert (mended.mode, mended.before, mended.miscounted) == ("backfill", 9, -3)
    assert (mended.inserted, mended.after) == (3, 9)
    warehouse.step()
    warehouse.assert_parity()


def test_rows_that_do_not_add_up_fail_the_refresh(
    harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = nine_orders(harness(CHAIN))
    warehouse.source.put("orders", order_id=10, user_id=0, amount="1.00", hour=HOURS[1])
    append = StoredTable.append

    def lossy(self: StoredTable, changes: Any, commit: Any, **more: Any) -> None:
        append(self, changes.slice(1), commit, **more)

    monkeypatch.setattr(StoredTable, "append", lossy)
    with pytest.raises(TerminalError, match=r"`stg.orders`: its events have changed \(1, 0, 0\) rows"):
        warehouse.feed()
    monkeypatch.undo()
    assert warehouse.table("stg.orders").store.version == 1
