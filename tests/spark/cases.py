"""Random cases of the property test: sources, chained tables, and steps that change and repair them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from duck import Duck
from grammar import (
    AVERAGE,
    BOOL,
    DATE,
    DEC,
    DOUBLE,
    INT,
    LABEL,
    LABELS,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Grammar,
    Relation,
)
from harness import Captured
from scenario import PARTITIONS, Declared, Step
from shapes import FAMILIES, SHAPES, Shape

KEYS = range(1, 9)
MOST_ROWS = 150
"""Rows of a table beyond which a case is dropped: many rows cost time and show nothing more."""

MOST_KEYS = 5
_KINDS = {
    "bigint": INT,
    "integer": INT,
    "numeric(12,2)": DEC,
    "text": TEXT,
    "double precision": DOUBLE,
    "boolean": BOOL,
    "date": DATE,
    "timestamp with time zone": TIMESTAMP,
    "timestamp without time zone": TIMESTAMP_NTZ,
}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "bigint": (None, 0, 0, 1, 1, 2),
    "integer": (None, None, 0, 1, 2),
    "numeric(12,2)": (None, "0.00", "1.50", "1.50", "-2.25"),
    "text": (None, "a", "a", "b", "B", ""),
    "double precision": (None, 0.0, 0.5, 0.5, -0.25, 1e10),
    "boolean": (None, True, True, False),
    "date": (None, "2026-11-20", "2026-11-20", "2026-11-21", "1969-12-31"),
    "timestamp with time zone": (
        None,
        "2026-11-20T10:00:00Z",
        "2026-11-20T10:00:00.000000Z",
        "2026-11-20T23:59:59.999999Z",
        "1969-12-31T23:00:00Z",
    ),
    "timestamp without time zone": (
        None,
        "2026-11-20 10:00:00",
        "2026-11-20 10:00:00",
        "2026-11-20 10:00:00.000001",
        "1969-12-31 23:59:59.5",
    ),
}
_OTHERS = (
    ("f", "double precision"),
    ("b", "boolean"),
    ("day", "date"),
    ("w", "timestamp with time zone"),
    ("u", "timestamp without time zone"),
)
_SPARSE = "rare"
"""A column of any type that is NULL in most rows."""


@dataclass(frozen=True)
class Case:
    """The parts of a scenario but its steps, which `steps` gives.

    Args:
        uncompared: positions of columns that another engine gives another type.
        shapes: which shape each table is.
    """

    sources: Mapping[str, Captured]
    tables: Mapping[str, Declared]
    uncompared: Mapping[str, tuple[int, ...]]
    shapes: Mapping[str, str]


def random_case(chance: Random, family: str) -> Case:
    """Sources and one table of each of the family's shapes, chained; now and then one more of any shape."""
    while True:
        sources = _sources(chance)
        shapes = list(FAMILIES[family])
        chance.shuffle(shapes)
        if len(shapes) < 5 and chance.random() < 0.5:
            shapes.append(chance.choice(SHAPES))
        case = _chain(chance, sources, shapes)
        if case is not None:
            return case


def _sources(chance: Random) -> dict[str, Captured]:
    sources = {}
    for name in "abc"[: chance.choice((2, 2, 3))]:
        columns = [("id", "bigint")]
        double = chance.random() < 0.2
        columns += [("code", "text")] if double else []
        columns += [("k", "bigint"), ("m", "integer"), ("t", "text"), ("d", "numeric(12,2)")]
        columns += chance.sample(_OTHERS, chance.choice((1, 2, 2, 3)))
        columns += [(_SPARSE, chance.choice(list(_KINDS)))] if chance.random() < 0.5 else []
        labelled = chance.random() < 0.7
        columns += [("h", "text")] if labelled else []
        partition = "h" if labelled and chance.random() < 0.6 else None
        sources[name] = Captured(tuple(columns), ("id", "code") if double else ("id",), partition)
    return sources


def _relation(name: str, captured: Captured) -> Relation:
    kinds = {c: LABEL if c == "h" else _KINDS[t] for c, t in captured.columns}
    return Relation(f"stg.{name}", kinds, captured.key)


def _chain(chance: Random, sources: dict[str, Captured], shapes: list[Shape]) -> Case | None:
    known = [_relation(name, captured) for name, captured in sources.items()]
    tables: dict[str, Declared] = {}
    relations: dict[str, Relation] = {}
    for number, shape in enumerate(shapes):
        name = f"{chance.choice(('dwd', 'dws'))}.t{number}_{shape.__name__}"
        for _ in range(20):
            g = Grammar(chance, known)
            made = g.finish(shape(g))
            if len(made.key) <= MOST_KEYS and _lively(
                chance, sources, {**tables, name: Declared(made.text, made.key)}
            ):
                break
        else:
            return None
        tables[name] = _declared(chance, made)
        relations[name] = made
        known.append(Relation(name, made.columns, made.key, made.null_key))
    averages = {
        n: tuple(i for i, kind in enumerate(r.columns.values()) if kind == AVERAGE)
        for n, r in relations.items()
    }
    return Case(sources, tables, averages, {n: s.__name__ for n, s in zip(tables, shapes, strict=True)})


