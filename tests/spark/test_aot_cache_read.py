from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.engine.spark.aot_cache import beside_spark, cache
from headrace.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what a process has mapped")
def test_the_jvm_reads_the_cache_that_was_made_for_it(spark: SparkSession) -> None:
    made = cache(Settings(project=ROOT)).path
    assert made.is_file()
    mapped = Path(f"/proc/{spark._jvm.ProcessHandle.current().pid()}/maps").read_text()
    assert str(made) in mapped


def test_spark_keeps_its_own_versions() -> None:
    jars = [Path(f"/x/{name}") for name in ("jackson-databind-2.13.5.jar", "delta-spark_4.2_2.13-4.4.0.jar")]
    assert [jar.name for jar in beside_spark(jars)] == ["delta-spark_4.2_2.13-4.4.0.jar"]
