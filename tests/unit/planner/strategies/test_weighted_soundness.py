"""WEIGHTED on random queries and random changes, with DuckDB as the oracle: counts and sums, hidden ones
included, over the old and over the new rows around a change differ by exactly as much as over all rows."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from planner_oracle import Leaves, Runner, touched
from planner_random import COLUMNS, Change, Query, Row, random_change, random_count, random_query
from planner_support import plan, write_table

from headrace.engine.rows.cells import TooWide, restricted
from headrace.planner import Weighted
from headrace.spec.sql.extension import with_columns

QUERIES_A_SEED = int(os.environ.get("HEADRACE_TEST_QUERIES", "30")) // 5
CHANGES_A_QUERY = 4
KEYS = dict.fromkeys(COLUMNS, ("id",))

States = dict[tuple[Any, ...], tuple[int, ...]]


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("PRAGMA disable_optimizer")  # as in test_planner_soundness.py
    return connection


def states(run: Runner, found: Weighted, output: tuple[str, ...], leaves: Sequence[pa.Table]) -> States:
    """Counts and sums of every group; a sum counts for nothing where it has no value."""
    state = found.state
    places = {name: i for i, name in enumerate((*output, *(name for name, _ in state.hidden)))}
    values = [*((c, c) for c in state.counts), *((s.column, s.values) for s in state.sums)]
    made: States = {}
    for row in run(leaves).elements():
        group = tuple(row[places[g]] for g in state.groups)
        assert group not in made, f"two rows of group {group}"
        for column, count in values:
            assert (row[places[column]] is None) == (column != count and not row[places[count]])
        made[group] = tuple(int(row[places[column]] or 0) for column, _ in values)
    return made


def parts(run: Runner, found: Weighted, change: Change) -> list[list[pa.Table]]:
    """The leaves around the change, before and after, as the engine finds them. Raises TooWide."""
    if found.cells is None:
        return [[run.table(0, rows(run.tables[0]))] for rows in (change.gone, change.come)]
    affected = touched(run, found.cells, change)

    def side(state: Mapping[str, list[Row]]) -> list[pa.Table]:
        assert found.cells is not None
        tables = restricted(found.cells, Leaves(run, lambda t: state[t]), affected)
        return [tables[i] for i in range(len(run.tables))]

    return [side(change.old), side(change.new)]


def check(run: Runner, found: Weighted, query: Query, change: Change) -> bool:
    """False where the whole query would run."""
    try:
        around = parts(run, found, change)
    except TooWide:
        return False
    whole = ([run.table(i, s[t]) for i, t in enumerate(run.tables)] for s in (change.old, change.new))
    old, new = (states(run, found, query.output, side) for side in whole)
    gone, come = (states(run, found, query.output, side) for side in around)
    state = found.state
    nothing = (0,) * (len(state.counts) + len(state.sums))
    for group in {*old, *new, *gone, *come}:
        sides = (side.get(group, nothing) for side in (old, gone, come))
        expected = tuple(was - out + into for was, out, into in zip(*sides, strict=True))
        assert new.get(group, nothing) == expected, group
        if state.rows is not None:
            assert (group in new) == (expected[state.counts.index(state.rows)] > 0)
    if found.located is not None:  # the rows of one leaf tell every touched group
        key = [query.output.index(c) for c in query.key]
        rows = [side[found.located.reference] for side in around]
        told = {k for r in rows for k in zip(*(r[c].to_pylist() for c in found.located.columns), strict=True)}
        assert {tuple(row[i] for i in key) for side in around for row in run(side)} <= told
    return True


@pytest.mark.parametrize("seed", range(4))
def test_adding_the_change_gives_the_new_state(
    seed: int, tmp_path: Path, database: duckdb.DuckDBPyConnection
) -> None:
    chance = random.Random(100 + seed)
    seen: Counter[str] = Counter()
    while min(seen["row by row"], seen["cells"]) < QUERIES_A_SEED:
        query = chance.choice((random_query, random_count))(chance)
        key = tuple(c for c in query.output if not re.fullmatch(r"(n|known|total|share|made|w|v)\d*", c))
        if not key or len({c.lower() for c in query.output}) < len(query.output):
            continue
        query = replace(query, key=key, partition=None)
        spec = write_table(tmp_path, query.text, key=", ".join(key), partition=None)
        found = plan(spec, query.output, columns=COLUMNS, keys=KEYS).strategy
        kind = "row by row" if isinstance(found, Weighted) and found.cells is None else "cells"
        if not isinstance(found, Weighted) or seen[kind] >= 3 * QUERIES_A_SEED:
            continue
        seen[kind] += 1
        seen["located"] += found.located is not None
        run = Runner(database, with_columns(spec, found.state.at, found.state.hidden), COLUMNS)
        for _ in range(CHANGES_A_QUERY):
            change = random_change(chance)
            try:
                seen["carried"] += check(run, found, query, change)
            except (AssertionError, duckdb.Error) as error:
                pytest.fail(
                    f"seed {seed}\n{query.text}\n{found}\nold {change.old}\nnew {change.new}\n{error}"
                )
    print(seen)
    assert seen["located"] and seen["carried"] > QUERIES_A_SEED * CHANGES_A_QUERY
