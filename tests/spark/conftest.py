from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from harness import Harness

from headrace.engine.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def sessions(spark: SparkSession) -> Sessions:
    """One set for the whole run: Spark's threads hold on to every session that they ever worked for."""
    return Sessions.of(spark)


@pytest.fixture
def harness(sessions: Sessions, tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """`harness({"dws/x": "<query file text>", …})`: a warehouse of these layer files over a shop source.

    Whatever a test does with it, no frame may stay persisted: Spark would hold it to its end.
    """
    made = 0

    def make(layers: dict[str, str], **options: object) -> Harness:
        nonlocal made
        made += 1
        return Harness(sessions, tmp_path / str(made), layers, **options)  # type: ignore[arg-type]

    yield make
    spark = sessions.batch
    persisted = not spark._jsparkSession.sharedState().cacheManager().isEmpty()
    spark.catalog.clearCache()  # one test's frame is no other test's failure
    # Delta remembers the state of every table that it ever read, and with it the session that read it.
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert not persisted, "a frame is persisted still"
