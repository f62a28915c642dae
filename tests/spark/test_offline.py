"""The run mode offline: the batch alone writes a table, a partition when it is complete.

The real engine from events to outcomes, but for the flow, which the harness stands for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, RANGE, change, corrupt, files, nine_orders

from headrace.catalog import Catalog
from headrace.engine.backfill import backfill as backfill_module
from headrace.engine.backfill.backfill import check_range
from headrace.engine.ingest.watermark import watermark
from headrace.engine.partitions.completion import PartitionCompletion
from headrace.engine.partitions.completion_state import AGAIN_SECONDS
from headrace.engine.partitions.offline import SEARCH_SECONDS, WRITTEN, Offline
from headrace.engine.partitions.offline_run import write_run
from headrace.engine.statements.apply import plan
from headrace.engine.supervisor.schedule import outdated
from headrace.errors import TerminalError, TransientError
from headrace.planner.policy.changes import ChangeKind
from headrace.progress import Progress
from headrace.spec import load_project
from headrace.spec.partitions.completion import RunMode
from headrace.spec.partitions.label_range import LabelRange

OFFLINE = "WITH ('run.mode' = 'offline', 'partition.fields"
TABLE, PAID, CITIES = "dws.by_user", "dwd.paid", "dwd.cities"
DAY = "2026-11-20T"


def batched(text: str) -> str:
    return text.replace("WITH ('partition.fields", OFFLINE)


CHAIN = {"dwd/paid": LAYERS["dwd/paid"], "dws/by_user": batched(LAYERS["dws/by_user"])}


class Killed(BaseException):
    """Stands for SIGKILL: nothing of headrace catches it."""


class Batch:
    """A chain with tables that only the batch writes, the source's time, and what looks at both."""

    def __init__(self, warehouse: Harness, catalog: Catalog) -> None:
        self.warehouse, self.catalog = warehouse, catalog
        self.running, self.now, self.failures = True, 0.0, [None]
        self.restart()

    def restart(self) -> None:
        """Another process, which knows what is on disk."""
        self.warehouse.open()
        sessions, registry = self.warehouse.sessions, self.warehouse.registry
        self.runs: list[Any] = []

        def write(table: Any, run: Any, progress: Progress) -> Any:
            self.runs.append(run)
            return write_run(sessions, registry, table, run, "test", progress)

        self.offline = Offline(
            self.catalog,
            registry,
            write=write,
            cut=registry.versions,
            runs=lambda _: self.running,
            outcome=lambda table, error: self.failures.append(error),
            clock=lambda: self.now,
        )
        self.completion = PartitionCompletion(
            self.catalog,
            registry,
            {},
            runs=lambda _: True,
            loading=lambda _: False,
            offline=self.offline,
        )

    def reach(self, time: str) -> None:
        """The source's time goes on to this one; then a look, some time after the last."""
        moment = datetime.fromisoformat(DAY + time).replace(tzinfo=UTC)
        for name in ("stg.orders", "stg.users"):
            store = self.warehouse.table(name).store
            store.watermark.move(store.version, int(1000 * moment.timestamp()))
        self.now += max(SEARCH_SECONDS, AGAIN_SECONDS) + 1
        self.completion.look()

    def order(self, key: int, hour: str, amount: str = "5.00") -> None:
        """One order more, or another one, in every table that streams."""
        self.warehouse.source.put("orders", order_id=key, user_id=1, amount=amount, hour=hour)
        self.warehouse.step()

    def hours(self, name: str = TABLE) -> set[str]:
        return {row[self.warehouse.table(name).store.schema.names.index("hour")] for row in self.rows(name)}

    def rows(self, name: str = TABLE) -> list[tuple[Any, ...]]:
        return self.warehouse.rows(name)

    def written(self, name: str = TABLE) -> str:
        return self.warehouse.table(name).store.commit.complete_through

    @property
    def outcomes(self) -> dict[str, str | None]:
        found = self.catalog.completions.of(self.warehouse.table(TABLE).name)
        return {p.label: p.outcome for p in found if p.runs or p.outcome is None}

    def assert_bounded(self, name: str, through: str) -> None:
        """It is its query up to there: later partitions are not there at all."""
        self.warehouse.assert_parity(name)
        assert self.written(name) == through
        assert all(hour <= through for hour in self.hours(name))

    def assert_proven(self, name: str, through: str) -> None:
        """The proof holds, and says up to where."""
        result = self.warehouse.verify(name)
        assert result.equal and result.complete_through == through == self.written(name), result.sample

    def declare(self, name: str, text: str) -> None:
        """Another text of a layer file, and a restart with it."""
        project = self.warehouse.root / "project"
        (project / "layers" / f"{name}.sql").write_text(text)
        self.warehouse.project = load_project(project)
        self.restart()


