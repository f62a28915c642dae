"""Separability: whether a query falls apart into cells that never meet.

A cell is one value of some columns of the query. A leaf is *partitioned* where its own columns hold the
cell in which its rows count, and *free* where equalities lead from its rows to those of a partitioned leaf.
For a set A of cells: the query over partitioned leaves restricted to A, and free leaves restricted to what
they lead to (or not at all), gives exactly the rows of the whole result whose cell is in A; and a row that a
change adds or removes has a cell that the changed rows, old and new, lead to. What is neither is *whole*: it
is never restricted, and its change can touch any row.

By recursion, for the columns that hold the cell: below an aggregate only GROUP BY columns do, below a window
only PARTITION BY columns, below UNION the columns in the same place; in a join every source is partitioned by
columns that must be equal to the cell's, or free. A subquery in an expression is a source like the optional
side of a LEFT JOIN; what its WHERE correlates holds the cell below its own aggregate too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.planner.cells.parts import Chain, Columns, Conflict, Parts
from headrace.planner.cells.paths import Step
from headrace.planner.sql.facts import Equality, Level, Origin, QueryFacts, Refusal, Side, Union, leaves_of
from headrace.planner.sql.facts import shortened as short
from headrace.planner.sql.joins import Copy, leads, one_type, origin_copies, place_of


def separate(facts: QueryFacts, query: Level | Union, columns: Columns) -> Parts | Refusal:
    """The parts of `query` where its outputs `columns` hold the cell, or why it does not fall apart so."""
    if isinstance(query, Union):
        return _union(facts, query, columns)
    origins = list[Origin]()
    for name in columns:
        origin = holder(query, name)
        if isinstance(origin, Refusal):
            return origin
        origins.append(origin)
    return separate_join(facts, query, tuple(origins))


def holder(level: Level, name: str) -> Origin | Refusal:
    """The column of a source that output `name` copies and by which rows of `level` may be told apart."""
    if name.startswith("#"):
        return level.correlations[int(name[1:])].inner
    output = level.output(name)
    if output is None:
        return Refusal(f"`{name}` is not the name of exactly one column")
    if output.origin is None:
        return Refusal(f"`{output.name}` is computed: {output.text}")
    if level.grouping is not None and output.origin not in level.grouping:
        return Refusal(f"`{output.name}` is not a GROUP BY column")
    for window in level.windows:
        if output.origin not in window.partition:
            return Refusal(f"`{output.name}` is not in the PARTITION BY of {short(window.text)}")
    return output.origin


def _union(facts: QueryFacts, union: Union, columns: Columns) -> Parts | Refusal:
    places = [place_of(union, name) for name in columns]
    if None in places:
        return Refusal(f"`{columns[places.index(None)]}` is not the name of exactly one column")
    parts, kinds = Parts(), list[set[str | None]]([set() for _ in columns])
    for branch in union.branches:
        found = separate(facts, branch, tuple(f"@{p}" for p in places))
        if isinstance(found, Refusal):
            return found
        for reference, own in found.leaves.items():
            for kind, column in zip(kinds, own, strict=True):
                kind.add(facts.type_of(reference, column))
        try:
            parts.add(found)
        except Conflict as conflict:
            return _twice(facts, conflict)
    mixed = [c for c, kind in zip(columns, kinds, strict=True) if len(kind) > 1]
    if mixed:
        return Refusal(f"`{mixed[0]}` has several types in the branches of a UNION")
    return parts


def held(facts: QueryFacts, level: Level, component: Origin) -> dict[int, str]:
    """The sources that have `component` in a column of their own wherever they take part, by index."""
    found = dict[int, str]()
    waiting = [component]
    while waiting:
        end = waiting.pop(0)
        if end.source in found:
            continue
        found[end.source] = end.column
        if end.source < 0:  # where a side takes part, the column is that side's
            if not _same_type(facts, level, end):
                return {}
            waiting += level.merged[-1 - end.source]
        for start, other, equality in _directed(level):
            if other != end or start.source in found or equality.null_aware:
                continue
            if leads(level, equality, start) and _same_type(facts, level, start, other):
                waiting.append(start)
    return found


def _directed(level: Level) -> Iterator[tuple[Origin, Origin, Equality]]:
    for equality in level.equalities:
        yield equality.left, equality.right, equality
        yield equality.right, equality.left, equality


def _same_type(facts: QueryFacts, level: Level, *origins: Origin) -> bool:
    plain = [p for o in origins for p in ((o,) if o.source >= 0 else level.merged[-1 - o.source])]
    found = [origin_copies(level, o) for o in plain]
    return all(found) and one_type(facts, tuple(c for cs in found for c in cs))


def separate_join(facts: QueryFacts, level: Level, components: tuple[Origin, ...]) -> Parts | Refusal:
    """The parts of the rows of `level`'s FROM clause, before it groups them, by columns of its sources."""
    holds = [held(facts, level, c) for c in components]
    parts, there = Parts(), set[int]()
    refusal: Refusal | None = None
    try:
        for index in range(len(level.sources)):
            columns = tuple(h[index] for h in holds if index in h)
            if len(columns) < len(holds):
                continue
            found = _source(facts, level, index, columns)
            if isinstance(found, Refusal):
                refusal = refusal or found
            else:
                parts.add(found)
                there.add(index)
        anchored = any(i not in level.padded and level.sources[i].side is not Side.TEST for i in there)
        if not there:
            return refusal or Refusal("no table has all columns of the key")
        _free(facts, level, parts, there)
        lost = [i for i in range(len(level.sources)) if i not in there]
        for index in lost:
            if not anchored:
                return refusal or _lost(facts, level, index, components)
            parts.add(Parts(whole=_readings(level, index)))
    except Conflict as conflict:
        return _twice(facts, conflict)
    return parts


