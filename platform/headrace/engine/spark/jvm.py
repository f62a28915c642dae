"""Spark's JVM: whether it lives, and what it has spent on running, and on compiling what it runs."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from headrace.engine.spark import compilers
from headrace.results import JvmStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

JVM_ENDED = 3
"""Exit code of a server whose JVM, or whose Spark application, ended before it."""

LOOK_SECONDS = 5.0
"""Between two looks at whether the application lives."""


def end_with_jvm(spark: SparkSession, stopping: threading.Event) -> None:
    """From now on this process ends at once where its JVM or its Spark application does, unless it is
    `stopping` anyway.

    Without it nothing works, though the server would still answer. Whoever supervises the process starts
    another, which goes on from what the tables record.
    """
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "the driver's own session has one"

    def watch() -> None:
        code = gateway.proc.wait()
        if not stopping.is_set():
            log.critical("Spark's JVM has ended (exit code %s), and the server with it", code)
            os._exit(JVM_ENDED)

    def look() -> None:
        while not stopping.wait(LOOK_SECONDS):
            if application_ended(spark) and not stopping.is_set():
                log.critical("Spark's application has ended, and the server with it: its cluster gave it up")
                os._exit(JVM_ENDED)

    threading.Thread(target=watch, name="jvm-watch", daemon=True).start()
    threading.Thread(target=look, name="application-watch", daemon=True).start()


def application_ended(spark: SparkSession) -> bool:
    """Whether Spark has stopped by itself in a JVM that goes on, as where a cluster gives it up."""
    try:
        ended: bool = spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # the JVM is going: whoever watches it tells
        return False
    return ended


def forget_ended() -> bool:
    """Let Spark start another JVM where this process's has ended, or never came up. False where it runs."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None and gateway.proc.poll() is None:
        return False
    SparkContext._gateway = SparkContext._jvm = None
    return True


def process_id(spark: SparkSession) -> int:
    """Of Spark's JVM."""
    return _attribute(spark._jvm, "Runtime", "Pid")


def jvm_status(spark: SparkSession, micro_batches: int) -> JvmStatus:
    """The JVM's own counters, since it started.

    Args:
        micro_batches: of all flows, since then.
    """
    jvm = spark._jvm
    assert jvm is not None
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    compiling = compilers.processor_seconds(process_id(spark))
    if compiling is None:
        compiling = _attribute(jvm, "Compilation", "TotalCompilationTime") / 1e3
    return JvmStatus(
        java=jvm.java.lang.System.getProperty("java.version"),
        processor_seconds=_attribute(jvm, "OperatingSystem", "ProcessCpuTime") / 1e9,
        compiler_seconds=compiling,
        classes_generated=compiled.getCount(),
        micro_batches=micro_batches,
    )


def _attribute(jvm: Any, bean: str, name: str) -> int:
    """By a class of Spark's metrics: the beans' own classes are closed to reflection."""
    place = jvm.javax.management.ObjectName(f"java.lang:type={bean}")
    value: int = jvm.com.codahale.metrics.jvm.JmxAttributeGauge(place, name).getValue()
    return value
