"""Rows by many keys: Arrow's hash join gives what the row by row comparison gives."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.store.live.key_joins import anti_join, semi_join, tuples
from headrace.store.schema import TableSchema

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.decimal128(8, 2)), ("v", pa.int64())])


def rows(count: int, seed: int, *, nulls: float) -> pa.Table:
    chance = random.Random(seed)

    def value(found: Any) -> Any:
        return None if chance.random() < nulls else found

    return pa.Table.from_pylist(
        [
            {
                "a": value(chance.randrange(6)),
                "b": value(chance.choice("xyz")),
                "c": value(Decimal(chance.randrange(3))),
                "v": i,
            }
            for i in range(count)
        ],
        schema=SCHEMA,
    )


@pytest.mark.parametrize("columns", [("a",), ("a", "b"), ("c", "b"), ("a", "b", "c")])
@pytest.mark.parametrize("nulls", [(0.0, 0.0), (0.2, 0.2), (0.3, 0.0), (0.0, 0.3), (1.0, 0.2), (0.5, 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_rows_with_and_without_these_keys(
    columns: tuple[str, ...], nulls: tuple[float, float], seed: int
) -> None:
    table, keys = rows(200, seed, nulls=nulls[0]), rows(12, seed + 100, nulls=nulls[1])
    few = set(tuples(keys, columns))
    for join in (anti_join, semi_join):
        assert join(table, columns, keys).to_pylist() == join(table, columns, few).to_pylist()
    values = tuples(table, columns)
    assert anti_join(table, columns, few).num_rows == sum(value not in few for value in values)
    assert semi_join(table, columns, few).num_rows == sum(value in few for value in values)


def test_nothing_to_exclude_and_nothing_left() -> None:
    table = rows(20, 1, nulls=0.1)
    assert anti_join(table, ("a",), table.slice(0, 0)).to_pylist() == table.to_pylist()
    assert anti_join(table, ("a", "b", "c"), table).num_rows == 0
    assert anti_join(table.slice(0, 0), ("a",), table).num_rows == 0


@pytest.mark.parametrize(
    ("kind", "joinable"),
    [("bigint", True), ("string", True), ("decimal(12,2)", True), ("double", False), ("array<int>", False)],
)
def test_keys_that_arrow_joins_on(kind: str, joinable: bool) -> None:
    assert TableSchema((("k", kind), ("v", "double")), ("k",), None).joinable is joinable
