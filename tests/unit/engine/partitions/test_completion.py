"""Complete partitions run what their table does then, once, also around kills; late data runs it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from planner_support import write_table
from stored_support import append, changes, made, no_jvm  # noqa: F401

from headrace.catalog import Catalog
from headrace.catalog.completions import HISTORY, Completed
from headrace.engine.compaction.compaction import compact
from headrace.engine.partitions import completion as module
from headrace.engine.partitions.completion import COMPLETE, Outcome, PartitionCompletion, late_labels
from headrace.engine.partitions.completion_state import AGAIN_SECONDS
from headrace.engine.partitions.run_modes import DIFFERS, EQUAL, REPAIRED, double_run, settle
from headrace.engine.table.limits import Limits
from headrace.engine.table.run import TableRun
from headrace.engine.table.table import Registry
from headrace.engine.warehouse.partition_status import (
    REMEMBERED,
    WAITING,
    partition_listing,
    summaries,
    with_completion,
)
from headrace.errors import TerminalError, TransientError
from headrace.results import ParityResult, RefreshResult, TableStatus
from headrace.spec.model import TableSpec
from headrace.spec.partitions.completion import Completion, LateData, RunMode, Signal
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.creation import WATERMARK
from headrace.store.record.commits import Commit, latest

pytestmark = pytest.mark.usefixtures("no_jvm")

DOUBLE = Completion(run_mode=RunMode.DOUBLE)


def at(text: str) -> int:
    """Milliseconds since 1970 of a time on one day."""
    return int(1000 * datetime.fromisoformat(f"2026-11-22T{text}").replace(tzinfo=UTC).timestamp())


class Alone(Registry):
    """Tables that read nothing: their own watermark counts."""

    def upstreams(self, table: Any) -> dict[Any, Any]:
        return {}


@dataclass
class World:
    """One table on disk, its watermark, and what closes its partitions: a test makes all of it go on."""

    catalog: Catalog
    table: Any
    ran: list[tuple[str, str]] = field(default_factory=list)
    action: Callable[[Any, str, str], dict[str, Outcome]] | None = None
    running: bool = True
    loading: bool = False
    now: float = 0.0
    search_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Another process, which knows what is on disk."""

        def act(table: Any, labels: LabelRange) -> dict[str, Outcome]:
            self.ran.append((labels.start, labels.end))
            return self.action(table, labels) if self.action else {}

        self.registry = Alone({self.table.name: self.table})
        self.completion = PartitionCompletion(
            self.catalog,
            self.registry,
            {RunMode.DOUBLE: act},
            runs=lambda _: self.running,
            loading=lambda _: self.loading,
            clock=lambda: self.now,
            search_seconds=self.search_seconds,
        )

    def look(self, time: str) -> None:
        """One look with the watermark at this time of the day."""
        self.table.store.watermark.move(self.table.store.version, at(time))
        self.completion.look()

    def write(self, key: int, hour: str, *, mode: str = "stream") -> None:
        """A commit that changes one row of one hour of the day."""
        store = self.table.store
        commit = Commit("dwd.t", cast("Any", mode), store.version + 1)
        rows = changes(store, ("+I", key, "1.00"), hour=f"20261122{hour}")
        store.append(rows, commit, origin=mode)

    def declare(self, completion: Completion) -> None:
        self.table.spec = replace(self.table.spec, completion=completion)

    @property
    def known(self) -> dict[str, Completed]:
        """The complete partitions by their hour."""
        return {p.label[8:]: p for p in self.catalog.completions.of(self.table.name)}

    @property
    def outcomes(self) -> dict[str, str | None]:
        return {hour: p.outcome for hour, p in self.known.items()}


@pytest.fixture
def world(tmp_path: Path, catalog: Catalog) -> Iterator[World]:
    """A double-run table with rows of hours 07 and 09."""
    spec = write_table(tmp_path, "SELECT id, amount, logdate FROM stg.orders", key="id", name="dwd.t")
    store = made(tmp_path)
    table = SimpleNamespace(
        name=spec.name,
        spec=replace(spec, completion=DOUBLE, partition_format="yyyyMMddHH"),
        store=store,
        template="template",
        limits=Limits(),
        run=TableRun(),
    )
    found = World(catalog, table)
    found.write(1, "07")
    found.write(2, "09")
    yield found


