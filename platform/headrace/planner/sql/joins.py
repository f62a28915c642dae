"""What an equality of a SELECT is certain of, and the leaf columns behind the columns of its sources."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.planner.sql.facts import Equality, Level, Origin, QueryFacts, Side, Union


def leads(level: Level, equality: Equality, start: Origin) -> bool:
    """Whether the equality holds, and its other side is there, in every row of the FROM clause in which the
    source of `start` takes part.

    The ON of a LEFT JOIN holds only where its right side is present, so it leads away from the right side
    and never towards it; that of a RIGHT JOIN the other way round; that of a FULL JOIN leads nowhere. A
    subquery takes part in rows that meet what it correlates. `<=>` would also match the padding, and so
    would a NULL that NOT IN probes for: neither side of those may be padded.
    """
    other = equality.right if start == equality.left else equality.left
    ends = {start.source, other.source}
    if equality.introduced is not None:
        side = level.sources[equality.introduced].side
        if side is Side.FULL:
            return False
        if side in (Side.LEFT, Side.TEST) and start.source != equality.introduced:
            return False
        if side is Side.RIGHT and start.source == equality.introduced:
            return False
        if side is not Side.RIGHT:
            ends.discard(equality.introduced)  # in its own ON clause it is not padded yet
    return not ((equality.null_safe or equality.null_aware) and (ends & level.padded or min(ends) < 0))


@dataclass(frozen=True)
class Copy:
    """A leaf column that an output copies. `padded` says that the output may be NULL without such a row."""

    reference: int
    column: str
    padded: bool = False


def copies(query: Level | Union, name: str) -> tuple[Copy, ...]:
    """The leaf columns that output `name` copies, one for each branch of a UNION; () where it is computed.

    A row of the output with a value there rests on a leaf row with that value, whatever else the query does.
    """
    if isinstance(query, Union):
        place = place_of(query, name)
        found = [copies(b, f"@{place}") for b in query.branches] if place is not None else []
        return tuple(c for branch in found for c in branch) if found and all(found) else ()
    if name.startswith("#"):
        return origin_copies(query, query.correlations[int(name[1:])].inner)
    output = query.output(name)
    return () if output is None or output.origin is None else origin_copies(query, output.origin)


def origin_copies(level: Level, origin: Origin) -> tuple[Copy, ...]:
    """As `copies`, of a column of one of `level`'s sources."""
    if origin.source < 0:
        return ()
    source, padded = level.sources[origin.source], origin.source in level.padded
    if source.reference is not None:
        return (Copy(source.reference, origin.column, padded),)
    assert source.level is not None
    found = copies(source.level, origin.column)
    return tuple(Copy(c.reference, c.column, c.padded or padded) for c in found)


def place_of(union: Union, name: str) -> int | None:
    """The place of the one output of that name, whatever its case; None where there is none or more."""
    if name.startswith("@"):
        return int(name[1:])
    found = [i for i, o in enumerate(union.outputs) if o.name.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


_COMPARED = frozenset(
    {"tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "timestamp_ntz"}
    | {"boolean", "binary"}
)


def one_type(facts: QueryFacts, found: tuple[Copy, ...]) -> bool:
    """Whether the leaf columns are of one type whose `=` is equality of values, as far as types are known.

    Not so are floats (NaN, -0.0), strings with a collation, and columns of two types: `=` casts one side.
    """
    kinds = {facts.type_of(c.reference, c.column) for c in found} - {None}
    return bool(found) and len(kinds) <= 1 and all(comparable(k) for k in kinds if k is not None)


def comparable(kind: str) -> bool:
    """Whether values of a Spark SQL type are equal exactly where Python's are."""
    return kind in _COMPARED or kind.startswith("decimal")
