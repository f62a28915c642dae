"""What a backfill will do, before it does it: small, printable, the same for every client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import TerminalError
from headrace.planner.policy.modes import Lineage
from headrace.spec.model import SourceTable, TableName, TableSpec


@dataclass(frozen=True)
class BackfillPlan:
    """A batch run of one table's SQL over a range of its partitions.

    Attributes:
        table: what is recomputed.
        labels: the partitions that are overwritten, in order.
        upstreams: what is read at the table's recorded frontier, in the project's order.
        downstream: direct consumers and what they do with the corrections (`CorrectionPolicy`).
        statements: the run in words of SQL, as `headrace refresh` shows it. Spark runs the table's own text.
    """

    table: TableName
    labels: tuple[str, ...]
    upstreams: tuple[TableName | SourceTable, ...]
    downstream: tuple[tuple[TableName, str], ...]
    statements: tuple[str, ...]

    @property
    def start(self) -> str:
        return self.labels[0]

    @property
    def end(self) -> str:
        return self.labels[-1]


def plan_backfill(spec: TableSpec, labels: Sequence[str], project: Lineage) -> BackfillPlan:
    """The plan for `labels` of `spec`, as `headrace.spec.partitions.labels.label_range` gives them.

    Raises:
        TerminalError: the table has no partitions, or the range is empty.
    """
    if spec.partition_column is None:
        raise TerminalError(
            f"{spec.path}: `{spec.name}` is not partitioned, so there is no range to refresh; "
            f"declare PARTITIONED BY, or prove it as it is: `headrace verify {spec.name}`"
        )
    if not labels:
        raise TerminalError(f"{spec.path}: no partition of `{spec.name}` was named")
    order = {name: index for index, name in enumerate(project.tables)}
    upstreams = sorted(
        spec.upstreams, key=lambda u: (order[u], "") if isinstance(u, TableName) else (-1, str(u))
    )
    consumers = tuple(
        (name, project.tables[name].correction_policy.value) for name in project.downstream(spec.name)
    )
    return BackfillPlan(spec.name, tuple(labels), tuple(upstreams), consumers, _statements(spec, labels))


def _statements(spec: TableSpec, labels: Sequence[str]) -> tuple[str, ...]:
    column, start, end = spec.partition_column, labels[0], labels[-1]
    shown = f"'{start}'" if len(labels) == 1 else f"'{start}' … '{end}', {len(labels)} partitions"
    return (
        f"SET start_date = '{start}', end_date = '{end}'",
        f"INSERT OVERWRITE {spec.name} PARTITION ({column}: {shown})\n{spec.query.strip()}",
    )
