"""The choice of K, the output columns by which changed rows are found again.

Candidates are the outputs that one leaf holds together: the whole primary key first, else all that the
query compares or that are keys. Where the query does not fall apart by a candidate, its subsets are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from headrace.planner.cells.cells import Cells, cells_of_outputs
from headrace.planner.cells.separate import held, holder
from headrace.planner.sql.facts import Level, QueryFacts, Refusal, Side, Union
from headrace.planner.sql.joins import place_of


@dataclass(frozen=True)
class _Traced:
    """A leaf column that holds an output. `compared` says that the query itself compares its values for
    equality (grouping, partitioning, DISTINCT), so they are of a type that can be compared."""

    reference: int
    column: str
    compared: bool


def affected(facts: QueryFacts) -> Cells | Refusal:
    """The cells of the best K of the query (`Cells.outputs`), or why there is none."""
    if facts.root is None:
        return Refusal(facts.obstacle or "the query is not understood")
    reasons = list[str]()
    traced: dict[str, frozenset[_Traced]] = {}
    for name in facts.columns:
        found = _trace(facts, facts.root, name)
        if isinstance(found, Refusal):
            reasons.append(found.reason)
        elif optional_output(facts.root, name):
            reasons.append(f"`{name}` comes from the optional side of a join")
        else:
            traced[name] = found
    lost: Refusal | None = None
    partly: Cells | None = None
    for columns in _candidates(facts, traced):
        cells = cells_of_outputs(facts, columns)
        if isinstance(cells, Refusal):
            lost = lost or cells
        elif not cells.global_leaves:
            return cells
        else:
            partly = partly or cells
    return partly or lost or Refusal("no column can be followed to a leaf: " + _some(facts, reasons))


def _trace(facts: QueryFacts, query: Level | Union, name: str) -> frozenset[_Traced] | Refusal:
    """The leaf columns that hold output `name`. Only a first look: whether all leaves fall apart so is
    for `cells_of_outputs` to say."""
    every = frozenset[_Traced]()
    if isinstance(query, Union):
        for branch in query.branches:
            found = _trace(facts, branch, f"@{place_of(query, name)}")
            if isinstance(found, Refusal):
                return found
            every |= found
        return every
    origin = holder(query, name)
    if isinstance(origin, Refusal):
        return origin
    refusal: Refusal | None = None
    for index, column in held(facts, query, origin).items():
        source = query.sources[index]
        if index < 0 or source.side is Side.TEST:
            continue
        if source.reference is not None:
            every |= {_Traced(source.reference, column, query.mixes_rows)}
            continue
        assert source.level is not None
        found = _trace(facts, source.level, column)
        if isinstance(found, Refusal):
            refusal = refusal or found
        else:
            mixed = query.mixes_rows
            every |= {_Traced(t.reference, t.column, t.compared or mixed) for t in found}
    return every or refusal or Refusal(f"`{name}` is copied from no table")


def optional_output(query: Level | Union, name: str) -> bool:
    """Whether output `name` comes from the side of a LEFT, RIGHT or FULL JOIN that may be absent."""
    while isinstance(query, Level):
        output = query.output(name)
        if output is None or output.origin is None or output.origin.source < 0:
            return False
        if output.origin.source in query.padded:
            return True
        source = query.sources[output.origin.source]
        if source.level is None:
            return False
        query, name = source.level, output.origin.column
    return any(optional_output(b, f"@{place_of(query, name)}") for b in query.branches)


def _candidates(facts: QueryFacts, traced: dict[str, frozenset[_Traced]]) -> list[tuple[str, ...]]:
    """Sets of columns to try, best first."""
    ranks: dict[tuple[str, ...], tuple[int, ...]] = {}
    for reference in range(len(facts.references)):
        mine = {n: t for n, found in traced.items() for t in found if t.reference == reference}
        for columns in _subsets(facts, _chosen(facts, reference, mine)):
            rank = _rank(facts, reference, [mine[c].column for c in columns], columns)
            ranks[columns] = min(rank, ranks.get(columns, rank))
    return sorted(ranks, key=lambda columns: ranks[columns])


def _subsets(facts: QueryFacts, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """`columns` and its subsets; of many columns only the likely ones."""
    if not columns:
        return
    yield columns
    if len(columns) <= 5:
        for size in range(len(columns) - 1, 0, -1):
            yield from combinations(columns, size)
        return
    key = _lower(facts.primary_key)
    yield tuple(c for c in columns if c.lower() in key) or columns
    yield from combinations(columns, len(columns) - 1)
    yield from ((c,) for c in columns)


def _chosen(facts: QueryFacts, reference: int, mine: dict[str, _Traced]) -> tuple[str, ...]:
    key = tuple(c for c in facts.columns if c.lower() in _lower(facts.primary_key))
    assert facts.root is not None
    whole = key and len(key) == len(facts.primary_key) and all(c in mine for c in key)
    if whole and not _aggregates(facts.root):
        return key
    # Columns of a type that cannot be compared (maps) must not get into K.
    wanted = _lower((*facts.primary_key, *facts.partitioned_by))
    leaf_key = _lower(facts.reference_keys[reference])
    return tuple(
        name
        for name, t in mine.items()
        if t.compared or name.lower() in wanted or t.column.lower() in leaf_key
    )


def _rank(facts: QueryFacts, reference: int, held_by: list[str], columns: tuple[str, ...]) -> tuple[int, ...]:
    key = _lower(facts.primary_key) & _lower(columns)
    whole = bool(facts.primary_key) and key == _lower(facts.primary_key)
    leaf_key = _lower(facts.reference_keys[reference])
    finest = bool(leaf_key) and leaf_key <= _lower(tuple(held_by))
    return (not whole, partitions_only(facts, columns), -len(key), not finest, -len(columns), reference)


def partitions_only(facts: QueryFacts, columns: tuple[str | None, ...]) -> bool:
    """Whether K is made of partition columns alone."""
    return _lower(tuple(c for c in columns if c is not None)) <= _lower(facts.partitioned_by)


def _some(facts: QueryFacts, reasons: list[str]) -> str:
    """The reasons that matter most: those of the key and partition columns first."""
    wanted = [f"`{c}`" for c in (*facts.primary_key, *facts.partitioned_by)]
    ordered = sorted(dict.fromkeys(reasons), key=lambda r: not any(r.startswith(w) for w in wanted))
    shown = "; ".join(ordered[:3])
    return shown + ("; …" if len(ordered) > 3 else "") if shown else "its output columns are not known"


def _lower(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(n.lower() for n in names)


def _aggregates(query: Level | Union) -> bool:
    if isinstance(query, Union):
        return any(map(_aggregates, query.branches))
    return query.grouping is not None or any(
        s.level is not None and s.side is not Side.TEST and _aggregates(s.level) for s in query.sources
    )