# -- complete ---------------------------------------------------------------------------------------------


def test_what_is_complete_at_the_first_look_does_not_run(world: World) -> None:
    world.look("09:30")
    assert world.outcomes == {"07": HISTORY, "08": HISTORY} and world.ran == []
    world.look("10:04")
    assert "09" not in world.outcomes


def test_a_first_load_is_looked_at_once_it_is_compacted(world: World) -> None:
    """A large one is in the changelog before it is in the snapshot, and only that tells its partitions."""
    store = world.table.store
    rows = changes(store, ("+I", 3, "1.00"), hour="2026112205")
    commit = Commit("dwd.t", "stream", store.version + 1)
    store.append_large(rows, commit, origin="stream", kinds={"+I": 1})
    world.look("09:30")
    assert world.outcomes == {}
    compact(cast("Any", None), world.table, run_id="test")
    world.look("09:30")
    assert world.outcomes == dict.fromkeys(("05", "07", "08"), HISTORY)


def test_an_hour_runs_once_five_minutes_after_its_end(world: World) -> None:
    world.look("09:30")
    world.look("10:04")
    assert world.ran == []
    world.look("10:05")
    world.look("10:05")
    world.look("10:40")
    assert world.ran == [("2026112209", "2026112209")]
    found = world.known["09"]
    assert (found.outcome, found.runs, found.watermark_ms) == (COMPLETE, 1, at("10:05"))


def test_a_restart_runs_nothing_again(world: World) -> None:
    world.look("09:30")
    world.look("10:05")
    world.restart()
    world.look("10:30")
    assert world.ran == [("2026112209", "2026112209")]


def test_killed_before_it_was_noted_it_runs_again_and_is_noted_once(world: World) -> None:
    class Killed(BaseException):
        pass

    def dies(*_: object) -> dict[str, Outcome]:
        raise Killed

    world.look("09:30")
    world.action = dies
    with pytest.raises(Killed):
        world.look("10:05")
    assert world.outcomes["09"] is None
    world.restart()
    world.action = None
    world.look("10:06")
    world.look("10:07")
    assert len(world.ran) == 2
    assert (world.known["09"].runs, world.known["09"].outcome) == (1, COMPLETE)


def test_after_an_outage_hours_run_together_and_each_is_noted(world: World) -> None:
    world.look("09:30")
    world.look("13:30")
    assert world.ran == [("2026112209", "2026112212")]
    assert [h for h, o in world.outcomes.items() if o == COMPLETE] == ["09", "10", "11", "12"]


def test_what_fails_is_tried_again_later_and_told(world: World) -> None:
    def fails(*_: object) -> dict[str, Outcome]:
        raise TransientError("Spark has gone away\nsomewhere")

    world.look("09:30")
    world.action = fails
    world.look("10:05")
    world.look("10:06")
    assert len(world.ran) == 1 and world.outcomes["09"] is None
    assert world.completion.warnings(world.table.name) == [
        "its complete partitions wait: Spark has gone away"
    ]
    world.action, world.now = None, AGAIN_SECONDS + 1
    world.look("10:07")
    assert len(world.ran) == 2 and world.outcomes["09"] == COMPLETE
    assert world.completion.warnings(world.table.name) == []


def test_a_table_that_does_not_run_waits(world: World) -> None:
    world.running = False
    world.look("09:30")
    assert world.known == {}
    world.running, world.loading = True, True
    world.look("09:30")
    assert world.known == {}
    world.loading = False
    world.look("09:30")
    world.running = False
    world.look("10:05")
    assert world.outcomes["09"] is None and world.ran == []
    world.running = True
    world.look("10:05")
    assert world.outcomes["09"] == COMPLETE


def test_without_a_run_mode_that_acts_it_is_only_noted(world: World) -> None:
    world.declare(Completion())
    world.look("09:30")
    world.look("10:05")
    assert world.ran == [] and world.outcomes["09"] == COMPLETE


def test_the_delay_is_the_tables_own(world: World) -> None:
    world.declare(replace(DOUBLE, delay=timedelta(hours=1)))
    world.look("10:30")
    world.look("10:59")
    assert world.ran == []
    world.look("11:00")
    assert world.ran == [("2026112209", "2026112209")]


