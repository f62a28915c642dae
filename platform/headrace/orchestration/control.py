"""Jobs that start and stop streams from the UI."""

# No `from __future__ import annotations`: Dagster compares the context's annotation with its classes.

from collections.abc import Callable, Iterable

import dagster as dg

from headrace.orchestration import statements
from headrace.orchestration.gateway import GatewayResource, run_statement


def control_jobs(tables: Iterable[str]) -> list[dg.JobDefinition]:
    """`suspend_streams` and `resume_streams`; the launchpad asks for the tables and knows their names."""
    names = dg.Enum("MaterializedTable", [dg.EnumValue(name) for name in tables])
    return [
        _job(
            "suspend_streams", statements.suspend, names, "Stop tables; what they committed stays readable."
        ),
        _job("resume_streams", statements.resume, names, "Start tables again from their last frontier."),
    ]


def _job(name: str, text: Callable[[str], str], tables: dg.Enum, description: str) -> dg.JobDefinition:
    config = {"tables": dg.Field([tables], description="the tables, e.g. [dws.user_hour]")}

    @dg.op(name=name.removesuffix("_streams"), config_schema=config, description=description)
    def alter(context: dg.OpExecutionContext, gateway: GatewayResource) -> None:
        with gateway.client() as client:
            for table in context.op_config["tables"]:
                run_statement(client, text(table), context.log)

    @dg.job(name=name, description=description, executor_def=dg.in_process_executor)
    def job() -> None:
        alter()

    return job
