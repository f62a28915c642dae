"""The planner's one obligation, on random queries and random changes, with DuckDB as the oracle.

For K and its driving leaf D: every output row that a change adds or removes has its K among the values A
that the walk finds; and the query with D restricted to A, and the other leaves forward from it, gives
exactly the rows with K in A. ROW: the query over the changed images alone gives the output's difference.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest
import sqlglot
from planner_random import COLUMNS, Change, Query, random_change, random_query
from planner_support import plan, write_table

from headrace.planner import AffectedKeys, AffectedPartitions, Full, Plan, Row
from headrace.spec.model import TableSpec

Rows = list[tuple[object, ...]]
QUERIES_A_SEED = int(os.environ.get("HEADRACE_TEST_QUERIES", "50"))
CHANGES_A_QUERY = 4


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    # DuckDB 2.0.0 drops duplicates below a window where DISTINCT stands above it: a wrong oracle
    connection.execute("PRAGMA disable_optimizer")
    return connection


def planned(directory: Path, query: Query) -> tuple[TableSpec, Plan]:
    spec = write_table(directory, query.text, key=", ".join(query.key), partition=query.partition)
    keys = dict.fromkeys(COLUMNS, ("id",))
    return spec, plan(spec, query.output, columns=COLUMNS, keys=keys)


class Runner:
    """The query over one relation per reference."""

    def __init__(self, database: duckdb.DuckDBPyConnection, spec: TableSpec) -> None:
        self._database = database
        self._tables = [str(r.upstream) for r in spec.references]
        text = spec.query
        for index, reference in reversed(list(enumerate(spec.references))):
            text = f"{text[: reference.start]}leaf{index}{text[reference.end :]}"
        self._sql = sqlglot.transpile(text, read="spark", write="duckdb")[0]

    def __call__(self, leaves: list[Rows]) -> Counter[tuple[object, ...]]:
        for index, rows in enumerate(leaves):
            names = COLUMNS[self._tables[index]]
            places = [f"column{i}" for i in range(len(names))]
            typed = ", ".join(f"CAST({p} AS BIGINT) AS {n}" for p, n in zip(places, names, strict=True))
            values = ", ".join(f"({', '.join('NULL' if v is None else str(v) for v in r)})" for r in rows)
            nothing = f"({', '.join('0' for _ in names)})"
            where = "" if rows else " WHERE false"
            self._database.execute(
                f"CREATE OR REPLACE TEMP TABLE leaf{index} AS SELECT {typed} "
                f"FROM (VALUES {values or nothing}) AS v({', '.join(places)}){where}"
            )
        return Counter(self._database.execute(self._sql).fetchall())


def column(table: str, rows: Rows, names: tuple[str, ...]) -> list[tuple[object, ...]]:
    places = [COLUMNS[table].index(n) for n in names]
    return [tuple(r[p] for p in places) for r in rows]


def matching(
    table: str, rows: Rows, names: tuple[str, ...], wanted: set, null_safe: tuple[bool, ...]
) -> Rows:
    """`rows` semi-joined with `wanted` values of `names`."""
    found = []
    for row, values in zip(rows, column(table, rows, names), strict=True):
        safe = all(v is not None or ok for v, ok in zip(values, null_safe, strict=True))
        if safe and values in wanted:
            found.append(row)
    return found


def touched(spec: TableSpec, strategy: AffectedKeys | AffectedPartitions, change: Change) -> set:
    """A: the values of K in the driving rows that the change reaches."""
    tables = [str(r.upstream) for r in spec.references]
    driving = tables[strategy.driving]
    reached = list(change.images(driving))
    for path in strategy.paths:
        assert path.steps[-1].to_reference == strategy.driving
        rows = change.images(tables[path.reference])
        for step in path.steps:
            values = set(column(tables[step.from_reference], rows, step.from_columns))
            target = tables[step.to_reference]
            rows = matching(target, change.either(target), step.to_columns, values, step.null_safe)
        reached += rows
    return set(column(driving, reached, strategy.trace))


def restricted(
    spec: TableSpec, strategy: AffectedKeys | AffectedPartitions, rows: dict[str, Rows], a: set
) -> list[Rows]:
    tables = [str(r.upstream) for r in spec.references]
    leaves: dict[int, Rows] = {}
    every = tuple(True for _ in strategy.trace)
    driving = tables[strategy.driving]
    leaves[strategy.driving] = matching(driving, rows[driving], strategy.trace, a, every)
    for path in sorted(strategy.paths, key=lambda p: len(p.steps)):
        step = path.steps[0]
        wanted = set(column(tables[step.to_reference], leaves[step.to_reference], step.to_columns))
        table = tables[path.reference]
        leaves[path.reference] = matching(table, rows[table], step.from_columns, wanted, step.null_safe)
    return [leaves[i] for i in range(len(tables))]


def check(run: Runner, spec: TableSpec, found: Plan, query: Query, change: Change) -> None:
    tables = [str(r.upstream) for r in spec.references]
    old, new = run([change.old[t] for t in tables]), run([change.new[t] for t in tables])
    strategy = found.strategy
    if isinstance(strategy, Row):
        gone = run([change.gone(tables[0])])
        come = run([change.come(tables[0])])
        assert old + come == new + gone
        keys = Counter(tuple(row[query.output.index(c)] for c in query.key) for row in new.elements())
        assert max(keys.values(), default=1) == 1, f"rows of one key: {keys}"
        return
    assert isinstance(strategy, AffectedKeys | AffectedPartitions)
    a = touched(spec, strategy, change)
    places = [query.output.index(c) for c in strategy.columns]

    def key(row: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(row[p] for p in places)

    missed = [row for row in ((old - new) + (new - old)) if key(row) not in a]
    assert not missed, f"changed rows outside of A = {a}: {missed}"
    expected = Counter({row: n for row, n in new.items() if key(row) in a})
    assert run(restricted(spec, strategy, change.new, a)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_every_changed_row_is_found_and_recomputed(
    seed: int, tmp_path: Path, database: duckdb.DuckDBPyConnection
) -> None:
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    while seen.total() - seen[Full.name] < QUERIES_A_SEED:
        query = random_query(chance)
        spec, found = planned(tmp_path, query)
        seen[found.strategy.name] += 1
        if isinstance(found.strategy, Full):
            continue
        run = Runner(database, spec)
        for _ in range(CHANGES_A_QUERY):
            change = random_change(chance)
            try:
                check(run, spec, found, query, change)
            except (AssertionError, duckdb.Error) as error:
                pytest.fail(
                    f"seed {seed}\n{query.text}\n{found}\nold {change.old}\nnew {change.new}\n{error}"
                )
    assert seen[Row.name] and seen[AffectedKeys.name] and seen[AffectedPartitions.name], seen
