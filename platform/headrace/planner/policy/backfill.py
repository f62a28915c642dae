"""What a backfill computes and records, decided before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.spec.model import TableName, TableSpec
from headrace.spec.partitions.completion import RunMode
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import mutable_range


@dataclass(frozen=True)
class TableState:
    """A table and its upstreams between two commits.

    Args:
        version: of its changelog.
        reached: the upstream versions that its rows cover.
        upstreams: the upstreams' present versions.
        continues: whether it can go on from `reached`: no change that it has not seen is removed, and its
            rows are of its present text.
        immutable_before: the bound of its immutable partitions, "" for none.
        complete_through: the last partition that the batch has written where it writes alone, "" for none.
    """

    version: int
    reached: Mapping[str, int]
    upstreams: Mapping[str, int]
    continues: bool = True
    immutable_before: str = ""
    complete_through: str = ""


@dataclass(frozen=True)
class BackfillPlan:
    """Which rows are compared with what the table holds, and what its next commit says.

    Attributes:
        labels: the range to compare and overwrite, None for the whole table.
        version: the changelog version that is corrected.
        frontier: the upstream versions that the query reads.
        restarts: whether the table goes on from `frontier`, which is later than what it has reached.
        complete_through: the bound of complete partitions from now on.
        was_complete_through: the bound as it was found.
        immutable_before: the bound that the backfill lowers, None where it leaves it.
        sole_writer: whether the batch writes the table alone: then nothing is a correction to its readers.
    """

    table: TableName
    labels: LabelRange | None
    version: int
    frontier: Mapping[str, int]
    restarts: bool = False
    complete_through: str = ""
    was_complete_through: str = ""
    immutable_before: str | None = None
    sole_writer: bool = False

    @property
    def exclusive(self) -> bool:
        """Whether no other commit may come between, because a bound or the frontier moves."""
        moves = self.immutable_before is not None or self.complete_through != self.was_complete_through
        return self.restarts or moves

    def __str__(self) -> str:
        read = ", ".join(f"{name}@{version}" for name, version in sorted(self.frontier.items()))
        text = f"{self.table}@{self.version}: {self.labels or 'everything'} from {read or 'its source'}"
        if self.restarts:
            text += ", where it goes on"
        if self.complete_through != self.was_complete_through:
            text += f", complete through {self.complete_through or 'all that there is'}"
        if self.immutable_before is not None:
            text += f", immutable before {self.immutable_before or 'nothing'}"
        return text


def plan_backfill(
    spec: TableSpec,
    state: TableState,
    labels: LabelRange | None,
    *,
    rows_given: bool = False,
    version: int | None = None,
    frontier: Mapping[str, int] | None = None,
    immutable_before: str | None = None,
    complete_through: str | None = None,
) -> BackfillPlan:
    """
    Args:
        labels: what is asked for, None for the whole table.
        rows_given: whether the rows come from elsewhere and not from the table's query.
        version: the changelog version that such rows belong to, by default the present one.
        frontier: the upstream versions that the table is to go on from, by default those it has reached.
        immutable_before, complete_through: bounds from now on, by default as they are.
    """
    # What was removed unseen is only in the upstreams' rows, and only the whole query reads all of them.
    if labels is None and not rows_given and frontier is None and not state.continues:
        frontier = state.upstreams
    bound = state.immutable_before if immutable_before is None else immutable_before
    return BackfillPlan(
        table=spec.name,
        labels=mutable_range(spec, bound, labels),
        version=state.version if version is None else version,
        frontier=dict(frontier or state.reached),
        restarts=frontier is not None,
        complete_through=complete_through_after(spec, state.complete_through, labels, complete_through),
        was_complete_through=state.complete_through,
        immutable_before=immutable_before,
        sole_writer=complete_through is not None,
    )


def complete_through_after(spec: TableSpec, was: str, labels: LabelRange | None, given: str | None) -> str:
    """The bound of complete partitions once a range was computed, the whole table without one.

    Args:
        given: what it is to be. None: it stays; a table that streams has none once all of it was computed.
    """
    if given is not None:
        return given
    lifted = labels is None and spec.run_mode is not RunMode.OFFLINE
    return "" if lifted else was
