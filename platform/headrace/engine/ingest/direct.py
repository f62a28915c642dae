"""Queries of stg tables that Arrow runs in Spark's place, once both gave the same for a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.refresh.audit import rules
from headrace.engine.spark.arrow_query import run_direct
from headrace.engine.spark.query import run
from headrace.engine.table.table import StgTable
from headrace.planner.sql.direct import Direct, Value, direct
from headrace.store.frames import local
from headrace.store.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_ROWS = 500
"""Rows over which Arrow and Spark must give the same before Arrow runs a table's query."""


def direct_query(table: StgTable) -> Direct | None:
    """The table's query, None where it is more than `planner.sql.direct` or does not keep the key.

    Or where expectations are to hold, which Spark knows.
    """
    schema = table.store.schema
    if rules(table).rows:
        return None
    found = direct(table.spec, dict(table.source.typed))
    if found is None:
        return None
    named = dict(found.columns)
    keys_kept = all(named.get(key) == Value(key) for key in schema.key)
    text_label = schema.partition is None or dict(schema.columns)[schema.partition] == "string"
    return found if keys_kept and text_label else None


def agrees(spark: SparkSession, table: StgTable, query: Direct, sample: pa.Table) -> bool:
    """Whether Arrow gives the same rows for the sample as Spark does by the table's own text."""
    inputs = [local(spark, sample, table.source.typed)]
    arrow = arrow_schema(table.store.schema.columns)
    names, order = arrow.names, [(c, "ascending") for c in table.store.schema.key]
    expected = run(spark, table.spec, inputs).toArrow().select(names).cast(arrow).sort_by(order)
    found = run_direct(query, sample).select(names).cast(arrow).sort_by(order)
    return repr(found.to_pylist()) == repr(expected.to_pylist())  # NaN is equal to itself there
