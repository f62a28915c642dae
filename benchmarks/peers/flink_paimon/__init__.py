"""Flink SQL and Paimon on the topic: three streaming jobs, each visible downstream at its checkpoints."""

from __future__ import annotations

from pathlib import Path
from string import Template

from benchmarks.live.contender import TABLES, Source, Tell
from benchmarks.peers.changes import KEYS
from benchmarks.peers.flink_paimon.cluster import Cluster
from benchmarks.peers.flink_paimon.install import install
from benchmarks.peers.flink_paimon.paimon import PaimonTable
from benchmarks.peers.processes import Processes
from benchmarks.peers.started import Started
from headrace.settings import Settings

FOLDER = Path(__file__).parent

TABLE_OPTIONS = {
    "bucket": "1",
    # The source is a complete changelog already: other producers would compute it anew.
    "changelog-producer": "input",
    # Compaction never makes a writer wait.
    "num-sorted-run.stop-trigger": "2147483647",
    "sort-spill-threshold": "10",
    # For whoever reads the commits afterwards; one hour is the default.
    "snapshot.time-retained": "24 h",
}
READ_OPTIONS = {"continuous.discovery-interval": "100 ms"}


class FlinkPaimon(Started):
    """The contender.

    Args:
        checkpoint_seconds: the interval of checkpoints, and so of each table's commits.
    """

    def __init__(self, name: str, checkpoint_seconds: float) -> None:
        self.name = name
        self.checkpoint_seconds = checkpoint_seconds
        self.settle = 3 * checkpoint_seconds + 6
        self._home = Path()

    def install(self, home: Path, tell: Tell) -> None:
        """Fetch Flink, Paimon and the Kafka connector, once for every interval."""
        self._home = home.with_name("flink_paimon")
        install(self._home, tell)

    def start(self, source: Source, directory: Path) -> None:
        """Start a cluster and the three jobs; return when each has made its first checkpoint."""
        directory = directory.resolve()
        warehouse = directory / "warehouse"
        self._tables = {name: PaimonTable(warehouse / "default.db" / name, KEYS[name]) for name in TABLES}
        self._processes = Processes(directory / "logs")
        cluster = Cluster(self._home, directory, self._processes, self.checkpoint_seconds)
        cluster.start()
        script = Template((FOLDER / "chain.sql").read_text()).substitute(
            warehouse=warehouse.as_uri(),
            bootstrap=source.bootstrap,
            topic=source.topics[0],
            table=_options(TABLE_OPTIONS),
            read=f"/*+ OPTIONS({_options(READ_OPTIONS)}) */",
        )
        cluster.submit(script, jobs=len(TABLES))


def contender(settings: Settings) -> FlinkPaimon:
    """The peer, with one commit of each table a second."""
    return FlinkPaimon("flink_paimon", 1.0)


def _options(options: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
