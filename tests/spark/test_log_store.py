"""Delta's log as Spark writes it: one commit a version, by whoever has the lease."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from headrace.storage.permit import PERMIT
from headrace.store.fence import fence
from log_race import winners

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    path = tmp_path / "wh" / "dws" / "t"
    spark.range(3).write.format("delta").save(str(path))
    return str(path)


@pytest.fixture
def lease() -> Iterator[None]:
    """It may end in a test, for that test."""
    yield
    PERMIT.extend(float("inf"))


def versions(table: str) -> int:
    return DeltaTable(table).version()


@pytest.mark.usefixtures("lease")
def test_without_the_lease_nothing_is_committed(spark: SparkSession, table: str) -> None:
    PERMIT.extend(time.monotonic() - 1)
    with pytest.raises(Exception, match="lease was not renewed in time"):
        spark.range(1).write.format("delta").mode("append").save(table)
    assert versions(table) == 0
    PERMIT.extend(time.monotonic() + 60)
    spark.range(1).write.format("delta").mode("append").save(table)
    assert versions(table) == 1 and DeltaTable(table).to_pyarrow_table().num_rows == 4


def test_an_append_that_began_before_a_takeover_fails(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    """Its job stands still meanwhile; Delta would let it go on after another append."""
    running, goes_on = tmp_path / "running", tmp_path / "goes_on"

    def stands_still(batches: Iterator[object]) -> Iterator[object]:
        running.touch()
        while not goes_on.exists():
            time.sleep(0.02)
        yield from batches

    rows = spark.range(1).mapInArrow(stands_still, "id bigint")  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as pool:
        append = pool.submit(lambda: rows.write.format("delta").mode("append").save(table))
        while not running.exists() and not append.done():
            time.sleep(0.02)
        try:
            fence([tmp_path / "wh"], 2)
        finally:
            goes_on.touch()
        with pytest.raises(Exception, match=r"(?i)metadata"):
            append.result()
    assert versions(table) == 1 and DeltaTable(table).to_pyarrow_table().num_rows == 3


def test_of_several_that_commit_one_version_one_does(spark: SparkSession, tmp_path: Path) -> None:
    """Two processes, say, of which neither hears of the other."""
    won = winners(spark, "file", str(tmp_path))
    assert won == [1] * 30
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{v:020d}.json" for v in range(30)]
