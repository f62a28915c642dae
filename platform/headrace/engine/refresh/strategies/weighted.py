"""WEIGHTED: new state of a group = stored − aggregates of the rows that went + aggregates of those that came.

Rows that stand in both sides cancel, so only changed rows need be read. Spark computes the aggregates by the
table's own query, adds them up and computes the visible columns from the sums, so types, rounding and
overflow are its own. Sums are added up as decimals of full width: only their final value must fit its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.refresh.constraints import check_violations
from headrace.engine.refresh.work import AFTER, BEFORE, Frames, HeadLeaves, Work, images
from headrace.engine.rows.cells import (
    TooLarge,
    alike,
    restricted,
    restricted_frame,
    semi_join_frame,
    touched_cells,
    touched_cells_frame,
)
from headrace.engine.rows.diff import diff, diff_frame
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.prepared import Columns
from headrace.engine.spark.query import run, used_columns, with_violations
from headrace.engine.table.table import Table
from headrace.planner.sql.state import State
from headrace.planner.strategies import Weighted
from headrace.store.frames import local
from headrace.store.live.head import Head
from headrace.store.live.key_joins import KeySet, anti_join, semi_join, tuples
from headrace.store.schema import KIND, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WIDE_SHARE = 0.2
"""Changed rows, as a part of the table's, from which all stored groups are read: finding those costs more."""


def merged(
    state: State,
    types: Mapping[str, str],
    stored: DataFrame,
    old: DataFrame,
    new: DataFrame,
    *,
    single: bool = False,
) -> DataFrame:
    """Groups of `stored` − `old` + `new` that have rows: visible columns, then hidden ones.

    Args:
        types: Spark type of every stored column.
        stored, old, new: at least the columns of the state; at most one row per group each.
        single: add up in one partition: for few rows.
    """
    from pyspark.sql import functions as F

    wide = {s.column: _wide(types[s.column]) for s in state.sums} | dict.fromkeys(state.counts, "bigint")

    def signed(rows: DataFrame, sign: str) -> DataFrame:
        values = [f"{sign} CAST({_quoted(c)} AS {t}) AS {_quoted(c)}" for c, t in wide.items()]
        return rows.selectExpr(*map(_quoted, state.groups), *values)

    parts = [signed(stored, "+"), signed(old, "-"), signed(new, "+")]
    every = reduce(lambda a, b: a.unionAll(b), parts)
    if single:
        every = every.coalesce(1)
    totals = [F.coalesce(F.sum(_quoted(c)), F.lit(0)).alias(c) for c in wide]
    if state.grouped:
        assert state.rows is not None
        groups = every.groupBy(*map(_quoted, state.groups)).agg(*totals).where(f"{_quoted(state.rows)} > 0")
    else:
        groups = every.agg(*totals)
    sums = [
        f"CASE WHEN {_quoted(s.values)} > 0 THEN CAST({_quoted(s.column)} AS {types[s.column]}) END "
        f"AS {_quoted(s.column)}"
        for s in state.sums
    ]
    values = groups.selectExpr(*map(_quoted, (*state.groups, *state.counts)), *sums)
    visible = [f"{text} AS {_quoted(name)}" for name, text in state.outputs]
    return values.selectExpr(*visible, *(_quoted(name) for name, _ in state.hidden))


def _wide(kind: str) -> str:
    """A decimal type that sums of this type are added up in."""
    scale = kind.rstrip(")").partition(",")[2] if kind.startswith("decimal") else "0"
    return f"decimal(38,{scale})"


def _quoted(name: str) -> str:
    return f"`{name}`"


