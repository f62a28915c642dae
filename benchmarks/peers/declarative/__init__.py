"""Spark Declarative Pipelines: it is tried, and the result is what Spark says against it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyspark
import yaml

from benchmarks.live.contender import Commit, Source, Tell
from benchmarks.peers.processes import tail
from headrace.errors import TerminalError
from headrace.services import runtime
from headrace.settings import Settings

PIPELINE = Path(__file__).with_name("pipeline.py")
TRY_SECONDS = 300


class Unable(TerminalError):
    """The pipeline does not run; the message is Spark's."""


class Declarative:
    """The contender, which never gets past `start` with Spark 4.2 and Delta 4.4."""

    def __init__(self, settings: Settings) -> None:
        self.name = "declarative"
        self.settle = 0.0
        self._settings = settings

    def install(self, home: Path, tell: Tell) -> None:
        """It uses PySpark and jars that headrace needs anyway."""
        runtime.ensure(self._settings.home, tell)

    def start(self, source: Source, directory: Path) -> None:
        """Run one update of the pipeline. Raises Unable with Spark's error."""
        directory = directory.resolve()
        (directory / "pipeline.py").write_text(PIPELINE.read_text())
        specification = {
            "name": "orders",
            "storage": (directory / "storage").as_uri(),
            "libraries": [{"glob": {"include": "pipeline.py"}}],
            "configuration": {
                "peer.kafka": json.dumps(source.broker.spark_options()),
                "peer.topic": source.topics[0],
            },
        }
        file = directory / "spark-pipeline.yml"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(specification))
        (directory / "conf").mkdir()
        (directory / "conf" / "spark-defaults.conf").write_text(self._defaults(directory))
        log = directory / "pipeline.log"
        with log.open("w") as out:
            done = subprocess.run(
                [self._program(), "run", "--spec", file],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={
                    **os.environ,
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_CONF_DIR": str(directory / "conf"),
                },
                timeout=TRY_SECONDS,
            )
        if done.returncode == 0:
            raise Unable("its pipeline runs now: write how its commits are read")
        said = re.findall(r"\[[A-Z0-9_.]+\] .*", log.read_text(errors="replace"))
        raise Unable(said[-1] if said else f"Spark says:{tail(log)}")

    def _program(self) -> Path:
        return Path(pyspark.__file__).parent / "bin" / "spark-pipelines"

    def _defaults(self, directory: Path) -> str:
        """A file: what its command line is given it sets again in the session, and static ones then fail."""
        jars = sorted(self._settings.jars("spark").glob("*.jar"))
        conf = {
            "spark.jars": ",".join(str(jar) for jar in jars),
            "spark.driver.memory": self._settings.driver_memory,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.sql.sources.default": "delta",
            "spark.ui.enabled": "false",
        }
        return "".join(f"{name} {value}\n" for name, value in conf.items())

    def commits(self, table: str) -> Sequence[Commit]:
        """None."""
        return []

    def rows(self, table: str) -> pa.Table:
        """There are none to read."""
        raise Unable(f"{table}: the pipeline never ran")

    def roots(self) -> Sequence[int]:
        """Nothing runs after `start`."""
        return []

    def check(self) -> None:
        """Nothing runs after `start`."""

    def stop(self) -> None:
        """Nothing is left running."""


def contender(settings: Settings) -> Declarative:
    """The peer."""
    return Declarative(settings)
