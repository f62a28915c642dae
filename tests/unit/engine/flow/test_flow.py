"""What a flow does in a micro-batch, and where its source is silent, so that Spark begins none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.flow import flow as flow_module
from headrace.engine.flow.flow import QUIET_SECONDS, Flow
from headrace.engine.ingest.cuts import CutMissed
from headrace.planner.policy.relief import BatchSize

NOW = 1000.0


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A flow of no tables whose query runs."""
    monkeypatch.setattr(flow_module.time, "monotonic", lambda: NOW)
    made = cast("Any", Flow)(
        "empty",
        [],
        sessions=SimpleNamespace(flow=None),
        registry=None,
        topics=None,
        bootstrap="127.0.0.1:1",
        dead_letters=None,
        directory=tmp_path,
        max_offsets=1,
        gate=None,
        on_failure=None,
    )
    made._query = SimpleNamespace(stop=lambda: None)
    with closing(made):
        yield made


class Held:
    """A gate that holds an event, until patience ends."""

    holds = True

    def __init__(self, patient: bool) -> None:
        self.patient = patient

    def admit(self, events: list[str], ends: object) -> tuple[list[str], object]:
        assert events == []
        return ([], {}) if self.patient else (["late"], ends)


def test_what_the_gate_lost_patience_with_is_applied_without_a_micro_batch(flow: Any) -> None:
    applied: list[object] = []
    flow._small = lambda events, ends, batch: applied.append(events)
    flow._read_to, flow.position = {"t": {0: 5}}, {"t": {0: 4}}
    flow._gate = Held(patient=True)
    flow.admit_late()
    assert (applied, flow.position) == ([], {"t": {0: 4}})
    flow._gate.patient = False
    flow.admit_late()
    assert (applied, flow.position) == ([["late"]], {"t": {0: 5}})


def test_a_flow_that_stops_applies_nothing_late(flow: Any) -> None:
    flow._small = lambda *_: pytest.fail("applied")
    flow._gate, flow._query = Held(patient=False), None
    flow.admit_late()


def test_derived_tables_catch_up_once_where_no_micro_batch_follows_the_start(
    flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[int] = []
    flow._derived = lambda known, batch: settled.append(batch)
    flow._unsettled = NOW - QUIET_SECONDS + 0.1
    flow.settle_where_quiet()
    assert settled == []
    monkeypatch.setattr(flow_module.time, "monotonic", lambda: NOW + 1)
    flow.settle_where_quiet()
    flow.settle_where_quiet()
    assert settled == [-1]


def test_a_micro_batch_leaves_the_cores_to_statements_unless_a_comparison_waits_for_it(
    flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    flow._sessions.statements = SimpleNamespace(wait=waited.append)
    flow._pace = SimpleNamespace(pause=lambda: 0.7)
    flow._query = None  # stopping: nothing more is read
    monkeypatch.setattr(flow_module.offsets, "end_offsets", lambda *_: {"t": {0: 9}})
    flow._process(None, 1)
    assert waited == [0.7]
    cut = flow.cuts.expect("token")
    flow._process(None, 2)
    assert waited == [0.7]
    flow.close()
    with pytest.raises(CutMissed):  # whoever waits for a flow that is closed is told
        cut.result(0)


def test_a_micro_batch_is_committed_in_parts_where_it_is_too_large_for_the_freshness(
    flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[tuple[int, bool]] = []

    def step(ends: Any, batch_id: int, *, whole: bool) -> None:
        assert batch_id == 4 and flow._query is not None
        parts.append((ends["t"][0], whole))
        flow._read_to = ends

    monkeypatch.setattr(flow_module.offsets, "end_offsets", lambda *_: {"t": {0: 110}})
    flow._sessions.statements = SimpleNamespace(wait=lambda _: None)
    flow._pace = SimpleNamespace(pause=lambda: 0.0, ended=lambda _: None)
    flow._step, flow._read_to, flow._max_offsets = step, {"t": {0: 10}}, 1000
    flow.batch_size = BatchSize(1000)
    flow._process(None, 4)
    assert parts == [(110, True)]

    parts.clear()
    flow._read_to, flow.batch_size = {"t": {0: 10}}, BatchSize(40)
    flow._process(None, 4)
    assert parts == [(50, False), (90, False), (110, True)]

    parts.clear()
    flow._read_to, flow._max_offsets = {"t": {0: 10}}, 199  # Spark may have left some
    flow._process(None, 4)
    assert parts[-1] == (110, False)


def test_a_flow_that_stops_leaves_the_rest_of_a_large_micro_batch(
    flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[int] = []

    def step(ends: Any, batch_id: int, *, whole: bool) -> None:
        parts.append(ends["t"][0])
        flow._read_to, flow._query = ends, None

    monkeypatch.setattr(flow_module.offsets, "end_offsets", lambda *_: {"t": {0: 100}})
    flow._sessions.statements = SimpleNamespace(wait=lambda _: None)
    flow._pace = SimpleNamespace(pause=lambda: 0.0, ended=lambda _: pytest.fail("it did not end"))
    flow._step, flow._read_to, flow.batch_size = step, {"t": {0: 0}}, BatchSize(40)
    flow._process(None, 4)
    assert parts == [40]


def test_a_table_trails_at_its_new_pace_at_once(flow: Any) -> None:
    """No micro-batch may follow, and what was planned by its former freshness may be hours away."""
    done: list[object] = []

    def table(name: str, seconds: int) -> SimpleNamespace:
        freshness = timedelta(seconds=seconds)
        return SimpleNamespace(
            name=name, freshness=freshness, spec=SimpleNamespace(source=None, freshness=freshness)
        )

    flow._trailing.forget = lambda: done.append("forgotten")
    flow._trailing.follow = lambda table, between: done.append((table.name, between))
    flow._registry = SimpleNamespace(upstreams=lambda table: {}, behind=lambda table: 1)
    flow.active = {"tight", "loose"}
    flow.change([table("tight", 10), table("loose", 60), table("suspended", 60)])
    assert done == ["forgotten", ("loose", 15.0)]