def in_driver(work: Work, strategy: Weighted) -> pa.Table:
    """The table's net change for a small change of its upstreams.

    Raises:
        TooLarge: more rows than the driver's limits would come there.
        TooWide: the change can touch any row.
    """
    spark, table = work.sessions.flow, work.table
    schema = table.store.schema
    if not work.changed:  # all was undone again
        return arrow_schema((*schema.stored, (KIND, "string"))).empty_table()
    sides = _sides(work, strategy)
    columns = [used_columns(table.stored_query, s.columns) for s in work.schemas]
    inputs = [(rows, own) for side in sides for rows, own in zip(side, columns, strict=True)]
    states = partial(_both_states, spark, table, strategy)
    if strategy.state.grouped and strategy.located is None:  # first the groups, to find what is stored
        inputs = _aggregated(spark, table, strategy, inputs, states)
        states = tuple  # type: ignore[assignment]
        touched = {key for rows, _ in inputs for key in tuples(rows, schema.key)}
    else:
        touched = _located(strategy, sides)
    head = table.store.head()
    stored = head.find(schema.key, touched) if strategy.state.grouped else head.read()
    if stored.num_rows > table.limits.compared:
        raise TooLarge

    def build(frames: list[DataFrame]) -> DataFrame:
        old, new = states(frames[1:])
        after = merged(strategy.state, dict(schema.stored), frames[0], old, new, single=True)
        return with_violations(after, table.spec)

    result = table.run.queries.run(spark, "weighted", [(stored, schema.stored), *inputs], build)
    check_violations(result, table)
    return diff(stored, result, schema, table=str(table.name))


def suits_arrow(table: Table, strategy: Weighted) -> bool:
    """Whether the driver holds the table, and the changed rows alone tell which groups they are of."""
    if table.store.commit.rows > table.limits.rows:
        return False
    return strategy.cells is None and (strategy.located is not None or not strategy.state.grouped)


def by_arrow(work: Work, strategy: Weighted) -> pa.Table:
    """As `in_driver`, for more rows of one table than plans are kept for.

    `schema.joinable` and `comparable` hold of the table, and `suits_arrow`.
    """
    upstream, delta = work.only
    spark, table = work.sessions.large, work.table
    schema, where = table.store.schema, strategy.located
    assert delta.rows is not None
    sides = [images(delta.rows, *kinds) for kinds in (BEFORE, AFTER)]
    stored = table.store.head().read()
    if where is not None:
        keys = pa.concat_tables([side.select(list(where.columns)) for side in sides])
        keys = keys.rename_columns(list(schema.key)).cast(stored.select(list(schema.key)).schema)
        stored = semi_join(stored, schema.key, keys)
    columns = used_columns(table.stored_query, upstream.store.schema.columns)
    old, new = _both_states(spark, table, strategy, [local(spark, side, columns) for side in sides])
    after = merged(strategy.state, dict(schema.stored), local(spark, stored, schema.stored), old, new)
    result = with_violations(after, table.spec).toArrow()
    check_violations(result, table)
    return diff(stored, result, schema, table=str(table.name))


def _sides(work: Work, strategy: Weighted) -> tuple[list[pa.Table], list[pa.Table]]:
    """The rows of every leaf around the change, as they were and as they are; all others cancel."""
    table, changes, schemas = work.table, work.changed, work.schemas
    if strategy.cells is None:
        return [images(changes[0], *BEFORE)], [images(changes[0], *AFTER)]
    if not alike(strategy.cells, schemas):
        raise TooLarge
    heads = [work.heads[name] for name in work.references]
    affected = touched_cells(strategy.cells, changes, HeadLeaves(table, heads, changes))
    was = restricted(strategy.cells, _Before(table, heads, changes, [s.key for s in schemas]), affected)
    now = restricted(strategy.cells, HeadLeaves(table, heads), affected)
    return [was[i] for i in range(len(schemas))], [now[i] for i in range(len(schemas))]


class _Before(HeadLeaves):
    """The rows of a query's leaves before a net change of them."""

    def __init__(
        self,
        table: Table,
        heads: Sequence[Head],
        changes: Mapping[int, pa.Table],
        keys: Sequence[tuple[str, ...]],
    ) -> None:
        super().__init__(table, heads)
        self._key = keys
        self._old = {i: images(rows, *BEFORE) for i, rows in changes.items()}
        self._changed = {i: set(tuples(rows, keys[i])) for i, rows in changes.items()}

    def find(self, reference: int, columns: Sequence[str], keys: KeySet) -> pa.Table:
        now = self._unchanged(reference, super().find(reference, columns, keys))
        if reference not in self._old:
            return now
        old = semi_join(self._old[reference].select(now.column_names), columns, keys)
        return pa.concat_tables([now, old])

    def read(self, reference: int) -> pa.Table:
        now = self._unchanged(reference, super().read(reference))
        if reference not in self._old:
            return now
        return pa.concat_tables([now, self._old[reference].select(now.column_names)])

    def _unchanged(self, reference: int, rows: pa.Table) -> pa.Table:
        return anti_join(rows, self._key[reference], self._changed.get(reference, set()))


