from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.spark.sessions import Sessions
from headrace.store.frames import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def test_rows_behind_an_empty_chunk_are_there(sessions: Sessions) -> None:
    parts = [pa.table({"n": pa.array(values, pa.int64())}) for values in ([1, 2], [], [3], [], [])]
    for spark in (sessions.flow, sessions.batch):
        found = local(spark, pa.concat_tables(parts), (("n", "bigint"),))
        assert found.toArrow().column("n").to_pylist() == [1, 2, 3]
        assert local(spark, pa.concat_tables(parts[3:]), (("n", "bigint"),)).toArrow().num_rows == 0


def test_many_rows_stay_arrow_until_a_task_reads_them(sessions: Sessions) -> None:
    many = pa.table({"n": pa.array(range(1_000_000), pa.int64())})
    for spark in (sessions.flow, sessions.batch):
        assert "LocalRelation" in _plan(local(spark, many.slice(0, 1_000), (("n", "bigint"),)))
        found = local(spark, many, (("n", "bigint"),))
        assert "LocalRelation" not in _plan(found)
        assert found.toArrow().column("n").combine_chunks().sort().equals(many.column("n").combine_chunks())


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().logical().toString())
