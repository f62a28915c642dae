"""Traces, as who gathers them hears of them: by OTLP over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from collector import Collector, collecting
from headrace.engine.flow.traces import Refreshed, Traces

SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def told(span: Any) -> dict[str, Any]:
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}


def test_a_micro_batch_is_a_trace(collector: Collector) -> None:
    traces = Traces()
    traces.start(collector.url, "/shop")
    assert traces.active
    stg = Refreshed("stg.orders", NOW, NOW + 2, 3, 7, (NOW - SECOND) // 1_000_000, "")
    dws = Refreshed("dws.hour", NOW + 2, NOW + SECOND, 4, 9, (NOW - SECOND) // 1_000_000, "WEIGHTED")
    traces.micro_batch("shop", "r1", 5, NOW, [stg, dws])
    traces.micro_batch("shop", "r1", 6, NOW, [])  # nothing has changed
    traces.stop()
    assert not traces.active
    assert set(collector.paths) == {"/v1/traces"}
    assert collector.resources[0]["service.name"] == "headrace"
    assert collector.resources[0]["headrace.project"] == "/shop"
    spans = {span.name: span for span in collector.spans}
    assert spans.keys() == {"micro-batch", "source to server", "refresh stg.orders", "refresh dws.hour"}
    root = spans.pop("micro-batch")
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (NOW - SECOND, NOW + SECOND)
    assert told(root) == {"headrace.flow": "shop", "headrace.run": "r1", "headrace.step": 5}
    assert {span.trace_id for span in spans.values()} == {root.trace_id}
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    wait = spans["source to server"]
    assert (wait.start_time_unix_nano, wait.end_time_unix_nano) == (NOW - SECOND, NOW)
    assert told(spans["refresh dws.hour"]) == {
        "headrace.table": "dws.hour",
        "headrace.version": 9,
        "headrace.changes": 4,
        "headrace.strategy": "WEIGHTED",
    }
    assert "headrace.strategy" not in told(spans["refresh stg.orders"])


def test_a_source_whose_clock_is_ahead_began_no_later_than_the_server(collector: Collector) -> None:
    traces = Traces()
    traces.start(collector.url, "/shop")
    ahead = Refreshed("stg.orders", NOW, NOW + 2, 3, 7, (NOW + 60 * SECOND) // 1_000_000, "")
    unknown = Refreshed("stg.users", NOW, NOW + 2, 3, 7, 0, "")
    traces.micro_batch("shop", "r1", 5, NOW, [ahead, unknown])
    traces.stop()
    assert {s.start_time_unix_nano for s in collector.spans if s.name == "micro-batch"} == {NOW}


def test_nothing_is_told_to_nobody() -> None:
    traces = Traces()
    traces.micro_batch("shop", "r1", 5, NOW, [Refreshed("stg.orders", NOW, NOW, 1, 1, 0, "")])
    traces.stop()
    assert not traces.active
