"""The leaves of a query that falls apart into cells, by what they are, while they are put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.planner.cells.paths import Path, Step

Columns = tuple[str, ...]
Chain = tuple[Step, ...]


class Conflict(Exception):
    """One reference is read twice (in a CTE), and cannot be restricted for both readings."""


@dataclass
class Parts:
    """The leaves of a query by what they are. Keys are indexes into `TableSpec.references`."""

    leaves: dict[int, Columns] = field(default_factory=dict)
    chains: dict[int, tuple[Chain, ...]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)

    def add(self, other: Parts) -> None:
        """Raises Conflict; `self` is then of no more use."""
        for reference, columns in other.leaves.items():
            if self.leaves.setdefault(reference, columns) != columns:
                raise Conflict(reference)
        for reference, chains in other.chains.items():
            known = self.chains.get(reference, ())
            self.chains[reference] = tuple(dict.fromkeys((*known, *chains)))
            first = {(c[0].from_columns, c[0].null_safe, c[0].null_aware) for c in self.chains[reference]}
            if len(first) > 1:
                raise Conflict(reference)
        self.whole |= other.whole
        kinds = [*self.leaves, *self.chains, *self.whole]
        for reference in kinds:
            if kinds.count(reference) > 1:
                raise Conflict(reference)

    def paths(self) -> tuple[Path, ...]:
        """Shortest first."""
        found = [Path(r, chain) for r, chains in self.chains.items() for chain in chains]
        return tuple(sorted(found, key=lambda p: (len(p.steps), p.reference)))

    def routes(self, reference: int) -> tuple[Chain, ...]:
        """The ways on from a leaf: none to go where it is partitioned."""
        return ((),) if reference in self.leaves else self.chains[reference]
