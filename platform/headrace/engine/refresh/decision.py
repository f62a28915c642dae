"""One refresh of a derived table: how it runs, and the record that it leaves in its commit."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.engine.table.table import Delta, Table
from headrace.planner.policy.choice import FULL, Choice, Features, Place, Sample, choose, estimate, samples
from headrace.planner.strategies import AffectedKeys, AffectedPartitions, Full, Strategy, TopN, Weighted
from headrace.spec.model import CorrectionPolicy, RefreshPolicy, TableName
from headrace.store.record.commits import HISTORY, Commit, decisions, newest
from headrace.store.record.decision import Decision

LOAD = "load"
RERUN = "what is touched is run again whole, and compared with what the table holds"


@dataclass
class Refresh:
    """A refresh under way. `record` ends its work; the decision then is part of `commit`."""

    commit: Commit
    choice: Choice
    strategy: Strategy
    features: Features
    changes: Mapping[str, str]
    begun: float = field(default_factory=time.monotonic)
    gave_up: bool = False
    """The driver began and found too many rows."""
    decision: Decision | None = None

    def record(self, path: str, rows_out: int) -> Decision:
        """Note what the work took so far."""
        if self.commit.version == 1:
            path = LOAD
        elif self.gave_up:
            path = f"driver, then {path}"
        return self._keep(
            Decision(
                chosen=self.choice.strategy,
                path=path,
                why=self.choice.why,
                estimates={e.strategy: round(e.seconds, 3) for e in self.choice.estimates},
                seconds=round(time.monotonic() - self.begun, 3),
                rows_in=self.features.changed,
                rows_out=rows_out,
                driving=self.features.driving,
                upstream=self.features.upstream,
                table=self.features.table,
                changes=self.changes,
            )
        )

    def give_up(self, choice: Choice, strategy: Strategy) -> None:
        """The driver found too much: go on, on the cluster, as now chosen."""
        self.choice, self.strategy, self.gave_up = choice, strategy, True

    def shadowed(self, strategy: str, seconds: float) -> None:
        """Note that another candidate gave the same."""
        assert self.decision is not None
        self._keep(replace(self.decision, shadow={strategy: round(seconds, 3)}))

    def _keep(self, decision: Decision) -> Decision:
        self.decision = decision
        self.commit = replace(self.commit, decision=decision.as_dict())
        return decision


def whole_query(refresh: Refresh, why: str) -> tuple[Choice, Strategy]:
    """FULL in place of a strategy that cannot follow this change."""
    return replace(refresh.choice, strategy=FULL, why=f"it can touch any row: {why}"), Full()


def candidates(table: Table) -> dict[str, Strategy]:
    """The strategies that are right for the table, the planned one first.

    A table that skips its upstreams' corrections is not what its query gives, so FULL is none of its own.
    """
    planned = table.plan.strategy
    if table.spec.correction_policy is CorrectionPolicy.SKIP:
        return {planned.name: planned}
    return {planned.name: planned, FULL: Full()}


def recomputing(table: Table, *, asked: bool, corrected: bool) -> Strategy | None:
    """How what is touched is run again whole and compared with what the table holds; None where it is not.

    Args:
        asked: by partition, or the whole query.
        corrected: a change is a correction that is not carried as one.
    """
    again = table.plan.partitions.recompute
    if asked:
        return again if isinstance(again, AffectedPartitions) else Full()
    if corrected:
        return Full() if isinstance(table.plan.strategy, Full) else again
    return None


def decide(
    table: Table,
    upstreams: Mapping[TableName, Table],
    deltas: Mapping[TableName, Delta],
    commit: Commit,
    *,
    place: Place,
    force: str | None = None,
    again: Strategy | None = None,
) -> Refresh:
    """Choose how to apply `deltas`.

    Args:
        again: see `recomputing`.
    Raises:
        ValueError: `force` names no strategy of the table.
    """
    rows = {name: upstream.store.commit.rows for name, upstream in upstreams.items()}
    features = Features(
        changed=sum(d.count for d in deltas.values()),
        driving=_driving(table, rows),
        upstream=sum(rows.values()),
        table=table.store.commit.rows,
        place=place,
    )
    changes = {str(name): str(delta.change) for name, delta in deltas.items()}
    past = [sample for own in _taught(table) for sample in own]
    if table.store.version == 0:
        first = Choice(FULL, "the table is empty: its first load", (estimate(FULL, features, past),))
        return Refresh(commit, first, Full(), features, changes)
    if again is not None:
        return Refresh(commit, Choice(again.name, RERUN, ()), again, features, changes)
    named = candidates(table)
    policy = table.spec.refresh_policy
    choice = choose(list(named), features, past, RefreshPolicy(policy), force=force)
    return Refresh(commit, choice, named[choice.strategy], features, changes)


def _driving(table: Table, rows: Mapping[TableName, int]) -> int:
    """Rows of the largest table that the change is followed to; of the largest upstream for others."""
    strategy = table.plan.strategy
    if isinstance(strategy, TopN):
        strategy = strategy.inner
    if not isinstance(strategy, AffectedKeys | AffectedPartitions | Weighted) or strategy.cells is None:
        return max(rows.values())
    names = (table.spec.references[reference].upstream for reference, _ in strategy.cells.leaves)
    return max(rows[name] for name in names if isinstance(name, TableName))


def history(table: Table) -> deque[Decision]:
    """Past decisions, oldest first: read back from the log once, then kept in memory."""
    if table.run.decisions is None:
        table.run.decisions = deque(decisions(newest(table.store.changelog.path, HISTORY)), HISTORY)
    return table.run.decisions


def remember(table: Table, decision: Decision) -> None:
    """The table's newest decision: what it took counts from now on."""
    _taught(table).append(samples(decision))
    history(table).append(decision)


def _taught(table: Table) -> deque[list[Sample]]:
    """What each past refresh took, oldest first."""
    if table.run.samples is None:
        table.run.samples = deque(map(samples, history(table)), HISTORY)
    return table.run.samples
