"""Writers of Delta's log that do not hear of each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS, WRITERS = 30, 4


def winners(spark: SparkSession, scheme: str, folder: str) -> list[int]:
    """Of each version, how many writers were told that they have written it.

    Args:
        scheme: of the folder, as Delta's setting of a log store has it.
    """
    jvm, conf = spark._jvm, spark.sparkContext._jsc.hadoopConfiguration()
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    constructor = loader.loadClass(spark.conf.get(f"spark.delta.logStore.{scheme}.impl")).getConstructors()[0]
    arguments = spark.sparkContext._gateway.new_array(jvm.Object, 1)  # type: ignore[union-attr]
    arguments[0] = conf
    log = constructor.newInstance(arguments)

    def write(version: int) -> int:
        lines = jvm.java.util.ArrayList()
        lines.add("{}")
        try:
            place = jvm.org.apache.hadoop.fs.Path(f"{folder}/{version:020d}.json")
            log.write(place, lines.iterator(), False, conf)
        except Py4JJavaError as error:
            assert "FileAlreadyExistsException" in str(error), error
            return 0
        return 1

    with ThreadPoolExecutor(WRITERS) as writers:
        return [sum(writers.map(write, [version] * WRITERS)) for version in range(VERSIONS)]
