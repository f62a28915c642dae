"""FULL: the whole query against the whole table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.refresh.work import Frames, Work
from headrace.engine.rows.diff import diff_frame
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import run
from headrace.planner.strategies import Full

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def on_spark(work: Work, strategy: Full, frames: Frames, persist: Persisted) -> DataFrame:
    """Nothing is compared where the table holds no rows yet."""
    spark, table = work.sessions.large, work.table
    rows, _ = frames.of(work)
    old = None if table.store.version == 0 else table.store.frame(spark)
    return diff_frame(old, run(spark, table.stored_query, rows), table.store.schema)