def _declared(chance: Random, made: Relation) -> Declared:
    """Partitioned by a label where there is one; its range in the text as often as not."""
    labels = made.of(LABEL)
    if not labels or chance.random() < 0.3:
        return Declared(made.text, made.key)
    label = labels[0]
    if chance.random() < 0.5:
        return Declared(made.text, made.key, label)
    text = (
        f"SELECT * FROM ({made.text}) AS o WHERE o.{label} >= ${{start_date}} AND o.{label} <= ${{end_date}}"
    )
    return Declared(text, made.key, label)


def _lively(chance: Random, sources: dict[str, Captured], tables: dict[str, Declared]) -> bool:
    """Whether the last table has rows over random sources, not too many, and others after changes."""
    duck, rows = Duck(sources, tables), _Rows(chance, sources)
    try:
        last, seen, sizes = list(tables)[-1], [], []
        for _ in range(4):
            for _ in range(8):
                rows.change()
            found = duck.compute(rows.held)[last]
            sizes.append(found.total())
            seen.append(found)
            _check_key(duck, last, tables[last])
    finally:
        duck.close()
    return max(sizes) <= MOST_ROWS and max(sizes) > 0 and any(a != b for a, b in itertools.pairwise(seen))


def _check_key(duck: Duck, name: str, table: Declared) -> None:
    key = ", ".join(table.key)
    twice = duck.connection.execute(f"SELECT {key} FROM {name} GROUP BY {key} HAVING COUNT(*) > 1").fetchall()
    assert not twice, f"the grammar says ({key}) is unique in {table.sql}, but {twice[0]} is there twice"


class _Rows:
    """The source's rows while steps are made up."""

    def __init__(self, chance: Random, sources: Mapping[str, Captured]) -> None:
        self.chance = chance
        self.sources = sources
        self.held: dict[str, dict[Any, dict[str, Any]]] = defaultdict(dict)

    def change(self) -> tuple[str, str, tuple[Any, ...]]:
        """One random change: an insert, an update (also to the same values), or a delete."""
        name = self.chance.choice(list(self.sources))
        captured = self.sources[name]
        key: tuple[Any, ...] = (self.chance.choice(KEYS),)
        if len(captured.key) > 1:
            key = (self.chance.choice(range(1, 4)), self.chance.choice("xyz"))
        if (held := self.held[name].get(key)) is not None and self.chance.random() < 0.35:
            del self.held[name][key]
            return "delete", name, key
        values = dict(zip(captured.key, key, strict=True))
        for column, kind in captured.columns:
            if column not in values:
                if held is not None and self.chance.random() < 0.4:
                    values[column] = held[column]
                elif column == "h":
                    values[column] = self.chance.choice((*LABELS, *LABELS, None))
                elif column == _SPARSE and self.chance.random() < 0.8:
                    values[column] = None
                else:
                    values[column] = self.chance.choice(_CHOICES[kind])
        row = {column: values[column] for column, _ in captured.columns}
        self.held[name][key] = row
        return "put", name, tuple(row.values())

    def changes(self, count: int) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
        return tuple(self.change() for _ in range(count))


def steps(chance: Random, case: Case, cycles: int) -> Iterator[Step]:
    """A first load, then `cycles` random steps."""
    rows, names = _Rows(chance, case.sources), list(case.tables)
    yield Step(changes=rows.changes(12), shuffle=_seed(chance))
    for cycle in range(cycles):
        kinds = ("plain",) * 5 + ("burst", "quiet")
        if cycle < cycles - 1:  # in the end all is there, or nothing would be compared with another engine
            kinds += ("partly", "late", "late", "cut", "behind", "behind")
        what = chance.choice(kinds)
        changes = rows.changes({"burst": 25, "quiet": 0}.get(what, chance.randint(1, 6)))
        also = chance.choice(("",) * 5 + ("compact", "reopen", "backfill", "backfill"))
        yield Step(
            changes=changes,
            repeat=chance.randint(1, 12) if chance.random() < 0.3 else 0,
            late=tuple(chance.sample(range(PARTITIONS), chance.randint(1, 2))) if what == "late" else (),
            most=chance.randint(1, 3) if what == "cut" else None,
            reread=chance.random() < 0.15,
            shuffle=_seed(chance),
            feed=tuple(chance.sample(list(case.sources), 1)) if what == "partly" else None,
            advance=chance.randrange(len(names)) if what == "behind" and also != "backfill" else None,
            compact=tuple(chance.sample(names, 1)) if also == "compact" else (),
            backfill=_backfill(chance, case) if also == "backfill" else None,
            reopen=also == "reopen",
        )


def _seed(chance: Random) -> int | None:
    return chance.randrange(1000) if chance.random() < 0.5 else None


def _backfill(chance: Random, case: Case) -> tuple[str, str | None, str | None]:
    name = chance.choice(list(case.tables))
    if case.tables[name].partition is None or chance.random() < 0.3:
        return name, None, None
    start, end = sorted(chance.choices(LABELS, k=2))
    return name, start, end
