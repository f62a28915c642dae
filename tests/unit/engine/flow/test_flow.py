"""What a flow does in a micro-batch, and where its source is silent, so that Spark begins none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.flow import flow as flow_module
from headrace.engine.flow import flow_tables, micro_batch
from headrace.engine.flow.flow import QUIET_SECONDS, Flow
from headrace.engine.flow.flow_tables import FlowTables
from headrace.engine.flow.micro_batch import MicroBatch
from headrace.engine.ingest.cuts import CutMissed
from headrace.engine.table.limits import Limits
from headrace.errors import TransientError
from headrace.planner.policy.relief import LARGEST, BatchSize
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.transactions import Transactions
from headrace.spec.model import SourceTable
from headrace.store.record.commits import Commit

NOW = 1000.0
ORDERS_TABLE = SourceTable("shop", "public", "orders")
ORDERS = "shop.public.orders"


class Held:
    """A gate that holds an event, until patience ends."""

    holds, topics, sources = True, (), ()

    def __init__(self) -> None:
        self.patient = True

    captured: tuple[str, ...] = ()
    held: tuple[Event, ...] = ()

    def begin(self, applied: Any, since_ms: Any) -> None:
        pass

    def admit(self, events: list[Event], ends: Any) -> tuple[list[Event], Any]:
        assert events == []
        if self.patient:
            return [], {}
        return [Event(ORDERS, 0, 4, None, "c", None, "{}", 1, 1, None, None, None)], ends


class Query:
    """A streaming query that runs no micro-batch by itself."""

    isActive = True

    def stop(self) -> None:
        pass


class Stream:
    """A streaming frame, whose writer takes every setting."""

    @property
    def writeStream(self) -> Stream:
        return self

    def __getattr__(self, name: str) -> Any:
        return (lambda **_: self) if name == "trigger" else (lambda *_: self)

    def start(self) -> Query:
        return Query()


@dataclass
class World:
    flow: Flow
    gate: Held
    sessions: Any
    topics: Any
    ends: dict[str, dict[int, int]] = field(default_factory=lambda: {ORDERS: {0: 5}})
    now: float = NOW

    def start(self, *active: Any) -> Flow:
        self.flow.start(active)
        return self.flow


Made = Any


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """`world(*tables, max_offsets=…)`: a flow that has not started, whose topics begin at offset 0."""
    made: list[World] = []

    def make(
        *tables: Any,
        max_offsets: int = 1,
        upstreams: Any = lambda table: {},
        bounds: Any = MappingProxyType({0: (0, 0)}),
        on_failure: Any = None,
        replaced: Any = MappingProxyType({}),
        marks: Any = (),
        behind: Any = lambda table: 1,
    ) -> World:
        registry = cast("Any", SimpleNamespace(upstreams=upstreams, behind=behind, limits=Limits()))
        spark = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None))
        waits = SimpleNamespace(wait=lambda seconds: None)
        sessions = cast("Any", SimpleNamespace(flow=spark, large=None, statements=waits))
        topics = cast(
            "Any",
            SimpleNamespace(
                ensure=lambda names: None,
                bounds=lambda names: {ORDERS: dict(bounds)},
                since=lambda bounds, moment: {},
            ),
        )
        unchanged = cast("Any", SimpleNamespace(look=lambda tables: {}))
        advancing = FlowTables("f", list(tables), sessions=sessions, registry=registry, on_failure=on_failure)
        gate = Held()
        batch = MicroBatch(
            advancing,
            sessions=sessions,
            broker=Broker("127.0.0.1:1"),
            columns=unchanged,
            dead_letters=cast("Any", None),
            gate=cast("Any", gate),
        )
        flow = Flow(
            advancing,
            batch,
            sessions=sessions,
            topics=topics,
            origins=cast("Any", SimpleNamespace(look=lambda tables: replaced)),
            columns=unchanged,
            marks=marks,
            broker=Broker("127.0.0.1:1"),
            directory=tmp_path,
            max_offsets=max_offsets,
        )
        world = World(flow, gate, sessions, topics)
        made.append(world)
        monkeypatch.setattr(flow_module.time, "monotonic", lambda: world.now)
        monkeypatch.setattr(flow_module.offsets, "end_offsets", lambda *_: world.ends)
        monkeypatch.setattr(flow_module.offsets, "stream", lambda *_: Stream())
        return world

    yield make
    for world in made:
        with closing(world.flow):
            pass


def stg(offset: int | None = None, name: str = "stg.orders") -> Any:
    commit = Commit("stg.orders", "stream", 1, offsets={} if offset is None else {ORDERS: {0: offset}})
    return SimpleNamespace(
        name=name,
        freshness=timedelta(seconds=10),
        spec=SimpleNamespace(source=ORDERS_TABLE, freshness=timedelta(seconds=10)),
        source=SimpleNamespace(table=ORDERS_TABLE),
        topic=ORDERS_TABLE.topic,
        store=SimpleNamespace(cold=False, version=1, commit=commit),
        standing=lambda: (commit, {}),
    )


def derived(name: str, seconds: int) -> Any:
    freshness = timedelta(seconds=seconds)
    return SimpleNamespace(
        name=name,
        freshness=freshness,
        spec=SimpleNamespace(source=None, freshness=freshness),
        standing=lambda: (Commit(name, "stream", 1), {}),
    )


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of derived tables in the order of their refreshes, which find nothing new."""
    found: list[str] = []
    monkeypatch.setattr(flow_tables, "refresh_table", lambda *args, **_: found.append(args[2].name))
    return found


