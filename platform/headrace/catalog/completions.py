"""Which partitions are complete, what came of it, and which late data has opened again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import sqlalchemy as sa

from headrace.catalog.database import reading, utc_now
from headrace.catalog.schema import completed_partition as p
from headrace.catalog.schema import completion as c
from headrace.spec.model import TableName

HISTORY = "HISTORY"
"""Outcome of a partition that was complete before anybody looked: nothing ran."""

KEPT = 20_000
"""Newest complete partitions of a table that stay."""


@dataclass(frozen=True)
class Completed:
    """One complete partition.

    Args:
        watermark_ms: how far the table was when it was found complete, milliseconds since 1970.
        due_ms: how far the table must be for what it waits for.
        outcome: what came of it; None while its run is still to come.
        detail: of the outcome, for a person.
        version: the changelog version at which that was known.
        runs: how often it ran to its end.
        reopened: how often late data has opened it again.
        turn: counts the outcomes of the table's partitions: the later one has the greater. 0 without any.
    """

    label: str
    completed_at: datetime
    watermark_ms: int
    due_ms: int
    outcome: str | None
    detail: str
    version: int
    runs: int
    reopened: int
    turn: int
    finished_at: datetime | None


@dataclass(frozen=True)
class CompletionProgress:
    """How far the look at one table has come.

    Args:
        through: the newest complete partition; all before it are complete, too.
        looked: changelog version up to which commits were searched for late data.
        late: complete partitions' changes that were let be, by policy.
    """

    through: str
    looked: int
    late: int


@dataclass(frozen=True)
class Summary(CompletionProgress):
    """As much as status tells of one table.

    Args:
        turn: the greatest turn of its partitions, 0 without any outcome.
        partitions: those that were asked for, by label.
    """

    turn: int
    partitions: tuple[Completed, ...]

    def of(self, outcome: str) -> list[Completed]:
        """Those of one outcome, by label."""
        return [found for found in self.partitions if found.outcome == outcome]


class Completions:
    """The record. Thread-safe; it survives the process."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def progress(self, table: TableName) -> CompletionProgress | None:
        """None where the table was never looked at."""
        select = sa.select(c.c.through, c.c.looked, c.c.late).where(c.c.table_name == str(table))
        with reading(self._engine) as connection:
            found = connection.execute(select).one_or_none()
        return CompletionProgress(*found) if found is not None else None

    def summaries(self, outcomes: Mapping[str, datetime | None]) -> dict[str, Summary]:
        """Every table that was ever looked at, by its name. Two queries, however many tables there are.

        Args:
            outcomes: of the partitions that are wanted, each with the moment (with a zone) since which they
                came; None for all of them.
        """
        wanted = [
            (p.c.outcome == outcome)
            & (sa.true() if since is None else p.c.finished_at > _without_zone(since))
            for outcome, since in outcomes.items()
        ]
        turns = sa.select(p.c.table_name, sa.func.max(p.c.turn).label("turn")).group_by(p.c.table_name)
        last = turns.subquery()
        progress = sa.select(c.c.table_name, c.c.through, c.c.looked, c.c.late, last.c.turn)
        partitions = sa.select(p).where(sa.or_(sa.false(), *wanted)).order_by(p.c.table_name, p.c.label)
        found: dict[str, list[Completed]] = {}
        with reading(self._engine) as connection:
            tables = connection.execute(progress.outerjoin_from(c, last, last.c.table_name == c.c.table_name))
            known = tables.all()
            for row in connection.execute(partitions).mappings():
                found.setdefault(row["table_name"], []).append(_completed(row))
        return {
            name: Summary(through, looked, late, turn or 0, tuple(found.get(name, ())))
            for name, through, looked, late, turn in known
        }

    def begin(
        self, table: TableName, labels: Collection[str], through: str, watermark_ms: int, version: int
    ) -> None:
        """Note what is complete at the first look: none of it runs."""
        first = {"table_name": str(table), "through": through, "looked": version, "late": 0}
        with self._engine.begin() as connection:
            connection.execute(sa.insert(c).values(first))
            rows = [_row(table, label, watermark_ms, watermark_ms, version) for label in sorted(labels)]
            done = {"outcome": HISTORY, "finished_at": utc_now()}
            if rows:
                connection.execute(
                    sa.insert(p), [r | done | {"turn": turn} for turn, r in enumerate(rows, start=1)]
                )

    def complete(self, table: TableName, labels: Sequence[str], watermark_ms: int, version: int) -> None:
        """Note partitions that have become complete; what they wait for is due now.

        Args:
            labels: sorted, all after those known.
            version: of the changelog: nothing up to it is late, later changes of them are.
        """
        with self._engine.begin() as connection:
            rows = [_row(table, label, watermark_ms, watermark_ms, version) for label in labels]
            connection.execute(sa.insert(p), rows)
            self._look(connection, table, through=labels[-1], looked=version)
            self._forget_old(connection, table)

    def reopen(
        self, table: TableName, labels: Collection[str], *, due_ms: int, version: int, looked: int
    ) -> None:
        """Let complete partitions run once more, as late data has changed them.

        Args:
            due_ms: of those that wait for nothing yet; others keep theirs.
            version: at which that was seen, as is `looked`.
        """
        own = p.c.table_name == str(table)
        with self._engine.begin() as connection:
            known = set(connection.execute(sa.select(p.c.label).where(own, p.c.label.in_(labels))).scalars())
            done = sa.update(p).where(own, p.c.label.in_(known), p.c.outcome.is_not(None))
            values = {"outcome": None, "detail": "", "due_ms": due_ms, "version": version}
            connection.execute(done.values(reopened=p.c.reopened + 1, **values))
            new = [_row(table, label, due_ms, due_ms, version, reopened=1) for label in set(labels) - known]
            if new:
                connection.execute(sa.insert(p), new)
            self._look(connection, table, looked=looked)

    def ignore(self, table: TableName, changes: int, looked: int) -> None:
        """Count changes of complete partitions that nothing is done about."""
        with self._engine.begin() as connection:
            self._look(connection, table, looked=looked, late=c.c.late + changes)

    def look(self, table: TableName, looked: int) -> None:
        """Note that nothing up to this changelog version is left to see."""
        with self._engine.begin() as connection:
            self._look(connection, table, looked=looked)

    def finish(
        self, table: TableName, labels: Collection[str], outcome: str, detail: str, version: int
    ) -> None:
        """Note what came of partitions that were due."""
        own = p.c.table_name == str(table)
        with self._engine.begin() as connection:
            last = connection.execute(sa.select(sa.func.max(p.c.turn)).where(own)).scalar_one() or 0
            values = {"outcome": outcome, "detail": detail, "version": version, "finished_at": utc_now()}
            numbered = enumerate(sorted(labels), start=last + 1)
            each = [{"finished": label, "as_turn": turn} for turn, label in numbered]
            if each:
                done = sa.update(p).where(own, p.c.label == sa.bindparam("finished"))
                counted = done.values(runs=p.c.runs + 1, turn=sa.bindparam("as_turn"), **values)
                connection.execute(counted, each)

    def waiting(self, table: TableName) -> dict[str, int]:
        """The labels whose run is to come, sorted, each with how far the table must be for it."""
        where = (p.c.table_name == str(table)) & p.c.outcome.is_(None)
        select = sa.select(p.c.label, p.c.due_ms).where(where).order_by(p.c.label)
        with reading(self._engine) as connection:
            return {row.label: row.due_ms for row in connection.execute(select)}

    def of(self, table: TableName) -> list[Completed]:
        """The complete partitions of a table by label."""
        select = sa.select(p).where(p.c.table_name == str(table))
        with reading(self._engine) as connection:
            return [_completed(row) for row in connection.execute(select.order_by(p.c.label)).mappings()]

    def restart(self, table: TableName) -> None:
        """Forget all of it: the table's partitions are other ones."""
        with self._engine.begin() as connection:
            for known in (p, c):
                connection.execute(sa.delete(known).where(known.c.table_name == str(table)))

    @staticmethod
    def _forget_old(connection: sa.Connection, table: TableName) -> None:
        """The oldest beyond KEPT go, but for those that wait. All before `through` stay complete."""
        own = p.c.table_name == str(table)
        oldest = sa.select(p.c.label).where(own).order_by(p.c.label.desc()).offset(KEPT).limit(1)
        last = connection.execute(oldest).scalar_one_or_none()
        if last is not None:
            connection.execute(sa.delete(p).where(own, p.c.label <= last, p.c.outcome.is_not(None)))

    def _look(self, connection: sa.Connection, table: TableName, **values: Any) -> None:
        connection.execute(sa.update(c).where(c.c.table_name == str(table)).values(values))


def _row(
    table: TableName, label: str, watermark_ms: int, due_ms: int, version: int, *, reopened: int = 0
) -> dict[str, object]:
    return {
        "table_name": str(table),
        "label": label,
        "completed_at": utc_now(),
        "watermark_ms": watermark_ms,
        "due_ms": due_ms,
        "outcome": None,
        "detail": "",
        "version": version,
        "runs": 0,
        "reopened": reopened,
        "turn": 0,
        "finished_at": None,
    }


def _completed(row: sa.RowMapping) -> Completed:
    values = {name: value for name, value in row.items() if name != "table_name"}
    for name in ("completed_at", "finished_at"):
        moment = cast("datetime | None", values[name])
        values[name] = moment.replace(tzinfo=UTC) if moment is not None else None
    return Completed(**values)


def _without_zone(moment: datetime) -> datetime:
    """As the catalog keeps it."""
    return moment.astimezone(UTC).replace(tzinfo=None)
