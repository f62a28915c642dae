"""What the page tells, asked of the running warehouse server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.results import CheckEvaluation, CommitAccount, Explanation, TableStatus

if TYPE_CHECKING:
    from headrace.gateway.client import GatewayClient

MODES = ("backfill", "rewind")
"""Commits that are told one by one."""


@dataclass(frozen=True)
class Happened:
    """One backfill or rewind."""

    table: str
    account: CommitAccount


@dataclass(frozen=True)
class Gathered:
    """
    Args:
        explanations: by table, with what is known of its past refreshes.
        happened: newest first.
    """

    project: str
    at: datetime
    tables: list[TableStatus]
    explanations: dict[str, Explanation]
    checks: list[CheckEvaluation]
    happened: list[Happened]

    @property
    def problems(self) -> list[str]:
        """What somebody should look at, a line each; empty where all is well."""
        found = []
        for table in self.tables:
            if table.state != "RUNNING":
                found.append(f"{table.table} is {table.state}: {table.last_error or 'see `headrace status`'}")
            found += [f"{table.table}: {alarm}" for alarm in table.alarms]
            if table.dead_letters:
                found.append(f"{table.table}: {table.dead_letters:,} messages could not be applied")
            if table.late:
                found.append(f"{table.table} misses its freshness")
        found += [f"{c.table}: the check {c.check} fails" for c in self.checks if not c.passed]
        return found


def gather(client: GatewayClient, project: str, at: datetime) -> Gathered:
    """Ask for everything. Raises what the client raises."""
    tables = client.status()
    explanations, happened = {}, []
    for table in tables:
        told = client.run(f"EXPLAIN MATERIALIZED TABLE {table.table} HISTORY").result
        explanation = explanations[table.table] = Explanation.model_validate(told)
        happened += [Happened(table.table, a) for a in explanation.accounts if a.mode in MODES]
    checks = [CheckEvaluation.model_validate(c) for c in client.run("SHOW CHECKS").result]
    happened.sort(key=lambda h: h.account.committed_at or at, reverse=True)
    return Gathered(project, at, tables, explanations, checks, happened)
