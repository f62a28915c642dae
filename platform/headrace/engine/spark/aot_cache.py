"""The ahead-of-time cache of the warehouse's JVM, made by a run that does a little of everything it does."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import aot_caches
from headrace.aot_caches import AotCache, digest
from headrace.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAKING = "making an ahead-of-time cache of classes, with which the warehouse starts faster"


def cache(settings: Settings) -> AotCache:
    """The one for these jars and this Java."""
    own = _spark_jars()
    return AotCache.of(settings, digest(str(own)), (own, settings.jars("spark")))


def beside_spark(jars: Iterable[Path]) -> list[Path]:
    """Those that Spark does not bring itself: on the class path they would take the place of its own."""
    known = {_library(jar) for jar in _spark_jars().glob("*.jar")}
    return [jar for jar in jars if _library(jar) not in known]


def _spark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "jars"


def _library(jar: Path) -> str:
    return re.split(r"-\d", jar.name)[0]


def options(settings: Settings) -> str:
    """Options for a JVM that reads the cache. See `AotCache.reading`."""
    return _joined(cache(settings).reading())


def _joined(options: Iterable[str]) -> str:
    return " ".join(f'"{option}"' for option in options)


def renew(settings: Settings, report: Callable[[str], None]) -> None:
    """Make the cache where it is missing, unless the set-up failed to. See `aot_caches.renew`."""
    aot_caches.renew([cache(settings)], __spec__.name, MAKING, settings, report)


def ensure(settings: Settings) -> None:
    """Make the cache. Runs a JVM of its own, so no session may be there yet."""
    with cache(settings).making() as made:
        folder = made.parent
        _run(settings.model_copy(update={"project": folder, "data": folder}), made)


def _run(settings: Settings, target: Path) -> None:
    from headrace.engine.spark.session import batch_session, build_session, flow_session

    settings.state.mkdir()
    settings = settings.model_copy(update={"spark_connect_port": 0, "driver_memory": "1g"})
    session = build_session(settings, java_options=_joined(aot_caches.recording(target)))
    gateway = session.sparkContext._gateway
    assert gateway is not None
    for place, spark in enumerate((flow_session(session), batch_session(session))):
        _exercise(spark, settings.data / str(place))
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends, and another writes the cache
    gateway.proc.wait()


def _exercise(spark: SparkSession, folder: Path) -> None:
    """Some of each kind of work: files, joins, windows, JSON, Arrow, a streaming query."""
    import pyarrow as pa

    from headrace.store.frames import local

    rows = pa.table({"id": pa.array(range(100), pa.int64()), "text": [f'{{"n": {n}}}' for n in range(100)]})
    frame = local(spark, rows, (("id", "bigint"), ("text", "string"))).selectExpr(
        "id", "text", "id % 7 AS part", "CAST(id AS DECIMAL(12, 2)) AS amount", "current_timestamp() AS at"
    )
    table = str(folder / "table")
    frame.write.format("delta").partitionBy("part").option("userMetadata", "{}").save(table)
    again = frame.where("part = 3").write.format("delta").mode("overwrite")
    again.option("replaceWhere", "part = 3").save(table)
    spark.read.format("delta").option("versionAsOf", 1).load(table).createOrReplaceTempView("stored")
    queries = (
        "SELECT part, count(*), count(DISTINCT id), sum(amount) FILTER (WHERE id > 3), min(text), max(at)"
        " FROM stored GROUP BY part HAVING count(*) > 1 ORDER BY part",
        "SELECT a.id, b.amount, date_format(a.at, 'yyyyMMddHH') FROM stored a FULL OUTER JOIN stored b"
        " ON a.id <=> b.id WHERE a.part IS NULL OR a.part IN (1, 2, 3)",
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY part ORDER BY id) AS n FROM stored)"
        " WHERE n = 1 AND id NOT IN (SELECT id FROM stored WHERE part = 5)",
        "SELECT word, count(*) FROM (SELECT explode(split(text, ' ')) AS word FROM stored) GROUP BY word",
        "SELECT from_json(text, 'n BIGINT').n, coalesce(amount, 0) FROM stored"
        " UNION ALL SELECT id, amount FROM stored",
    )
    for query in queries:
        found = spark.sql(query).persist()
        found.toArrow()
        found.count()
        found.unpersist()
    stream = spark.readStream.format("rate").load().writeStream.format("noop").trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


def main(arguments: Sequence[str]) -> int:
    """Make the cache of this checkout, if this Java can.

    Args:
        arguments: `--quiet` where the caller has said what is made.
    """
    settings, quiet = Settings.load(Path.cwd()), "--quiet" in arguments
    aot_caches.make([cache(settings)], lambda: ensure(settings), "the warehouse", MAKING, quiet=quiet)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
