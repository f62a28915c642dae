"""Tables in Dagster: what the warehouse server does with them is reported without a run.

The sensor turns their status into events: an observation where one moved, with declared and measured
freshness as numbers, which Dagster plots; and a materialization of each partition once it is complete and
what it then runs has ended, again where late data has opened it since; of a stream without partitions, each
hour. Dagster shows check results only until the next materialization: what a table's checks have found,
whoever asked for it, is reported again after each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import BaseModel, TypeAdapter, ValidationError

from headrace.errors import HeadraceError
from headrace.orchestration import judgements
from headrace.orchestration.extent import Growth
from headrace.orchestration.gateway import GatewayResource
from headrace.orchestration.judgements import DEAD_LETTERS, FRESHNESS, RUNS
from headrace.orchestration.partitions import WHOLE_TABLE_PERIOD, Partitions
from headrace.orchestration.reload import reload_definitions
from headrace.orchestration.specs import column_metadata
from headrace.results import CheckEvaluation, CompletePartition, TableStatus
from headrace.spec.model import RefreshMode, TableSpec

INTERVAL_SECONDS = 30
MOST_PARTITIONS = 250  # a tick, of all tables: the daemon stores events one by one
ENOUGH_EVENTS = 150  # a tick, beside partitions; the other tables wait for the next one
UNKNOWN = "unknown"  # what was found last of a check, where the server did not answer
PATIENCE_SECONDS = 15.0  # a tick that asks for partitions must end within the daemon's 60 s

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
ShowPartitions = Callable[[TableSpec], list[CompletePartition]]


class Seen(BaseModel):
    """What was reported of a table so far."""

    version: int = -2
    state: str = ""
    error: str | None = None
    freshness: float | None = None  # to keep
    materialized: float = 0.0  # seconds since the epoch; of a table without partitions
    turn: int = 0  # the last outcome of a complete partition that was reported
    judged: dict[str, str] = {}  # by check of its state, what was found last
    checked: datetime | None = None  # the newest evaluation of another check
    looked: int = 0  # seconds since the epoch, when it had its turn last
    closed: int = 0  # seconds since the epoch, when partitions of it were reported last

    @property
    def waited(self) -> tuple[int, int]:
        """Sorts tables by whose turn it is; of those that had one together, by who reported partitions."""
        return self.looked, self.closed


_CURSOR = TypeAdapter(dict[str, Seen])
_COMPLETED = TypeAdapter(list[CompletePartition])
_EVALUATED = TypeAdapter(list[CheckEvaluation])


@dataclass
class Report:
    """One tick's events.

    Args:
        growth: of tables to partitions before the first that Dagster knows; None where that is declared.
        closed: how many of the events are of complete partitions.
        outdated: whether a table had an outcome of one: it is reported when Dagster knows it.
    """

    now: datetime
    completed: ShowPartitions
    growth: Growth | None = None
    events: list[Event] = field(default_factory=list)
    closed: int = 0
    outdated: bool = False
    deadline: float = field(default_factory=lambda: time.monotonic() + PATIENCE_SECONDS)

    def table(self, spec: TableSpec, asset: dg.AssetSpec, status: TableStatus, seen: Seen) -> Seen:
        """Adds the table's events; returns what is now reported of it."""
        new = seen.model_copy(update=_shown(status))
        if new != seen:
            self.events.append(dg.AssetObservation(asset.key, metadata=_metadata(status)))
            seen = new
        if status.state != "RUNNING" or status.version < 0:
            return seen
        streams = status.mode == RefreshMode.CONTINUOUS
        partitions = asset.partitions_def
        assert partitions is None or isinstance(partitions, Partitions)
        if partitions is not None:
            before, seen.turn = seen.turn, self._close(spec, asset, partitions, status, seen.turn)
            if seen.turn > before:
                seen.closed = int(self.now.timestamp())
        elif streams and _is_fresh(status):
            at = self.now.timestamp()
            if at - seen.materialized >= WHOLE_TABLE_PERIOD.total_seconds():
                metadata = _metadata(status) | column_metadata(asset)
                self.events.append(dg.AssetMaterialization(asset.key, metadata=metadata))
                seen.materialized = at
        return seen

    @property
    def is_enough(self) -> bool:
        """Whether the tables that are left wait for the next tick. One's long history keeps none waiting."""
        return len(self.events) - self.closed >= ENOUGH_EVENTS

    def checks(
        self,
        asset: dg.AssetSpec,
        declared: Collection[str],
        status: TableStatus,
        evaluations: Iterable[CheckEvaluation],
        seen: Seen,
    ) -> None:
        """Adds what the table's checks say, where it is new, and all of it after a materialization."""
        again = any(isinstance(e, dg.AssetMaterialization) and e.asset_key == asset.key for e in self.events)
        judged = dict(seen.judged)
        for check in (RUNS, FRESHNESS, DEAD_LETTERS):
            found = judgements.state(check, status) if check in declared else None
            if found is None:
                continue
            said = f"{found.passed}" if check == FRESHNESS else f"{found.passed} {found.description}"
            if again or judged.get(check) != said:
                self.events.append(found.evaluation(dg.AssetCheckKey(asset.key, check)))
                judged[check] = said
        seen.judged = judged
        for evaluation in sorted(evaluations, key=lambda e: e.evaluated_at):
            if evaluation.check not in declared:
                continue
            if again or seen.checked is None or evaluation.evaluated_at > seen.checked:
                key = dg.AssetCheckKey(asset.key, evaluation.check)
                found = judgements.judged(evaluation)
                if evaluation.kind == "constraint" and (page := asset.metadata.get("data_docs")) is not None:
                    found = replace(found, metadata={**found.metadata, "data_docs": page})
                self.events.append(found.evaluation(key))
                seen.checked = max(seen.checked or evaluation.evaluated_at, evaluation.evaluated_at)

    def _close(
        self, spec: TableSpec, asset: dg.AssetSpec, partitions: Partitions, status: TableStatus, turn: int
    ) -> int:
        """Reports the partitions with an outcome after `turn`, in order; returns the last turn reported."""
        room = MOST_PARTITIONS - self.closed
        if status.outcomes <= turn or room <= 0 or time.monotonic() > self.deadline:
            return turn
        found = sorted((p for p in self.completed(spec) if p.turn > turn), key=lambda p: p.turn)[:room]
        first = partitions.start.strftime(partitions.fmt)
        shown = [p for p in found if p.label >= first]  # Dagster knows no partition before
        if len(shown) < len(found) and self.growth and (self.outdated or self.growth.look()):
            self.outdated = True
            return turn
        self.closed += len(shown)
        for partition in shown:
            metadata: dict[str, Any] = {
                "version": partition.version,
                "watermark": dg.MetadataValue.timestamp(partition.watermark),
                "outcome": partition.outcome,
                "reopened": partition.reopened,
                **column_metadata(asset),
            }
            if partition.rows is not None:
                metadata["dagster/partition_row_count"] = partition.rows
            if partition.detail:
                metadata["detail"] = partition.detail
            self.events.append(
                dg.AssetMaterialization(asset.key, partition=partition.label, metadata=metadata)
            )
        return found[-1].turn if found else turn


