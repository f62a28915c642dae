"""Automation that can be switched on for each layer: checks of complete partitions, and alerts.

What has to happen for a table to be right happens in the warehouse server, whether or not Dagster runs. Here
Dagster begins what a person would: the table's checks, once a partition is complete or late data has come
into one; and a run of the job `alert`, which fails and so reaches whoever is told of failed runs, where a
problem begins.
"""

# No `from __future__ import annotations`: Dagster compares the context's annotation with its classes.

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import BaseModel, TypeAdapter, ValidationError

from headrace.errors import HeadraceError
from headrace.orchestration.columns import open_snapshot, stored_columns
from headrace.orchestration.gateway import GatewayResource
from headrace.results import TableStatus
from headrace.spec.model import TableSpec
from headrace.storage.location import Location

JOB, OP = "alert", "fail_with_what_is_wrong"
INTERVAL_SECONDS = 60


class Known(BaseModel):
    """What the alerts of one table's last tick were made of."""

    problems: list[str] = []  # kinds that lasted
    late_changes: int = 0
    columns: dict[str, str] = {}  # types by name; empty where none was known


_CURSOR = TypeAdapter(dict[str, Known])


def on_new_data() -> dg.AutomationCondition[Any]:
    """Where the table has been materialized since: a partition is complete, or late data has come into one.

    What has been evaluated meanwhile does not count: the sensor `streams` reports old evaluations again.
    """
    condition = dg.AutomationCondition
    handled = condition.newly_requested() | condition.initial_evaluation()
    return (condition.any_deps_updated().since(handled) & ~condition.in_progress()).with_label("on_new_data")


def alerts(
    status: TableStatus, columns: Mapping[str, str], known: Known | None
) -> tuple[dict[str, str], Known]:
    """What is wrong with a table that was not before, by kind, and what is known of it from now on.

    Args:
        columns: types of its columns by name, as they are stored; empty where they are not known.
        known: of the last look; None at the first one, which takes columns and late changes as they are.
    """
    lasting = {
        "halted": f"{status.state}: {status.last_error or 'no reason is known'}"
        if status.state in ("FAILED", "NEEDS RESYNC")
        else "",
        "alarm": "\n".join(status.alarms),
        "freshness": f"it keeps {status.measured_p90:.3g} s, {status.freshness_to_keep:g} s are declared"
        if status.late
        else "",
        "dead_letters": f"{status.dead_letters} messages could not be applied. Next: "
        f"`headrace dead-letters list {status.table}`"
        if status.dead_letters
        else "",
    }
    wrong = {kind: text for kind, text in lasting.items() if text}
    before = known or Known(late_changes=status.late_changes)
    new = {kind: text for kind, text in wrong.items() if kind not in before.problems}
    if status.late_changes > before.late_changes:
        count = status.late_changes - before.late_changes
        new["late_data"] = f"{count} changes of complete partitions were let be, as the table declares"
    if before.columns and columns and columns != before.columns:
        new["columns"] = f"columns have changed: {_difference(before.columns, columns)}"
    kept = dict(columns) or before.columns
    return new, Known(problems=sorted(wrong), late_changes=status.late_changes, columns=kept)


def _difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name} {before.get(name, 'new')} → {now.get(name, 'gone')}" for name in names)


def alert_job() -> dg.JobDefinition:
    """The job `alert`: one run for each problem that begins, which fails with it."""

    @dg.op(name=OP, config_schema={"table": str, "kind": str, "text": str}, description="Tell a problem.")
    def fail(context: dg.OpExecutionContext) -> None:
        told = context.op_config
        raise dg.Failure(f"{told['table']}: {told['kind']}: {told['text']}", allow_retries=False)

    @dg.job(name=JOB, description="A problem of a table. Its runs fail.", executor_def=dg.in_process_executor)
    def job() -> None:
        fail()

    return job


def layer_sensors(
    tables: Mapping[str, TableSpec], warehouse: Location, on: frozenset[str]
) -> list[dg.SensorDefinition]:
    """`automation_<layer>` and `alerts_<layer>` of each layer.

    Args:
        tables: by name.
        warehouse: where their files are.
        on: layers whose sensors run from the start.
    """
    layers = sorted({spec.name.layer for spec in tables.values()})
    sensors: list[dg.SensorDefinition] = []
    for layer in layers:
        status = dg.DefaultSensorStatus.RUNNING if layer in on else dg.DefaultSensorStatus.STOPPED
        checks = dg.AutomationConditionSensorDefinition(
            name=f"automation_{layer}",
            target=dg.AssetSelection.groups(layer),
            default_status=status,
            description=f"Evaluates checks of `{layer}` where a partition is complete or late data has come.",
        )
        own = {name: spec for name, spec in tables.items() if spec.name.layer == layer}
        sensors += [checks, _alerts_sensor(layer, own, warehouse, status)]
    return sensors


def _alerts_sensor(
    layer: str, tables: Mapping[str, TableSpec], warehouse: Location, status: dg.DefaultSensorStatus
) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"alerts_{layer}",
        job_name=JOB,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=status,
        description=f"A failed run of `{JOB}` for each problem of a table of `{layer}` that begins.",
    )
    def look(
        context: dg.SensorEvaluationContext, gateway: GatewayResource
    ) -> dg.SensorResult | dg.SkipReason:
        try:
            with gateway.client() as client:
                found = [s for s in client.status() if s.table in tables]
        except HeadraceError as error:
            return dg.SkipReason(str(error))
        cursor, requests = _read_cursor(context.cursor), []
        for table in found:
            name = tables[table.table].name
            snapshot = open_snapshot(warehouse / name.layer / name.table, files=False)
            columns = dict(stored_columns(snapshot))
            new, cursor[table.table] = alerts(table, columns, cursor.get(table.table))
            requests += [_request(table.table, kind, text) for kind, text in new.items()]
        return dg.SensorResult(run_requests=requests, cursor=_CURSOR.dump_json(cursor).decode())

    return look


def _request(table: str, kind: str, text: str) -> dg.RunRequest:
    config = {"table": table, "kind": kind, "text": text}
    return dg.RunRequest(
        run_config={"ops": {OP: {"config": config}}}, tags={"headrace/table": table, "headrace/alert": kind}
    )


def _read_cursor(text: str | None) -> dict[str, Known]:
    try:
        return _CURSOR.validate_json(text) if text else {}
    except ValidationError:  # another version's
        return {}
