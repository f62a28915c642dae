"""A project's layer files → Dagster definitions. Pure: reads files, opens nothing."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import dagster as dg

from headrace.declared import load_declared
from headrace.orchestration.assets import asset_of
from headrace.orchestration.checks import checks_of
from headrace.orchestration.control import control_jobs
from headrace.orchestration.gateway import GatewayResource
from headrace.orchestration.partitions import DEFAULT_START
from headrace.orchestration.specs import source_spec, table_spec
from headrace.orchestration.streams import streams_sensor
from headrace.orchestration.workflows import workflow_job, workflows_sensor
from headrace.planner.policy.modes import effective_freshness, refresh_modes
from headrace.quality.suites import suite_of
from headrace.settings import Settings


def build_definitions(directory: Path, *, start: date = DEFAULT_START) -> dg.Definitions:
    """Assets, checks, the sensors and the control jobs of the project in `directory`.

    Args:
        start: date of the first partition, one for all tables.

    Raises:
        SpecError: a layer file, a connector or a checks file is wrong, with file and line.
    """
    directory = directory.resolve()
    settings = Settings.load(directory)
    project, _ = load_declared(directory, settings.catalog)
    threshold = timedelta(seconds=settings.continuous_threshold_seconds)
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = [
        source_spec(source, project.connectors[source.source].config) for source in sorted(project.sources())
    ]
    modes = refresh_modes(project, threshold)
    checks: list[dg.AssetChecksDefinition] = []
    tables = {}
    for name, spec in project.tables.items():
        asset = table_spec(
            spec,
            mode=modes[name][0],
            freshness=effective_freshness(spec, project),
            tables=project.tables,
            start=start,
        )
        tables[str(name)] = (spec, asset)
        assets.append(asset_of(spec, asset))
        checks += checks_of(spec, asset.key, suite_of(spec))
    return dg.Definitions(
        assets=assets,
        asset_checks=checks,
        jobs=[*control_jobs(tables), workflow_job(tables)],
        sensors=[streams_sensor(tables), workflows_sensor(tables, settings.scheduler)],
        resources={"gateway": GatewayResource(project=str(directory))},
        # A step only waits for the warehouse server: a process for each would cost more than the wait.
        executor=dg.in_process_executor,
    )
