from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from harness import Harness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture
def harness(spark: SparkSession, tmp_path: Path) -> Callable[..., Harness]:
    """`harness({"dws/x": "<query file text>", …})`: a warehouse of these layer files over a shop source."""
    made = 0

    def make(layers: dict[str, str], **options: object) -> Harness:
        nonlocal made
        made += 1
        return Harness(spark, tmp_path / str(made), layers, **options)  # type: ignore[arg-type]

    return make
