"""The refresh mode of a table: declared, or what follows from its freshness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from headrace.spec.model import RefreshMode, RefreshPolicy, SourceTable, TableName, TableSpec
from headrace.spec.partitions.completion import RunMode

OFFLINE = f"run mode {RunMode.OFFLINE}: the batch writes partitions when they are complete"


class Lineage(Protocol):
    """What of a project decides modes; `headrace.spec.Project` is one."""

    @property
    def tables(self) -> dict[TableName, TableSpec]: ...

    def downstream(self, name: TableName) -> tuple[TableName, ...]: ...


@dataclass(frozen=True)
class Measured:
    """What measurements say of a table instead of the threshold, as long as it has the same freshness."""

    freshness: timedelta | None
    streams: bool
    reason: str


def refresh_mode(
    spec: TableSpec, threshold: timedelta, project: Lineage, measured: Measured | None = None
) -> tuple[RefreshMode, str]:
    """The mode and why: `REFRESH_MODE` if declared, else CONTINUOUS up to `threshold`, else scheduled.

    A table that the batch alone writes never streams.
    """
    if spec.run_mode is RunMode.OFFLINE:
        return RefreshMode.INCREMENTAL, OFFLINE
    if spec.refresh_mode is not None:
        return spec.refresh_mode, f"REFRESH_MODE = {spec.refresh_mode}"
    freshness, origin = effective_freshness(spec, project)
    if freshness is None:
        return RefreshMode.INCREMENTAL, "FRESHNESS = DOWNSTREAM, and no table that reads it declares one"
    streams, limit = freshness <= threshold, f"{threshold.total_seconds():g} s"
    why = f"freshness {freshness.total_seconds():g} s" + (f" of {origin}" if origin != spec.name else "")
    why += f" is {'within' if streams else 'above'} {limit}"
    if measured is not None and measured.freshness == freshness:
        streams, why = measured.streams, f"{why}, but {measured.reason}"
    if streams:
        return RefreshMode.CONTINUOUS, why
    if spec.refresh_policy is RefreshPolicy.FULL:
        return RefreshMode.FULL, f"{why}, and REFRESH_POLICY = FULL"
    return RefreshMode.INCREMENTAL, why


def refresh_modes(
    project: Lineage, threshold: timedelta, measured: Mapping[TableName, Measured] | None = None
) -> dict[TableName, tuple[RefreshMode, str]]:
    """`refresh_mode` of every table. Nothing streams that reads only tables that do not.

    Args:
        project: its tables stand in topological order.
    """
    found: dict[TableName, tuple[RefreshMode, str]] = {}
    for name, spec in project.tables.items():
        mode, reason = refresh_mode(spec, threshold, project, (measured or {}).get(name))
        if mode is RefreshMode.CONTINUOUS and not any(_streams(u, project, found) for u in spec.upstreams):
            mode, reason = (
                RefreshMode.INCREMENTAL,
                f"{reason}, but {_resting(spec, project)}",
            )
        found[name] = mode, reason
    return found


def _resting(spec: TableSpec, project: Lineage) -> str:
    read = {project.tables[u].run_mode for u in spec.upstreams if isinstance(u, TableName)}
    if read == {RunMode.OFFLINE}:
        return "all that it reads is written by the batch"
    return "all that it reads is refreshed on a schedule"


def _streams(
    upstream: TableName | SourceTable, project: Lineage, found: dict[TableName, tuple[RefreshMode, str]]
) -> bool:
    """A stg table always does, whatever its mode: Kafka does not keep its events for ever."""
    if isinstance(upstream, SourceTable) or project.tables[upstream].source is not None:
        return True
    return found[upstream][0] is RefreshMode.CONTINUOUS


def effective_freshness(spec: TableSpec, project: Lineage) -> tuple[timedelta | None, TableName]:
    """The freshness to meet, and whose it is. DOWNSTREAM takes the tightest consumer's, however far."""
    if spec.freshness is not None:
        return spec.freshness, spec.name
    inherited = [effective_freshness(project.tables[name], project) for name in project.downstream(spec.name)]
    declared = [(freshness, name) for freshness, name in inherited if freshness is not None]
    return min(declared, default=(None, spec.name))
