from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.engine.spark import prepared
from headrace.engine.spark.prepared import Queries
from headrace.engine.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = (("k", "bigint"), ("v", "decimal(12,2)"), ("s", "string"))
VIEW = "hr_prepared_test"


def rows(*values: tuple[int | None, str | None, str | None]) -> pa.Table:
    schema = pa.schema([("k", pa.int64()), ("v", pa.decimal128(12, 2)), ("s", pa.string())])
    table = pa.table([list(c) for c in zip(*values, strict=True)] or [[], [], []], names=["k", "v", "s"])
    return pa.table([table.column(0).cast("int64"), table.column(1).cast("string"), table.column(2)],
                    names=["k", "v", "s"]).cast(schema)  # fmt: skip


FIRST = rows((1, "1.50", "a"), (1, "2.00", None), (2, "3.25", "b"), (None, None, ""))
SECOND = rows((2, "0.01", "c"), (3, "9999999999.99", "x'y\n"))
NONE = rows()

REPEATABLE = {
    "filter and project": "SELECT k + 1 AS k, upper(s) AS s FROM {0} WHERE v > 1",
    "group": "SELECT k, count(*) AS n, sum(v) AS v, max(s) AS s FROM {0} GROUP BY k",
    "global aggregate": "SELECT count(*) AS n, sum(v) AS v FROM {0}",
    "rank": "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v, s) AS r FROM {0}",
    "first rows": "SELECT * FROM {0} ORDER BY v DESC, k LIMIT 2",
    "distinct": "SELECT DISTINCT k FROM {0}",
    "a join": "SELECT a.k, a.s, b.v FROM {0} a JOIN {1} b ON a.k = b.k",
    "outer joins": "SELECT a.k, b.v, c.s FROM {0} a LEFT JOIN {1} b ON a.k = b.k"
    " FULL JOIN {1} c ON c.k = b.k",
    "a semi and an anti join": "SELECT k, v FROM {0} a LEFT SEMI JOIN {1} b ON a.k = b.k"
    " UNION ALL SELECT k, v FROM {0} a LEFT ANTI JOIN {1} b ON a.k = b.k",
    "groups of a join": "SELECT a.k, sum(b.v) AS v FROM {0} a JOIN {1} b ON a.k <=> b.k GROUP BY a.k",
    "decoded json": "SELECT k, from_json(concat('{{\"a\":', k, '}}'), 'a int').a AS a FROM {0}",
}
NOT_REPEATABLE = {
    "a scalar subquery": "SELECT k, (SELECT max(v) FROM {0}) AS m FROM {0}",
    "a join without equality": "SELECT a.k, b.v FROM {0} a JOIN {1} b ON a.k < b.k",
}


def build(sessions: Sessions, sql: str, frames: list[DataFrame]) -> DataFrame:
    names = [f"{VIEW}_{i}" for i in range(len(frames))]
    for name, frame in zip(names, frames, strict=True):
        frame.createOrReplaceTempView(name)
    return sessions.flow.sql(sql.format(*names))


def multiset(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("sql", [*REPEATABLE.values(), *NOT_REPEATABLE.values()])
def test_each_run_sees_its_own_rows(sessions: Sessions, sql: str) -> None:
    queries = Queries()
    for inputs in ((FIRST, SECOND), (SECOND, FIRST), (NONE, FIRST), (FIRST, NONE), (FIRST, SECOND)):
        given = [(table, COLUMNS) for table in inputs]
        found = queries.run(sessions.flow, "q", given, lambda frames: build(sessions, sql, frames))
        anew = Queries()
        anew._known[("q", (COLUMNS, COLUMNS), id(sessions.flow))] = None
        expected = anew.run(sessions.flow, "q", given, lambda frames: build(sessions, sql, frames))
        assert found.schema == expected.schema
        assert multiset(found) == multiset(expected)
    (known,) = queries._known.values()
    assert (known is not None) == (sql in REPEATABLE.values())


def test_a_prepared_query_is_no_spark_job(sessions: Sessions) -> None:
    context, queries = sessions.flow.sparkContext, Queries()
    context.setJobGroup("prepared", "")
    try:
        for inputs in (FIRST, SECOND):
            queries.run(sessions.flow, "q", [(inputs, COLUMNS)], lambda frames: frames[0].select("k"))
        sessions.flow.range(
            1
        ).collect()  # Spark tells of jobs in their order: those before would be there, too
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    deadline = time.monotonic() + 30
    while not (jobs := context.statusTracker().getJobIdsForGroup("prepared")):
        assert time.monotonic() < deadline
    assert len(jobs) == 1


def test_more_rows_than_a_blind_plan_is_good_for_are_planned_for(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "MOST_ROWS", FIRST.num_rows - 1)
    queries = Queries()
    found = queries.run(sessions.flow, "q", [(FIRST, COLUMNS)], lambda frames: frames[0].select("k"))
    assert found.num_rows == FIRST.num_rows
    assert not queries._known


@pytest.mark.parametrize(("size", "kept"), [(prepared.MOST_BYTES // 10, 1), (prepared.LOCAL_BYTES // 10, 0)])
def test_rows_beyond_a_local_relation_are_planned_for(sessions: Sessions, size: int, kept: int) -> None:
    # A few thousand wide rows take more bytes than Spark keeps as a local relation, which a leaf needs.
    queries = Queries()
    wide = rows(*((k, "1.00", str(k) * (size - 200)) for k in range(10)))
    given = [(wide, COLUMNS)]
    found = queries.run(sessions.flow, "q", given, lambda frames: frames[0].selectExpr("k", "length(s) AS n"))
    assert found.to_pylist() == [{"k": k, "n": size - 200} for k in range(10)]
    assert len(queries._known) == kept
    if not kept:
        narrow = [(FIRST, COLUMNS)]
        assert queries.run(sessions.flow, "q", narrow, lambda frames: frames[0].select("k")).num_rows == 4


def test_a_failed_run_leaves_no_rows_behind(sessions: Sessions) -> None:
    queries = Queries()

    def divided(frames: list[DataFrame]) -> DataFrame:
        return frames[0].selectExpr("1 DIV (k - 1) AS q")

    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        queries.run(sessions.flow, "q", [(FIRST, COLUMNS)], divided)
    found = queries.run(sessions.flow, "q", [(SECOND, COLUMNS)], divided)
    assert multiset(found) == multiset(pa.table({"q": pa.array([1, 0])}))
