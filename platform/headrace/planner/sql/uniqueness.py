"""Which orders are total: whether rows that tie in PARTITION BY and ORDER BY can differ at all.

Columns determine others: a key all columns of its table, an equality its other side. An order is total where
its columns determine a key of every table that the rows come from. (Functional dependencies closed as in
Armstrong's axioms, for the joins that `facts` knows.)
"""

from __future__ import annotations

from headrace.planner.sql.facts import Equality, Level, Origin, QueryFacts, Side, Union

LIMIT_WINDOW = "CUME_DIST() OVER "
"""What the text of a window begins with that stands for `ORDER BY … LIMIT`: there only the order counts,
and rows that tie may be alike in the columns that the SELECT returns."""


def total_orders(facts: QueryFacts) -> dict[str, bool]:
    """Window expressions, as text: True where each of that text is total, False where one is not.

    A window of which nothing can be said is left out.
    """
    found: dict[str, set[bool | None]] = {}
    waiting = [facts.root] if facts.root is not None else []
    while waiting:
        level = waiting.pop()
        if isinstance(level, Union):
            waiting += level.branches
            continue
        waiting += [s.level for s in level.sources if s.level is not None]
        for window in level.windows:
            verdict = _total(level, window.partition | window.order, facts)
            if window.text.startswith(LIMIT_WINDOW) and verdict is False:
                verdict = _returns(level, window.order, facts)
            found.setdefault(window.text, set()).add(verdict)
    return {text: False not in verdicts for text, verdicts in found.items() if None not in verdicts}


def _total(level: Level, columns: frozenset[Origin], facts: QueryFacts) -> bool | None:
    unique = _unique(level, facts)
    if unique is None:
        return None
    total = unique <= _determined(level, columns, facts)
    return None if level.correlations and not total else total  # the outer row may determine the rest


def _returns(level: Level, columns: frozenset[Origin], facts: QueryFacts) -> bool:
    """Whether `columns` determine every column that the SELECT returns."""
    determined = _determined(level, columns, facts)
    return all(o.origin is not None and o.origin in determined for o in level.outputs)


def _unique(level: Level, facts: QueryFacts) -> frozenset[Origin] | None:
    """What is unique in the rows that windows of `level` see; None where that is not known."""
    if level.grouping is not None:
        return level.grouping if level.plain_grouping else None
    if level.generator is not None or any(s.side in (Side.RIGHT, Side.FULL) for s in level.sources):
        return None
    columns: set[Origin] = set()
    for index in range(len(level.sources)):
        key = _key(level, index, facts)
        if key is None:
            return None
        columns |= key
    return frozenset(columns)


def _key(level: Level, index: int, facts: QueryFacts) -> frozenset[Origin] | None:
    """Columns of one source that no two of its rows share, or all of them: rows alike in all are alike."""
    source = level.sources[index]
    if source.side is Side.TEST:  # it keeps rows or not, and makes none
        return frozenset()
    if source.level is not None:
        names = _returned_key(source.level, facts)
    else:
        assert source.reference is not None
        names = facts.reference_keys[source.reference]
    wanted = {name.lower() for name in names or ()}
    found = frozenset(Origin(index, c) for c in source.columns if c.lower() in wanted)
    return found if names is not None and len(found) == len(wanted) and (wanted or source.level) else None


def _returned_key(level: Level | Union, facts: QueryFacts) -> tuple[str, ...] | None:
    """Names of outputs of `level` that are unique together; all of them where its key is not returned."""
    if isinstance(level, Union):
        return None
    every = tuple(o.name for o in level.outputs)
    unique = _unique(level, facts)
    if unique is None:
        return every if level.distinct else None
    names = [o for o in level.outputs if o.origin is not None]
    if not unique <= _determined(level, frozenset(o.origin for o in names if o.origin), facts):
        return every
    for output in tuple(names):  # drop what the others determine
        fewer = [o for o in names if o is not output]
        if unique <= _determined(level, frozenset(o.origin for o in fewer if o.origin), facts):
            names = fewer
    return tuple(o.name for o in names)


def _determined(level: Level, columns: frozenset[Origin], facts: QueryFacts) -> frozenset[Origin]:
    """`columns` and everything that is the same in all rows that agree in them."""
    found = set(columns)
    keys = [_key(level, index, facts) for index in range(len(level.sources))]
    size = -1
    while size < len(found):
        size = len(found)
        for equality in level.equalities:
            if _holds(level, equality) and _same_type(level, equality, facts):
                sides = {equality.left, equality.right}
                found |= sides if sides & found else set()
        for index, source in enumerate(level.sources):
            key = keys[index]
            if key is None or source.side is Side.TEST:
                continue
            earlier = all(k is not None and k <= found for k in keys[:index])
            alike = key <= found
            if source.side is Side.LEFT:  # a padded row may have the NULL key of a real one
                alike = earlier and (alike or key <= _bound(level, index, facts))
            if alike:
                found |= {Origin(index, c) for c in source.columns}
    return frozenset(found)


def _holds(level: Level, equality: Equality) -> bool:
    """Whether it is true in every row: not so in the ON clause of a LEFT JOIN, which pads, or of a test."""
    if equality.introduced is None:
        return True
    return level.sources[equality.introduced].side in (Side.FROM, Side.INNER)


def _bound(level: Level, index: int, facts: QueryFacts) -> set[Origin]:
    """Columns of a LEFT JOIN's right side that its ON clause equates with columns before it."""
    bound: set[Origin] = set()
    for e in level.equalities:
        if e.introduced == index and _same_type(level, e, facts):
            for one, other in ((e.left, e.right), (e.right, e.left)):
                if one.source == index and other.source < index:
                    bound.add(one)
    return bound


def _same_type(level: Level, equality: Equality, facts: QueryFacts) -> bool:
    """Whether equal means alike: '1' and '01' both equal the number 1. Types not known count as the same."""
    left, right = (_type(level, origin, facts) for origin in (equality.left, equality.right))
    return left is None or right is None or left == right


def _type(level: Level | Union, origin: Origin, facts: QueryFacts) -> str | None:
    if isinstance(level, Union) or origin.source < 0:
        return None
    source = level.sources[origin.source]
    if source.reference is not None:
        return facts.type_of(source.reference, origin.column)
    assert source.level is not None
    output = source.level.output(origin.column)
    return _type(source.level, output.origin, facts) if output is not None and output.origin else None


def copied_types(facts: QueryFacts) -> dict[str, str]:
    """Types of the output columns that are plain copies of upstream columns, by lower case name."""
    if not isinstance(facts.root, Level):
        return {}
    found = {o.name.lower(): _type(facts.root, o.origin, facts) for o in facts.root.outputs if o.origin}
    return {name: kind for name, kind in found.items() if kind is not None}
