"""Metrics, as Prometheus' own parser reads them, and who may ask for them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from gateway_support import Gateway
from prometheus_client.parser import text_string_to_metric_families

from headrace.gateway.metrics import exposition
from headrace.results import JvmStatus, PublishStatus, SourceState, TableCost, TableStatus

DASHBOARD = Path(__file__).resolve().parents[3] / "deploy" / "grafana" / "headrace.json"


def table(name: str, **values: Any) -> TableStatus:
    given = {"mode": "CONTINUOUS", "state": "RUNNING", "strategy": "ROW", "declared_freshness": 10.0}
    return TableStatus(table=name, **{**given, "measured_freshness": None, **values})


ORDERS = table(
    "stg.orders",
    rows=7,
    version=12,
    lag=3,
    measured_freshness=0.5,
    measured_p50=0.6,
    measured_p90=11.0,
    freshness_to_keep=10.0,
    watermark=datetime(2026, 11, 28, tzinfo=UTC),
    alarms=["one", "two"],
    accounting={"since": 0, "began": 0, "inserted": 9, "deleted": 2, "events": 11, "dead letters": 1},
)
HOURS = table(
    "dws.hours",
    state="NEEDS RESYNC",
    last_error="gone",
    published=PublishStatus(target="t", version=4, behind=2, measured_p90=1.25),
)
JVM = JvmStatus(java="25", processor_seconds=9.5, compiler_seconds=1.0, classes_generated=3, micro_batches=8)


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}


def test_what_is_told_of_a_table() -> None:
    found = samples(exposition([ORDERS, HOURS], JVM).decode())

    def value(name: str, **labels: str) -> float | None:
        return found.get((f"headrace_{name}", frozenset(labels.items())))

    orders, hours = {"table": "stg.orders"}, {"table": "dws.hours"}
    assert value("table_info", **orders, mode="CONTINUOUS", strategy="ROW", run_mode="real-time") == 1
    assert value("table_state", **orders, state="running") == 1
    assert value("table_state", **orders, state="failed") == 0
    assert value("table_state", **hours, state="needs_resync") == 1
    assert value("table_freshness_seconds", **orders) == 0.5
    assert value("table_freshness_seconds", **hours) is None
    assert value("table_freshness_declared_seconds", **orders) == 10
    assert value("table_freshness_kept_seconds", **orders, quantile="0.9") == 11
    assert (value("table_late", **orders), value("table_late", **hours)) == (1, 0)
    assert (value("table_rows", **orders), value("table_lag", **orders)) == (7, 3)
    assert value("table_watermark_timestamp_seconds", **orders) == 1795824000
    assert value("table_messages", **orders, level="alarm") == 2
    assert value("table_messages", **hours, level="alarm") == 1  # its error
    assert value("table_changes_total", **orders, change="inserted") == 9
    assert value("table_changes_total", **orders, change="updated") == 0
    assert value("table_events_total", **orders, outcome="dead_letters") == 1
    assert value("table_events_total", **orders, outcome="since") is None
    assert value("table_published_behind", **hours) == 2
    assert value("table_published_freshness_seconds", **hours) == 1.25
    assert value("table_published_version", **orders) is None
    assert value("jvm_processor_seconds_total") == 9.5
    assert value("jvm_micro_batches_total") == 8


def test_before_the_tables_are_there() -> None:
    assert not [key for key in samples(exposition([], None).decode()) if key[1]]


def test_who_reads_may_ask_for_them(gateway: Gateway) -> None:
    url = f"http://127.0.0.1:{gateway.settings.gateway_port}/metrics"
    assert httpx.get(url).status_code == 401
    answer = httpx.get(url, headers={"Authorization": "Bearer reader"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    told = samples(answer.text)
    assert told["headrace_table_version", frozenset({("table", "stg.orders")})] == 7
    work = frozenset({("table", "dws.total"), ("work", "stream")})
    assert told["headrace_table_core_seconds_total", work] == 2.5


def test_of_sources() -> None:
    gone = SourceState(source="b", answers=False, connector=None, alarms=2)
    shop = SourceState(source="a", answers=True, connector="RUNNING", slot_lag=4096, warnings=1)
    told = samples(exposition([], None, [], [shop, gone]).decode())

    def value(name: str, source: str, **labels: str) -> float | None:
        return told.get((f"headrace_source_{name}", frozenset({"source": source, **labels}.items())))

    assert [value("up", source) for source in "ab"] == [1, 0]
    assert [value("connector_running", source) for source in "ab"] == [1, 0]
    assert [value("slot_lag_bytes", source) for source in "ab"] == [4096, None]
    assert value("messages", "a", level="warning") == 1 and value("messages", "b", level="alarm") == 2


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    """Each expression of each panel names one of ours, and panels do not lie on one another."""
    cost = TableCost(table="dws.t", work="stream", core_seconds=1, seconds=1, runs=1, changes=1)
    shop = SourceState(source="shop", answers=True, connector="RUNNING", slot_lag=1)
    told = {name for name, _ in samples(exposition([ORDERS, HOURS], JVM, [cost], [shop]).decode())}
    dashboard = json.loads(DASHBOARD.read_text())
    places = set()
    for panel in dashboard["panels"]:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            named = set(re.findall(r"headrace_\w+", target["expr"]))
            assert named and named <= told, target["expr"]
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & places, panel["title"]
        places |= cells
    assert max(x for x, _ in places) < 24
