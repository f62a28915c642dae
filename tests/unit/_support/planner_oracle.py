"""What a plan claims of a query, checked on an old and a new state of its tables with DuckDB as the oracle.

The walk and the restriction are the engine's own (`engine/rows/cells.py`), over Arrow tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from planner_random import Change, Row

from headrace.engine.rows.cells import TooWide, restricted, touched_cells
from headrace.planner import AffectedKeys, Cells
from headrace.spec.model import TableSpec
from headrace.store.live.key_joins import KeySet, semi_join

Rows = list[Row]
Columns = Mapping[str, tuple[str, ...]]
Result = Counter[tuple[Any, ...]]


class Runner:
    """The query over one relation per reference; every column is a BIGINT."""

    def __init__(self, database: duckdb.DuckDBPyConnection, spec: TableSpec, columns: Columns) -> None:
        self._database = database
        self.tables = [str(r.upstream) for r in spec.references]
        self.columns = [columns[t] for t in self.tables]
        text = spec.query
        for index, reference in reversed(list(enumerate(spec.references))):
            text = f"{text[: reference.start]}leaf{index}{text[reference.end :]}"
        self._sql = sqlglot.transpile(text, read="spark", write="duckdb")[0]

    def __call__(self, leaves: Sequence[pa.Table]) -> Result:
        for index, rows in enumerate(leaves):
            self._database.register(f"leaf{index}", rows)
        return Counter(self._database.execute(self._sql).fetchall())

    def whole(self, state: Mapping[str, Rows]) -> Result:
        return self([self.table(i, state[t]) for i, t in enumerate(self.tables)])

    def table(self, reference: int, rows: Rows) -> pa.Table:
        names = self.columns[reference]
        arrays = [pa.array([r[i] for r in rows], pa.int64()) for i in range(len(names))]
        return pa.table(arrays, names=list(names))


class Leaves:
    """`engine.rows.cells.Leaves` over Python rows."""

    def __init__(self, run: Runner, state: Callable[[str], Rows]) -> None:
        self._tables = [run.table(i, state(t)) for i, t in enumerate(run.tables)]

    def find(self, reference: int, columns: Sequence[str], keys: KeySet) -> pa.Table:
        return semi_join(self._tables[reference], columns, keys)

    def read(self, reference: int) -> pa.Table:
        return self._tables[reference]


def touched(run: Runner, cells: Cells, change: Change) -> KeySet:
    """The cells that the engine finds. Raises TooWide."""
    changes = {i: run.table(i, rows) for i, t in enumerate(run.tables) if (rows := change.images(t))}
    return touched_cells(cells, changes, Leaves(run, change.either))


def over_cells(run: Runner, cells: Cells, state: Mapping[str, Rows], affected: KeySet) -> Result:
    """The query over what the engine restricts a state to."""
    found = restricted(cells, Leaves(run, lambda t: state[t]), affected)
    return run([found[i] for i in range(len(run.tables))])


def check_affected(run: Runner, strategy: AffectedKeys, output: tuple[str, ...], change: Change) -> bool:
    """Every changed row has its K among the touched cells, and the restricted query gives exactly the rows
    of those. False where the refresh would run the whole query."""
    try:
        affected = touched(run, strategy.cells, change)
    except TooWide:
        return False
    old, new = run.whole(change.old), run.whole(change.new)
    places = [output.index(c) for c in strategy.columns]

    def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[p] for p in places)

    missed = [row for row in ((old - new) + (new - old)) if key(row) not in affected]
    assert not missed, f"changed rows outside of A = {affected}: {missed}"
    for state, whole in ((change.new, new), (change.old, old)):
        expected = Counter({row: n for row, n in whole.items() if key(row) in affected})
        assert over_cells(run, strategy.cells, state, affected) == expected
    return True


def check_below(run: Runner, cells: Cells, groups: int, change: Change) -> bool:
    """COUNT and SUM over the restricted input differ between old and new as over the whole input.

    Args:
        groups: number of GROUP BY columns; they come first, all others are counts and sums.
    """
    try:
        affected = touched(run, cells, change)
    except TooWide:
        return False
    total = Counter[tuple[Any, ...]]()
    for state, sign in ((change.new, 1), (change.old, -1)):
        for result, weight in ((run.whole(state), sign), (over_cells(run, cells, state, affected), -sign)):
            for row in result:
                for place, value in enumerate(row[groups:]):
                    total[(*row[:groups], place)] += weight * int(value or 0)
    assert not any(total.values()), f"A = {affected}: {total}"
    return True
