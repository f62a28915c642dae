"""What Spark's JVM has spent on running, and on compiling what it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.results import JvmStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_status(spark: SparkSession, micro_batches: int) -> JvmStatus:
    """The JVM's own counters, since it started.

    Args:
        micro_batches: of all flows, since then.
    """
    jvm = spark._jvm
    assert jvm is not None
    management = jvm.java.lang.management.ManagementFactory
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    return JvmStatus(
        java=jvm.java.lang.System.getProperty("java.version"),
        processor_seconds=management.getOperatingSystemMXBean().getProcessCpuTime() / 1e9,
        compiler_seconds=management.getCompilationMXBean().getTotalCompilationTime() / 1e3,
        classes_generated=compiled.getCount(),
        micro_batches=micro_batches,
    )
