"""Tables in Dagster: what the warehouse server does with them is reported without a run.

The sensor turns their status into events: an observation where one moved, with declared and measured
freshness as numbers, which Dagster plots; and a materialization of each partition once it is complete and
what it then runs has ended, again where late data has opened it since; of a stream without partitions, each
hour. More often would hurt: Dagster shows check results only until the next materialization.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import BaseModel, TypeAdapter, ValidationError

from headrace.errors import HeadraceError
from headrace.orchestration.assets import rows_by_label
from headrace.orchestration.gateway import GatewayResource
from headrace.orchestration.partitions import WHOLE_TABLE_PERIOD, Partitions
from headrace.results import CompletePartition, TableStatus
from headrace.spec.model import RefreshMode, TableSpec
from headrace.spec.partitions.label_range import LabelRange

INTERVAL_SECONDS = 30
MOST_EVENTS = 500  # a tick: the daemon stores them one by one
PATIENCE_SECONDS = 15.0  # a tick that counts rows must end within the daemon's 60 s

Event = dg.AssetMaterialization | dg.AssetObservation
CountRows = Callable[[TableSpec, LabelRange], dict[str, int]]
ShowPartitions = Callable[[TableSpec], list[CompletePartition]]


class Seen(BaseModel):
    """What was reported of a table so far."""

    version: int = -2
    state: str = ""
    error: str | None = None
    freshness: float | None = None  # to keep
    materialized: float = 0.0  # seconds since the epoch; of a table without partitions
    turn: int = 0  # the last outcome of a complete partition that was reported


_CURSOR = TypeAdapter(dict[str, Seen])
_COMPLETED = TypeAdapter(list[CompletePartition])


@dataclass
class Report:
    """One tick's events."""

    now: datetime
    count_rows: CountRows
    completed: ShowPartitions
    events: list[Event] = field(default_factory=list)
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
            seen.turn = self._close(spec, asset.key, partitions, status, seen.turn)
        elif streams and _is_fresh(status):
            at = self.now.timestamp()
            if at - seen.materialized >= WHOLE_TABLE_PERIOD.total_seconds():
                self.events.append(dg.AssetMaterialization(asset.key, metadata=_metadata(status)))
                seen.materialized = at
        return seen

    def _close(
        self, spec: TableSpec, key: dg.AssetKey, partitions: Partitions, status: TableStatus, turn: int
    ) -> int:
        """Reports the partitions with an outcome after `turn`, in order; returns the last turn reported."""
        room = MOST_EVENTS - len(self.events)
        if status.outcomes <= turn or room <= 0 or time.monotonic() > self.deadline:
            return turn
        found = sorted((p for p in self.completed(spec) if p.turn > turn), key=lambda p: p.turn)[:room]
        first = partitions.start.strftime(partitions.fmt)
        shown = [p for p in found if p.label >= first]  # Dagster knows no partition before
        labels = [p.label for p in shown]
        rows = self.count_rows(spec, LabelRange(min(labels), max(labels))) if shown else {}
        for partition in shown:
            metadata: dict[str, Any] = {
                "dagster/partition_row_count": rows.get(partition.label, 0),
                "version": partition.version,
                "watermark": dg.MetadataValue.timestamp(partition.watermark),
                "outcome": partition.outcome,
                "reopened": partition.reopened,
            }
            if partition.detail:
                metadata["detail"] = partition.detail
            self.events.append(dg.AssetMaterialization(key, partition=partition.label, metadata=metadata))
        return found[-1].turn if found else turn


def streams_sensor(tables: Mapping[str, tuple[TableSpec, dg.AssetSpec]]) -> dg.SensorDefinition:
    """The sensor `streams` over all tables, by their names."""

    @dg.sensor(
        name="streams",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports freshness, version, frontier and complete partitions of tables.",
    )
    def streams(
        context: dg.SensorEvaluationContext, gateway: GatewayResource
    ) -> dg.SensorResult | dg.SkipReason:
        cursor = _read_cursor(context.cursor)
        try:
            with gateway.client() as client:
                report = Report(
                    datetime.now(UTC),
                    lambda spec, labels: rows_by_label(client, spec, labels),
                    lambda spec: _COMPLETED.validate_python(
                        client.run(f"SHOW PARTITIONS {spec.name}").result
                    ),
                )
                for status in client.status():
                    if status.table not in tables:
                        continue
                    seen = cursor.get(status.table, Seen())
                    cursor[status.table] = report.table(*tables[status.table], status, seen)
        except HeadraceError as error:
            return dg.SkipReason(str(error))
        return dg.SensorResult(
            asset_events=report.events, cursor=_CURSOR.dump_json(cursor, exclude_defaults=True).decode()
        )

    return streams


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