def test_by_latency_the_clock_tells(world: World) -> None:
    world.declare(replace(DOUBLE, signal=Signal.LATENCY))
    world.now = at("09:30") / 1000
    world.completion.look()
    assert world.known == {}  # no latency was measured yet
    world.table.run.latency = 60.0
    world.completion.look()
    assert list(world.known) == ["07", "08"]
    world.now = at("10:05") / 1000
    world.completion.look()
    assert world.ran == []
    world.now, world.running = at("10:06") / 1000, False
    world.completion.look()
    assert "09" not in world.known  # the clock goes on, the stream does not
    world.running = True
    world.completion.look()
    assert world.ran == [("2026112209", "2026112209")]


def test_the_snapshot_says_how_far_it_is(world: World) -> None:
    def property_of() -> str | None:
        table = DeltaTable(str(world.table.store.snapshot.path))
        return table.metadata().configuration.get(WATERMARK)

    world.look("09:30")
    assert property_of() is None
    world.look("10:05")
    assert property_of() == "2026-11-22T10:05:00.000+00:00"
    version = world.table.store.snapshot.newest()
    assert world.table.store.pin == version
    found = latest(world.table.store.snapshot.path)
    assert found is not None and found[1].mode != "maintenance"


def test_partitions_of_another_format_begin_anew(world: World) -> None:
    world.look("09:30")
    world.table.spec = replace(world.table.spec, partition_format="yyyyMMdd")
    world.look("09:40")
    assert [p.label for p in world.catalog.completions.of(world.table.name)] == ["20261121"]


# -- late -------------------------------------------------------------------------------------------------


def test_late_data_runs_the_hour_again_after_the_delay(world: World) -> None:
    world.look("09:30")
    world.look("10:05")
    world.write(3, "09")
    world.look("10:06")
    assert world.known["09"].outcome is None and len(world.ran) == 1
    world.write(4, "09")
    world.look("10:10")
    assert len(world.ran) == 1
    world.look("10:11")
    world.look("10:30")
    assert world.ran == [("2026112209", "2026112209")] * 2
    assert (world.known["09"].reopened, world.known["09"].runs) == (1, 2)


def test_late_data_of_an_hour_that_was_complete_before_the_first_look_counts_too(world: World) -> None:
    world.look("09:30")
    world.write(3, "05")
    world.write(4, "07")
    world.look("09:31")
    world.look("09:36")
    assert world.ran == [("2026112205", "2026112205"), ("2026112207", "2026112207")]


def test_what_comes_before_the_hour_is_complete_is_not_late(world: World) -> None:
    world.look("09:30")
    world.write(3, "09")
    world.look("10:04")
    world.write(4, "09")
    world.look("10:05")
    world.look("10:30")
    assert world.ran == [("2026112209", "2026112209")] and world.known["09"].reopened == 0


def test_corrections_of_a_backfill_are_not_late(world: World) -> None:
    world.look("09:30")
    world.look("10:05")
    world.write(3, "09", mode="backfill")
    world.look("10:30")
    assert world.known["09"].reopened == 0


def test_late_data_between_two_processes_is_found(world: World) -> None:
    world.look("09:30")
    world.look("10:05")
    world.write(3, "09")
    world.restart()
    world.look("10:20")
    world.look("10:25")
    assert world.ran == [("2026112209", "2026112209")] * 2


def test_late_data_is_searched_now_and_then_and_before_anything_is_noted_as_complete(world: World) -> None:
    world.search_seconds, world.now = 10.0, 100.0
    world.restart()
    world.look("09:30")
    world.look("10:05")
    world.write(3, "05")
    world.now += 9.0
    world.look("10:06")
    assert "05" not in world.known
    world.now += 1.0
    world.look("10:07")
    assert world.known["05"].reopened == 1
    world.write(4, "07")
    world.look("11:05")  # the hour that is complete now says that all before it was searched
    assert world.known["07"].reopened == 1


def test_late_data_does_not_tell_other_engines_what_they_know(world: World) -> None:
    def told() -> int:
        return DeltaTable(str(world.table.store.snapshot.path)).version()

    world.look("09:30")
    world.look("10:05")
    after_nine = told()
    world.write(3, "05")
    world.look("10:06")
    world.look("10:11")
    assert (world.known["05"].runs, told()) == (1, after_nine)
    world.look("11:05")
    assert told() > after_nine


