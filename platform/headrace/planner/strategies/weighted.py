"""WEIGHTED: the aggregates of the changed rows are added to those stored; the group is never read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.cells.cells import Cells, cells_below_top
from headrace.planner.sql.facts import Level, QueryFacts, Refusal, Union, shortened
from headrace.planner.sql.joins import copies
from headrace.planner.sql.state import State


@dataclass(frozen=True)
class Located:
    """A leaf whose columns the table's primary key copies, in the key's order."""

    reference: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Weighted:
    """New state of a group = stored − aggregates of the old rows + aggregates of the new rows.

    Attributes:
        state: the stored columns that are added to, and what follows from them.
        cells: what is read around a change. None where the changed rows of the only leaf are enough.
        located: the leaf whose rows tell the touched groups; None where only the query itself can.
    """

    name: ClassVar[str] = "WEIGHTED"
    state: State
    cells: Cells | None = None
    located: Located | None = None

    def describe(self, facts: QueryFacts) -> str:
        by = f"by ({', '.join(self.state.groups)})" if self.state.grouped else "in one row"
        text = f"COUNT and SUM {by} are kept by adding the change"
        if self.state.hidden:
            text += f"; hidden columns: {', '.join(f'{n} = {shortened(t)}' for n, t in self.state.hidden)}"
        if self.cells is not None:
            text += f"; the cells of a change are {self.cells.describe(facts)}"
        return text


def match(facts: QueryFacts) -> Weighted | Refusal:
    """WEIGHTED holds for COUNT and SUM over rows that can be cut out around a change."""
    if facts.root is None:
        return Refusal(facts.obstacle or "the query is not understood")
    if facts.state is None or isinstance(facts.state, Refusal):
        return facts.state or Refusal("the query does not aggregate at its top")
    outputs = {name.lower(): name for name, _ in facts.state.outputs}
    aggregating = {name.lower() for name in facts.state.aggregating}
    for name in facts.primary_key if facts.state.grouped else ():
        if name.lower() not in outputs or name.lower() in aggregating:
            return Refusal(f"the primary key column `{name}` is an aggregate")
    cells = None if _row_by_row(facts.root) else cells_below_top(facts)
    if isinstance(cells, Refusal):
        return cells
    if cells is not None and None not in cells.outputs:
        return Refusal(f"what is read around a change is all of its groups (by {', '.join(_shown(cells))})")
    return Weighted(facts.state, cells, _located(facts, facts.root) if facts.state.grouped else None)


def _shown(cells: Cells) -> list[str]:
    return [name for name in cells.outputs if name is not None]


def _row_by_row(root: Level | Union) -> bool:
    """Whether what the top SELECT aggregates comes of one leaf, each of its rows by itself."""
    assert isinstance(root, Level)
    level: Level | Union | None = root
    while isinstance(level, Level):
        if len(level.sources) != 1 or (level is not root and level.mixes_rows):
            return False
        level = level.sources[0].level
    return level is None


def _located(facts: QueryFacts, root: Level | Union) -> Located | None:
    found = [copies(root, name) for name in facts.primary_key]
    if any(len(f) != 1 or f[0].padded for f in found) or len({f[0].reference for f in found}) != 1:
        return None
    return Located(found[0][0].reference, tuple(f[0].column for f in found))
