"""A project's layer files → Dagster definitions. Pure: reads files, opens nothing."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from headrace.declared import load_declared
from headrace.errors import SpecError
from headrace.orchestration.assets import asset_of
from headrace.orchestration.automation import alert_job, layer_sensors
from headrace.orchestration.checks import checks_of
from headrace.orchestration.columns import (
    Upstream,
    column_lineage,
    columns_of_source,
    open_snapshot,
    stored_columns,
)
from headrace.orchestration.control import control_jobs
from headrace.orchestration.extent import Extents, Growth, shared_extents, stored_extent
from headrace.orchestration.gateway import GatewayResource
from headrace.orchestration.partitions import partitions_of
from headrace.orchestration.specs import source_spec, table_spec
from headrace.orchestration.streams import streams_sensor
from headrace.orchestration.workflows import workflow_job, workflows_sensor
from headrace.planner.policy.modes import effective_freshness, refresh_modes
from headrace.quality.suites import Suite, suite_of, suite_page
from headrace.settings import Settings
from headrace.spec.model import TableSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

log = logging.getLogger(__name__)


def _suite(spec: TableSpec) -> Suite | SpecError | None:
    """The suite of a table, or what is wrong with its file: all else is shown nevertheless."""
    try:
        return suite_of(spec)
    except SpecError as error:
        log.warning("%s", error)
        return error


def _pages(settings: Settings, table: str, suite: Suite | SpecError | None) -> dict[str, Path]:
    """What `headrace report` writes of a table."""
    pages = {"report": settings.report_page}
    if isinstance(suite, Suite) and suite.expectations:
        pages["data_docs"] = suite_page(settings.data_docs, table)
    return pages


def build_definitions(directory: Path, *, start: date | None = None) -> dg.Definitions:
    """Assets, checks, the sensors and the control jobs of the project in `directory`.

    Args:
        start: date of the first partition of every table, in place of where the data begins.

    Raises:
        SpecError: a layer file or a connector is wrong, with file and line.
    """
    directory = directory.resolve()
    settings = Settings.load(directory)
    project, _ = load_declared(settings)
    threshold = timedelta(seconds=settings.continuous_threshold_seconds)
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = [
        source_spec(source, project.connectors[source.source].config) for source in sorted(project.sources())
    ]

    def opened(spec: TableSpec) -> DeltaTable | None:
        return open_snapshot(settings.warehouse / spec.name.layer / spec.name.table)

    def look() -> Extents:
        return shared_extents(project.tables, lambda spec: stored_extent(spec, opened(spec)))

    snapshots = {name: opened(spec) for name, spec in project.tables.items()}
    extents = shared_extents(project.tables, lambda spec: stored_extent(spec, snapshots[spec.name]))
    now = datetime.now(UTC)
    modes = refresh_modes(project, threshold)
    checks: list[dg.AssetChecksDefinition] = []
    tables, declared = {}, {}
    known: dict[Upstream, list[str]] = {}
    for name, spec in project.tables.items():
        suite = _suite(spec)
        columns = stored_columns(snapshots[name])
        if spec.source is not None:
            known[spec.source] = columns_of_source(spec, [column for column, _ in columns])
        lineage = column_lineage(spec, lambda upstream: known.get(upstream, ()))
        known[name] = [column for column, _ in columns] or list(lineage.deps_by_column)
        asset = table_spec(
            spec,
            mode=modes[name][0],
            freshness=effective_freshness(spec, project),
            tables=project.tables,
            partitions=partitions_of(spec, extents.get(name), now=now, start=start),
            columns=columns,
            lineage=lineage,
            pages=_pages(settings, str(name), suite),
        )
        tables[str(name)] = (spec, asset)
        assets.append(asset_of(spec, asset))
        own = checks_of(spec, asset.key, suite, _pages(settings, str(name), suite))
        declared[str(name)] = {key.name for check in own for key in check.check_keys}
        checks += own
    growth = Growth(look, extents) if start is None else None
    named = {str(name): spec for name, spec in project.tables.items()}
    return dg.Definitions(
        assets=assets,
        asset_checks=checks,
        jobs=[*control_jobs(tables), workflow_job(tables), alert_job()],
        sensors=[
            streams_sensor(tables, declared, growth),
            workflows_sensor(tables, settings.scheduler),
            *layer_sensors(named, settings.warehouse, settings.automated),
        ],
        resources={"gateway": GatewayResource(project=str(directory))},
        # A step only waits for the warehouse server: a process for each would cost more than the wait.
        executor=dg.in_process_executor,
    )