def test_a_policy_lets_it_be_and_counts_it(world: World) -> None:
    world.declare(replace(DOUBLE, late=LateData.IGNORE))
    world.look("09:30")
    world.look("10:05")
    world.write(3, "09")
    world.write(4, "09")
    world.look("10:10")
    world.look("10:30")
    looked = world.catalog.completions.progress(world.table.name)
    assert looked is not None and looked.late == 2
    assert len(world.ran) == 1 and world.known["09"].reopened == 0
    world.restart()
    world.look("10:31")
    looked = world.catalog.completions.progress(world.table.name)
    assert looked is not None and looked.late == 2


def test_a_commit_that_does_not_name_its_partitions_is_read(world: World) -> None:
    store = world.table.store
    rows = changes(store, ("+I", 8, "1.00"), hour="2026112207")
    store.append_large(rows, Commit("dwd.t", "stream", store.version + 1), origin="stream", kinds={"+I": 1})
    assert store.commit.partitions is None
    assert late_labels(world.table, 2, 3, "2026112208") == ["2026112207"]
    assert late_labels(world.table, 2, 3, "2026112206") == []


def test_what_this_process_wrote_is_known_without_the_log(world: World) -> None:
    world.look("09:30")
    world.look("10:05")
    world.write(3, "09")
    log = world.table.store.changelog.path / "_delta_log"
    log.rename(log.with_name("away"))
    world.look("10:10")
    log.with_name("away").rename(log)
    assert world.known["09"].reopened == 1


def test_so_is_a_long_absence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in range(3, 8):
        world.write(key, "07" if key == 3 else "08")
    world.table.store.open()  # what this process wrote itself it still knows
    monkeypatch.setattr("headrace.store.record.commits.MOST_RECORDS", 3)
    assert late_labels(world.table, 2, 7, "2026112208") == ["2026112207", "2026112208"]