def streams_sensor(
    tables: Mapping[str, tuple[TableSpec, dg.AssetSpec]],
    checks: Mapping[str, Collection[str]],
    growth: Growth | None,
) -> dg.SensorDefinition:
    """The sensor `streams` over all tables, by their names.

    Args:
        checks: the checks that each table declares, by their names.
        growth: of tables to partitions before those that Dagster knows; None where the first is declared.
    """

    @dg.sensor(
        name="streams",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports freshness, version, frontier, complete partitions and checks of tables.",
    )
    def streams(
        context: dg.SensorEvaluationContext, gateway: GatewayResource
    ) -> dg.SensorResult | dg.SkipReason:
        cursor = _read_cursor(context.cursor)
        try:
            with gateway.client() as client:
                report = Report(
                    datetime.now(UTC),
                    lambda spec: _COMPLETED.validate_python(
                        client.run(f"SHOW PARTITIONS {spec.name}").result
                    ),
                    growth,
                )
                evaluated: dict[str, list[CheckEvaluation]] = {}
                for evaluation in _EVALUATED.validate_python(client.run("SHOW CHECKS").result):
                    evaluated.setdefault(evaluation.table, []).append(evaluation)
                found = client.status()
                report.outdated = growth is not None and growth.look_where_due(found)
                known = [status for status in found if status.table in tables]
                for status in sorted(known, key=lambda s: cursor.get(s.table, Seen()).waited):
                    if report.is_enough:
                        break
                    spec, asset = tables[status.table]
                    seen = report.table(spec, asset, status, cursor.get(status.table, Seen()))
                    own = evaluated.get(status.table, ())
                    report.checks(asset, checks[status.table], status, own, seen)
                    cursor[status.table] = seen.model_copy(update={"looked": int(report.now.timestamp())})
        except HeadraceError as error:
            if (serving := _serving_instead(gateway)) is not None:
                return dg.SkipReason(f"the warehouse server stands by: {serving} serves the warehouse")
            events = _unknown(error, tables, checks, cursor)
            if not events:
                return dg.SkipReason(str(error))
        else:
            events = report.events
            if report.outdated:
                reload_definitions(context)
        return dg.SensorResult(
            asset_events=events, cursor=_CURSOR.dump_json(cursor, exclude_defaults=True).decode()
        )

    return streams


