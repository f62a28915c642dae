"""The cells of a query: by which columns of which leaves a change is followed, and a refresh restricted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from headrace.planner.cells.parts import Parts
from headrace.planner.cells.paths import Path, Step
from headrace.planner.cells.separate import separate, separate_join
from headrace.planner.sql.facts import Level, Origin, QueryFacts, Refusal, Side, Union
from headrace.planner.sql.joins import origin_copies


@dataclass(frozen=True)
class Cells:
    """A query that falls apart into cells (see `separate.py`); references are indexes into
    `TableSpec.references`.

    Attributes:
        leaves: the partitioned leaves, each with its columns that hold the cell; as many columns for every
            leaf, in the same order, of the same types. Cells are compared NULL-safe.
        paths: for every free leaf its ways to partitioned ones, shortest first.
        outputs: by cell column, the table's column that copies it; None where none does.
        global_leaves: leaves whose change can touch any row: where one has changed the refresh runs the
            whole query. They are never restricted.
    """

    leaves: tuple[tuple[int, tuple[str, ...]], ...]
    paths: tuple[Path, ...]
    outputs: tuple[str | None, ...]
    global_leaves: tuple[int, ...] = ()

    @property
    def partitioned(self) -> dict[int, tuple[str, ...]]:
        """`leaves` by reference."""
        return dict(self.leaves)

    @property
    def null_fatal(self) -> tuple[Step, ...]:
        """NOT IN: where a walk along such a step meets a NULL in its `from_columns`, the refresh runs the
        whole query."""
        return tuple(dict.fromkeys(s for p in self.paths for s in p.steps if s.null_aware))

    def describe(self, facts: QueryFacts) -> str:
        """How a change is followed, in words for a user."""
        held_by = ", ".join(f"{facts.name_of(r)} ({', '.join(c)})" for r, c in self.leaves)
        parts = [f"copied from {held_by}", *(describe_path(facts, p) for p in self.paths)]
        parts += [f"a change of {facts.name_of(r)} reruns the whole query" for r in self.global_leaves]
        parts += [
            f"a NULL in {facts.name_of(s.from_reference)} ({s.from_columns[0]}) reruns the whole query"
            for s in self.null_fatal
        ]
        return "; ".join(parts)


def describe_path(facts: QueryFacts, path: Path) -> str:
    """`a change of dwd.users reaches dwd.orders by user_id = user_id`."""
    hops = []
    for step in path.steps:
        signs = ("<=>" if safe else "=" for safe in step.null_safe)
        pairs = (f"{a} {s} {b}" for a, s, b in zip(step.from_columns, signs, step.to_columns, strict=True))
        hops.append(f"{facts.name_of(step.to_reference)} by {' and '.join(pairs)}")
    return f"a change of {facts.name_of(path.reference)} reaches {', then '.join(hops)}"


def cells_of_outputs(facts: QueryFacts, columns: tuple[str, ...]) -> Cells | Refusal:
    """The cells that output columns `columns` hold: every row of the table tells its own."""
    assert facts.root is not None
    parts = separate(facts, facts.root, columns)
    return parts if isinstance(parts, Refusal) else _cells(facts, parts, columns)


def _cells(facts: QueryFacts, parts: Parts, outputs: tuple[str | None, ...]) -> Cells | Refusal:
    whole = {facts.references[r].upstream for r in parts.whole}
    if whole and whole >= {facts.references[r].upstream for r in (*parts.leaves, *parts.chains)}:
        lost = ", ".join(facts.name_of(r) for r in sorted(parts.whole))
        return Refusal(f"a change of {lost} cannot be followed, and any change is one of it")
    leaves = tuple(sorted(parts.leaves.items()))
    return Cells(leaves, parts.paths(), outputs, tuple(sorted(parts.whole)))


def cells_below_top(facts: QueryFacts) -> Cells | Refusal:
    """The finest cells of the rows that the topmost aggregate reads: what its FROM and WHERE give.

    Its GROUP BY need not contain them: rows of several cells meet in one group, and rows of one cell may go
    to several groups. With A the cells that a change touches, old and new rows alike, the aggregate's input
    changes only by (its input over new leaves restricted to A) minus (its input over old leaves
    restricted to A); all other input rows are the same before and after. This holds for the topmost level
    alone: what stands above its SELECT list (HAVING, windows over groups, DISTINCT, outer SELECTs) is the
    caller's to apply.

    Returns:
        Cells whose `outputs[i]` is the table's column that the i-th cell column is copied to, where the
        GROUP BY has it; else None.
    """
    if facts.root is None:
        return Refusal(facts.obstacle or "the query is not understood")
    top = _topmost(facts.root)
    if top is None:
        return Refusal("the query does not end in an aggregate")
    level = _read_by(top)
    best: tuple[tuple[int, ...], Cells] | None = None
    refusal: Refusal | None = None
    for origins in _candidates(facts, level):
        parts = separate_join(facts, level, origins)
        outputs = tuple(_shown_as(facts, top, o) if level is top else None for o in origins)
        found = parts if isinstance(parts, Refusal) else _cells(facts, parts, outputs)
        if isinstance(found, Refusal):
            refusal = refusal or found
            continue
        rank = (len(found.global_leaves), -_determined(facts, found), len(found.null_fatal), -len(origins))
        if best is None or rank < best[0]:
            best = rank, found
    if best is not None:
        return best[1]
    return refusal or Refusal("no column below its aggregate can be followed to a leaf")


def _topmost(query: Level | Union) -> Level | None:
    """The first SELECT with GROUP BY or aggregates, below SELECTs of one subquery each."""
    while isinstance(query, Level) and query.grouping is None:
        if len(query.sources) != 1 or query.sources[0].level is None or query.mixes_rows:
            return None
        query = query.sources[0].level
    return query if isinstance(query, Level) else None


def _read_by(top: Level) -> Level:
    """The SELECT whose rows `top` aggregates: below those that only filter and project them."""
    level = top
    while len(level.sources) == 1:
        below = level.sources[0].level
        if not isinstance(below, Level) or below.mixes_rows:
            return level
        level = below
    return level


def _candidates(facts: QueryFacts, top: Level) -> Iterator[tuple[Origin, ...]]:
    """Cells to try: whole primary keys of leaves, then what joins them, then any single column."""
    anchors: dict[int, dict[str, Origin]] = {}
    for index, source in enumerate(top.sources):
        if source.side is Side.TEST:
            continue
        for column in source.columns:
            origin = Origin(index, column)
            for copy in origin_copies(top, origin):
                anchors.setdefault(copy.reference, {}).setdefault(copy.column.lower(), origin)
    joined = {o for e in top.equalities for o in (e.left, e.right)}
    seen = set[tuple[Origin, ...]]()
    for columns in _tried(facts, anchors, joined):
        if columns and columns not in seen:
            seen.add(columns)
            yield columns
    yield from ((Origin(-1 - i, parts[0].column),) for i, parts in enumerate(top.merged))


def _tried(
    facts: QueryFacts, anchors: dict[int, dict[str, Origin]], joined: set[Origin]
) -> Iterator[tuple[Origin, ...]]:
    for reference, own in anchors.items():
        key = [k.lower() for k in facts.reference_keys[reference]]
        if key and all(k in own for k in key):
            yield tuple(own[k] for k in key)
    for own in anchors.values():
        yield from _subsets([o for o in own.values() if o in joined])
    for own in anchors.values():
        yield from ((o,) for o in own.values())


def _subsets(columns: list[Origin]) -> Iterator[tuple[Origin, ...]]:
    for size in range(min(len(columns), 4), 0, -1):
        yield from combinations(columns[:6], size)


def _determined(facts: QueryFacts, cells: Cells) -> int:
    """How many leaves have at most one row for a cell, or for a row that they lead to."""
    found: Iterable[tuple[int, tuple[str, ...]]] = (
        *cells.leaves,
        *{(p.reference, p.steps[0].from_columns) for p in cells.paths},
    )
    keys = [({k.lower() for k in facts.reference_keys[r]}, {c.lower() for c in cs}) for r, cs in found]
    return sum(bool(key) and key <= columns for key, columns in keys)


def _shown_as(facts: QueryFacts, top: Level, origin: Origin) -> str | None:
    if top is not facts.root or origin not in (top.grouping or ()):
        return None
    shown = [o.name for o in top.outputs if o.origin == origin]
    return next((c for c in facts.columns if shown and c.lower() == shown[0].lower()), None)
