"""`verify --repair`: only what differs is computed again, whatever has damaged it, and it is proven after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, RANGE, corrupt, files, nine_orders

from headrace.engine.compaction.compaction import compact
from headrace.engine.proof.repair import Repair
from headrace.engine.table.table import Table
from headrace.errors import TerminalError
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult
from headrace.store.schema import KIND, STREAM, UPDATE_AFTER, UPDATE_BEFORE

CHAIN = {k: LAYERS[k] for k in ("dwd/paid", "dws/by_user", "dws/total")}


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> Harness:
    return nine_orders(harness(CHAIN), compacted=True)


def repair(warehouse: Harness, *names: str, refresh: Callable[..., RefreshResult] | None = None) -> Results:
    work = Repair(
        verify=lambda t: [warehouse.verify(str(t.name))],
        refresh=refresh or warehouse.recompute,
        follow=lambda t: warehouse.advance(),
        corrected=lambda t: warehouse.advance(),
    )
    tables = [t for t in warehouse.registry if t.spec.source is None and (not names or str(t.name) in names)]
    return {r.table: r for r in work.run(tables, Progress())}


Results = dict[str, ParityResult]


def overwrite_as_another_engine(warehouse: Harness, name: str, rows: pa.Table, hour: str) -> None:
    """As somebody does who opens the snapshot with delta-rs and knows nothing of headrace."""
    path = warehouse.table(name).store.snapshot.path
    write_deltalake(str(path), rows, mode="overwrite", predicate=f"hour = '{hour}'", partition_by=["hour"])


def rows_of(warehouse: Harness, name: str, hour: str) -> pa.Table:
    path = warehouse.table(name).store.snapshot.path
    return DeltaTable(str(path)).to_pyarrow_table(filters=[("hour", "=", hour)])


def test_nothing_wrong_writes_nothing(warehouse: Harness) -> None:
    versions = {str(t.name): t.store.version for t in warehouse.registry}
    kept = files(warehouse, "dws.by_user")
    found = repair(warehouse)
    assert all(r.equal and r.repaired is None for r in found.values()) and len(found) == 3
    assert files(warehouse, "dws.by_user") == kept
    assert {str(t.name): t.store.version for t in warehouse.registry} == versions


def test_a_foreign_write_is_seen_and_only_its_partition_is_written_again(warehouse: Harness) -> None:
    right = {name: warehouse.rows(name) for name in ("dwd.paid", "dws.by_user", "dws.total")}
    damaged = rows_of(warehouse, "dwd.paid", HOURS[1]).slice(1)  # a row is lost …
    damaged = damaged.set_column(
        damaged.column_names.index("amount"), "amount", pa.array([Decimal("0.01")] * 2, pa.decimal128(12, 2))
    )  # … and two are wrong
    overwrite_as_another_engine(warehouse, "dwd.paid", damaged, HOURS[1])
    before = files(warehouse, "dwd.paid")
    found = repair(warehouse)
    after = files(warehouse, "dwd.paid")
    done = found["dwd.paid"].repaired
    assert done is not None and done.partitions == [HOURS[1]]
    assert (done.missing, done.extra) == (3, 2)
    assert (done.inserted, done.updated, done.deleted) == (1, 2, 0)
    assert found["dwd.paid"].equal and found["dwd.paid"].rows == 9
    assert {h for h in before if before[h] != after[h]} == {f"hour={HOURS[1]}"}
    assert {name: warehouse.rows(name) for name in right} == right
    assert warehouse.table("dwd.paid").store.commit.rows == 9
    warehouse.assert_parity()


def test_copies_of_a_row_go_without_a_change_row(warehouse: Harness) -> None:
    twice = rows_of(warehouse, "dws.by_user", HOURS[2])
    overwrite_as_another_engine(warehouse, "dws.by_user", pa.concat_tables([twice, twice]), HOURS[2])
    version = warehouse.table("dws.by_user").store.version
    found = repair(warehouse, "dws.by_user")["dws.by_user"]
    assert found.equal and found.repaired is not None and found.repaired.extra == twice.num_rows
    assert warehouse.table("dws.by_user").store.version == version
    assert rows_of(warehouse, "dws.by_user", HOURS[2]).num_rows == twice.num_rows


def test_two_rows_of_one_key_become_one(warehouse: Harness) -> None:
    rows = rows_of(warehouse, "dwd.paid", HOURS[0])
    wrong = rows.set_column(
        rows.column_names.index("amount"), "amount", pa.array([Decimal("9.99")] * 3, pa.decimal128(12, 2))
    )
    overwrite_as_another_engine(warehouse, "dwd.paid", pa.concat_tables([rows, wrong, wrong]), HOURS[0])
    found = repair(warehouse, "dwd.paid")["dwd.paid"]
    assert found.equal and found.repaired is not None and found.repaired.updated == 3
    warehouse.assert_parity()


def test_a_row_in_the_wrong_partition_is_moved_not_deleted(warehouse: Harness) -> None:
    """Both partitions differ, or only the one that has a copy too many."""
    stray = rows_of(warehouse, "dwd.paid", HOURS[1])
    moved = stray.set_column(stray.column_names.index("hour"), "hour", pa.array([HOURS[0]] * 3, pa.string()))
    there = rows_of(warehouse, "dwd.paid", HOURS[0])
    overwrite_as_another_engine(warehouse, "dwd.paid", pa.concat_tables([there, moved]), HOURS[0])
    right = warehouse.rows("dwd.paid")
    warehouse.table("dwd.paid").store.reread()
    warehouse.backfill("dwd.paid", HOURS[0], HOURS[0])  # a range that knows nothing of the other hour
    assert warehouse.rows("dwd.paid") == right
    compact(warehouse.sessions.batch, warehouse.table("dwd.paid"), run_id="test")
    assert warehouse.rows("dwd.paid") == right
    warehouse.advance()
    warehouse.assert_parity()


def test_a_wrong_row_in_the_changelog_has_reached_consumers_and_is_taken_back(warehouse: Harness) -> None:
    right = {name: warehouse.rows(name) for name in ("dwd.paid", "dws.by_user", "dws.total")}
    store = warehouse.table("dwd.paid").store
    old = store.head().find(("order_id",), {(4,)})
    wrong = old.set_column(
        old.column_names.index("amount"), "amount", pa.array([Decimal("77.00")], pa.decimal128(12, 2))
    )
    kinds = ((old, UPDATE_BEFORE), (wrong, UPDATE_AFTER))
    changes = pa.concat_tables([r.append_column(KIND, pa.array([k], pa.string())) for r, k in kinds])
    store.append(changes, replace(store.commit, version=store.version + 1), origin=STREAM)
    warehouse.advance()
    assert warehouse.rows("dws.total") != right["dws.total"]
    found = repair(warehouse)
    assert [name for name, r in found.items() if r.repaired] == ["dwd.paid"]  # the others followed
    assert all(r.equal for r in found.values())
    assert {name: warehouse.rows(name) for name in right} == right


def test_an_unpartitioned_table_is_repaired_whole(warehouse: Harness) -> None:
    corrupt_total = warehouse.table("dws.total").store
    wrong = corrupt_total.head().read().slice(0, 0)
    write_deltalake(str(corrupt_total.snapshot.path), wrong, mode="overwrite")
    found = repair(warehouse, "dws.total")["dws.total"]
    assert found.equal and found.repaired is not None
    assert (found.repaired.partitions, found.repaired.inserted) == ([], 1)


def test_what_cannot_be_repaired_differs_still_and_others_go_on(warehouse: Harness) -> None:
    def refuse(table: Table, _span: object) -> RefreshResult:
        if str(table.name) == "dwd.paid":
            raise TerminalError("the disk is full")
        return warehouse.backfill(str(table.name))

    corrupt(warehouse, "dwd.paid", HOURS[1])
    corrupt(warehouse, "dws.total", HOURS[1], column="cnt")
    found = repair(warehouse, refresh=refuse)
    assert found["dwd.paid"].error == "not repaired: the disk is full" and not found["dwd.paid"].equal
    assert found["dws.total"].equal


def test_a_window_over_other_partitions_is_recomputed_as_the_stream_has_it(
    harness: Callable[..., Harness],
) -> None:
    """The text bound to one hour alone would begin its sums anew there."""
    running = layer(
        "dwd.running",
        "order_id",
        "SELECT order_id, hour, sum(amount) OVER (PARTITION BY user_id ORDER BY hour, order_id) AS total "
        f"FROM stg.orders {RANGE}",
    )
    made = harness({"dwd/running": running})
    for key in range(1, 10):
        made.source.put("orders", order_id=key, user_id=1, amount="1.00", hour=HOURS[key % 3])
    made.step()
    right = made.rows("dwd.running")
    assert made.backfill("dwd.running", HOURS[1], HOURS[1]).updated == 0
    corrupt(made, "dwd.running", HOURS[1])
    assert repair(made)["dwd.running"].repaired is not None
    assert made.rows("dwd.running") == right


def test_the_stream_computes_a_wrong_key_again_while_it_is_corrected(
    warehouse: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it computes equals what the table wrongly held, so no change row tells that the key is right."""
    from headrace.engine.backfill import backfill as module

    store = warehouse.table("dws.by_user").store
    wrong = rows_of(warehouse, "dws.by_user", HOURS[0])
    row = wrong.to_pylist()[0]
    future = {**row, "cnt": row["cnt"] + 1, "amount": row["amount"] + Decimal("5.00")}
    table = pa.Table.from_pylist([future, *wrong.to_pylist()[1:]], schema=wrong.schema)
    overwrite_as_another_engine(warehouse, "dws.by_user", table, HOURS[0])
    store.reread()
    original = module.few_corrections

    def meanwhile(*args: Any) -> object:
        found = original(*args)
        monkeypatch.setattr(module, "few_corrections", original)
        warehouse.source.put("orders", order_id=50, user_id=row["user_id"], amount="5.00", hour=HOURS[0])
        warehouse.step()
        return found

    monkeypatch.setattr(module, "few_corrections", meanwhile)
    warehouse.backfill("dws.by_user", HOURS[0], HOURS[0])
    assert (future["user_id"], HOURS[0], future["cnt"], future["amount"]) in warehouse.rows("dws.by_user")
    warehouse.assert_parity()


def test_a_restart_reads_a_foreign_snapshot_as_others_do(warehouse: Harness, tmp_path: Path) -> None:
    overwrite_as_another_engine(
        warehouse, "dwd.paid", rows_of(warehouse, "dwd.paid", HOURS[1]).slice(0, 1), HOURS[1]
    )
    warehouse.open()
    assert len(warehouse.rows("dwd.paid")) == 7
    assert repair(warehouse)["dwd.paid"].equal