def _serving_instead(gateway: GatewayResource) -> str | None:
    """Whom the project's server stands by for."""
    with suppress(HeadraceError), gateway.client() as client:
        return client.serving_instead()
    return None


def _unknown(
    error: HeadraceError,
    tables: Mapping[str, tuple[TableSpec, dg.AssetSpec]],
    checks: Mapping[str, Collection[str]],
    cursor: dict[str, Seen],
) -> list[Event]:
    """That no table runs, as far as anybody can tell: said once, until the server answers."""
    events: list[Event] = []
    for table, (_, asset) in tables.items():
        seen = cursor.get(table, Seen())
        if RUNS in checks[table] and seen.judged.get(RUNS) != UNKNOWN:
            cursor[table] = seen.model_copy(update={"judged": seen.judged | {RUNS: UNKNOWN}})
            events.append(judgements.unknown(error).evaluation(dg.AssetCheckKey(asset.key, RUNS)))
    return events


def _read_cursor(text: str | None) -> dict[str, Seen]:
    try:
        return _CURSOR.validate_json(text) if text else {}
    except ValidationError:  # another version's: reporting again is harmless
        return {}


def _is_fresh(status: TableStatus) -> bool:
    if status.lag == 0 or status.declared_freshness is None:
        return True
    return status.measured_freshness is not None and status.measured_freshness <= status.declared_freshness


def _shown(status: TableStatus) -> dict[str, Any]:
    """What an observation is made of: the rest of its numbers changes all the time."""
    return {
        "version": status.version,
        "state": status.state,
        "error": status.last_error,
        "freshness": status.freshness_to_keep,
    }


def _metadata(status: TableStatus) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "state": status.state,
        "version": status.version,
        "snapshot_version": status.snapshot_version,
        "tail_rows": status.tail_rows,
        "frontier": dg.MetadataValue.json(status.frontier),
    }
    optional = {
        "dagster/row_count": status.rows,
        "declared_freshness_seconds": status.freshness_to_keep,
        "freshness_seconds": status.measured_freshness,
        "freshness_p50_seconds": status.measured_p50,
        "freshness_p90_seconds": status.measured_p90,
        "lag": status.lag,
        "dead_letters": status.dead_letters or None,
        "last_error": status.last_error,
        "alarms": "\n".join(status.alarms) or None,
    }
    return metadata | {name: value for name, value in optional.items() if value is not None}
