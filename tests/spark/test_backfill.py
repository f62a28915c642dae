"""Backfill is exact and quiet: it corrects what is wrong, says so to consumers, and leaves the rest alone."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest
from deltalake import DeltaTable
from harness import Harness
from orders_chain import HOURS, LAYERS, corrupt, files, nine_orders

from headrace.engine.compaction.compaction import compact

CHAIN = {k: LAYERS[k] for k in ("dwd/paid", "dws/by_user")}


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> Harness:
    return nine_orders(harness(CHAIN, batch_settings=True))


def test_a_correct_range_emits_nothing_and_keeps_other_files(warehouse: Harness) -> None:
    compact(warehouse.sessions.batch, warehouse.table("dws.by_user"), run_id="test")
    before, version = files(warehouse, "dws.by_user"), warehouse.table("dws.by_user").store.version
    result = warehouse.backfill("dws.by_user", HOURS[0], HOURS[1])
    after = files(warehouse, "dws.by_user")
    assert (result.inserted, result.updated, result.deleted) == (0, 0, 0)
    assert result.partitions == [HOURS[0], HOURS[1]]
    assert warehouse.table("dws.by_user").store.version == version
    assert before[f"hour={HOURS[2]}"] == after[f"hour={HOURS[2]}"]
    assert before[f"hour={HOURS[0]}"] != after[f"hour={HOURS[0]}"]


def test_a_wrong_range_is_corrected_and_consumers_follow(warehouse: Harness) -> None:
    right = warehouse.rows("dwd.paid"), warehouse.rows("dws.by_user")
    corrupt(warehouse, "dwd.paid", HOURS[1])
    corrupt(warehouse, "dws.by_user", HOURS[1])
    assert not warehouse.verify("dwd.paid").equal
    result = warehouse.backfill("dwd.paid", HOURS[1], HOURS[1])
    assert result.inserted == 3
    warehouse.advance()
    assert (warehouse.rows("dwd.paid"), warehouse.rows("dws.by_user")) == right
    warehouse.assert_parity()
    origins = warehouse.table("dwd.paid").store.changelog.read(1, 99).column("_origin").to_pylist()
    assert origins == ["backfill"] * 3


def test_the_stream_goes_on_beside_and_after_a_backfill(warehouse: Harness) -> None:
    corrupt(warehouse, "dwd.paid", HOURS[0])
    warehouse.source.put("orders", order_id=3, user_id=1, amount="50.00", hour=HOURS[0])
    warehouse.step()
    warehouse.backfill("dwd.paid", HOURS[0], HOURS[0])
    warehouse.source.put("orders", order_id=6, user_id=1, amount="60.00", hour=HOURS[2])
    warehouse.step()
    warehouse.assert_parity()


def test_keys_the_stream_moved_meanwhile_are_left_alone(warehouse: Harness) -> None:
    """The batch result belongs to an older version: what the stream changed since is already right."""
    table = warehouse.table("dwd.paid")
    at = table.store.version
    from headrace.engine.rows.batch_rows import batch_rows

    corrupt(warehouse, "dwd.paid", HOURS[0])
    expected = batch_rows(
        warehouse.sessions.batch, warehouse.registry, table, table.store.commit.upstreams
    ).localCheckpoint()
    warehouse.source.put("orders", order_id=3, user_id=1, amount="50.00", hour=HOURS[0])
    warehouse.step()
    from headrace.engine.backfill.backfill import backfill
    from headrace.progress import Progress

    backfill(
        warehouse.sessions, warehouse.registry, table, None,
        expected=expected, version=at, run_id="test", progress=Progress(),
    )  # fmt: skip
    warehouse.advance()
    warehouse.assert_parity()


def test_skip_policy_ignores_corrections(harness: Callable[..., Harness]) -> None:
    skipping = CHAIN["dws/by_user"].replace("'yyyyMMddHH')", "'yyyyMMddHH', 'correction.policy' = 'skip')", 1)
    made = harness({**CHAIN, "dws/by_user": skipping})
    made.source.put("orders", order_id=1, user_id=1, amount="1.00", hour=HOURS[0])
    made.step()
    before = made.rows("dws.by_user")
    corrupt(made, "dwd.paid", HOURS[0])
    corrupt(made, "dws.by_user", HOURS[0])
    made.backfill("dwd.paid", HOURS[0], HOURS[0])
    made.advance()
    assert made.rows("dws.by_user") == []
    made.backfill("dws.by_user", HOURS[0], HOURS[0])
    assert made.rows("dws.by_user") == before


def test_other_engines_read_the_snapshot(warehouse: Harness) -> None:
    compact(warehouse.sessions.batch, warehouse.table("dws.by_user"), run_id="test")
    snapshot = DeltaTable(str(warehouse.table("dws.by_user").store.snapshot.path)).to_pyarrow_table()
    read = duckdb.from_arrow(snapshot).select("user_id, cnt, amount, hour").fetchall()
    live = [(u, c, a, h) for u, h, c, a in warehouse.rows("dws.by_user")]
    assert sorted(read) == sorted(live)
