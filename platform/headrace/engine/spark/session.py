"""The one Spark application, and its sessions: for small micro-batches, for large ones, for batch work."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headrace.engine.spark import aot_cache, cluster, compilers, log_store
from headrace.engine.spark.jvm import forget_ended
from headrace.engine.spark.py4j_calls import receive_bytes_at_once, send_plain_arguments
from headrace.java import find_java, launcher_home
from headrace.settings import Settings
from headrace.storage.object_path import ObjectPath
from headrace.storage.permit import PERMIT
from headrace.store.frames import LOCAL_BYTES
from headrace.tokens import ensure_token

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The default one goes through Hadoop's FileContext, which starts a `readlink` process for each file that it
# renames: twelve for a micro-batch.
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Both kinds must give the same rows for the same SQL: what decides values is set for all sessions alike.
_SAME_VALUES = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Delta's parser does not pass the newer form of named parameters on.
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
}

# Small batches: planning and code generation cost more than the rows. What is generated is compiled twice, by
# Janino and then by the JVM, for each micro-batch anew.
_FLOW = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.files.minPartitionNum": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}

_LARGE = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.databricks.delta.snapshotPartitions": "2",
}

# A task holds its core until it ends, and the tasks of a micro-batch wait for one. Fewer tasks leave cores
# free, and for few rows they are done sooner as well.
_BATCH = {
    **_LARGE,
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}


_LOGGING = Path(__file__).with_name("log4j2.properties")
_AS_JSON = Path(__file__).with_name("log4j2-json.properties")

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""Of starting Spark's JVM."""

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"

# Java's sweeper throws compiled code away that a quiet minute has not used, and compiles it again.
_JVM = (
    "-Xss4m",  # stopping a running streaming query recurses deeper than the default stack
    "-XX:+UseParallelGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UseCodeCacheFlushing",
    "-XX:ReservedCodeCacheSize=512m",
    *compilers.OPTIONS,
)


def build_session(settings: Settings, *, java_options: str | None = None) -> SparkSession:
    """Start the Spark application of a warehouse server.

    Args:
        java_options: more options for the JVM. Default: those that read the ahead-of-time cache.
    Raises:
        TerminalError: `spark_conf` names what is headrace's own.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the default is whatever `python3` is
    jars = sorted(settings.jars("spark").glob("*.jar"))
    clients = sorted(settings.jars("s3").glob("*.jar")) if isinstance(settings.warehouse, ObjectPath) else []
    more = aot_cache.options(settings) if java_options is None else java_options
    conf = {
        "spark.jars": ",".join(map(str, [*jars, *clients])),
        # Only what is on the class path from the start comes out of the cache.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, aot_cache.beside_spark(jars))),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(
            [*_JVM, f'"-Dlog4j2.configurationFile={_logging(settings)}"', more]
        ),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(settings.state / "spark-warehouse"),
        "spark.local.dir": str(settings.state / "spark-local"),
        "spark.hadoop.fs.permissions.umask-mode": "077",  # Hadoop asks nobody for the process's own
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file://{Path(__file__).with_name('pools.xml')}",
        "spark.ui.enabled": "false",
        # Nothing shows what Spark keeps of finished work, and a flow finishes some ten jobs a second.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.showConsoleProgress": "false",
        # A comparison of a dozen tables generates more classes than the hundred that Spark keeps by default:
        # each one compiled them all again, by Janino and then by the JVM.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Every broadcast of a few rows takes a page, and a refresh has several. Spark's own choice of up to
        # 64m fills the heap with empty ones until the next full collection.
        "spark.buffer.pageSize": "2m",
        **cluster.addresses(settings),
        **_tables(settings),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.localRelationThreshold": f"{LOCAL_BYTES}b",
        # Spark 4.2 pushes a correlated subquery of a SELECT list through a UNION with columns of the other
        # side in it, and fails (`key not found`). Columns that nobody reads are left out by another rule.
        "spark.sql.optimizer.excludedRules": f"{_OPTIMIZER}.PushProjectionThroughUnion",
        # No table here has buckets; where this is on, Spark clones the session for each frame that is kept.
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
        "spark.sql.streaming.pollingDelay": "10ms",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
        "spark.databricks.delta.retentionDurationCheck.enabled": "true",
        **_SAME_VALUES,
        **_LARGE,
        **cluster.own(settings, _SAME_VALUES),
    }
    if settings.spark_master.startswith("local"):
        # The one executor lives and dies with its driver. Spark's heartbeat thread can die alone, in a race
        # with a task that starts (SPARK-59451), and two minutes later its executor would count as lost.
        conf["spark.storage.blockManagerHeartbeatTimeoutMs"] = "365d"
    environment = {"JAVA_HOME": str(launcher_home(find_java(), settings.state))}
    environment |= settings.object_store.environment()
    if settings.spark_connect:
        conf |= {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(settings.spark_connect_port),
        }
        # Not by the configuration, which is on the JVM's command line: everybody can read that.
        environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = ensure_token(settings.spark_connect_token)
    builder = SparkSession.builder.appName("headrace").master(settings.spark_master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    with _environment(**environment):
        session = launched(builder)
    log_store.provide(session, settings.state)
    send_plain_arguments(session)
    receive_bytes_at_once()
    return session


def _logging(settings: Settings) -> Path:
    """The file that says how Spark logs."""
    if settings.log_format == "text":
        return _LOGGING
    lines = [line for line in _LOGGING.read_text().splitlines() if ".layout." not in line]
    file = settings.state / "log4j2.properties"
    file.write_text("\n".join([*lines, _AS_JSON.read_text()]))
    return file


def _tables(settings: Settings) -> dict[str, str]:
    """How Spark reaches the tables, and commits."""
    permit = settings.state / "permit"
    PERMIT.share(permit)
    reached = settings.object_store.for_spark() if isinstance(settings.warehouse, ObjectPath) else {}
    return {**reached, **log_store.conf(permit)}


def launched(builder: SparkSession.Builder) -> SparkSession:
    """The session, by another JVM where the first one is killed while it starts, for want of memory say.

    What ends each of them, such as an option that Java does not know, is raised after some attempts.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return builder.getOrCreate()
        except Exception as error:
            if not left or not forget_ended():
                raise
            log.warning("Spark's JVM has ended while it started, another one is started: %s", error)
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """These variables set while the block lasts: what is started later finds what the user set."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def use_pool(spark: SparkSession, pool: Literal["flow", "trailing", "batch"]) -> None:
    """Run the Spark jobs of this thread in one of the pools of `pools.xml`."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def _derived(session: SparkSession, conf: dict[str, str]) -> SparkSession:
    derived = session.newSession()
    for key, value in {**_SAME_VALUES, **conf}.items():
        derived.conf.set(key, value)
    return derived


def flow_session(session: SparkSession) -> SparkSession:
    """A session with the settings for small micro-batches."""
    return _derived(session, _FLOW)


def large_session(session: SparkSession) -> SparkSession:
    """A session with Spark's usual settings, which take all cores: for large micro-batches."""
    return _derived(session, _LARGE)


def batch_session(session: SparkSession) -> SparkSession:
    """A session for backfills, compaction and comparisons, which run beside the flows.

    Spark divides the reading of a few files among all cores; here it does so among half of them.
    """
    cores = session.sparkContext.defaultParallelism
    return _derived(session, {**_BATCH, "spark.sql.files.minPartitionNum": str(max(1, cores // 2))})
