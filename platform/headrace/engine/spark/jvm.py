"""What Spark's JVM has spent on running, and on compiling what it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    return JvmStatus(
        java=jvm.java.lang.System.getProperty("java.version"),
        processor_seconds=_attribute(jvm, "OperatingSystem", "ProcessCpuTime") / 1e9,
        compiler_seconds=_attribute(jvm, "Compilation", "TotalCompilationTime") / 1e3,
        classes_generated=compiled.getCount(),
        micro_batches=micro_batches,
    )


def _attribute(jvm: Any, bean: str, name: str) -> int:
    """By a class of Spark's metrics: the beans' own classes are closed to reflection."""
    place = jvm.javax.management.ObjectName(f"java.lang:type={bean}")
    value: int = jvm.com.codahale.metrics.jvm.JmxAttributeGauge(place, name).getValue()
    return value
