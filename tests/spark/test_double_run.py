"""The double run: a complete hour's batch is held to what the stream wrote, and what differs is mended.

The real engine from events to outcomes, but for the flow, which the harness stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from harness import Harness
from orders_chain import HOURS, LAYERS, corrupt, nine_orders

from headrace.catalog import Catalog
from headrace.engine.backfill.backfill import backfill
from headrace.engine.partitions.completion import COMPLETE, PartitionCompletion
from headrace.engine.partitions.run_modes import EQUAL, REPAIRED, actions
from headrace.engine.proof.parity import verify_batch
from headrace.engine.table.table import Table
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.creation import WATERMARK

DOUBLE = "WITH ('run.mode' = 'real-time, offline', 'partition.fields"
TABLE = "dws.by_user"


class Closed:
    """A chain whose last table runs twice, and what closes its hours."""

    def __init__(self, warehouse: Harness, catalog: Catalog) -> None:
        self.warehouse, self.catalog = warehouse, catalog
        self.restart()

    def restart(self) -> None:
        """Another process, which knows what is on disk."""
        self.warehouse.open()
        self.proven: list[LabelRange | None] = []
        self.completion = PartitionCompletion(
            self.catalog,
            self.warehouse.registry,
            actions(self._prove, self._recompute),
            runs=lambda _: True,
            loading=lambda _: False,
            search_seconds=0.0,
        )

    def _prove(self, table: Table, span: LabelRange | None) -> ParityResult:
        self.proven.append(span)
        spark, registry = self.warehouse.sessions.batch, self.warehouse.registry
        return verify_batch(spark, registry, table, span)

    def _recompute(self, table: Table, span: LabelRange | None) -> RefreshResult:
        return backfill(
            self.warehouse.sessions, self.warehouse.registry, table, span,
            run_id="test", progress=Progress(),
        )  # fmt: skip

    def reach(self, time: str) -> None:
        """The source's time goes on to this one; then a look."""
        moment = datetime.fromisoformat(f"2026-11-20T{time}").replace(tzinfo=UTC)
        for name in ("stg.orders", "stg.users"):
            store = self.warehouse.table(name).store
            store.watermark.move(store.version, int(1000 * moment.timestamp()))
        self.completion.look()

    def order(self, key: int, hour: str) -> None:
        """One more order, in every table."""
        self.warehouse.source.put("orders", order_id=key, user_id=1, amount="5.00", hour=hour)
        self.warehouse.step()

    @property
    def outcomes(self) -> dict[str, str | None]:
        found = self.catalog.completions.of(self.warehouse.table(TABLE).name)
        return {p.label: p.outcome for p in found if p.runs or p.outcome is None}

    @property
    def spans(self) -> list[tuple[str | None, str | None]]:
        return [(s.start, s.end) for s in self.proven]


@pytest.fixture
def closed(harness: Callable[..., Harness], catalog: Catalog) -> Iterator[Closed]:
    layers = {
        "dwd/paid": LAYERS["dwd/paid"],
        "dws/by_user": LAYERS["dws/by_user"].replace("WITH ('partition.fields", DOUBLE),
    }
    made = Closed(nine_orders(harness(layers)), catalog)
    made.reach("10:05")
    yield made


def test_a_complete_hour_is_proven_once_and_equal(closed: Closed) -> None:
    closed.reach("11:04")
    assert closed.proven == [] and closed.outcomes == {}
    version = closed.warehouse.table(TABLE).store.version
    closed.reach("11:05")
    closed.reach("11:30")
    assert closed.spans == [(HOURS[0], HOURS[0])]
    assert closed.outcomes == {HOURS[0]: EQUAL}
    assert closed.warehouse.table(TABLE).store.version == version
    snapshot = DeltaTable(str(closed.warehouse.table(TABLE).store.snapshot.path))
    assert snapshot.metadata().configuration[WATERMARK] == "2026-11-20T11:05:00.000+00:00"
    [*_, last] = closed.catalog.completions.of(closed.warehouse.table("dwd.paid").name)
    assert last.outcome == COMPLETE
    closed.order(20, HOURS[2])  # the stream goes on after the property was written
    closed.warehouse.assert_parity()


def test_a_difference_is_mended_in_its_hour_alone_and_said(closed: Closed) -> None:
    right = closed.warehouse.rows(TABLE)
    corrupt(closed.warehouse, TABLE, HOURS[1])
    assert closed.warehouse.rows(TABLE) != right
    closed.reach("13:05")
    assert closed.outcomes == {HOURS[0]: EQUAL, HOURS[1]: REPAIRED, HOURS[2]: EQUAL}
    assert closed.warehouse.rows(TABLE) == right
    closed.warehouse.assert_parity()
    found = {p.label: p for p in closed.catalog.completions.of(closed.warehouse.table(TABLE).name)}
    assert "batch had 2 rows that the table lacked" in found[HOURS[1]].detail
    closed.reach("13:30")  # the correction is no late data
    assert found[HOURS[1]].reopened == 0 and len(closed.proven) == 2


def test_late_rows_are_in_the_table_and_their_hour_is_proven_again(closed: Closed) -> None:
    closed.reach("11:05")
    closed.order(20, HOURS[0])
    closed.reach("11:06")
    assert closed.outcomes[HOURS[0]] is None
    closed.restart()
    closed.reach("11:12")
    assert closed.outcomes[HOURS[0]] == EQUAL
    assert closed.spans == [(HOURS[0], HOURS[0])]
    closed.warehouse.assert_parity()


def test_a_restart_knows_how_far_it_was(closed: Closed, tmp_path: Path) -> None:
    closed.reach("11:05")
    closed.order(20, HOURS[2])
    before = closed.warehouse.table(TABLE).store.watermark.newest
    closed.restart()
    store = closed.warehouse.table(TABLE).store
    assert 0 < store.commit.watermark_ms == store.watermark.newest <= before
    closed.completion.look()
    assert closed.proven == []
