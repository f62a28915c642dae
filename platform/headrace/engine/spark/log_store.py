"""Delta's log in an object store, for Spark: a class of this folder, compiled by what Spark brings.

Delta's own class for S3 trusts that nobody else commits, and writes over whoever did.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("ConditionalLogStore.java")
CONF = {"spark.delta.logStore.s3a.impl": f"headrace.{_SOURCE.stem}"}
"""By which Spark's own commits below `s3a://` are conditional puts, once the class is there."""


def provide(spark: SparkSession, folder: Path) -> None:
    """Let there be the class. Call it before the first commit.

    Args:
        folder: for the compiled class.
    """
    jvm = spark._jvm
    assert jvm is not None, "the driver's own session has one"
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(_SOURCE.read_text())
    jar = folder / "headrace-log-store.jar"
    with ZipFile(jar, "w") as archive:
        for name, code in compiler.getBytecodes().items():
            archive.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
