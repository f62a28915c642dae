"""An upstream's rows while a case is played: what each change does to them. Knows no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from headrace.cases.model import GivenRow, Step, Upstream
from headrace.errors import SpecError

Key = tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """One row of an upstream as it was and as it is; None where there was, or is, none."""

    upstream: Upstream
    before: GivenRow | None
    after: GivenRow | None

    @property
    def undone(self) -> Change:
        return Change(self.upstream, self.after, self.before)

    @property
    def shown(self) -> GivenRow:
        """The row after it, or before where there is none."""
        row = self.after or self.before
        assert row is not None, "a change has a row before or after it"
        return row


@dataclass
class Held:
    """The rows of each upstream, by its key.

    Args:
        keys: key columns of each upstream.
    """

    keys: dict[Upstream, tuple[str, ...]]
    rows: dict[Upstream, dict[Key, GivenRow]] = field(default_factory=dict)

    def step(self, step: Step) -> list[Change]:
        """Do what a step says: deletions, then what comes.

        Returns:
            One change a key: what was before the step, and what is after it.
        Raises:
            SpecError: a row to delete is not there, or a row does not name its key.
        """
        net: dict[tuple[Upstream, Key], Change] = {}
        for change in (*self._deletes(step), *self._puts(step)):
            place = change.upstream, self._key(change.upstream, change.shown)
            first = net.get(place, change)
            net[place] = replace(change, before=first.before)
        return [change for change in net.values() if change.before or change.after]

    def _deletes(self, step: Step) -> Iterator[Change]:
        for upstream, rows in step.delete.items():
            held = self.rows.setdefault(upstream, {})
            for row in rows:
                before = held.pop(self._key(upstream, row), None)
                if before is None:
                    raise SpecError(f"`{upstream}` has no such row to delete", row.location)
                yield Change(upstream, before, None)

    def _puts(self, step: Step) -> Iterator[Change]:
        for upstream, rows in step.put.items():
            held = self.rows.setdefault(upstream, {})
            for row in rows:
                key = self._key(upstream, row)
                before = held.get(key)
                after = row if before is None else replace(row, values={**before.values, **row.values})
                held[key] = after
                yield Change(upstream, before, after)

    def _key(self, upstream: Upstream, row: GivenRow) -> Key:
        names = self.keys[upstream]
        for name in names:
            if row.values.get(name) is None:
                hint = f"its key is ({', '.join(names)})"
                raise SpecError(f"a row of `{upstream}` lacks its key column `{name}`", row.location, hint)
        return tuple(str(row.values[name]) for name in names)


def one_by_one(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """As a stream brings them: each alone, every second one taken back and done again.

    The rows at the end are the same, and so must the table's be.
    """
    for change in changes:
        yield [change]
    for change in changes[::2]:
        if change.before is None:
            yield [change.undone]
            yield [change]


def halves(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """As a schedule brings them: many at once, in two parts."""
    middle = (len(changes) + 1) // 2
    yield from (part for part in (list(changes[:middle]), list(changes[middle:])) if part)
