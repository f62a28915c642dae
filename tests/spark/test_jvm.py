from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.engine.spark import compilers
from headrace.engine.spark.jvm import jvm_status, process_id
from headrace.engine.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_small_batches_generate_no_classes_and_large_ones_are_counted(
    spark: SparkSession, sessions: Sessions
) -> None:
    def query(factor: int) -> str:
        return (
            f"SELECT id % 7 AS k, sum(id * {factor} + 41) AS s FROM range(100) WHERE id % 5 <> 2 GROUP BY 1"
        )

    sessions.flow.sql(query(3)).collect()  # how rows of this shape are joined is compiled once
    before = jvm_status(spark, 1)
    sessions.flow.sql(query(4)).collect()
    between = jvm_status(spark, 2)
    sessions.large.sql(query(5)).collect()
    after = jvm_status(spark, 2)
    assert before.classes_generated == between.classes_generated < after.classes_generated
    assert 0 < before.processor_seconds < after.processor_seconds
    assert after.compiler_seconds > 0 and (before.micro_batches, after.micro_batches) == (1, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="threads of another process are seen by /proc")
def test_what_the_compilers_used_is_part_of_what_the_jvm_used(spark: SparkSession) -> None:
    used = compilers.processor_seconds(process_id(spark))
    assert used is not None and 0 < used < jvm_status(spark, 1).processor_seconds
    assert compilers.processor_seconds(os.getpid()) is None


def test_what_spark_logs_goes_by_a_file_of_ours(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    file = Path(jvm.java.lang.System.getProperty("log4j2.configurationFile"))
    assert file.is_file() and "rootLogger.level = warn" in file.read_text()
