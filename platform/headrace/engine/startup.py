"""What the warehouse builds once its sources are there: their schemas, and the flows of the project."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.engine.advance import Sessions
from headrace.engine.flow import Flow
from headrace.engine.gate import gate_of
from headrace.engine.table import Registry, Table
from headrace.planner.flows import group
from headrace.settings import Settings
from headrace.sources.dead_letters import DeadLetters
from headrace.sources.postgres import SourceSchema, describe
from headrace.sources.topics import Topics
from headrace.spec import Project
from headrace.spec.model import RefreshMode, SourceTable, TableName


def describe_sources(project: Project, dsn: Callable[[str], str]) -> dict[SourceTable, SourceSchema]:
    """The schemas of all captured tables, read from their databases.

    Args:
        dsn: connection string of a source by its name.
    Raises:
        HeadraceError: a source is not there yet, or lacks a table.
    """
    found: dict[SourceTable, SourceSchema] = {}
    tables = project.sources()
    for source in sorted({t.source for t in tables}):
        found |= describe(dsn(source), [t for t in tables if t.source == source])
    return found


def stream_modes(registry: Registry) -> dict[TableName, RefreshMode]:
    """The mode of every table. A stg table always streams: Kafka does not keep its events for ever."""
    return {t.name: RefreshMode.CONTINUOUS if t.source else t.mode for t in registry}


def build_flows(
    project: Project,
    registry: Registry,
    modes: Mapping[TableName, RefreshMode],
    settings: Settings,
    *,
    sessions: Sessions,
    topics: Topics,
    dead_letters: DeadLetters,
    on_failure: Callable[[Table, Exception], None],
) -> list[Flow]:
    """One flow for each set of continuous tables that are connected; none is started."""
    flows = []
    for plan in group(project, modes):
        tables = [registry[n] for n in plan.tables]
        flows.append(
            Flow(
                plan.name,
                tables,
                sessions=sessions,
                registry=registry,
                topics=topics,
                bootstrap=settings.kafka_bootstrap,
                dead_letters=dead_letters,
                directory=settings.state / "checkpoints",
                max_offsets=settings.max_offsets_per_trigger,
                gate=gate_of(tables, project.connectors),
                on_failure=on_failure,
            )
        )
    return flows