def _source(facts: QueryFacts, level: Level, index: int, columns: Columns) -> Parts | Refusal:
    source = level.sources[index]
    if source.reference is None:
        assert source.level is not None
        return separate(facts, source.level, columns)
    for column in columns:
        if not one_type(facts, (Copy(source.reference, column),)):
            kind = facts.type_of(source.reference, column)
            return Refusal(f"`{column}` of {facts.name_of(source.reference)} is of type {kind}")
    return Parts(leaves={source.reference: columns})


def _readings(level: Level, index: int) -> set[int]:
    source = level.sources[index]
    return {source.reference} if source.reference is not None else set(leaves_of(source.level or level))


def _free(facts: QueryFacts, level: Level, parts: Parts, there: set[int]) -> None:
    """Add the sources that lead to those that are there, nearest first."""
    while True:
        reached = set[int]()
        for index in range(len(level.sources)):
            if index in there or index in reached:
                continue
            found = _follow(facts, level, index, parts, there)
            if found is not None:
                parts.add(found)
                reached.add(index)
        if not reached:
            return
        there |= reached


Link = tuple[str, tuple[Copy, ...], Equality]


def _follow(facts: QueryFacts, level: Level, index: int, parts: Parts, there: set[int]) -> Parts | None:
    groups: dict[tuple[int, tuple[int, ...], bool], list[Link]] = {}
    for start, other, equality in _directed(level):
        if start.source != index or other.source not in there or not leads(level, equality, start):
            continue
        ends = origin_copies(level, other)
        strict = equality.null_safe or equality.null_aware
        if not ends or (strict and any(c.padded for c in ends)):
            continue
        if any(c.reference in parts.whole for c in ends):
            continue
        key = (other.source, tuple(c.reference for c in ends), equality.null_aware)
        groups.setdefault(key, []).append((start.column, ends, equality))
    for links in groups.values():
        singles = [[link] for link in links] if len(links) > 1 and not links[0][2].null_aware else []
        source = level.sources[index]
        for chosen in (links, *singles):
            columns = tuple(link[0] for link in chosen)
            if source.level is None:  # a leaf is found by columns of any type
                assert source.reference is not None
                return _extended(Parts(leaves={source.reference: columns}), chosen, parts)
            found = separate(facts, source.level, columns)
            if not isinstance(found, Refusal):
                return _extended(found, chosen, parts)
    return None


def _extended(found: Parts, links: list[Link], parts: Parts) -> Parts:
    """The parts of a free source, each leaf with its ways through `links` to where those lead."""

    def onward(reference: int) -> tuple[Chain, ...]:
        chains = list[Chain]()
        for place, end in enumerate(links[0][1]):
            step = Step(
                reference,
                found.leaves[reference],
                end.reference,
                tuple(ends[place].column for _, ends, _ in links),
                tuple(e.null_safe for _, _, e in links),
                links[0][2].null_aware,
            )
            chains += [(step, *chain) for chain in parts.routes(end.reference)]
        return tuple(dict.fromkeys(chains))

    chains: Mapping[int, tuple[Chain, ...]] = {
        **{r: onward(r) for r in found.leaves},
        **{
            r: tuple((*chain, *more) for chain in own for more in onward(chain[-1].to_reference))
            for r, own in found.chains.items()
        },
    }
    return Parts(chains=dict(chains), whole=set(found.whole))


def _lost(facts: QueryFacts, level: Level, index: int, components: tuple[Origin, ...]) -> Refusal:
    lost = ", ".join(facts.name_of(r) for r in sorted(_readings(level, index)))
    names = ", ".join(f"`{c.column}`" for c in components)
    return Refusal(
        f"a change of {lost} cannot be followed to {names}: no `=` between plain columns joins them"
    )


def _twice(facts: QueryFacts, conflict: Conflict) -> Refusal:
    return Refusal(f"{facts.name_of(conflict.args[0])} is read more than once, for different rows of it")
