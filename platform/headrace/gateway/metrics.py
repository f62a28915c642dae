"""What the warehouse is like, as Prometheus reads it: `GET /metrics`.

Everything is read when it is asked for; nothing is counted in between. What a table's commits record
(rows changed, events) goes on over restarts; the JVM's numbers begin anew with each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from headrace.results import JvmStatus, SourceState, State, TableCost, TableStatus

CONTENT_TYPE = CONTENT_TYPE_LATEST

STATES: Sequence[State] = ("INITIALIZING", "RUNNING", "SUSPENDED", "FAILED", "NEEDS RESYNC")

_GAUGES = {
    "freshness_seconds": ("from the source's commit to the newest change applied", "measured_freshness"),
    "freshness_declared_seconds": ("declared, or of the tightest table that reads it", "freshness_to_keep"),
    "rows": ("rows of the table", "rows"),
    "version": ("newest version of its changelog", "version"),
    "snapshot_version": ("version that its snapshot stands at", "snapshot_version"),
    "tail_rows": ("changed keys that the snapshot lacks", "tail_rows"),
    "lag": ("events, or versions of what it reads, that are not applied", "lag"),
    "dead_letters": ("messages that could not be applied and wait for a person", "dead_letters"),
    "quarantined_rows": ("rows in quarantine, when they were counted last", "quarantined"),
}
_PUBLISHED = {
    "published_version": ("version that its target has", "version"),
    "published_behind": ("versions that its target lacks", "behind"),
    "published_freshness_seconds": (
        "from the source's commit to the target's, what nine in ten kept in the last minute",
        "measured_p90",
    ),
}
_CHANGES = ("inserted", "updated", "deleted")
_NO_EVENTS = ("since", "began", "miscounted", "events", *_CHANGES)


def exposition(
    tables: Sequence[TableStatus],
    jvm: JvmStatus | None,
    spent: Sequence[TableCost] = (),
    sources: Sequence[SourceState] = (),
) -> bytes:
    """The text of all metrics, of type `CONTENT_TYPE`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once([*_metrics(tables, jvm), _costs(spent), *_of_sources(sources)]))
    return generate_latest(registry)


class _Once:
    """A collector of what was gathered already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _metrics(tables: Sequence[TableStatus], jvm: JvmStatus | None) -> Iterator[Metric]:
    info = InfoMetricFamily("headrace_table", "how a table runs", labels=["table"])
    state = GaugeMetricFamily("headrace_table_state", "1 of the state it is in", labels=["table", "state"])
    kept = GaugeMetricFamily(
        "headrace_table_freshness_kept_seconds",
        "what a share of its commits kept of late",
        labels=["table", "quantile"],
    )
    late = GaugeMetricFamily(
        "headrace_table_late", "1 where nine in ten commits of late miss what is declared", labels=["table"]
    )
    watermark = GaugeMetricFamily(
        "headrace_table_watermark_timestamp_seconds",
        "commit time at the source up to which everything is in the table",
        labels=["table"],
    )
    told = GaugeMetricFamily(
        "headrace_table_messages", "alarms and warnings of `headrace status`", labels=["table", "level"]
    )
    for table in tables:
        name = table.table
        info.add_metric([name], {"mode": table.mode, "strategy": table.strategy, "run_mode": table.run_mode})
        for known in STATES:
            state.add_metric([name, known.lower().replace(" ", "_")], float(table.state == known))
        for quantile, seconds in (("0.5", table.measured_p50), ("0.9", table.measured_p90)):
            if seconds is not None:
                kept.add_metric([name, quantile], seconds)
        late.add_metric([name], float(table.late))
        if table.watermark is not None:
            watermark.add_metric([name], table.watermark.timestamp())
        told.add_metric([name, "alarm"], len(table.alarms) + (table.last_error is not None))
        told.add_metric([name, "warning"], len(table.warnings))
    yield from (info, state, kept, late, watermark, told)
    yield from (_gauge(key, *what, [(t.table, t) for t in tables]) for key, what in _GAUGES.items())
    published = [(t.table, t.published) for t in tables if t.published is not None]
    yield from (_gauge(key, *what, published) for key, what in _PUBLISHED.items())
    yield from _counters(tables)
    if jvm is not None:
        yield from _of_jvm(jvm)


def _gauge(key: str, text: str, attribute: str, of: Sequence[tuple[str, object]]) -> GaugeMetricFamily:
    metric = GaugeMetricFamily(f"headrace_table_{key}", text, labels=["table"])
    for name, status in of:
        if (value := getattr(status, attribute)) is not None:
            metric.add_metric([name], float(value))
    return metric


def _counters(tables: Sequence[TableStatus]) -> Iterator[Metric]:
    rows = CounterMetricFamily(
        "headrace_table_changes", "rows that its commits have changed", labels=["table", "change"]
    )
    events = CounterMetricFamily(
        "headrace_table_events", "events of a stg table, and what became of them", labels=["table", "outcome"]
    )
    for table in tables:
        for change in _CHANGES:
            rows.add_metric([table.table, change], table.accounting.get(change, 0))
        for outcome, count in sorted(table.accounting.items()):
            if outcome not in _NO_EVENTS:
                events.add_metric([table.table, outcome.replace(" ", "_")], count)
    yield from (rows, events)


def _costs(spent: Sequence[TableCost]) -> Metric:
    metric = CounterMetricFamily(
        "headrace_table_core_seconds",
        "processor time of the server and its JVM since it started, by what it worked for; empty: for all "
        "tables of a flow together",
        labels=["table", "work"],
    )
    for cost in spent:
        metric.add_metric([cost.table, cost.work], cost.core_seconds)
    return metric


def _of_sources(sources: Sequence[SourceState]) -> Iterator[Metric]:
    up = GaugeMetricFamily("headrace_source_up", "1 where its database answers", labels=["source"])
    runs = GaugeMetricFamily(
        "headrace_source_connector_running", "1 where Kafka Connect says so", labels=["source"]
    )
    lag = GaugeMetricFamily(
        "headrace_source_slot_lag_bytes", "log that its server keeps for the connector", labels=["source"]
    )
    told = GaugeMetricFamily(
        "headrace_source_messages", "alarms and warnings about it", labels=["source", "level"]
    )
    for source in sources:
        up.add_metric([source.source], float(source.answers))
        runs.add_metric([source.source], float(source.connector == "RUNNING"))
        if source.slot_lag is not None:
            lag.add_metric([source.source], source.slot_lag)
        told.add_metric([source.source, "alarm"], source.alarms)
        told.add_metric([source.source, "warning"], source.warnings)
    yield from (up, runs, lag, told)


def _of_jvm(jvm: JvmStatus) -> Iterator[Metric]:
    for name, text, value in (
        ("processor_seconds", "of the warehouse's JVM, all threads", jvm.processor_seconds),
        ("compiler_seconds", "of these, of the JVM's own compilers", jvm.compiler_seconds),
        ("classes_generated", "classes that Spark generated and compiled", jvm.classes_generated),
        ("micro_batches", "micro-batches of all flows", jvm.micro_batches),
    ):
        yield CounterMetricFamily(f"headrace_jvm_{name}", text, value=value)
