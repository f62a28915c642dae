"""Immutable partitions: what stays as it is, whatever the stream, a backfill or another text brings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, RANGE, corrupt, files, nine_orders

from headrace.engine.compaction.compaction import compact
from headrace.engine.partitions.run_modes import SETTLED, settle
from headrace.engine.proof.parity import verify_batch
from headrace.engine.statements.immutable import Bounds
from headrace.engine.table.immutable import follow_declared, protect, refuse
from headrace.errors import TerminalError, TransientError
from headrace.progress import Progress
from headrace.results import ImmutableResult
from headrace.spec.partitions.label_range import LabelRange

OLD, OPEN, NEW = HOURS
BY_USER, BY_CITY, LINES = "dws.by_user", "dws.by_city", "dws.lines"
KEPT = {
    **{name: LAYERS[name] for name in ("dwd/paid", "dwd/cities", "dws/by_user", "dws/by_city")},
    "dws/lines": layer(LINES, "order_id, hour", f"SELECT order_id, hour, amount FROM dwd.paid {RANGE}"),
    "dws/hours": layer(
        "dws.hours", "hour", f"SELECT hour, sum(amount) AS amount FROM dws.lines {RANGE} GROUP BY hour"
    ),
}
TABLES = (BY_USER, BY_CITY, LINES)


def of_hour(warehouse: Harness, table: str, hour: str) -> list[tuple[Any, ...]]:
    return [row for row in warehouse.rows(table) if hour in row]


def moved(warehouse: Harness, table: str, before: str | None, *, desired: str = "RUNNING") -> ImmutableResult:
    supervisor = SimpleNamespace(
        registry=warehouse.registry,
        arranging=threading.RLock(),
        flows=[],
        admission=SimpleNamespace(paused=set()),
        catalog=SimpleNamespace(desired=lambda _: desired),
        resume=lambda flow, found: None,
    )
    publication = cast("Any", SimpleNamespace(corrected=lambda _: None))
    work = Bounds(warehouse.sessions, cast("Any", supervisor), publication, "test")
    return work.move(warehouse.table(table), before, Progress())


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> Harness:
    found = harness(KEPT)
    for user in (0, 1):
        found.source.put("users", user_id=user, city=("Oslo", "Lima")[user])
    return nine_orders(found, compacted=True)


def late(warehouse: Harness) -> None:
    """Every kind of change, in each of the three hours."""
    source = warehouse.source
    for number, hour in enumerate(HOURS):
        source.put("orders", order_id=20 + number, user_id=1, amount="7.00", hour=hour)
        source.put("orders", order_id=30 + number, user_id=7, amount="7.00", hour=hour)
    for key in (1, 2, 3):
        source.put("orders", order_id=key, user_id=0, amount="0.50", hour=HOURS[key % 3])
    for key in {4, 5, 6} & source.rows["orders"].keys():
        source.delete("orders", key)
    source.put("orders", order_id=9, user_id=1, amount="9.00", hour=NEW)  # leaves the oldest hour
    source.put("users", user_id=0, city="Rome")
    warehouse.step()


@pytest.mark.parametrize("small", [-1, 20_000], ids=["large", "small"])
def test_changes_of_immutable_partitions_are_left_out(warehouse: Harness, small: int) -> None:
    warehouse.limit(small=small, changed=small)
    rounds = 1 if small < 0 else 2
    before = {name: of_hour(warehouse, name, OLD) for name in TABLES}
    opened = {name: of_hour(warehouse, name, OPEN) for name in TABLES}
    for name in TABLES:
        moved(warehouse, name, OPEN)
    for _ in range(rounds):
        late(warehouse)
        for name in TABLES:
            assert of_hour(warehouse, name, OLD) == before[name]
            assert of_hour(warehouse, name, OPEN) != opened[name]
            assert warehouse.table(name).store.commit.immutable_before == OPEN
        warehouse.assert_parity()  # of what reads them, too
        for table in warehouse.registry:
            compact(warehouse.sessions.batch, table, run_id="test")
        warehouse.open()  # what is immutable stands in the tables' own commits
    for name in TABLES:  # the proof, too, leaves out what is immutable, and says so
        result = warehouse.verify(name)
        assert result.equal and result.immutable_before == OPEN, result.sample
    assert warehouse.table(LINES).store.commit.rows == len(warehouse.rows(LINES))


def test_a_backfill_leaves_their_very_files(warehouse: Harness) -> None:
    corrupt(warehouse, BY_USER, OPEN)
    corrupt(warehouse, BY_USER, OLD)
    warehouse.open()
    moved(warehouse, BY_USER, OPEN)
    kept = files(warehouse, BY_USER).get(f"hour={OLD}")
    assert of_hour(warehouse, BY_USER, OPEN) == []
    result = warehouse.backfill(BY_USER)
    assert (result.start, result.inserted) == (OPEN, 2)
    assert of_hour(warehouse, BY_USER, OLD) == []
    warehouse.assert_parity()
    assert warehouse.backfill(BY_USER, OLD, NEW).start == OPEN
    only = warehouse.backfill(BY_USER, OLD, OLD)
    assert (only.partitions, only.rows, only.inserted) == ([], 0, 0)
    assert files(warehouse, BY_USER).get(f"hour={OLD}") == kept
    with pytest.raises(TerminalError, match=f"partitions before '{OPEN}' are immutable.*RESET IMMUTABLE"):
        refuse(warehouse.table(BY_USER), OLD)
    refuse(warehouse.table(BY_USER), OPEN)


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_opened_again_they_are_what_the_query_gives(warehouse: Harness, name: str) -> None:
    moved(warehouse, name, NEW)
    late(warehouse)
    assert moved(warehouse, name, OPEN).before == OPEN
    warehouse.assert_parity()
    result = moved(warehouse, name, None)
    assert result.was == OPEN and (done := result.refreshed) is not None
    assert done.inserted + done.updated + done.deleted > 0
    assert warehouse.verify(name).immutable_before == ""
    warehouse.assert_parity()
    assert moved(warehouse, name, None).refreshed is None


def test_what_changes_while_they_open_is_not_lost(
    warehouse: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.engine.backfill import backfill as backfill_module

    moved(warehouse, BY_USER, NEW)
    few = backfill_module.few_corrections

    def changed_meanwhile(*args: Any) -> Any:
        found = few(*args)
        late(warehouse)
        return found

    with monkeypatch.context() as patch, pytest.raises(TransientError, match="changed meanwhile"):
        patch.setattr(backfill_module, "few_corrections", changed_meanwhile)
        moved(warehouse, BY_USER, None)
    assert warehouse.table(BY_USER).store.commit.immutable_before == NEW
    moved(warehouse, BY_USER, None)
    warehouse.assert_parity()


def test_what_a_file_declares_is_closed_once_there_are_rows(harness: Callable[..., Harness]) -> None:
    text = KEPT["dws/by_user"].replace(" AS SELECT", f" IMMUTABLE WHERE (hour < '{OPEN}') AS SELECT")
    warehouse = harness({"dwd/paid": LAYERS["dwd/paid"], "dws/by_user": text})
    table = warehouse.table(BY_USER)
    follow_declared(warehouse.registry, run_id="test")
    assert table.store.version == 0
    nine_orders(warehouse)
    follow_declared(warehouse.registry, run_id="test")
    assert table.store.commit.immutable_before == OPEN
    assert len(of_hour(warehouse, BY_USER, OLD)) == 2  # the history was computed first
    version = table.store.version
    follow_declared(warehouse.registry, run_id="test")
    assert table.store.version == version
    with pytest.raises(TerminalError, match=r"by_user\.sql: IMMUTABLE WHERE .* Next: edit the file"):
        moved(warehouse, BY_USER, None)
    late(warehouse)
    warehouse.assert_parity()


def test_only_tables_whose_rows_stay_in_their_partition(warehouse: Harness) -> None:
    with pytest.raises(TerminalError, match="its key lacks the partition column `hour`"):
        moved(warehouse, "dwd.paid", OPEN)
    with pytest.raises(TerminalError, match="a stg table follows its source"):
        moved(warehouse, "stg.orders", OPEN)
    with pytest.raises(TerminalError, match="'today' is no partition"):
        moved(warehouse, BY_USER, "today")


def test_a_table_without_rows_waits(harness: Callable[..., Harness]) -> None:
    warehouse = harness(KEPT)
    with pytest.raises(TransientError, match="has no rows yet"):
        moved(warehouse, BY_USER, OPEN)
    assert not protect(warehouse.table(BY_USER), OPEN, run_id="test")


def test_start_mode_leaves_history_out_until_it_is_opened(harness: Callable[..., Harness]) -> None:
    start = "START_MODE = FROM_TIMESTAMP('2026-11-20 11:30:00') AS SELECT"
    text = KEPT["dws/by_user"].replace("AS SELECT", start)
    warehouse = nine_orders(harness({"dwd/paid": LAYERS["dwd/paid"], "dws/by_user": text}))
    assert {row[1] for row in warehouse.rows(BY_USER)} == {OPEN, NEW}
    late(warehouse)
    warehouse.assert_parity()
    warehouse.open()
    assert {row[1] for row in warehouse.rows(BY_USER)} == {OPEN, NEW}
    moved(warehouse, BY_USER, None)
    assert {row[1] for row in warehouse.rows(BY_USER)} == set(HOURS)
    warehouse.assert_parity()


def test_a_business_period_is_settled_by_the_batch_and_closed(warehouse: Harness) -> None:
    corrupt(warehouse, BY_USER, OLD)
    warehouse.open()
    close = settle(
        lambda table, span: verify_batch(warehouse.sessions.batch, warehouse.registry, table, span),
        warehouse.recompute,
    )
    found = close(warehouse.table(BY_USER), LabelRange(OLD, OLD))
    assert {label: outcome.word for label, outcome in found.items()} == {OLD: SETTLED}
    assert "2 inserted" in found[OLD].detail
    settled = of_hour(warehouse, BY_USER, OLD)
    assert len(settled) == 2
    late(warehouse)
    assert of_hour(warehouse, BY_USER, OLD) == settled
    again = close(
        warehouse.table(BY_USER), LabelRange(OLD, OPEN)
    )  # a kill before it was noted: it runs once more
    assert {outcome.word for outcome in again.values()} == {SETTLED}
    assert of_hour(warehouse, BY_USER, OLD) == settled
    assert warehouse.verify(BY_USER).immutable_before == NEW
    warehouse.assert_parity()
