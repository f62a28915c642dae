"""Seeded changes of TPC-H's tables: inserts, updates, deletes, rows that come back, keys that move."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.tpch import KEYS
from benchmarks.data.tpch_values import MUTATORS

Row = dict[str, Any]
Key = tuple[int, ...]


@dataclass(frozen=True)
class Counts:
    """Rows of a table that a round changes, by kind: each at most a tenth of the table, at least one."""

    inserts: int
    updates: int
    deletes: int
    moves: int


COUNTS: Mapping[str, Counts] = {
    "region": Counts(1, 1, 1, 0),
    "nation": Counts(1, 2, 1, 1),
    "supplier": Counts(3, 6, 3, 1),
    "customer": Counts(5, 10, 4, 2),
    "part": Counts(4, 8, 3, 1),
    "partsupp": Counts(5, 10, 4, 3),
    "orders": Counts(12, 14, 10, 2),
    "lineitem": Counts(14, 24, 10, 4),
}

COMES_BACK = 0.6
"""Chance that an insert is a row that an earlier round deleted, under its old key."""


@dataclass
class Change:
    """What a round does to one table: rows to insert or update, and keys to delete."""

    put: dict[Key, Row] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)

    def upsert(self, key: Key, row: Row) -> None:
        self.gone.discard(key)
        self.put[key] = row

    def delete(self, key: Key) -> None:
        self.put.pop(key, None)
        self.gone.add(key)


class Changes:
    """The changes of one run. The same seed over the same rows gives the same changes."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._deleted: dict[str, list[Row]] = defaultdict(list)
        self._deleted_now: dict[str, list[Row]] = defaultdict(list)

    def next(self, tables: Mapping[str, pa.Table]) -> dict[str, Change]:
        """One round over the tables' present rows, which are sorted by key."""
        self._tables = tables
        self._round: dict[str, Change] = {name: Change() for name in KEYS}
        for name in KEYS:
            self._change(name)
        for name, rows in self._deleted_now.items():
            self._deleted[name] += rows
        self._deleted_now.clear()
        return self._round

    def _change(self, name: str) -> None:
        rows = self._tables[name].num_rows
        counts = COUNTS[name]
        updates, deletes, moves = (
            min(n, max(1, rows // 10)) for n in (counts.updates, counts.deletes, counts.moves)
        )
        places = self._chance.sample(range(rows), min(rows, updates + deletes + moves))
        for row in self._at(name, places[:updates]):
            self._put(name, self._mutated(name, row))
        for row in self._at(name, places[updates : updates + deletes]):
            self._delete(name, row)
        for row in self._at(name, places[updates + deletes :]):
            self._move(name, row)
        for _ in range(min(counts.inserts, max(1, rows // 10))):
            self._insert(name)

    def _at(self, name: str, places: Iterable[int]) -> list[Row]:
        found: list[Row] = self._tables[name].take(pa.array(places, pa.int64())).to_pylist()
        return found

    def _any(self, name: str) -> Row:
        return self._at(name, [self._chance.randrange(self._tables[name].num_rows)])[0]

    def _pick(self, name: str) -> Key:
        return _key(name, self._any(name))

    def _mutated(self, name: str, row: Row) -> Row:
        for _ in range(self._chance.randint(1, 2)):
            row = row | MUTATORS[name](self._chance, self._pick)
        return row

    def _put(self, name: str, row: Row) -> None:
        self._round[name].upsert(_key(name, row), row)

    def _insert(self, name: str) -> None:
        deleted = self._deleted[name]
        if deleted and self._chance.random() < COMES_BACK:
            self._put(name, deleted.pop(self._chance.randrange(len(deleted))))
            return
        row = self._mutated(name, self._any(name) | self._new_key(name))
        self._put(name, row)
        if name == "orders":
            large = self._chance.random() < 0.4
            for line in range(1, 8 if large else self._chance.randint(2, 8)):
                item = self._any("lineitem") | {"l_orderkey": row["o_orderkey"], "l_linenumber": line}
                self._put("lineitem", item | ({"l_quantity": Decimal(50)} if large else {}))

    def _delete(self, name: str, row: Row) -> None:
        self._round[name].delete(_key(name, row))
        self._deleted_now[name].append(row)
        if name == "orders" and self._chance.random() < 0.5:
            for line in self._lines(row["o_orderkey"]):
                self._round["lineitem"].delete(_key("lineitem", line))

    def _move(self, name: str, row: Row) -> None:
        """The same row under another key, as an update of its key columns is."""
        moved = row | self._new_key(name)
        self._round[name].delete(_key(name, row))
        self._put(name, moved)
        if name == "orders" and self._chance.random() < 0.5:
            for line in self._lines(row["o_orderkey"]):
                self._round["lineitem"].delete(_key("lineitem", line))
                self._put("lineitem", line | {"l_orderkey": moved["o_orderkey"]})

    def _lines(self, order: int) -> list[Row]:
        items = self._tables["lineitem"]
        found: list[Row] = items.filter(pc.equal(items.column("l_orderkey"), order)).to_pylist()
        return found

    def _new_key(self, name: str) -> Row:
        if name == "lineitem":
            return {"l_orderkey": self._pick("orders")[0], "l_linenumber": self._chance.randint(8, 99)}
        if name == "partsupp":
            return {"ps_partkey": self._pick("part")[0], "ps_suppkey": self._pick("supplier")[0]}
        (column,) = KEYS[name]
        highest = pc.max(self._tables[name].column(column)).as_py()
        return {column: max([highest, *(key[0] for key in self._round[name].put)]) + 1}


def _key(name: str, row: Row) -> Key:
    return tuple(row[column] for column in KEYS[name])