@pytest.fixture
def ingested(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of the events that came to a stg table."""
    found: list[int] = []
    monkeypatch.setattr(
        micro_batch, "ingest_events", lambda *args, **_: found.extend(e.offset for e in args[3])
    )
    return found


def test_a_table_whose_topic_was_replaced_leaves_whatever_the_offsets_say(world: Made) -> None:
    left: list[str] = []
    replaced: dict[str, str] = {}
    made = world(
        stg(5), on_failure=lambda table, error: left.append(str(error)), bounds={0: (0, 9)}, replaced=replaced
    )
    flow = made.start("stg.orders")
    assert flow.active == {"stg.orders"}
    flow.look_at_sources()
    assert left == []
    replaced["stg.orders"] = "its topic was made anew"
    flow.look_at_sources()
    flow.look_at_sources()
    assert left == ["`stg.orders`: its topic was made anew. Next: `headrace resync stg.orders`"]
    assert flow.active == set()
    flow.stop()
    assert made.start("stg.orders").active == set()


@pytest.mark.parametrize(
    ("offsets", "lost", "begins"),
    [
        ((5, 9), [], 5),
        ((None, 9), ["stg.orders"], 9),  # it has read nothing yet, and the topic's beginning is gone
        ((2, 9), ["stg.orders"], 9),
        ((2, 99), ["stg.orders", "stg.again"], 12),  # for who comes back only what is to come counts
    ],
)
def test_a_table_whose_next_events_are_gone_leaves_at_the_start_and_the_flow_goes_on(
    world: Made, offsets: tuple[int | None, int], lost: list[str], begins: int
) -> None:
    tables = [stg(offsets[0]), stg(offsets[1], "stg.again")]
    left: list[tuple[str, str]] = []
    made = world(
        *tables,
        bounds={0: (3, 12)},
        on_failure=lambda table, error: left.append((table.name, str(error))),
    )
    flow = made.start(*(table.name for table in tables))
    assert [name for name, _ in left] == lost
    assert all(f"Next: `headrace resync {name}`" in says for name, says in left)
    assert flow.active == {table.name for table in tables} - set(lost)
    assert flow.position == {ORDERS: {0: begins}}


@pytest.mark.parametrize(
    ("source_ms", "next_ms", "begins"),
    [
        (500_000, 0, 440_000),
        (500_000, 900_000, 440_000),  # what a kill left half applied was committed before it
        (0, 900_000, 840_000),  # its tables have nothing yet
        (0, 0, 0),  # and there is nothing for them: all of what comes counts
    ],
)
def test_a_start_reads_no_more_of_marks_and_transactions_than_it_may_need(
    world: Made, monkeypatch: pytest.MonkeyPatch, source_ms: int, next_ms: int, begins: int
) -> None:
    table = stg(5)
    table.store.commit = replace(table.store.commit, source_ms=source_ms)
    made = world(table, marks=["shop.message"])
    asked: dict[str, int] = {}
    held = {ORDERS: {0: (0, 9)}, "shop.transaction": {0: (0, 9_000)}, "shop.message": {0: (0, 9_000)}}

    def since(bounds: Any, moment: int) -> Any:
        asked.update(dict.fromkeys(bounds, moment))
        return {topic: {0: {"shop.message": 8_950, "shop.transaction": 8_000}[topic]} for topic in bounds}

    made.topics.bounds, made.topics.since = lambda names: held, since
    flow, begun = made.flow, []
    monkeypatch.setattr(made.gate, "sources", [Transactions("shop.transaction", [ORDERS])], raising=False)
    monkeypatch.setattr(made.gate, "begin", lambda applied, since_ms: begun.append(since_ms))
    monkeypatch.setattr(MicroBatch, "next_commit", lambda *_: next_ms)
    monkeypatch.setattr(flow_module.time, "time", lambda: 1_000.0)
    flow.start({"stg.orders"})
    assert begun == [{"shop.transaction": begins}]
    assert asked == {"shop.transaction": begins or 940_000, "shop.message": 940_000}
    assert flow.position == {
        ORDERS: {0: 5},
        "shop.transaction": {0: 8_000},
        "shop.message": {0: 8_900},  # an idle source's last heartbeat may be older than a minute
    }


def test_what_the_gate_lost_patience_with_is_applied_without_a_micro_batch(
    world: Made, ingested: list[int]
) -> None:
    made = world(stg())
    flow = made.start("stg.orders")
    flow.admit_late()
    assert ingested == []
    made.gate.patient = False
    flow.admit_late()
    assert ingested == [4]


def test_a_flow_that_does_not_run_applies_nothing_late(world: Made, ingested: list[int]) -> None:
    made = world(stg())
    made.gate.patient = False
    made.flow.admit_late()
    flow = made.start("stg.orders")
    flow.stop()
    flow.admit_late()
    assert ingested == []


def test_derived_tables_catch_up_once_where_no_micro_batch_follows_the_start(
    world: Made, refreshed: list[str]
) -> None:
    made = world(derived("dws.t", 10))
    flow = made.start("dws.t")
    made.now += QUIET_SECONDS - 0.1
    flow.settle_where_quiet()
    assert refreshed == []
    made.now += 1
    flow.settle_where_quiet()
    flow.settle_where_quiet()
    assert refreshed == ["dws.t"]


def test_derived_tables_wait_for_the_whole_of_a_first_load(world: Made, refreshed: list[str]) -> None:
    flow = world(derived("dws.t", 10)).start("dws.t")
    with flow.first_load({ORDERS}):
        flow.settle()
        assert refreshed == []
    flow.settle()
    assert refreshed == ["dws.t"]


def test_of_very_many_tables_those_are_refreshed_that_may_have_something_to_do(
    world: Made, refreshed: list[str]
) -> None:
    made = [derived(f"dws.{name}", 10) for name in ("rests", "behind", "cold", "empty", "covered")]
    for table, version, cold, covered in zip(
        made, (1, 1, 1, 0, 0), (False, False, True, False, False), ({}, {}, {}, {}, {"stg.a": 0}), strict=True
    ):
        table.store = SimpleNamespace(version=version, cold=cold)
        table.run = SimpleNamespace(covered=covered)
    flow = world(*made, behind=lambda table: int(table.name == "dws.behind")).start(*(t.name for t in made))
    flow.settle()
    assert sorted(refreshed) == ["dws.behind", "dws.cold", "dws.empty"]


def test_a_table_that_left_stands_still_until_it_joins_again(world: Made, refreshed: list[str]) -> None:
    flow = world(derived("dws.a", 10), derived("dws.b", 10)).start("dws.a", "dws.b")
    flow.leave("dws.a")
    flow.settle()
    assert refreshed == ["dws.b"]
    flow.join("dws.a")
    flow.settle()
    assert sorted(refreshed[1:]) == ["dws.a", "dws.b"]


def test_a_micro_batch_leaves_the_cores_to_statements_unless_a_comparison_waits_for_it(
    world: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(flow_tables.Pace, "pause", lambda self: 0.7)
    made = world()
    made.sessions.statements.wait = waited.append
    flow = made.flow  # it does not run: nothing more is read
    flow.process(None, 1)
    assert waited == [0.7]
    flow.hurry(True)
    flow.process(None, 2)
    assert waited == [0.7]
    flow.hurry(False)
    cut = flow.cuts.expect("token")
    flow.process(None, 3)
    assert waited == [0.7]
    flow.close()
    with pytest.raises(CutMissed):  # whoever waits for a flow that is closed is told
        cut.result(0)


class Steps:
    """Takes the place of a micro-batch's steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[int, bool]] = []
        self.then: Any = lambda: None
        monkeypatch.setattr(MicroBatch, "step", lambda batch, *args, **whole: self(batch, *args, **whole))

    def __call__(self, batch: MicroBatch, ends: Any, *, whole: bool) -> None:
        self.taken.append((ends[ORDERS][0], whole))
        batch.read_to = batch.asked = ends
        batch.changed_at = flow_module.time.monotonic()
        self.then()


@pytest.mark.parametrize(
    ("most", "size", "ends", "parts"),
    [
        (LARGEST, 1000, 100, [(100, True)]),
        (LARGEST, 40, 100, [(40, False), (80, False), (100, True)]),
        # Spark may have left some of so many
        (LARGEST, LARGEST, LARGEST // 2 + 1, [(LARGEST // 2 + 1, False)]),
    ],
)
def test_a_micro_batch_is_committed_in_parts_where_it_is_too_large_for_the_freshness(
    world: Made, monkeypatch: pytest.MonkeyPatch, most: int, size: int, ends: int, parts: list[Any]
) -> None:
    steps, made = Steps(monkeypatch), world(max_offsets=most)
    flow = made.start()
    made.ends, flow.batch_size = {ORDERS: {0: ends}}, BatchSize(size)
    flow.process(None, 4)
    assert steps.taken == parts


def test_what_comes_soon_after_a_micro_batch_is_carried_by_the_same_one_of_sparks(
    world: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its time: an interval after the one before, or at once where that is over."""
    steps, made = Steps(monkeypatch), world(max_offsets=LARGEST)
    flow, gate = made.start(), made.gate
    gate.holds = False
    interval = 0.4  # a 25th of ten seconds
    came = [(0.05, 101), (0.1, 103), (1.0, 104), (1.9, 105), (99.0, 106)]  # seconds after it began
    times: list[float] = []
    steps.then = lambda: times.append(round(made.now - NOW, 2))

    def there(messages: Any) -> Any:
        return {ORDERS: {0: max((end for at, end in came if NOW + at <= made.now), default=100)}}

    def sleep(seconds: float) -> None:
        made.now += seconds

    monkeypatch.setattr(micro_batch.Messages, "there", there)
    monkeypatch.setattr(flow_module.time, "sleep", sleep)
    monkeypatch.setattr(flow_tables.Pace, "interval", lambda self: interval)
    made.ends = {ORDERS: {0: 100}}
    flow.process(None, 4)
    assert [end for end, _ in steps.taken] == [100, 103, 104, 105]
    assert times == pytest.approx([0.0, 0.4, 1.01, 1.91], abs=0.03)
    assert made.now == pytest.approx(NOW + flow_module.OPEN_SECONDS, abs=0.05)  # then it is Spark's
    gate.holds = True  # of a transaction whose beginning was carried, the end does not wait
    steps.taken.clear(), times.clear()
    came = [(0.0, 105), (made.now - NOW + 0.05, 106)]
    begun = made.now - NOW
    flow.process(None, 4)
    assert [end for end, _ in steps.taken] == [105, 106]
    assert times[1] - begun == pytest.approx(0.06, abs=0.02)


def test_a_micro_batch_of_sparks_ends_while_messages_go_on_coming(
    world: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, made = Steps(monkeypatch), world(max_offsets=LARGEST)
    flow = made.start()
    monkeypatch.setattr(micro_batch.Messages, "there", lambda _: {ORDERS: {0: int(10 * made.now)}})
    monkeypatch.setattr(flow_module.time, "sleep", lambda seconds: setattr(made, "now", made.now + seconds))
    made.ends = {ORDERS: {0: 100}}
    flow.process(None, 4)
    assert NOW < made.now <= NOW + flow_module.OPEN_SECONDS + 0.1
    assert len(steps.taken) > 10


def test_a_flow_that_stops_leaves_the_rest_of_a_large_micro_batch(
    world: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, made = Steps(monkeypatch), world(max_offsets=40)
    flow = made.start()
    made.ends, steps.then = {ORDERS: {0: 100}}, flow.stop
    flow.process(None, 4)
    assert steps.taken == [(40, False)]


def test_a_table_trails_at_its_new_pace_at_once(world: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """No micro-batch may follow, and what was planned by its former freshness may be hours away."""
    done: list[object] = []
    trailing = flow_tables.Trailing
    monkeypatch.setattr(trailing, "retain", lambda self, tables: done.append([t.name for t in tables]))
    monkeypatch.setattr(
        trailing,
        "follow",
        lambda self, table, freshness, reads_trailing: done.append((table.name, freshness, reads_trailing)),
    )
    loose, reader = derived("loose", 60), derived("reader", 60)
    reads: dict[str, dict[str, Any]] = {"reader": {"loose": loose}}
    made = world(derived("tight", 10), upstreams=lambda table: reads.get(table.name, {}))
    flow = made.start("tight", "loose", "reader")
    flow.change([derived("tight", 10), loose, derived("suspended", 60), reader])
    assert done == [["loose", "suspended", "reader"], ("loose", 60.0, False), ("reader", 60.0, True)]


def test_of_tables_that_never_stand_together_those_that_trail_catch_up(
    world: Made, refreshed: list[str]
) -> None:
    """Upstreams first, and nothing that the query does not come from."""
    steady, other = derived("dws.steady", 10), derived("dws.other", 60)
    slow, last = derived("dws.slow", 60), derived("dws.last", 60)
    for table in (steady, other, slow, last):
        table.warm_head = lambda: None
    reads = {"dws.slow": {"dws.steady": steady}, "dws.last": {"dws.slow": slow}}
    made = world(steady, other, slow, last, upstreams=lambda table: reads.get(table.name, {}))
    flow = made.start(*(t.name for t in (steady, other, slow, last)))
    with pytest.raises(TransientError, match=r"`dws\.last`, `dws\.steady` do not come to stand at one cut"):
        flow.common_cut(["dws.steady", "dws.last"])
    assert refreshed[:2] == ["dws.slow", "dws.last"] and set(refreshed) == {"dws.slow", "dws.last"}


def test_tables_that_stand_together_are_read_as_they_are(world: Made, refreshed: list[str]) -> None:
    steady, other = derived("dws.steady", 10), derived("dws.other", 10)
    flow = world(steady, other).start("dws.steady", "dws.other")
    assert flow.common_cut(["dws.steady", "dws.other"]) == {"dws.steady": 1, "dws.other": 1}
    assert refreshed == []
