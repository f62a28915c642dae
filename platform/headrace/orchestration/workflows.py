"""Refresh workflows in Dagster: a sensor asks which turns are due, and a run of the asset does each one.

The warehouse server knows the workflows and when they are due; it does so also where it refreshes them itself
(`scheduler = "warehouse"`), and then the sensor has nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from headrace.errors import HeadraceError
from headrace.orchestration.gateway import GatewayResource
from headrace.results import WorkflowStatus
from headrace.scheduling.workflow import SchedulerName

SENSOR = "refresh_workflows"
INTERVAL_SECONDS = 10  # part of what a workflow's notice allows for

TURN_TAG = "headrace/turn"
"""Tag of a run that does one turn of a table's workflow; its value is the turn."""


def workflows_sensor(
    tables: Mapping[str, dg.AssetSpec], scheduler: SchedulerName
) -> list[dg.SensorDefinition]:
    """The sensor over these tables, by their names; none where there are no tables."""
    if not tables:
        return []
    default = dg.DefaultSensorStatus.RUNNING if scheduler == "dagster" else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        name=SENSOR,
        asset_selection=dg.AssetSelection.assets(*(asset.key for asset in tables.values())),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default,
        description="Runs the refreshes that are due, of tables that do not stream, where Dagster schedules.",
    )
    def refresh_workflows(
        context: dg.SensorEvaluationContext, gateway: GatewayResource
    ) -> dg.SensorResult | dg.SkipReason:
        try:
            with gateway.client() as client:
                found = client.workflows()
        except HeadraceError as error:
            return dg.SkipReason(str(error))
        if any(workflow.scheduler != "dagster" for workflow in found):
            return dg.SkipReason('the warehouse server refreshes its tables itself: scheduler = "warehouse"')
        due = [w for w in found if w.state == "DUE" and w.table in tables]
        requests = [request for w in due if (request := _request(context.instance, w, tables[w.table].key))]
        if not requests:
            waiting = min((w.due_in for w in found if w.state == "WAITING"), default=None)
            return dg.SkipReason("nothing is due" + (f" for {waiting:.0f} s" if waiting else ""))
        return dg.SensorResult(run_requests=requests)

    return [refresh_workflows]


def _request(
    instance: dg.DagsterInstance, workflow: WorkflowStatus, key: dg.AssetKey
) -> dg.RunRequest | None:
    """The run of a turn; None while one is on its way.

    A turn that is still due after its run has ended was lost on the way to the warehouse server, and is asked
    for again.
    """
    runs = instance.get_runs(dg.RunsFilter(tags={TURN_TAG: workflow.turn}))
    if any(not run.is_finished for run in runs):
        return None
    return dg.RunRequest(
        run_key=f"{workflow.table}/{workflow.turn}/{len(runs)}",
        asset_selection=[key],
        asset_check_keys=[],  # what must hold is checked before the commit
        tags={TURN_TAG: workflow.turn},
    )
