"""The choice of K, the output columns by which changed rows are found again.

Per leaf D: the columns of the table that copy a column of D and on which a restriction commutes with the
query. The whole primary key is preferred; below an aggregate all its GROUP BY columns are.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.planner.facts import Level, QueryFacts, Refusal
from headrace.planner.joins import join_level, paths_to
from headrace.planner.paths import Path
from headrace.planner.trace import Traced, optional_leaf, trace


@dataclass(frozen=True)
class Affected:
    """K (`columns`), the leaf that it copies, its columns there, and how the other leaves reach it."""

    columns: tuple[str, ...]
    driving: int
    trace: tuple[str, ...]
    paths: tuple[Path, ...]


def affected(facts: QueryFacts) -> Affected | Refusal:
    """The best K of the query, or why there is none."""
    if facts.root is None:
        return Refusal(facts.obstacle or "the query is not understood")
    root, reasons = facts.root, list[str]()
    traced: dict[str, Traced] = {}
    for name in facts.columns:
        found = trace(root, name)
        if isinstance(found, Refusal):
            reasons.append(found.reason)
        elif optional_leaf(root, name):
            reasons.append(f"`{name}` comes from the optional side of a LEFT JOIN")
        else:
            traced[name] = found
    candidates = [
        (reference, columns)
        for reference in range(len(facts.references))
        if (columns := _chosen(facts, reference, traced))
    ]
    lost: str | None = None
    for reference, columns in sorted(candidates, key=lambda c: _rank(facts, *c)):
        paths = paths_to(facts, join_level(root), reference)
        if not isinstance(paths, Refusal):
            return Affected(columns, reference, tuple(traced[c].column for c in columns), paths)
        lost = lost or paths.reason
    return Refusal(lost or "no column can be followed to a leaf: " + _some(facts, reasons))


def _some(facts: QueryFacts, reasons: list[str]) -> str:
    """The reasons that matter most: those of the key and partition columns first."""
    wanted = [f"`{c}`" for c in (*facts.primary_key, *facts.partitioned_by)]
    ordered = sorted(dict.fromkeys(reasons), key=lambda r: not any(r.startswith(w) for w in wanted))
    shown = "; ".join(ordered[:3])
    return shown + ("; …" if len(ordered) > 3 else "") if shown else "its output columns are not known"


def _chosen(facts: QueryFacts, reference: int, traced: dict[str, Traced]) -> tuple[str, ...]:
    mine = {name: t for name, t in traced.items() if t.reference == reference}
    key = tuple(c for c in facts.columns if c.lower() in _lower(facts.primary_key))
    assert facts.root is not None
    if (
        key
        and len(key) == len(facts.primary_key)
        and all(c in mine for c in key)
        and not _aggregates(facts.root)
    ):
        return key
    # Columns of a type that cannot be compared (maps) must not get into K.
    wanted = _lower((*facts.primary_key, *facts.partitioned_by))
    leaf_key = _lower(facts.reference_keys[reference])
    return tuple(
        name
        for name, t in mine.items()
        if t.compared or name.lower() in wanted or t.column.lower() in leaf_key
    )


def _rank(facts: QueryFacts, reference: int, columns: tuple[str, ...]) -> tuple[int, ...]:
    key = _lower(facts.primary_key) & _lower(columns)
    whole = bool(facts.primary_key) and key == _lower(facts.primary_key)
    partition_only = partitions_only(facts, columns)
    return (not whole, partition_only, -len(key), -len(columns), reference)


def partitions_only(facts: QueryFacts, columns: tuple[str, ...]) -> bool:
    """Whether K is made of partition columns alone."""
    return _lower(columns) <= _lower(facts.partitioned_by)


def _lower(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(n.lower() for n in names)


def _aggregates(level: Level) -> bool:
    return level.grouping is not None or any(
        s.level is not None and _aggregates(s.level) for s in level.sources
    )
