"""A peer that is one Spark application, in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.contender import TABLES, Source, Tell
from benchmarks.peers.delta import LoggedTable
from benchmarks.peers.processes import Processes, tail
from benchmarks.peers.started import Started
from headrace.errors import TerminalError
from headrace.services import runtime
from headrace.settings import Settings

START_SECONDS = 300


@dataclass
class SparkPeer(Started):
    """The contender that runs `driver CONFIGURATION`, which makes `ready` in its directory once it waits.

    Args:
        driver: the application, a Python file.
        settings: where the jars of Delta and Kafka are, and the driver's memory.
    """

    name: str
    settle: float
    driver: Path
    settings: Settings

    def install(self, home: Path, tell: Tell) -> None:
        """It uses PySpark and jars that headrace needs anyway."""
        runtime.ensure(self.settings.home, tell)

    def start(self, source: Source, directory: Path) -> None:
        """Start the application; return when it waits for events."""
        directory = directory.resolve()
        self._tables = {name: LoggedTable(directory / "warehouse" / name) for name in TABLES}
        self._processes = Processes(directory / "logs")
        file = directory / "configuration.json"
        file.write_text(json.dumps(self._configuration(source, directory), indent=1))
        file.chmod(0o600)
        self._processes.start("spark", [sys.executable, self.driver, file])
        deadline = time.monotonic() + START_SECONDS
        while not (directory / "ready").exists():
            self._processes.check()
            if time.monotonic() > deadline:
                log = self._processes.log("spark")
                raise TerminalError(f"not ready after {START_SECONDS} s; {log} says:{tail(log)}")
            time.sleep(0.1)

    def _configuration(self, source: Source, directory: Path) -> dict[str, object]:
        jars = sorted(self.settings.jars("spark").glob("*.jar"))
        return {
            "dsn": source.dsn,
            "kafka": source.broker.client(),
            "spark_kafka": source.broker.spark_options(),
            "topic": source.topics[0],
            "directory": str(directory),
            "conf": {
                "spark.jars": ",".join(str(jar) for jar in jars),
                "spark.driver.memory": self.settings.driver_memory,
                "spark.local.dir": str(directory / "local"),
                "spark.sql.warehouse.dir": str(directory / "spark-warehouse"),
            },
        }