def _both_states(
    spark: SparkSession, table: Table, strategy: Weighted, inputs: list[DataFrame]
) -> tuple[DataFrame, DataFrame]:
    """The state of the groups of the rows before alone, and of those now."""
    leaves = len(table.spec.references)
    old, new = (
        _states(run(spark, table.stored_query, side), table, strategy)
        for side in (inputs[:leaves], inputs[leaves:])
    )
    return old, new


def _states(rows: DataFrame, table: Table, strategy: Weighted) -> DataFrame:
    """The columns of the state. Others are left out: they may fail on a part of the rows."""
    return rows.select(*map(_quoted, _state_columns(table, strategy)))


def _state_columns(table: Table, strategy: Weighted) -> list[str]:
    key = table.store.schema.key if strategy.state.grouped else ()
    return list(dict.fromkeys((*strategy.state.columns, *key)))


def _located(strategy: Weighted, sides: Sequence[list[pa.Table]]) -> KeySet:
    """The touched groups where the rows themselves tell them."""
    where = strategy.located
    if where is None:
        return set()
    return {key for side in sides for key in tuples(side[where.reference], where.columns)}


def _aggregated(
    spark: SparkSession,
    table: Table,
    strategy: Weighted,
    inputs: Sequence[tuple[pa.Table, Columns]],
    states: Callable[[list[DataFrame]], tuple[DataFrame, DataFrame]],
) -> list[tuple[pa.Table, Columns]]:
    """The states of both sides, computed in one job."""
    from pyspark.sql import functions as F

    def build(frames: list[DataFrame]) -> DataFrame:
        old, new = states(frames)
        return old.withColumn("_side", F.lit(0)).unionAll(new.withColumn("_side", F.lit(1)))

    both = table.run.queries.run(spark, "weighted sides", inputs, build)
    types = dict(table.store.schema.stored)
    columns = tuple((name, types[name]) for name in _state_columns(table, strategy))
    return [(both.filter(pc.equal(both.column("_side"), i)), columns) for i in (0, 1)]


def on_spark(work: Work, strategy: Weighted, frames: Frames, persist: Persisted) -> DataFrame:
    """As `in_driver`, as a Spark plan; of the changes there is one per key."""
    spark, table = work.sessions.large, work.table
    schema, key = table.store.schema, table.store.schema.key
    rows_now, changed = frames.of(work)
    rows_changed = sum(d.count for d in work.deltas.values())
    if strategy.cells is not None:
        affected = persist(touched_cells_frame(strategy.cells, rows_now, changed))
        rows_before = [
            _before(rows, changed.get(i), work.upstreams[name])
            for i, (name, rows) in enumerate(zip(work.references, rows_now, strict=True))
        ]
        sides = [restricted_frame(strategy.cells, rows, affected) for rows in (rows_before, rows_now)]
    else:
        columns = rows_now[0].columns
        rows = changed[0]
        sides = [[rows.where(rows[KIND].isin(*kinds)).select(*columns)] for kinds in (BEFORE, AFTER)]
    old, new = (_states(run(spark, table.stored_query, side), table, strategy) for side in sides)
    stored = table.store.frame(spark)
    if strategy.state.grouped and rows_changed < WIDE_SHARE * table.store.commit.rows:
        old, new = persist(old), persist(new)
        keys = old.select(*map(_quoted, key)).unionAll(new.select(*map(_quoted, key)))
        stored = semi_join_frame(stored, key, keys, null_safe=True)
    after = merged(strategy.state, dict(schema.stored), stored, old, new)
    return diff_frame(stored, after, schema)


def _before(current: DataFrame, changes: DataFrame | None, upstream: Table) -> DataFrame:
    """The rows of a leaf before a net change of it."""
    if changes is None:
        return current
    schema = upstream.store.schema
    old = changes.where(changes[KIND].isin(*BEFORE)).select(*schema.names)
    kept = semi_join_frame(current, schema.key, changes.select(*schema.key), null_safe=True, how="left_anti")
    return kept.unionAll(old)
