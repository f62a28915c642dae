"""What `headrace plan` and `explain` find in the files: mode, strategy, refusals, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.cases.model import cases_of
from headrace.declared import load_declared, waiting_changes
from headrace.durations import duration
from headrace.errors import SpecError, TerminalError, TransientError
from headrace.planner import Plan, analyze
from headrace.planner.lint import Finding, lint
from headrace.planner.policy.changes import TableChange
from headrace.planner.policy.modes import refresh_modes
from headrace.planner.sql.extract import Upstream, extract
from headrace.planner.sql.uniqueness import copied_types
from headrace.quality.suites import suite_of
from headrace.results import Explanation, PlannedProject, PlannedTable, RefreshDecision
from headrace.spec import Project, SourceTable, TableSpec
from headrace.spec.alteration import freshness_text
from headrace.spec.calendar import in_force
from headrace.spec.partitions.completion import completion_text
from headrace.spec.project import raise_all
from headrace.spec.sql.columns import check_columns
from headrace.storage.location import Location
from headrace.store.record.account import refresh_decisions
from headrace.store.record.commits import HISTORY, told

if TYPE_CHECKING:
    from headrace.settings import Settings
    from headrace.sources.schema import SourceSchema


def plan_project(settings: Settings) -> PlannedProject:
    """Check every file and plan every table. Raises SpecError with file and line for what is wrong."""
    known, notes = _known(settings)
    findings = [f for spec in known.project.tables.values() for f in known.lint(spec)]
    refused = [f.error() for f in findings if f.level == "error"]
    raise_all([*refused, *_wrong_beside(known.project)])
    notes += [f"warning: {finding}" for finding in findings]
    threshold = timedelta(seconds=settings.continuous_threshold_seconds)
    planned, modes = [], refresh_modes(known.project, threshold)
    for spec in known.project.tables.values():
        mode, mode_reason = modes[spec.name]
        plan = known.plan(spec)
        planned.append(
            PlannedTable(
                table=str(spec.name),
                mode=str(mode),
                mode_reason=mode_reason,
                strategy=plan.strategy.name if plan else None,
                strategy_reason=plan.reason if plan else None,
                freshness="DOWNSTREAM"
                if spec.freshness is None
                else duration(spec.freshness.total_seconds()),
                partitioned_by=spec.partition_column,
                reads=[str(upstream) for upstream in spec.upstreams],
            )
        )
    changes = waiting_changes(settings)
    known_changes = None if changes is None else [_change(settings, change) for change in changes]
    return PlannedProject(tables=planned, notes=notes, changes=known_changes)


def _wrong_beside(project: Project) -> list[SpecError]:
    """What is wrong with the tables' `*.checks.yml` and `*.cases.yml`."""
    found = []
    for spec in project.tables.values():
        for read in (suite_of, cases_of):
            try:
                read(spec)
            except SpecError as error:
                found.append(error)
    return found


def _change(settings: Settings, change: TableChange) -> dict[str, Any]:
    from headrace.store.delta.files import size  # Arrow: a fifth of the time of a plan that changes nothing

    partitions, size_bytes = size(settings.warehouse / change.table.layer / change.table.table / "snapshot")
    return {
        "table": str(change.table),
        "change": str(change.kind),
        "what": list(change.what),
        "downstream": [str(name) for name in change.downstream],
        "partitions": partitions,
        "bytes": size_bytes,
    }


