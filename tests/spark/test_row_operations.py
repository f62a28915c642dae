"""An operation on rows means the same in the driver, by tuples and by Arrow, and on Spark."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from comparison import itself

from headrace.engine.rows import diff as rows
from headrace.engine.rows.diff import diff, diff_frame, net, net_frame
from headrace.errors import ConstraintViolated
from headrace.store.frames import local
from headrace.store.schema import (
    DELETE,
    INSERT,
    KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    VERSION,
    TableSchema,
    arrow_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[Any, ...]
Changes = Counter[Row]

KEY = (("id", "bigint"), ("hour", "string"))
ANY = (
    *KEY,
    ("amount", "decimal(12,2)"),
    ("at", "timestamp"),
    ("good", "boolean"),
    ("share", "double"),
    ("words", "array<string>"),
    ("shares", "array<double>"),
    ("part", "struct<of: double, named: string>"),
)
VALUES: dict[str, tuple[Any, ...]] = {
    "id": (1, 2, 3, None),
    "hour": ("2026112010", "", None),
    "amount": (Decimal("1.50"), Decimal("-2.25"), None),
    "at": (datetime(2026, 11, 20, 10, tzinfo=UTC), datetime(1969, 12, 31, 23, tzinfo=UTC), None),
    "good": (True, False, None),
    "share": (0.5, math.nan, None),
    "words": (["a", None], [], None),
    "shares": ([math.nan, 0.5], [0.5, math.nan], [math.nan], None),
    "part": ({"of": math.nan, "named": "a"}, {"of": 0.5, "named": None}, None),
}


TUPLES = {"tuples": sys.maxsize, "arrow": -1}
"""The most rows that tuples take, by the driver's two ways; Spark has none."""

PLACES = ("tuples", "arrow", "spark")


@pytest.fixture
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The driver takes this way, where it is one of the driver's."""
    name: str = request.param
    if name in TUPLES:
        for limit in ("FEW_COMPARED", "FEW_FOLDED"):
            monkeypatch.setattr(rows, limit, TUPLES[name])
    return name


def _diff_on_spark(spark: SparkSession, schema: TableSchema, old: pa.Table, new: pa.Table) -> pa.Table:
    sides = (local(spark, rows, schema.stored) for rows in (old, new))
    return diff_frame(*sides, schema).toArrow()


def _net_on_spark(spark: SparkSession, schema: TableSchema, changes: pa.Table) -> pa.Table:
    logged = (*schema.stored, (KIND, "string"), (VERSION, "bigint"))
    return net_frame(local(spark, changes, logged), schema).toArrow()


def random_rows(chance: Random, columns: Iterable[tuple[str, str]]) -> dict[Row, Row]:
    """Rows by key: keys of NULLs too, and values that are equal only if NULL and NaN are themselves."""
    names = [name for name, _ in columns]
    rows = [tuple(chance.choice(VALUES[name]) for name in names) for _ in range(chance.randint(0, 12))]
    return {row[: len(KEY)]: row for row in rows}


def table(columns: tuple[tuple[str, str], ...], rows: Iterable[Row]) -> pa.Table:
    schema, held = arrow_schema(columns), list(rows)
    arrays = [pa.array([row[i] for row in held], field.type) for i, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def told(changes: pa.Table, columns: tuple[tuple[str, str], ...]) -> Changes:
    names = [*(name for name, _ in columns), KIND]
    return Counter(itself(row) for row in zip(*(changes.column(n).to_pylist() for n in names), strict=True))


def difference(old: Mapping[Row, Row], new: Mapping[Row, Row]) -> Changes:
    """What leads from old to new rows, by the definition."""
    found: Changes = Counter()
    for key in {*old, *new}:
        was, now = old.get(key), new.get(key)
        if was is None or now is None:
            row, kind = (now, INSERT) if was is None else (was, DELETE)
            assert row is not None
            found[(*itself(row), kind)] += 1
        elif itself(was) != itself(now):
            found[(*itself(was), UPDATE_BEFORE)] += 1
            found[(*itself(now), UPDATE_AFTER)] += 1
    return found


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_the_difference_of_two_sets_of_rows(spark: SparkSession, place: str) -> None:
    schema = TableSchema(ANY, tuple(name for name, _ in KEY), "hour")
    for seed in range(1, 7):
        chance = Random(seed)
        old, new = (random_rows(chance, schema.columns) for _ in range(2))
        new |= dict(list(old.items())[::2])  # some stay as they are
        before, after = (table(schema.stored, side.values()) for side in (old, new))
        if place == "spark":
            found = _diff_on_spark(spark, schema, before, after)
        else:
            found = diff(before, after, schema, table="t")
        assert told(found, schema.stored) == difference(old, new), f"seed {seed}"


@pytest.mark.parametrize("place", TUPLES, indirect=True)
def test_two_rows_of_a_key_are_refused(spark: SparkSession, place: str) -> None:
    schema = TableSchema(KEY, tuple(name for name, _ in KEY), "hour")
    once, twice = (table(KEY, [(None, "2026112010")] * count) for count in (1, 2))
    with pytest.raises(
        ConstraintViolated, match=r"`t`: two rows share the primary key \(id=None, hour='2026"
    ):
        diff(once, twice, schema, table="t")


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_the_net_change_of_several_versions(spark: SparkSession, place: str) -> None:
    schema = TableSchema(ANY, tuple(name for name, _ in KEY), "hour")
    for seed in range(1, 7):
        chance = Random(seed)
        states = [random_rows(chance, schema.columns) for _ in range(4)]
        logged = [
            (*row, version)
            for version, (old, new) in enumerate(pairwise(states), 1)
            for row in between(old, new)
        ]
        changes = table((*schema.stored, (KIND, "string"), (VERSION, "bigint")), logged)
        found = _net_on_spark(spark, schema, changes) if place == "spark" else net(changes, schema)
        assert told(found, schema.stored) == difference(states[0], states[-1]), f"seed {seed}"


def between(old: Mapping[Row, Row], new: Mapping[Row, Row]) -> list[Row]:
    """The rows of one commit of a changelog."""
    found: list[Row] = []
    for key, was in old.items():
        if key not in new:
            found.append((*was, DELETE))
        elif itself(was) != itself(new[key]):
            found += [(*was, UPDATE_BEFORE), (*new[key], UPDATE_AFTER)]
    return found + [(*row, INSERT) for key, row in new.items() if key not in old]
