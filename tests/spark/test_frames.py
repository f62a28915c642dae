from __future__ import annotations

import pyarrow as pa

from headrace.engine.advance import Sessions
from headrace.store.frames import local


def test_rows_behind_an_empty_chunk_are_there(sessions: Sessions) -> None:
    parts = [pa.table({"n": pa.array(values, pa.int64())}) for values in ([1, 2], [], [3], [], [])]
    for spark in (sessions.flow, sessions.batch):
        found = local(spark, pa.concat_tables(parts), (("n", "bigint"),))
        assert found.toArrow().column("n").to_pylist() == [1, 2, 3]
        assert local(spark, pa.concat_tables(parts[3:]), (("n", "bigint"),)).toArrow().num_rows == 0