def explain_table(settings: Settings, table: str, *, history: bool = False) -> Explanation:
    """One table's mode and strategy from its file alone, what the linter says of it among the notes.

    With `history` also what the table's own commits tell of past refreshes.

    Raises:
        SpecError: the file is wrong, or the linter refuses an expression of it. Also where an order may not
            be total and nobody can tell, because the source does not answer.
    """
    known, notes = _known(settings)
    spec = known.project.table(table)
    findings = known.lint(spec)
    raise_all([f.error() for f in findings if f.level == "error"])
    if not known.complete(spec):
        unsure = [f for f in findings if f.code == "ORDER_NOT_TOTAL"]
        hint = "whether its order holds a key is not known while the source does not answer: `headrace up`"
        raise_all([replace(f, suggestion=f"{f.suggestion}; {hint}").error() for f in unsure])
    threshold = timedelta(seconds=settings.continuous_threshold_seconds)
    mode, mode_reason = refresh_modes(known.project, threshold)[spec.name]
    plan = known.plan(spec)
    return Explanation(
        table=str(spec.name),
        freshness=freshness_text(spec.freshness),
        freshness_origin=spec.freshness_origin,
        refresh_mode=str(mode),
        mode_reason=mode_reason,
        strategy=plan.strategy.name if plan else "",
        strategy_reason=plan.reason if plan else "not known while the source does not answer",
        refused=dict(plan.refused) if plan else {},
        upstreams=[str(u) for u in spec.upstreams],
        notes=[*(plan.notes if plan else ()), *notes, *(f"warning: {f}" for f in findings)],
        run_mode=str(spec.run_mode),
        completion=completion_text(spec),
        history=_history(settings.warehouse / spec.name.layer / spec.name.table) if history else [],
    )


def _history(table: Location) -> list[RefreshDecision]:
    """Past refreshes, newest first."""
    return refresh_decisions(told(table / "changelog", HISTORY))


@dataclass(frozen=True)
class _Known:
    """What the files, and the source where it answers, tell of every table; nothing is `()` or absent."""

    project: Project
    keys: Mapping[Upstream, tuple[str, ...]]
    columns: Mapping[Upstream, tuple[str, ...]]
    types: Mapping[Upstream, Mapping[str, str]]

    def complete(self, spec: TableSpec) -> bool:
        return all(self.columns.get(name) and self.keys.get(name) for name in (*spec.upstreams, spec.name))

    def lint(self, spec: TableSpec) -> list[Finding]:
        return lint(spec, keys=self.keys, columns=self.columns, types=self.types)

    def plan(self, spec: TableSpec) -> Plan | None:
        return analyze(spec, self.keys, self.columns, self.types) if self.complete(spec) else None


def _known(settings: Settings) -> tuple[_Known, list[str]]:
    """The project's tables, and what to tell where something of them is not known."""
    project, alterations = load_declared(settings)
    sources, notes = _sources(settings, project)
    for spec in project.tables.values():
        read = None if spec.source is None else sources.get(spec.source)
        if read is not None and read.refused:
            notes.append(f"warning: {read.why_refused(spec.references[0].location)}")
    notes += [
        f"{a.table}: a statement has set {a.what} = {a.value}"
        + (f"; its file says {a.over}" if a.over else "")
        for a in alterations
    ]
    columns: dict[Upstream, tuple[str, ...]] = {table: schema.names for table, schema in sources.items()}
    columns.update(check_columns(project, {table: schema.names for table, schema in sources.items()}).items())
    keys: dict[Upstream, tuple[str, ...]] = {t: s.key for t, s in sources.items()}
    types: dict[Upstream, Mapping[str, str]] = {
        t: {c.name.lower(): c.spark for c in s.columns} for t, s in sources.items()
    }
    for name, spec in project.tables.items():
        source = sources.get(spec.source) if spec.source is not None else None
        keys[name] = source.key if source else spec.primary_key
        types[name] = copied_types(extract(spec, keys, columns, types))
    return _Known(in_force(project, datetime.now(UTC)), keys, columns, types), notes


def _sources(settings: Settings, project: Project) -> tuple[Mapping[SourceTable, SourceSchema], list[str]]:
    from headrace.sources.database import database
    from headrace.sources.dsn import source_dsn

    found: dict[SourceTable, SourceSchema] = {}
    try:
        for name, connector in project.connectors.items():
            if read := [table for table in project.sources() if table.source == name]:
                dsn = source_dsn(connector, settings.source_environment())
                found |= database(dsn).describe(read, lambda t, c=connector: c.message_key(t.schema, t.table))  # type: ignore[misc]
        return found, []
    except TransientError:
        return {}, [
            "the source does not answer, so its columns are not checked and strategies are not "
            "known; `headrace up` starts it"
        ]
    except TerminalError as error:
        return {}, [f"strategies are not known: {error}"]
