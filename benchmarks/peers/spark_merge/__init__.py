"""Spark Structured Streaming on plain Delta: a query and a MERGE for each table, written by hand."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from headrace.bench.contender import TABLES, Commit, Source, Tell
from headrace.errors import TerminalError
from headrace.services import runtime
from headrace.settings import Settings
from peers.changes import KEYS
from peers.processes import Processes, tail
from peers.spark_merge.delta import MergedTable

DRIVER = Path(__file__).with_name("driver.py")
START_SECONDS = 180


class SparkMerge:
    """The contender: one Spark application in a process of its own.

    Args:
        settings: where the jars of Delta and Kafka are, and the driver's memory.
    """

    def __init__(self, settings: Settings) -> None:
        self.name = "spark_merge"
        self.settle = 15.0
        self._settings = settings
        self._processes: Processes | None = None
        self._tables: dict[str, MergedTable] = {}

    def install(self, home: Path, tell: Tell) -> None:
        """It uses PySpark and jars that headrace needs anyway."""
        runtime.ensure(self._settings.home, tell)

    def start(self, source: Source, directory: Path) -> None:
        """Start the application; return when its queries wait for events."""
        directory = directory.resolve()
        self._tables = {name: MergedTable(directory / "warehouse" / name, KEYS[name]) for name in TABLES}
        self._processes = Processes(directory / "logs")
        file = directory / "configuration.json"
        file.write_text(json.dumps(self._configuration(source, directory), indent=1))
        self._processes.start("spark", [sys.executable, DRIVER, file])
        deadline = time.monotonic() + START_SECONDS
        while not (directory / "ready").exists():
            self._processes.check()
            if time.monotonic() > deadline:
                log = self._processes.log("spark")
                raise TerminalError(f"not ready after {START_SECONDS} s; {log} says:{tail(log)}")
            time.sleep(0.1)

    def _configuration(self, source: Source, directory: Path) -> dict[str, object]:
        jars = sorted(self._settings.jars("spark").glob("*.jar"))
        return {
            "bootstrap": source.bootstrap,
            "topic": source.topic,
            "directory": str(directory),
            "conf": {
                "spark.jars": ",".join(str(jar) for jar in jars),
                "spark.driver.memory": self._settings.driver_memory,
                "spark.local.dir": str(directory / "local"),
                "spark.sql.warehouse.dir": str(directory / "spark-warehouse"),
            },
        }

    def commits(self, table: str) -> Sequence[Commit]:
        """The table's Delta commits that changed rows."""
        return self._tables[table].commits()

    def rows(self, table: str) -> pa.Table:
        """The table's content, folded from its change data feed."""
        return self._tables[table].rows()

    def roots(self) -> Sequence[int]:
        """The driver's Python, above its JVM."""
        return self._processes.pids() if self._processes else []

    def stop(self) -> None:
        """End the application."""
        if self._processes:
            self._processes.stop()


def contender(settings: Settings) -> SparkMerge:
    """The peer, with the driver memory of headrace's own settings."""
    return SparkMerge(settings)
