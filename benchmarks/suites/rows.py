"""The suite `rows`: the driver compares rows by tuples or by Arrow; which is faster, for few and for many."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from statistics import median
from unittest import mock

import pyarrow as pa

from benchmarks.report import Result, at_most
from benchmarks.runner import Bench
from headrace.engine.rows import diff as rows
from headrace.store.schema import (
    INSERT,
    KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    VERSION,
    TableSchema,
    arrow_schema,
)

SIZES = (10, 100, 200, 400, 1_000, 4_000, 20_000)
"""Rows compared, both sides together."""

COLUMNS = (
    ("id", "bigint"),
    ("hour", "string"),
    ("amount", "decimal(12,2)"),
    ("at", "timestamp"),
    ("good", "boolean"),
    ("name", "string"),
)
TABLE = TableSchema(COLUMNS, ("id", "hour"), "hour")
REPEATS = 100
BAR = 2.0
WAYS = {"tuples": sys.maxsize, "Arrow": -1}
"""The most rows that tuples take."""


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    bench.spark  # noqa: B018  its types are what Arrow schemas are made of
    results = []
    for size in SIZES:
        old, new = (_table(size // 2, side) for side in (0, 1))
        logged = pa.concat_tables(
            [_logged(old, INSERT, 1), _logged(old, UPDATE_BEFORE, 2), _logged(new, UPDATE_AFTER, 2)]
        ).slice(0, size)
        for what, few, work in (
            ("difference", rows.FEW_COMPARED, lambda old=old, new=new: rows.diff(old, new, TABLE, table="t")),
            ("net change", rows.FEW_FOLDED, lambda logged=logged: rows.net(logged, TABLE)),
        ):
            taken = {way: _milliseconds(work, most, size) for way, most in WAYS.items()}
            bench.tell(f"{what} of {size:,} rows: {', '.join(f'{w} {ms:.2f} ms' for w, ms in taken.items())}")
            results += [Result(f"{what} of {size:,} rows.{way}", ms, "ms") for way, ms in taken.items()]
            chosen = taken["tuples" if size <= few else "Arrow"]
            results.append(
                at_most(
                    f"{what} of {size:,} rows, chosen way by the better one",
                    chosen / min(taken.values()),
                    BAR,
                    "times",
                )
            )
    return results


def _milliseconds(work: Callable[[], pa.Table], most: int, size: int) -> float:
    """The median, with tuples for so many rows."""
    spent = []
    with mock.patch.multiple(rows, FEW_COMPARED=most, FEW_FOLDED=most):
        for _ in range(max(5, min(REPEATS, 100_000 // size))):
            begun = time.perf_counter()
            work()
            spent.append(time.perf_counter() - begun)
    return 1000 * median(spent)


def _table(count: int, side: int) -> pa.Table:
    """Rows in any order; every second one is another on the other side."""
    chance = Random(count)
    begin = datetime(2026, 11, 20, tzinfo=UTC)
    held = [
        (
            i,
            f"2026112{i % 1000:03d}",
            Decimal(i + side * (i % 2)) / 100,
            begin + timedelta(seconds=i),
            bool(i % 3),
            "name" * (i % 5),
        )
        for i in range(count)
    ]
    chance.shuffle(held)
    schema = arrow_schema(TABLE.stored)
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*held, strict=True), schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _logged(table: pa.Table, kind: str, version: int) -> pa.Table:
    """The rows as changes of one version."""
    marked = table.append_column(KIND, pa.repeat(pa.scalar(kind), table.num_rows))
    return marked.append_column(VERSION, pa.repeat(pa.scalar(version, pa.int64()), table.num_rows))
