"""Refresh workflows in Dagster: a sensor asks which turns are due, and a run of one job does each.

The warehouse server knows the workflows and when they are due; it does so also where it refreshes them itself
(`scheduler = "warehouse"`), and then the sensor has nothing to do. The job is no run of the asset: a turn has
no partition, and Dagster fails runs of partitioned assets without one where their upstreams have some.
"""

# No `from __future__ import annotations`: Dagster compares the context's annotation with its classes.

import time
from collections.abc import Mapping

import dagster as dg

from headrace.errors import HeadraceError
from headrace.orchestration import statements
from headrace.orchestration.assets import result_metadata
from headrace.orchestration.gateway import GatewayResource, run_statement
from headrace.results import RefreshResult, WorkflowStatus
from headrace.scheduling.workflow import SchedulerName
from headrace.spec.model import TableSpec

JOB, OP = "refresh_workflow", "refresh_new"
SENSOR = "refresh_workflows"
INTERVAL_SECONDS = 10  # part of what a workflow's notice allows for
LOST_SECONDS, LONGEST_LOST_SECONDS = 30.0, 600.0  # before a lost turn is asked for again, doubled each time

TURN_TAG = "headrace/turn"
"""Tag of a run that does one turn of a table's workflow; its value is the turn."""

Tables = Mapping[str, tuple[TableSpec, dg.AssetSpec]]


def workflow_job(tables: Tables) -> dg.JobDefinition:
    """The job `refresh_workflow`: one turn of one table, which materializes its asset."""

    @dg.op(name=OP, config_schema={"table": str, "turn": str}, description="Carry what is new to a table.")
    def refresh_new(context: dg.OpExecutionContext, gateway: GatewayResource) -> None:
        spec, asset = tables[context.op_config["table"]]
        text = statements.refresh_new(spec, context.op_config["turn"])
        with gateway.client() as client:
            statement = run_statement(client, text, context.log, retry=False)  # the workflow does
        result = RefreshResult.model_validate(statement.result)
        if result.skipped:
            context.log.info(f"nothing was done: {result.skipped}")
            return
        metadata = result_metadata(result, None) | {"range": "what is new"}
        context.log_event(dg.AssetMaterialization(asset.key, metadata=metadata))

    @dg.job(name=JOB, description="One turn of a refresh workflow.", executor_def=dg.in_process_executor)
    def job() -> None:
        refresh_new()

    return job


def workflows_sensor(tables: Tables, scheduler: SchedulerName) -> dg.SensorDefinition:
    """The sensor of the job over these tables, by their names; on where Dagster is the scheduler."""
    default = dg.DefaultSensorStatus.RUNNING if scheduler == "dagster" else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        name=SENSOR,
        job_name=JOB,
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
        due = [workflow for workflow in found if workflow.state == "DUE" and workflow.table in tables]
        requests = [request for workflow in due if (request := _request(context.instance, workflow))]
        if not requests:
            waiting = min((w.due_in for w in found if w.state == "WAITING"), default=None)
            return dg.SkipReason("nothing is due" + (f" for {waiting:.0f} s" if waiting else ""))
        return dg.SensorResult(run_requests=requests)

    return refresh_workflows


def _request(instance: dg.DagsterInstance, workflow: WorkflowStatus) -> dg.RunRequest | None:
    """The run of a turn; None while one is on its way.

    A turn that is still due after its run has ended was lost on the way to the warehouse server, and is asked
    for again after a while.
    """
    runs = instance.get_run_records(dg.RunsFilter(tags={TURN_TAG: workflow.turn}))
    if any(not run.dagster_run.is_finished for run in runs):
        return None
    wait = min(LOST_SECONDS * 2 ** (len(runs) - 1), LONGEST_LOST_SECONDS)
    if runs and time.time() < max(run.end_time or 0.0 for run in runs) + wait:
        return None
    config = {"table": workflow.table, "turn": workflow.turn}
    return dg.RunRequest(
        run_key=f"{workflow.table}/{workflow.turn}/{len(runs)}",
        run_config={"ops": {OP: {"config": config}}},
        tags={TURN_TAG: workflow.turn, "headrace/table": workflow.table},
    )
