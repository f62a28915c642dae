"""Delta's log, for Spark: a class of this folder, compiled by what Spark brings.

Delta's own class for S3 trusts that nobody else commits, and writes over whoever did; that for a folder
trusts that no other JVM does. Neither asks whether the server has its lease still.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("LeasedLogStore.java")
_CLASS = f"headrace.{_SOURCE.stem}"


def conf(permit: Path) -> dict[str, str]:
    """By which Spark's own commits are those of the class, once it is there.

    Args:
        permit: the file of `storage.permit`.
    """
    classes = {f"spark.delta.logStore.{scheme}.impl": _CLASS for scheme in ("file", "s3a")}
    return {**classes, "spark.hadoop.headrace.permit": str(permit)}


def provide(spark: SparkSession, folder: Path) -> None:
    """Let there be the class. Call it before the first commit.

    Args:
        folder: for the compiled class, which is kept.
    """
    jvm = spark._jvm
    assert jvm is not None, "the driver's own session has one"
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    source = _SOURCE.read_text()
    jar = folder / f"headrace-log-store-{hashlib.sha256(source.encode()).hexdigest()[:12]}.jar"
    if not jar.is_file():
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(source)
        draft = jar.with_suffix(".new")
        with ZipFile(draft, "w") as archive:
            for name, code in compiler.getBytecodes().items():
                archive.writestr(f"{name.replace('.', '/')}.class", bytes(code))
        draft.replace(jar)
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
