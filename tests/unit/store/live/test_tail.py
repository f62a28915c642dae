"""The folded tail, against a dictionary that is told the same changes."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from headrace.store.live.key_joins import anti_join, tuples
from headrace.store.live.tail import MOST_PARTS, Tail
from headrace.store.schema import DELETE, INSERT, KIND, UPDATE_AFTER, UPDATE_BEFORE, VERSION, TableSchema

Row = tuple[int, str]

KEYS = 4 * MOST_PARTS
"""So many that more batches hold a latest row than are kept one by one."""

SCHEMA = TableSchema(columns=(("id", "bigint"), ("word", "string")), key=("id",), partition=None)


def changes(rows: list[tuple[str, int, str]]) -> pa.Table:
    kinds, ids, words = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            KIND: pa.array(kinds, pa.string()),
            "id": pa.array(ids, pa.int64()),
            "word": pa.array(words, pa.string()),
        }
    )


class Model:
    """Versions of net changes, random, and what they leave of each key: its row, or None, and its version."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.version = 0
        self.latest: dict[int, tuple[int, str | None]] = {}
        self._live: dict[int, str] = {}

    def step(self) -> pa.Table:
        """The next version's changes."""
        self.version += 1
        rows: list[tuple[str, int, str]] = []
        for key in self._random.sample(range(KEYS), self._random.randrange(6)):
            old, new = self._live.get(key), f"{self.version}-{key}"
            if old is None:
                rows.append((INSERT, key, new))
            elif self._random.random() < 0.3:
                rows.append((DELETE, key, old))
                del self._live[key]
                self.latest[key] = (self.version, None)
                continue
            else:
                pair = [(UPDATE_BEFORE, key, old), (UPDATE_AFTER, key, new)]
                self._random.shuffle(pair)  # nothing says which of them comes first
                rows += pair
            self._live[key] = new
            self.latest[key] = (self.version, new)
        return changes(rows)

    def after(self, version: int) -> tuple[list[Row], set[tuple[int]]]:
        """Rows and keys of what changed after `version`."""
        changed = {key: word for key, (at, word) in self.latest.items() if at > version}
        rows = sorted((key, word) for key, word in changed.items() if word is not None)
        return rows, {(key,) for key in changed}


def rows_of(view_rows: pa.Table) -> list[Row]:
    return sorted(tuples(view_rows, ("id", "word")))


@pytest.mark.parametrize("seed", range(20))
def test_it_holds_the_latest_row_of_every_changed_key(seed: int) -> None:
    model, tail, cut = Model(seed), Tail(SCHEMA), 0
    chance = random.Random(seed)
    for _ in range(4 * MOST_PARTS):
        tail.add(model.step(), model.version)
        if chance.random() < 0.02:
            cut = chance.randrange(cut, model.version + 1)
            tail.cut(cut)
        if chance.random() < 0.6:
            view, (rows, keys) = tail.view(), model.after(cut)
            assert rows_of(view.rows) == rows
            assert view.keys == keys and len(tail) == len(keys)
            assert view.version == model.version


def test_a_view_stays_what_it_was() -> None:
    tail = Tail(SCHEMA)
    tail.add(changes([(INSERT, 1, "a"), (INSERT, 2, "b")]), 1)
    before = tail.view()
    tail.add(changes([(UPDATE_BEFORE, 1, "a"), (UPDATE_AFTER, 1, "c"), (DELETE, 2, "b")]), 2)
    assert rows_of(before.rows) == [(1, "a"), (2, "b")] and before.keys == {(1,), (2,)}
    assert rows_of(tail.view().rows) == [(1, "c")] and tail.view().keys == {(1,), (2,)}
    assert tail.view() is tail.view()


def test_versions_read_back_together_are_what_they_were_one_by_one() -> None:
    model, one_by_one, together = Model(1), Tail(SCHEMA), Tail(SCHEMA)
    read = []
    for _ in range(30):
        step = model.step()
        one_by_one.add(step, model.version)
        read.append(step.append_column(VERSION, pa.array([model.version] * step.num_rows, pa.int64())))
    together.load(pa.concat_tables(read), model.version)
    assert rows_of(together.view().rows) == rows_of(one_by_one.view().rows) == model.after(0)[0]
    assert together.view().keys == one_by_one.view().keys
    assert together.view().version == model.version


def test_few_rows_lose_those_of_many_keys() -> None:
    rows = pa.table({"id": pa.array([1, 2, None], pa.int64()), "day": ["a", "b", None]})
    many = {(n, "b") for n in range(100)}
    assert anti_join(rows, ("id", "day"), many).column("id").to_pylist() == [1, None]
    assert anti_join(rows, ("id", "day"), {*many, (None, None)}).column("id").to_pylist() == [1]
    assert anti_join(rows, ("id",), {(5,), (6,), (7,)}) is rows


def test_nan_is_found_among_more_keys_than_rows() -> None:
    rows = pa.table({"id": pa.array([float("nan"), 1.0, 2.0], pa.float64())})
    assert anti_join(rows, ("id",), {(float("nan"),), (1.0,), (7.0,), (8.0,)}).to_pylist() == [{"id": 2.0}]
