"""An ahead-of-time cache for the warehouse's JVM: Spark's classes, linked once, and which methods are hot.

JEP 483, 514 and 515, so it takes Java 25; an older one starts without. Made when a checkout is set up, by a
training run that does a little of everything that the server does, and again where the stack starts with
another Java or other jars. The JVM checks itself that the cache fits it and its class path, and else starts
without.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.java import find_java
from headrace.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = 25
"""The Java that makes a cache in one run, with the profiles of its methods."""

MAKING = "making an ahead-of-time cache of classes, with which the warehouse starts faster"

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""The JVM warns on stdout of each class that a cache cannot hold, and of a cache that does not fit."""


def cache(settings: Settings) -> Path:
    """Where the cache for these jars and this Java lies, or would."""
    java = find_java().binary.resolve()
    own = _spark_jars()
    parts = [str(java), str(java.stat().st_mtime_ns)]
    for folder in (own, settings.jars("spark")):
        parts += [f"{jar.name} {jar.stat().st_mtime_ns}" for jar in sorted(folder.glob("*.jar"))]
    return settings.home / "classes" / f"{_digest(str(own))}-{_digest('|'.join(parts))}.aot"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    """Options for a JVM that reads the cache; none where there is no cache."""
    found = cache(settings)
    return f'"-XX:AOTCache={found}" {QUIET}' if found.is_file() else ""


def renew(settings: Settings, report: Callable[[str], None]) -> None:
    """Make the cache, in a process of its own, where there is none for this Java and these jars.

    A set-up that could not make one is not repeated here.

    Args:
        report: is told when it begins.
    """
    wanted = cache(settings)
    if not _missing(wanted) or _log(wanted).is_file():
        return
    report(MAKING)
    home = {"HEADRACE_HOME": str(settings.home)}
    subprocess.run(
        [sys.executable, "-m", __spec__.name, "--quiet"],
        env=os.environ | home,
        cwd=settings.project,
        check=False,
    )


def _missing(wanted: Path) -> bool:
    """Whether it is not there, and this Java can make it."""
    return not wanted.is_file() and find_java().version >= OLDEST


def _log(wanted: Path) -> Path:
    """What the JVM that made this cache, or failed to, has printed."""
    return wanted.with_suffix(".log")


def ensure(settings: Settings) -> None:
    """Make the cache. Runs a JVM of its own, so no session may be there yet."""
    wanted = cache(settings)
    with tempfile.TemporaryDirectory(prefix="making-", dir=wanted.parent) as made:
        folder = Path(made)
        _run(settings.model_copy(update={"project": folder, "data": folder}), folder / wanted.name)
        if (folder / wanted.name).is_file():
            # Those of other checkouts that share this home begin otherwise.
            for old in wanted.parent.glob(f"{wanted.name.partition('-')[0]}-*"):
                if old.stem != wanted.stem:
                    old.unlink()
            (folder / wanted.name).rename(wanted)


def _run(settings: Settings, target: Path) -> None:
    from headrace.engine.spark.session import batch_session, build_session, flow_session

    settings.state.mkdir()
    settings = settings.model_copy(update={"spark_connect_port": 0, "driver_memory": "1g"})
    session = build_session(settings, java_options=f'"-XX:AOTCacheOutput={target}" {QUIET}')
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
    """Make the cache of this checkout, if this Java can. It is for speed alone: failing is told and forgiven.

    Args:
        arguments: `--quiet` where the caller has said what is made.
    """
    settings = Settings.load(Path.cwd())
    wanted = cache(settings)
    if not _missing(wanted):
        return 0
    if "--quiet" not in arguments:
        print(f"headrace: {MAKING}", file=sys.stderr, flush=True)
    log = _log(wanted)
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _output_to(log):
            ensure(settings)
    except Exception as error:
        why = str(error).strip().split("\n")[0]
        print(
            f"headrace: the warehouse will start without an ahead-of-time cache: {why} ({log})",
            file=sys.stderr,
        )
    return 0


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Everything that this process and its JVM print goes to a file."""
    kept = os.dup(1), os.dup(2)
    with log.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for place, old in enumerate(kept, 1):
                os.dup2(old, place)
                os.close(old)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
