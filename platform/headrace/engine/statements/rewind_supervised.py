"""A rewind beside the supervisor: its tables leave their flows, and nobody brings them back meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from headrace.engine.flow.flow import flow_of
from headrace.engine.statements.rewind import Rewind
from headrace.engine.supervisor.supervisor import Supervisor
from headrace.engine.table.table import Table
from headrace.errors import TransientError
from headrace.sources.stream.topics import Topics


def supervised(supervisor: Supervisor, topics: Topics, run_id: str) -> Rewind:
    """A rewind of tables that a supervisor runs."""

    def suspend(table: Table) -> bool:
        with supervisor.arranging:  # a failed table may be on its way back
            ran = supervisor.catalog.desired(table.name) == "RUNNING"
            supervisor.catalog.set_desired(table.name, "SUSPENDED")
            supervisor.suspend(flow_of(supervisor.flows, table.name), table)
            return ran

    def resume(table: Table) -> None:
        supervisor.catalog.set_desired(table.name, "RUNNING")
        supervisor.resume(flow_of(supervisor.flows, table.name), table)

    @contextmanager
    def paused(table: Table) -> Iterator[None]:
        flow = flow_of(supervisor.flows, table.name)
        with ExitStack() as held:
            if flow is not None:
                held.enter_context(flow.paused())
            if supervisor.runs(flow, table):
                raise TransientError(
                    f"`{table.name}` was resumed meanwhile. Next: the same rewind once more does the rest"
                )
            yield

    return Rewind(
        supervisor.sessions,
        supervisor.registry,
        topics.bounds,
        suspend,
        resume,
        paused,
        supervisor.views.renew_if_old,
        run_id,
    )
