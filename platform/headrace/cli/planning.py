"""What `headrace plan` finds: the project's tables with mode and strategy, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.cli.output import duration
from headrace.errors import TransientError, UnknownName
from headrace.planner import analyze
from headrace.planner.modes import refresh_mode
from headrace.spec import Project, SourceTable, TableName, TableSpec, load_project
from headrace.spec.columns import check_columns

if TYPE_CHECKING:
    from headrace.settings import Settings
    from headrace.sources.postgres import SourceSchema


@dataclass(frozen=True)
class PlannedTable:
    """`strategy` is None where it depends on source columns that nobody can tell now."""

    table: str
    mode: str
    mode_reason: str
    strategy: str | None
    strategy_reason: str | None
    freshness: str
    partitioned_by: str | None
    reads: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class PlannedProject:
    tables: list[PlannedTable]
    notes: list[str]


def plan_project(settings: Settings) -> PlannedProject:
    """Check every file and plan every table. Raises SpecError with file and line for what is wrong."""
    project = load_project(settings.project)
    sources, notes = _sources(settings, project)
    columns = check_columns(project, {table: schema.names for table, schema in sources.items()})
    threshold = timedelta(seconds=settings.continuous_threshold_seconds)
    planned = []
    for spec in project.tables.values():
        mode, mode_reason = refresh_mode(spec, threshold, project)
        strategy = _strategy(spec, project, sources, columns)
        planned.append(
            PlannedTable(
                table=str(spec.name),
                mode=str(mode),
                mode_reason=mode_reason,
                strategy=strategy and strategy[0],
                strategy_reason=strategy and strategy[1],
                freshness="DOWNSTREAM"
                if spec.freshness is None
                else duration(spec.freshness.total_seconds()),
                partitioned_by=spec.partition_column,
                reads=[str(upstream) for upstream in spec.upstreams],
            )
        )
    return PlannedProject(planned, notes)


def _sources(settings: Settings, project: Project) -> tuple[Mapping[SourceTable, SourceSchema], list[str]]:
    from headrace.sources.postgres import describe

    try:
        return describe(settings.postgres_dsn(), project.sources()), []
    except TransientError:
        return {}, [
            "note: the source does not answer, so its columns are not checked and strategies are not "
            "known; `headrace up` starts it"
        ]
    except UnknownName as error:
        return {}, [f"note: strategies are not known: {error}"]


def _strategy(
    spec: TableSpec,
    project: Project,
    sources: Mapping[SourceTable, SourceSchema],
    columns: Mapping[TableName, tuple[str, ...]],
) -> tuple[str, str] | None:
    known: dict[TableName | SourceTable, tuple[str, ...]] = dict(columns.items())
    known.update({table: schema.names for table, schema in sources.items()})
    keys: dict[TableName | SourceTable, tuple[str, ...]] = {t: s.key for t, s in sources.items()}
    for name, other in project.tables.items():
        source = sources.get(other.source) if other.source is not None else None
        keys[name] = source.key if source else other.primary_key
    if not all(known.get(name) and keys.get(name) for name in (*spec.upstreams, spec.name)):
        return None
    plan = analyze(spec, keys, known)
    return plan.strategy.name, plan.reason
