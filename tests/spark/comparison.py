"""Derived tables compared with their SQL in batch: over rows the driver holds, or by the product's proof.

Both run the table's own text and compare multisets of all stored columns. The proof reads files, as another
process would, and costs ten times as much: it is for tables whose upstreams have gone on since, and for tests
that are about it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.proof.parity import verify_batch
from headrace.engine.spark.query import run
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, Table
from headrace.spec.model import TableName
from headrace.spec.partitions.labels import shape
from headrace.store.frames import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def differing(
    sessions: Sessions, registry: Registry, tables: Iterable[Table], *, proof: bool = False
) -> Iterator[tuple[str, str]]:
    """The tables of these that are not their SQL in batch at their frontier, each with what differs.

    Two at a time: one is planned while the other runs.

    Args:
        proof: by the product's proof, whether the driver holds the rows or not.
    """

    @cache  # what several tables read
    def rows(upstream: TableName) -> DataFrame:
        store = registry[upstream].store
        return local(sessions.flow, store.head().read(), store.schema.columns)

    def difference(table: Table) -> str | None:
        if proof or not held_by_driver(registry, table):
            result = verify_batch(sessions.batch, registry, table)
            found = f"missing {result.missing}, extra {result.extra}: {result.sample}"
            return None if result.equal else found
        names = list(table.store.schema.stored_names)
        inputs = [rows(upstream.name) for upstream in registry.referenced(table)]
        wanted = run(sessions.flow, table.stored_query, inputs).select(*names).toArrow()
        held = table.store.head().read().select(names)
        assert held.schema.types == wanted.schema.types, f"{table.name}: {held.schema}, not {wanted.schema}"
        wanted = written(table, wanted)
        missing, extra = apart(multiset(mutable(table, held)), multiset(mutable(table, wanted)))
        return f"missing {missing}, extra {extra}" if missing or extra else None

    tables = list(tables)
    with ThreadPoolExecutor(2) as pool:
        for table, what in zip(tables, pool.map(difference, tables), strict=True):
            if what is not None:
                yield str(table.name), what


def held_by_driver(registry: Registry, table: Table) -> bool:
    """Whether the driver holds the table's rows and those that it was computed from."""
    upstreams = registry.upstreams(table)
    return all(u.store.version == table.reached.get(str(n), 0) for n, u in upstreams.items()) and not any(
        t.store.cold for t in (table, *upstreams.values())
    )


def mutable(table: Table, rows: pa.Table) -> pa.Table:
    """The rows but those of immutable partitions, which need not be what the query gives."""
    bound = table.store.commit.immutable_before
    if not bound:
        return rows
    return _kept(rows, [label is None or label >= bound for label in _labels(table, rows)])


def written(table: Table, rows: pa.Table) -> pa.Table:
    """The rows of a query's result but those of partitions that the batch alone writes and has not yet."""
    through = table.store.commit.complete_through
    if not through:
        return rows.schema.empty_table() if offline(table) and not table.store.version else rows
    wanted = re.compile(shape(table.spec))
    return _kept(
        rows, [bool(label and wanted.fullmatch(label)) and label <= through for label in _labels(table, rows)]
    )


def _kept(rows: pa.Table, which: list[bool]) -> pa.Table:
    return rows.filter(pa.array(which, pa.bool_()))  # of no rows Arrow would not know the type


def _labels(table: Table, rows: pa.Table) -> list[str | None]:
    assert table.store.schema.partition is not None
    return rows.column(table.store.schema.partition).to_pylist()


def apart(held: Counter[Any], wanted: Counter[Any]) -> tuple[dict[Any, int], dict[Any, int]]:
    """What is missing in `held` and what it has too much, with how many times."""
    return dict(wanted - held), dict(held - wanted)


def multiset(rows: pa.Table) -> Counter[tuple[Hashable, ...]]:
    """The rows as Spark tells them apart: NULL is itself, NaN is itself, 0.0 is -0.0."""
    return Counter(tuple(map(itself, row)) for row in tuples(rows))


def itself(value: Any) -> Hashable:
    """The value, or the row, with NaN as something that equals itself."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, list | tuple):  # an array, or the entry of a map
        return tuple(map(itself, value))
    return tuple((k, itself(v)) for k, v in value.items()) if isinstance(value, dict) else value


def tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(c.to_pylist() for c in rows.columns), strict=True)) if rows.num_rows else []