@pytest.fixture
def batch(harness: Callable[..., Harness], catalog: Catalog) -> Batch:
    """Nine orders in three hours; the hour before them is the newest one that is complete."""
    found = Batch(nine_orders(harness(CHAIN)), catalog)
    found.reach("10:30")
    return found


def test_an_hour_is_written_when_it_is_complete_and_not_before(batch: Batch) -> None:
    assert (batch.rows(), batch.written()) == ([], "2026112009")
    batch.reach("11:04")
    assert (batch.hours(), len(batch.runs)) == (set(), 1)
    batch.reach("11:05")
    assert batch.hours() == {HOURS[0]} and batch.outcomes == {HOURS[0]: WRITTEN}
    batch.assert_bounded(TABLE, HOURS[0])
    batch.reach("11:30")
    assert len(batch.runs) == 2
    before = files(batch.warehouse, TABLE)
    batch.reach("13:05")
    assert batch.hours() == set(HOURS) and batch.runs[-1].labels == set(HOURS[1:])
    assert files(batch.warehouse, TABLE)[f"hour={HOURS[0]}"] == before[f"hour={HOURS[0]}"]
    batch.assert_bounded(TABLE, HOURS[2])
    batch.assert_proven(TABLE, HOURS[2])


def test_the_first_run_takes_all_of_history(harness: Callable[..., Harness], catalog: Catalog) -> None:
    batch = Batch(nine_orders(harness(CHAIN)), catalog)
    batch.reach("12:30")
    [run] = batch.runs
    assert run.labels is None and batch.hours() == set(HOURS[:2])
    known = batch.catalog.completions.of(batch.warehouse.table(TABLE).name)
    assert [p.label for p in known] == list(HOURS[:2])
    batch.assert_bounded(TABLE, HOURS[1])


def test_an_hour_without_rows_is_complete_too(batch: Batch) -> None:
    batch.reach("15:05")
    assert batch.written() == "2026112014" and batch.outcomes["2026112013"] == WRITTEN
    assert batch.hours() == set(HOURS)


def test_late_data_runs_its_hour_again_after_the_delay(batch: Batch) -> None:
    batch.reach("12:05")
    before, rows = files(batch.warehouse, TABLE), batch.rows()
    batch.order(20, HOURS[0])
    batch.reach("12:06")
    assert batch.outcomes[HOURS[0]] is None and batch.rows() == rows
    batch.assert_bounded(TABLE, HOURS[1])  # at the inputs that it has read
    batch.restart()
    batch.reach("12:10")
    assert batch.runs == []
    batch.reach("12:11")
    [run] = batch.runs
    assert run.labels == {HOURS[0]} and batch.rows() != rows
    found = {p.label: p for p in batch.catalog.completions.of(batch.warehouse.table(TABLE).name)}
    assert (found[HOURS[0]].reopened, found[HOURS[0]].runs, found[HOURS[0]].outcome) == (1, 2, WRITTEN)
    after = files(batch.warehouse, TABLE)
    assert after[f"hour={HOURS[1]}"] == before[f"hour={HOURS[1]}"]
    assert after[f"hour={HOURS[0]}"] != before[f"hour={HOURS[0]}"]
    batch.assert_bounded(TABLE, HOURS[1])


