"""What the warehouse says of its tables: status, explanation, description."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.catalog.catalog import CatalogRow
from headrace.catalog.decisions import Decided
from headrace.engine.flow.flow import Flow
from headrace.engine.flow.freshness.monitor import SHARE, WINDOW_SECONDS
from headrace.engine.spark.query import quarantining
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, Table, is_stg
from headrace.errors import TransientError
from headrace.results import Explanation, PropertyDecision, PublishStatus, TableStatus
from headrace.scheduling.turns import PAST
from headrace.sources.stream.topics import Topics
from headrace.spec.alteration import Alteration, freshness_text
from headrace.spec.model import RefreshMode, TableName
from headrace.spec.partitions.completion import completion_text
from headrace.store.record.account import accounts, refresh_decisions
from headrace.store.record.commits import HISTORY, told
from headrace.store.record.frontier import Offsets

DECISIONS = 10
"""Newest decisions about a table that EXPLAIN shows."""


def initializing(name: TableName, waiting_for: str) -> TableStatus:
    """A table before its source was found."""
    return TableStatus(
        table=str(name),
        mode="",
        state="INITIALIZING",
        strategy="",
        declared_freshness=None,
        measured_freshness=None,
        last_error=waiting_for,
    )


def topic_ends(topics: Topics, registry: Registry) -> Offsets:
    """Where the topics of the stg tables end now; nothing where Kafka does not answer."""
    try:
        return topics.ends([t.topic for t in registry if is_stg(t)])
    except TransientError:
        return {}


def table_status(
    table: Table,
    registry: Registry,
    row: CatalogRow,
    ends: Offsets,
    *,
    dead_letters: int,
    warnings: list[str],
    alarms: list[str],
    published: PublishStatus | None,
) -> TableStatus:
    """Args:
    ends: where the topics end now; lags of tables whose topic is not among them are unknown.
    """
    commit, freshness, aside = table.store.commit, table.spec.freshness, table.run.quarantine
    keep = table.freshness.total_seconds() if table.freshness and not offline(table) else None
    # A table on a schedule commits seldom: its last few refreshes.
    window = (
        WINDOW_SECONDS if table.mode is RefreshMode.CONTINUOUS else max(WINDOW_SECONDS, PAST * (keep or 0))
    )
    return TableStatus(
        table=str(table.name),
        mode=str(table.mode),
        state=row.state,
        strategy=table.plan.strategy.name,
        declared_freshness=freshness.total_seconds() if freshness else None,
        measured_freshness=table.run.latency,
        measured_p50=table.run.measured(0.5, window),
        measured_p90=table.run.measured(SHARE, window),
        freshness_to_keep=keep,
        rows=commit.rows,
        version=commit.version,
        snapshot_version=table.store.pin.compacted,
        tail_rows=table.store.tail_rows,
        lag=_lag(table, registry, ends),
        dead_letters=dead_letters,
        last_error=row.error,
        warnings=warnings,
        alarms=alarms,
        frontier=commit.frontier,
        quarantined=aside.rows if aside is not None else None,
        quarantined_by=aside.by_constraint if aside is not None else {},
        accounting=commit.totals,
        published=published,
    )


def _lag(table: Table, registry: Registry, ends: Offsets) -> int | None:
    """Events, or upstream versions, not yet applied; None of a table that waits for complete partitions."""
    if offline(table):
        return None
    if is_stg(table):
        topic = table.topic
        if topic not in ends:
            return None
        done = table.store.commit.offsets.get(topic, {})
        return sum(max(0, end - done.get(p, 0)) for p, end in ends[topic].items())
    return registry.behind(table)


def explain(
    table: Table, flow: Flow | None, decided: Iterable[Decided], *, history: bool = False
) -> Explanation:
    """Freshness, refresh mode and strategy, and why; with `history` past refreshes, newest first."""
    notes = list(table.plan.notes)
    if is_stg(table):
        full = table.source.full_identity
        name, means = ("FULL", "complete before images") if full else ("DEFAULT", "look-ups")
        notes.append(f"REPLICA IDENTITY {name}: the row before a change comes from {means}")
        notes += [f"column `{left}` of its source is left out: {why}" for left, why in table.source.left_out]
    if bound := table.store.commit.immutable_before:
        notes.append(f"partitions before '{bound}' are immutable: no query, backfill or proof touches them")
    if rules := quarantining(table.spec):
        notes.append(f"rows that break {_named(c.name for c in rules)} are in quarantine: {_aside(table)}")
    if through := table.store.commit.complete_through:
        notes.append(f"the batch alone has written it: partitions up to '{through}', and no others")
    commits = told(table.store.changelog.path, HISTORY) if history else []
    return Explanation(
        table=str(table.name),
        freshness=freshness_text(table.spec.freshness),
        freshness_origin=table.spec.freshness_origin,
        refresh_mode=str(table.mode),
        mode_reason=table.mode_reason,
        strategy=table.plan.strategy.name,
        strategy_reason=table.plan.reason,
        refused=dict(table.plan.refused),
        upstreams=[str(u) for u in table.spec.upstreams],
        flow=[str(t.name) for t in flow.tables] if flow else [],
        notes=notes,
        run_mode=str(table.spec.run_mode),
        completion=completion_text(table.spec),
        decisions=[PropertyDecision.model_validate(d, from_attributes=True) for d in decided],
        history=refresh_decisions(commits),
        accounts=accounts(commits),
    )


def _named(names: Iterable[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _aside(table: Table) -> str:
    """What is known of its quarantine, and how to see it."""
    found = table.run.quarantine
    counted = "not counted yet" if found is None else f"{found.rows} at version {found.version}"
    return f"{counted}; `headrace quarantine {table.name}` shows them"


def quarantine_warnings(table: Table) -> list[str]:
    """What is in its quarantine; of a stg table that was not counted, what has gone there."""
    found, name = table.run.quarantine, table.name
    next_step = f"Next: `headrace quarantine {name}` shows them"
    if found is not None and found.rows:
        broken = ", ".join(f"{rule}: {n}" for rule, n in found.by_constraint.items() if n)
        return [f"{found.rows} rows are in quarantine ({broken}). {next_step}"]
    events = sum(n for key, n in table.store.commit.totals.items() if key.startswith("quarantined "))
    if found is None and events and quarantining(table.spec):
        return [f"{events} events had rows that went to quarantine. {next_step}"]
    return []


def quarantine_alarms(table: Table) -> list[str]:
    """Where more rows are in quarantine than its file allows."""
    found, limit = table.run.quarantine, table.spec.quarantine_limit
    if found is None or limit is None or found.rows <= limit:
        return []
    return [
        f"{found.rows} rows are in quarantine, more than the {limit} that 'quarantine.limit' allows. Next: "
        f"`headrace quarantine {table.name}` shows them; mend data or rule"
    ]


def describe_table(table: Table, status: TableStatus, alterations: Iterable[Alteration]) -> dict[str, Any]:
    """Columns, key, query and places, with the status and with what statements have set over the file."""
    return {
        "table": str(table.name),
        "comment": table.spec.comment,
        "columns": [{"name": n, "type": t} for n, t in table.store.schema.columns],
        "primary_key": list(table.store.schema.key),
        "partition": table.store.schema.partition,
        "immutable_before": table.store.commit.immutable_before,
        "query": table.spec.query,
        "completion": completion_text(table.spec),
        "altered": {a.what: {"value": a.value, "file": a.over} for a in alterations},
        "snapshot": str(table.store.snapshot.path),
        "changelog": str(table.store.changelog.path),
        **status.model_dump(),
    }


def listing(statuses: Iterable[TableStatus]) -> list[dict[str, Any]]:
    """`SHOW MATERIALIZED TABLES`."""
    shown = ("table", "mode", "state", "strategy", "rows")
    return [{name: getattr(status, name) for name in shown} for status in statuses]
