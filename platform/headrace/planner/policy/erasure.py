"""What an erasure reaches: the key as a table has it, and the tables downstream that carry it.

A table carries a key where columns of it copy all of the key's columns, or equal them by an inner join or a
WHERE. What is computed of them, such as a sum that the row was part of, names no key: it is not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from headrace.errors import TerminalError
from headrace.planner.sql.extract import extract
from headrace.planner.sql.facts import Level, Origin, Side
from headrace.spec.model import SourceTable, TableName, TableSpec

Given = Sequence[tuple[str | None, str]]
"""A key as it was written: columns, None for the only one, and their values as text."""

Columns = Mapping[TableName | SourceTable, tuple[str, ...]]

Places = tuple[Mapping[str, str], ...]
"""Ways in which rows of a table carry the key: of each, its columns by those of the key."""

_MOST_PLACES = 16
"""Ways that are followed; a table that reads another one many times multiplies them."""

_KEPT = (Side.FROM, Side.INNER)


@dataclass(frozen=True)
class Reach:
    """
    Args:
        carriers: the tables downstream that carry the key, upstreams first.
        beyond: those that do not, and may have been computed from its row.
    """

    carriers: Mapping[TableName, Places]
    beyond: tuple[TableName, ...]


def key_values(table: str, key: Sequence[str], given: Given) -> dict[str, str]:
    """The value of each key column, as text.

    Raises:
        TerminalError: it is not the table's key.
    """
    named = {key[0] if name is None and len(key) == 1 else name: value for name, value in given}
    if len(named) != len(given) or set(named) != set(key):
        columns = " ".join(f"{column}=…" for column in key) if len(key) > 1 else "…"
        raise TerminalError(
            f"the primary key of `{table}` is {', '.join(f'`{c}`' for c in key)}. "
            f"Next: `headrace erase {table} {columns}`"
        )
    return {column: named[column] for column in key}


def reach(
    table: TableName,
    key: Sequence[str],
    specs: Sequence[TableSpec],
    columns: Columns,
) -> Reach:
    """
    Args:
        table: whose key is erased.
        specs: all tables, upstreams first.
        columns: of every table.
    """
    carriers: dict[TableName, Places] = {table: ({column: column for column in key},)}
    beyond: list[TableName] = []
    for spec in specs:
        below = {u for u in spec.upstreams if not isinstance(u, SourceTable)} & {*carriers, *beyond}
        if spec.name == table or not below:
            continue
        if places := _carried(spec, carriers, columns):
            carriers[spec.name] = places
        else:
            beyond.append(spec.name)
    del carriers[table]
    return Reach(carriers, tuple(beyond))


def _carried(spec: TableSpec, carriers: Mapping[TableName, Places], columns: Columns) -> Places:
    root = extract(spec, {}, columns).root
    if not isinstance(root, Level):
        return ()
    copies: dict[tuple[int, str], list[str]] = {}  # by reference and column: those of the table
    for name in columns[spec.name]:
        output = root.output(name)
        if output is not None and output.origin is not None:
            for leaf in sorted(_leaves(root, output.origin)):
                copies.setdefault(leaf, []).append(name)
    found: list[Mapping[str, str]] = []
    for index, reference in enumerate(spec.references):
        upstream = reference.upstream
        for place in () if isinstance(upstream, SourceTable) else carriers.get(upstream, ()):
            names = [copies.get((index, column.lower()), []) for column in place.values()]
            found += [dict(zip(place, chosen, strict=True)) for chosen in product(*names)]
    unique = [place for at, place in enumerate(found) if place not in found[:at]]
    return tuple(unique) if len(unique) <= _MOST_PLACES else ()


def _leaves(level: Level, origin: Origin) -> set[tuple[int, str]]:
    """The columns of leaves, in lower case, that a column of a source is a copy of or equal to."""
    found: set[tuple[int, str]] = set()
    for same in _equal(level, origin):
        if same.source < 0:
            continue  # of a FULL JOIN: of either side
        source = level.sources[same.source]
        if source.reference is not None:
            found.add((source.reference, same.column.lower()))
        elif isinstance(source.level, Level):
            below = source.level.output(same.column)
            if below is not None and below.origin is not None:
                found |= _leaves(source.level, below.origin)
    return found


def _equal(level: Level, origin: Origin) -> set[Origin]:
    """The column, and those that have its value in every row that the SELECT gives."""
    padded = level.padded

    def holds(*sides: Origin) -> bool:
        sources = [side.source for side in sides]
        return not any(s < 0 or s in padded or level.sources[s].side not in _KEPT for s in sources)

    pairs = [(e.left, e.right) for e in level.equalities if not e.null_aware and holds(e.left, e.right)]
    found, grown = set[Origin](), {origin}
    while grown != found:
        found = grown
        grown = found | {o for pair in pairs if found & set(pair) for o in pair}
    return found
