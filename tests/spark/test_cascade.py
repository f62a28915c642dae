"""A cascade shows what it will run, runs just that upstreams first and in parts, and ends with its proof."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, RANGE, corrupt, files, nine_orders

from headrace.engine.proof.parity import verify_batch
from headrace.engine.statements.cascade import Cascade
from headrace.engine.table.table import Table
from headrace.errors import Cancelled
from headrace.progress import Progress
from headrace.results import CascadeResult, ParityResult, RefreshResult
from headrace.spec.partitions.label_range import LabelRange

RUNNING = layer(
    "dws.running",
    "order_id",
    "SELECT order_id, hour, sum(amount) OVER (PARTITION BY user_id ORDER BY hour, order_id) AS total "
    f"FROM dwd.paid {RANGE}",
)
CHAIN = {
    "dwd/paid": LAYERS["dwd/paid"],
    "dws/by_user": LAYERS["dws/by_user"].replace("HH')", "HH', 'correction.policy' = 'skip')", 1),
    "dws/total": LAYERS["dws/total"],
    "dws/running": RUNNING,
}


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> Harness:
    return nine_orders(harness(CHAIN), compacted=True)


def cascade(
    warehouse: Harness, ends: tuple[str, str], *, dry_run: bool = False, progress: Progress | None = None
) -> tuple[CascadeResult, list[tuple[str, str | None, str | None]]]:
    calls: list[tuple[str, str | None, str | None]] = []

    def refresh(table: Table, labels: LabelRange | None) -> RefreshResult:
        part = (labels.start, labels.end) if labels else (None, None)
        calls.append((str(table.name), *part))
        return warehouse.backfill(str(table.name), *part)

    def prove(table: Table, labels: LabelRange | None) -> list[ParityResult]:
        spark = warehouse.sessions.batch
        return [verify_batch(spark, warehouse.registry, table, labels)]

    def follow(table: Table) -> None:
        warehouse.advance_one(str(table.name), {})

    work = Cascade(
        warehouse.project, warehouse.registry, refresh, follow, prove, at_once=1, pause=lambda: 0.0
    )
    first = warehouse.table("dwd.paid")
    return work.run(first, LabelRange(*ends), dry_run=dry_run, progress=progress or Progress()), calls


def test_the_plan_comes_first_and_a_dry_run_ends_there(warehouse: Harness) -> None:
    said: list[str] = []
    progress = Progress(lambda message, _done, _total: said.append(message))
    result, calls = cascade(warehouse, (HOURS[1], HOURS[1]), dry_run=True, progress=progress)
    assert calls == [] and result.dry_run
    told = {t.table: t for t in result.tables}
    assert list(told) == ["dwd.paid", "dws.by_user", "dws.running", "dws.total"]
    assert (told["dws.by_user"].partitions, told["dws.by_user"].start) == ([HOURS[1]], HOURS[1])
    assert (told["dws.running"].partitions, told["dws.running"].start) == (list(HOURS), "")
    assert "PARTITION BY" in told["dws.running"].reason
    index = warehouse.table("dws.by_user").store.head_index()
    assert 0 < told["dws.by_user"].bytes == index.size([HOURS[1]]) < index.size(None)
    assert told["dws.by_user"].policy == "skip"
    assert all(line.startswith("plan: ") for line in said) and f"{HOURS[1]} … {HOURS[1]}" in said[0]


@pytest.mark.long
def test_everything_downstream_is_right_and_the_rest_untouched(warehouse: Harness) -> None:
    right = {name: warehouse.rows(name) for name in ("dwd.paid", "dws.by_user", "dws.running", "dws.total")}
    for name in ("dwd.paid", "dws.by_user", "dws.running"):
        corrupt(warehouse, name, HOURS[1])
    kept = files(warehouse, "dws.by_user")
    result, calls = cascade(warehouse, (HOURS[0], HOURS[1]))
    assert {name: warehouse.rows(name) for name in right} == right
    assert calls == [
        *[("dwd.paid", HOURS[i], HOURS[i]) for i in (0, 1)],
        *[("dws.by_user", HOURS[i], HOURS[i]) for i in (0, 1)],
        ("dws.running", None, None),
        ("dws.total", None, None),
    ]
    assert [p.equal for t in result.tables for p in t.proof] == [True] * 4
    refreshed = {t.table: t.refreshed for t in result.tables}
    assert refreshed["dwd.paid"] is not None and refreshed["dwd.paid"].inserted == 3
    assert files(warehouse, "dws.by_user")[f"hour={HOURS[2]}"] == kept[f"hour={HOURS[2]}"]
    warehouse.assert_parity()


def test_a_cancelled_cascade_goes_no_further(warehouse: Harness) -> None:
    progress, kept = Progress(), files(warehouse, "dws.by_user")

    def listen(message: str, _done: int | None, _total: int | None) -> None:
        if message == "dwd.paid: part 2 of 2":
            progress.cancel()

    progress._listener = listen
    with pytest.raises(Cancelled):
        cascade(warehouse, (HOURS[0], HOURS[1]), progress=progress)
    assert files(warehouse, "dws.by_user") == kept
