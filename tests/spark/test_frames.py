from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import temporary_views
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


def test_a_correlated_subquery_of_a_select_list_over_a_union(sessions: Sessions, tmp_path: Path) -> None:
    """A table's rows are such a union, of its snapshot and what came after it. Spark alone fails here."""
    columns = (("m", "bigint"), ("n", "bigint"))
    for spark in (sessions.flow, sessions.large, sessions.batch):
        parts = [pa.table({"m": [n % 3], "n": [n]}) for n in range(4)]
        first, second, third, fourth = (local(spark, part, columns) for part in parts)
        first.write.mode("overwrite").parquet(str(tmp_path / "snapshot"))
        rows = spark.read.parquet(str(tmp_path / "snapshot")).unionAll(second.where("n > 0"))
        others = spark.read.parquet(str(tmp_path / "snapshot")).unionAll(third.unionAll(fourth))
        with temporary_views(spark, [rows, others]) as (a, b):
            query = f"SELECT m, (SELECT count(*) FROM {b} s WHERE s.m = x.m) AS n FROM {a} x"
            assert sorted(map(tuple, spark.sql(query).collect())) == [(0, 2), (1, 0)]


def test_what_is_persisted_stays_as_it_is_while_a_view_over_the_same_rows_comes_and_goes(
    sessions: Sessions,
) -> None:
    """Spark's own way of dropping a view plans it anew, and whoever frees it meanwhile frees nothing."""
    spark = sessions.batch
    rows = spark.range(7).selectExpr("id * 3 AS n")
    with Persisted() as persist:
        kept = persist(rows.where("n > 3"))
        planned = _persisted(kept)
        with temporary_views(spark, [rows]) as [view]:
            assert spark.sql(f"SELECT n FROM {view} WHERE n > 15").count() == 1
        assert _persisted(kept) == planned
    assert not spark.catalog.tableExists(view)


def _persisted(frame: DataFrame) -> int:
    """Which plan Spark holds for the frame."""
    jvm = frame.sparkSession._jvm
    assert jvm is not None
    manager = frame.sparkSession._jsparkSession.sharedState().cacheManager()
    found: int = jvm.java.lang.System.identityHashCode(manager.lookupCachedData(frame._jdf).get())
    return found


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().logical().toString())