def test_the_catalog_knows_how_far_it_was_searched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a restart would read all commits again, of which the log keeps an hour."""
    monkeypatch.setattr(module, "MOST_RECORDS", 4)
    world.look("09:30")
    for key in range(3, 7):
        world.write(key, "09")
        world.look("09:31")
    looked = world.catalog.completions.progress(world.table.name)
    assert looked is not None and looked.looked == 5


# -- the double run ---------------------------------------------------------------------------------------


def parity(*, partitions: list[str], missing: int = 0, error: str | None = None) -> ParityResult:
    return ParityResult(
        table="dwd.t",
        against="batch",
        equal=not partitions,
        rows=9,
        missing=missing,
        extra=0,
        version=4,
        partitions=partitions,
        error=error,
    )


def run(spec: TableSpec, *compared: ParityResult) -> tuple[dict[str, Outcome], list[Any]]:
    """The outcomes of a double run over three hours, and the spans recomputed."""
    results, recomputed = iter(compared), []

    def recompute(table: Any, span: Any) -> RefreshResult:
        recomputed.append(span)
        return RefreshResult(
            table="dwd.t", start="", end="", partitions=[], rows=9, inserted=2, updated=1, deleted=0,
            version=5, seconds=0.1,
        )  # fmt: skip

    act = double_run(lambda table, span: next(results), recompute)
    return dict(
        act(cast("Any", SimpleNamespace(spec=spec)), LabelRange("2026112208", "2026112210"))
    ), recomputed


def test_a_double_run_that_agrees_writes_nothing(world: World) -> None:
    found, recomputed = run(world.table.spec, parity(partitions=[]))
    assert {label: o.word for label, o in found.items()} == {
        "2026112208": EQUAL, "2026112209": EQUAL, "2026112210": EQUAL
    }  # fmt: skip
    assert recomputed == []


def test_one_that_differs_recomputes_what_differs_and_says_so(world: World) -> None:
    wrong = parity(partitions=["2026112209"], missing=3)
    found, [span] = run(world.table.spec, wrong, parity(partitions=[]))
    assert [o.word for o in found.values()] == [EQUAL, REPAIRED, EQUAL]
    assert "3 rows that the table lacked" in found["2026112209"].detail
    assert "2 inserted, 1 updated, 0 deleted" in found["2026112209"].detail
    assert (span.start, span.end, span.only) == ("2026112209", "2026112209", frozenset({"2026112209"}))


def test_one_that_differs_still_says_that(world: World) -> None:
    wrong = parity(partitions=["2026112209"], missing=3)
    found, _ = run(world.table.spec, wrong, wrong)
    assert [o.word for o in found.values()] == [EQUAL, DIFFERS, EQUAL]


def test_one_that_cannot_be_compared_is_no_outcome(world: World) -> None:
    with pytest.raises(TransientError, match=r"the topic has no beginning.*Next: `headrace status`"):
        run(world.table.spec, parity(partitions=[], error="the topic has no beginning"))


def test_a_business_period_that_differs_still_is_not_closed(world: World) -> None:
    done = RefreshResult(
        table="dwd.t", start="", end="", partitions=[], rows=9, inserted=2, updated=1, deleted=0,
        version=5, seconds=0.1,
    )  # fmt: skip
    wrong = parity(partitions=["2026112209"], missing=3)
    act = settle(lambda table, span: wrong, lambda table, span: done)
    found = act(world.table, LabelRange("2026112208", "2026112210"))
    assert [o.word for o in found.values()] == [DIFFERS] * 3
    assert "2 inserted, 1 updated" in found["2026112209"].detail
    assert world.table.store.commit.immutable_before == ""


# -- what is told -----------------------------------------------------------------------------------------


def status(world: World) -> TableStatus:
    told = TableStatus(
        table="dwd.t", mode="CONTINUOUS", state="RUNNING", strategy="ROW", declared_freshness=10,
        measured_freshness=1, warnings=["before"],
    )  # fmt: skip
    registry, known = world.registry, summaries(world.catalog.completions)
    return with_completion(told, world.table, registry, known, world.completion)


def test_status_tells_how_far_a_table_is(world: World) -> None:
    assert status(world).watermark is None
    world.look("09:30")
    world.look("10:05")
    found = status(world)
    assert found.watermark == datetime(2026, 11, 22, 10, 5, tzinfo=UTC)
    assert (found.run_mode, found.complete_through) == ("real-time, offline", "2026112209")
    assert (found.outcomes, found.late_changes, found.warnings) == (3, 0, ["before"])


def test_status_tells_of_differences(world: World) -> None:
    world.look("09:30")
    world.action = lambda _, labels: {
        labels.start: Outcome(DIFFERS, "told"),
        labels.end: Outcome(REPAIRED, "told"),
    }
    world.look("11:05")
    assert status(world).warnings == [
        "before",
        "partitions 2026112209 still differ from their batch: `SHOW PARTITIONS` tells more",
        "partitions 2026112210 differed from their batch and were repaired: `SHOW PARTITIONS` tells more",
    ]


@pytest.mark.parametrize(("age", "told"), [(timedelta(hours=-1), 1), (timedelta(hours=1), 0)])
def test_what_was_repaired_is_told_for_a_day(
    world: World, monkeypatch: pytest.MonkeyPatch, age: timedelta, told: int
) -> None:
    world.look("09:30")
    world.action = lambda _, labels: {labels.start: Outcome(REPAIRED, "told")}
    then = datetime.now(UTC).replace(tzinfo=None) - REMEMBERED - age
    monkeypatch.setattr("headrace.catalog.completions.utc_now", lambda: then)
    world.look("10:05")
    assert len(status(world).warnings) == 1 + told


def test_show_partitions_tells_each(world: World) -> None:
    world.look("09:30")
    world.running = False
    world.look("10:05")
    world.table.warm_head = world.table.store.head
    first, *_, last = partition_listing(world.table, world.catalog.completions)
    assert (first["label"], first["rows"]) == ("2026112207", 1)
    assert (last["label"], last["outcome"], last["turn"], last["rows"]) == ("2026112209", WAITING, 0, 1)
    assert last["watermark"] == "2026-11-22T10:05:00Z"
    world.table.store.fits = False  # its rows are of another definition
    assert {p["rows"] for p in partition_listing(world.table, world.catalog.completions)} == {None}
    world.table.store.fits, world.table.warm_head = True, lambda: None
    assert {p["rows"] for p in partition_listing(world.table, world.catalog.completions)} == {None}
    world.table.spec = replace(world.table.spec, partition_format=None)
    with pytest.raises(TerminalError, match=r"no partitions by time. Next: declare PARTITIONED BY"):
        partition_listing(world.table, world.catalog.completions)