def test_what_is_late_already_goes_with_the_next_hour(batch: Batch) -> None:
    """The frontier moves with each run, and everything up to it must be in the table then."""
    batch.reach("11:05")
    batch.order(20, HOURS[0])
    batch.reach("12:05")
    assert batch.runs[-1].labels == set(HOURS[:2])
    batch.assert_bounded(TABLE, HOURS[1])
    batch.reach("12:30")
    assert len(batch.runs) == 3


def test_a_correction_upstream_is_late_data_too(batch: Batch) -> None:
    corrupt(batch.warehouse, PAID, HOURS[0])
    batch.restart()
    batch.reach("12:05")
    assert batch.hours() == {HOURS[1]}
    batch.warehouse.backfill(PAID, HOURS[0], HOURS[0])
    batch.reach("12:06")
    batch.reach("12:11")
    assert batch.hours() == set(HOURS[:2])
    batch.assert_bounded(TABLE, HOURS[1])


def test_killed_before_its_commit_a_run_leaves_what_was(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch.reach("11:05")
    batch.order(20, HOURS[0])
    store = batch.warehouse.table(TABLE).store
    before, rows = store.commit, batch.rows()

    def dies(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(store.changelog, "append", dies)
        batch.reach("12:05")
    batch.restart()
    assert batch.warehouse.table(TABLE).store.commit == before and batch.rows() == rows
    batch.assert_bounded(TABLE, HOURS[0])
    batch.reach("12:05")
    assert batch.outcomes == {HOURS[0]: WRITTEN, HOURS[1]: WRITTEN}
    assert batch.warehouse.table(TABLE).store.version == before.version + 1  # one commit is all of a run
    batch.assert_bounded(TABLE, HOURS[1])


def test_killed_after_its_commit_it_is_noted_once(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = batch.catalog.completions.finish

    def dies(table: Any, *told: Any) -> None:
        if str(table) == TABLE:
            raise Killed
        notes(table, *told)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(batch.catalog.completions, "finish", dies)
        batch.reach("11:05")
    batch.restart()
    batch.assert_bounded(TABLE, HOURS[0])
    rows = batch.rows()
    assert batch.outcomes == {HOURS[0]: None}
    batch.reach("11:05")
    assert batch.outcomes == {HOURS[0]: WRITTEN} and batch.rows() == rows
    [run] = batch.runs
    assert run.labels == {HOURS[0]}


def test_what_fails_is_tried_again(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise TransientError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(batch.warehouse.table(TABLE).store.changelog, "append", fails)
        batch.reach("11:05")
    assert "no room" in str(batch.failures[-1])
    name = batch.warehouse.table(TABLE).name
    assert batch.completion.warnings(name) == ["its complete partitions wait: no room"]
    batch.reach("11:06")
    assert batch.completion.warnings(name) == [] and batch.failures[-1] is None
    batch.assert_bounded(TABLE, HOURS[0])


def test_a_table_that_does_not_run_waits(batch: Batch) -> None:
    batch.running = False
    batch.reach("12:05")
    assert batch.hours() == set()
    with pytest.raises(TerminalError, match=r"does not run\. Next: `headrace resume dws\.by_user`"):
        batch.completion.now(batch.warehouse.table(TABLE), Progress())
    batch.running = True
    batch.reach("12:06")
    assert batch.hours() == set(HOURS[:2])


def test_refresh_new_does_not_wait_for_the_delay_of_late_data(batch: Batch) -> None:
    batch.reach("12:05")
    batch.order(20, HOURS[0])
    result = batch.completion.now(batch.warehouse.table(TABLE), Progress())
    assert (result.inserted, result.updated, result.partitions) == (0, 1, [HOURS[0]])
    assert batch.outcomes[HOURS[0]] == WRITTEN
    batch.assert_bounded(TABLE, HOURS[1])
    version = batch.warehouse.table(TABLE).store.commit.upstreams
    batch.order(21, HOURS[2])
    result = batch.completion.now(batch.warehouse.table(TABLE), Progress())
    assert (result.inserted, result.updated, result.deleted, result.partitions) == (0, 0, 0, [])
    assert batch.warehouse.table(TABLE).store.commit.upstreams != version
    batch.assert_bounded(TABLE, HOURS[1])


def test_a_backfill_stays_within_what_is_written(batch: Batch) -> None:
    table = batch.warehouse.table(TABLE)
    batch.reach("12:05")
    batch.order(20, HOURS[0])
    corrupt(batch.warehouse, TABLE, HOURS[1])
    batch.restart()
    table = batch.warehouse.table(TABLE)
    with pytest.raises(TerminalError, match=f"partition '{HOURS[2]}' is not complete.*up to '{HOURS[1]}'"):
        check_range(table, LabelRange(HOURS[2], HOURS[2]))
    check_range(table, LabelRange(HOURS[1], HOURS[2]))
    result = batch.warehouse.backfill(TABLE, HOURS[1], HOURS[2])
    assert (result.end, result.inserted) == (HOURS[1], 2)
    batch.assert_bounded(TABLE, HOURS[1])
    assert batch.warehouse.backfill(TABLE, HOURS[2], HOURS[2]).partitions == []
    assert batch.warehouse.backfill(TABLE).inserted == 0  # at the inputs that it has read
    batch.assert_bounded(TABLE, HOURS[1])


def test_before_its_first_run_nothing_of_it_can_be_refreshed(
    harness: Callable[..., Harness], catalog: Catalog
) -> None:
    batch = Batch(nine_orders(harness(CHAIN)), catalog)
    table = batch.warehouse.table(TABLE)
    with pytest.raises(TerminalError, match=r"the batch has written none yet.*REFRESH NEW"):
        check_range(table, None)
    assert batch.warehouse.backfill(TABLE).rows == 0 and table.store.version == 0
    assert batch.warehouse.verify(TABLE).equal
    with pytest.raises(TransientError, match="is not known yet"):
        batch.completion.now(table, Progress())


def test_a_row_leaves_an_hour_for_one_that_is_open(harness: Callable[..., Harness], catalog: Catalog) -> None:
    """Its key is that of the order alone, so the row may be in any hour."""
    batch = Batch(nine_orders(harness({"dwd/paid": batched(LAYERS["dwd/paid"])})), catalog)
    batch.reach("12:05")
    batch.order(3, HOURS[2])  # was in the first hour
    batch.order(4, HOURS[0])  # was in the second one
    batch.reach("12:06")
    batch.reach("12:11")
    batch.assert_bounded(PAID, HOURS[1])
    assert 3 not in {row[0] for row in batch.rows(PAID)}
    batch.reach("13:05")
    assert 3 in {row[0] for row in batch.rows(PAID)}
    batch.assert_bounded(PAID, HOURS[2])


def test_what_bears_no_label_is_never_complete(harness: Callable[..., Harness], catalog: Catalog) -> None:
    """Here the query itself bounds nothing."""
    lines = layer("dws.lines", "order_id", "SELECT order_id, hour FROM dwd.paid")
    batch = Batch(harness({"dwd/paid": LAYERS["dwd/paid"], "dws/lines": batched(lines)}), catalog)
    for key, hour in enumerate([None, "once", "20261120", f"{HOURS[0]}x", HOURS[2]]):
        batch.warehouse.source.put("orders", order_id=20 + key, user_id=1, amount="1.00", hour=hour)
    nine_orders(batch.warehouse)
    batch.reach("11:05")
    batch.assert_bounded("dws.lines", HOURS[0])
    batch.assert_proven("dws.lines", HOURS[0])
    assert [row[0] for row in batch.rows("dws.lines")] == [3, 6, 9]
    batch.order(30, f"{HOURS[0]}y")
    batch.reach("12:05")
    batch.assert_bounded("dws.lines", HOURS[1])
    assert batch.hours("dws.lines") == set(HOURS[:2])


def test_where_it_is_not_known_which_hours_changed_all_run_with_the_next_one(
    harness: Callable[..., Harness], catalog: Catalog
) -> None:
    warehouse = harness({"dwd/cities": batched(LAYERS["dwd/cities"])})
    for user in (0, 1):
        warehouse.source.put("users", user_id=user, city="Oslo")
    batch = Batch(nine_orders(warehouse), catalog)
    batch.reach("11:05")
    warehouse.source.put("users", user_id=1, city="Lima")
    warehouse.step()
    batch.reach("11:30")
    assert len(batch.runs) == 1
    batch.reach("12:05")
    assert batch.runs[-1].labels is None
    batch.assert_bounded(CITIES, HOURS[1])
    assert "Lima" in {row[2] for row in batch.rows(CITIES)}


def test_what_reads_it_gets_its_rows_as_changes_and_is_never_ahead(
    harness: Callable[..., Harness], catalog: Catalog
) -> None:
    skips = "WITH ('correction.policy' = 'skip', 'partition.fields"
    query = f"SELECT hour, sum(amount) AS amount FROM dws.by_user {RANGE} GROUP BY hour"
    text = layer("dws.hours", "hour", query).replace("WITH ('partition.fields", skips)
    batch = Batch(nine_orders(harness({**CHAIN, "dws/hours": text})), catalog)
    batch.reach("11:05")
    batch.warehouse.step()
    assert batch.hours("dws.hours") == {HOURS[0]}
    batch.order(20, HOURS[0])
    batch.reach("12:05")
    batch.warehouse.step()
    assert batch.hours("dws.hours") == set(HOURS[:2])
    batch.warehouse.assert_parity()
    batch.completion.look()
    end = int(1000 * datetime.fromisoformat(DAY + "12:00").replace(tzinfo=UTC).timestamp())
    for name in (TABLE, "dws.hours"):
        assert watermark(batch.warehouse.registry, batch.warehouse.table(name)) == end
    batch.restart()
    assert watermark(batch.warehouse.registry, batch.warehouse.table(TABLE)) == end


def test_a_table_that_streamed_loses_what_is_not_complete(
    harness: Callable[..., Harness], catalog: Catalog
) -> None:
    streamed = {**CHAIN, "dws/by_user": LAYERS["dws/by_user"]}
    batch = Batch(nine_orders(harness(streamed)), catalog)
    batch.reach("11:30")
    assert batch.hours() == set(HOURS)
    batch.declare("dws/by_user", CHAIN["dws/by_user"])
    batch.warehouse.assert_parity()
    batch.reach("11:31")
    batch.assert_bounded(TABLE, HOURS[0])
    batch.reach("12:05")
    batch.assert_bounded(TABLE, HOURS[1])
    assert batch.outcomes == {HOURS[1]: WRITTEN}


def test_back_to_a_stream_it_gets_all_partitions_first(batch: Batch) -> None:
    batch.reach("11:05")
    batch.order(20, HOURS[2])
    batch.declare("dws/by_user", LAYERS["dws/by_user"])
    table = batch.warehouse.table(TABLE)
    why = outdated(table)
    assert why is not None and f"up to partition '{HOURS[0]}'" in why and "refresh dws.by_user --all" in why
    with pytest.raises(TerminalError, match="lacks the later ones"):
        batch.order(21, HOURS[1])
    with pytest.raises(TerminalError, match="lacks the later ones"):
        check_range(table, LabelRange(HOURS[0], HOURS[0]))
    project = batch.warehouse.project
    [step] = plan(batch.warehouse.registry, batch.warehouse.registry, project.tables, project)
    assert step.renews and step.change.table == table.name
    deployed = replace(table.spec, completion=replace(table.spec.completion, run_mode=RunMode.OFFLINE))
    [step] = plan(batch.warehouse.registry, batch.warehouse.registry, {table.name: deployed}, project)
    assert (step.change.kind, step.change.what) == (ChangeKind.RECOMPUTED, ())
    batch.warehouse.backfill(TABLE)
    assert outdated(table) is None and batch.written() == ""
    [step] = plan(batch.warehouse.registry, batch.warehouse.registry, {table.name: deployed}, project)
    assert not step.renews
    batch.warehouse.assert_parity()
    batch.order(22, HOURS[1])
    batch.warehouse.assert_parity()
    assert batch.hours() == set(HOURS)


def test_with_another_query_it_is_computed_up_to_where_it_was(batch: Batch) -> None:
    batch.reach("12:05")
    batch.order(20, HOURS[2])
    batch.declare("dws/by_user", CHAIN["dws/by_user"].replace(" GROUP BY", " AND user_id = 1 GROUP BY"))
    assert outdated(batch.warehouse.table(TABLE)) is not None
    assert batch.warehouse.backfill(TABLE).deleted == 2
    batch.assert_bounded(TABLE, HOURS[1])
    batch.declare("dws/by_user", CHAIN["dws/by_user"].replace("count(*) AS cnt", "count(*) + 1 AS cnt"))
    batch.warehouse.table(TABLE).reshaped = True  # other columns
    assert batch.warehouse.backfill(TABLE).inserted == 4
    batch.assert_bounded(TABLE, HOURS[1])
    batch.reach("13:05")
    batch.assert_bounded(TABLE, HOURS[2])


def test_with_other_columns_before_its_first_run_it_is_made_anew(
    harness: Callable[..., Harness], catalog: Catalog
) -> None:
    batch = Batch(nine_orders(harness(CHAIN)), catalog)
    old = batch.warehouse.registry
    text = CHAIN["dws/by_user"].replace("count(*) AS cnt", "count(*) AS cnt, min(order_id) AS least")
    batch.declare("dws/by_user", text)
    [step] = plan(old, batch.warehouse.registry, {}, batch.warehouse.project)
    assert step.reshaped
    batch.warehouse.table(TABLE).reshaped = True
    batch.warehouse.backfill(TABLE)
    assert batch.rows() == [] and batch.warehouse.verify(TABLE).equal
    batch.reach("12:05")
    batch.assert_bounded(TABLE, HOURS[1])
    assert batch.hours() == set(HOURS[:2])


@pytest.mark.long
@pytest.mark.parametrize(("seed", "large"), [(1, False), (2, True)])
def test_whatever_happens_it_is_its_query_up_to_the_bound(
    harness: Callable[..., Harness],
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    large: bool,
) -> None:
    if large:  # Spark compares, and commits what differs
        monkeypatch.setattr(backfill_module, "few_corrections", lambda *_: None)
    names = ("dwd/paid", "dwd/cities", "dws/by_user", "dws/top")
    alone = ("dwd/cities", "dws/by_user", "dws/top")
    layers = {name: batched(LAYERS[name]) if name in alone else LAYERS[name] for name in names}
    chance = random.Random(seed)
    warehouse = nine_orders(harness(layers))
    if large:
        warehouse.limit(corrections=0)
    batch = Batch(warehouse, catalog)
    ends = {hour * 60 + 5 for hour in (11, 12, 13)}
    minutes = sorted({*ends, *chance.sample(range(10 * 60, 13 * 60 + 10), 3)})
    for minute in minutes:
        for _ in range(chance.randint(2, 5)):
            change(batch.warehouse.source, chance)
        batch.warehouse.step()
        batch.reach(f"{minute // 60}:{minute % 60:02}")
        for name in ("dwd.cities", "dws.by_user", "dws.top"):
            batch.assert_bounded(name, batch.written(name))
        if chance.random() < 0.3:
            batch.restart()
    assert batch.written() >= HOURS[2]
