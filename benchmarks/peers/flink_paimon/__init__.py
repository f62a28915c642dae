"""Flink SQL and Paimon on the topics: streaming jobs whose tables are visible downstream at checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from benchmarks.live.contender import Source, Tell
from benchmarks.peers.changes import KEYS, SHOP_KEYS
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
KAFKA_OPTIONS = {
    "connector": "kafka",
    "scan.startup.mode": "earliest-offset",
    "format": "debezium-json",
    "debezium-json.timestamp-format.standard": "ISO-8601",
}


@dataclass(frozen=True)
class Script:
    """What runs.

    Args:
        keys: of the tables that it keeps, by their names in the comparison.
        jobs: how many it starts.
        slots: of the cluster, which share its memory.
        options: of every table, beside those of all scripts.
    """

    file: str
    keys: Mapping[str, tuple[str, ...]]
    jobs: int
    slots: int
    memory: str = "3072m"
    options: Mapping[str, str] = field(default_factory=dict)


CHAIN = Script("chain.sql", KEYS, jobs=len(KEYS), slots=4)
# A writer's buffer is 256 MB by default, and there are fourteen.
SHOP = Script("shop.sql", SHOP_KEYS, jobs=1, slots=1, memory="4096m", options={"write-buffer-size": "16 mb"})


class FlinkPaimon(Started):
    """The contender.

    Args:
        checkpoint_seconds: the interval of checkpoints, and so of each table's commits.
        script: the tables.
    """

    def __init__(self, name: str, checkpoint_seconds: float, script: Script) -> None:
        self.name = name
        self._script = script
        self.checkpoint_seconds = checkpoint_seconds
        self.settle = 3 * checkpoint_seconds + 6
        self._home = Path()
        self._cluster: Cluster | None = None

    def install(self, home: Path, tell: Tell) -> None:
        """Fetch Flink, Paimon and the Kafka connector, once for every interval."""
        self._home = home.with_name("flink_paimon")
        install(self._home, tell)

    def start(self, source: Source, directory: Path) -> None:
        """Start a cluster and the jobs; return when each has made its first checkpoint."""
        directory = directory.resolve()
        warehouse = directory / "warehouse"
        script = self._script
        self._tables = {
            name: PaimonTable(warehouse / "default.db" / name.replace(".", "_"), key)
            for name, key in script.keys.items()
        }
        self._processes = Processes(directory / "logs")
        cluster = Cluster(
            self._home, directory, self._processes, self.checkpoint_seconds, script.slots, script.memory
        )
        cluster.start()
        text = Template((FOLDER / script.file).read_text()).substitute(
            {topic.rpartition(".")[2]: topic for topic in source.topics},
            warehouse=warehouse.as_uri(),
            kafka=_options(KAFKA_OPTIONS | _client(source)),
            table=_options({**TABLE_OPTIONS, **script.options}),
            read=f"/*+ OPTIONS({_options(READ_OPTIONS)}) */",
        )
        cluster.submit(text, jobs=script.jobs)
        self._cluster = cluster

    def check(self) -> None:
        """See `Contender.check`."""
        if self._cluster is not None:
            self._cluster.check()


def contender(settings: Settings) -> FlinkPaimon:
    """The peer, with one commit of each table a second."""
    return FlinkPaimon("flink_paimon", 1.0, CHAIN)


def shop_contender(settings: Settings) -> FlinkPaimon:
    """The same over the demo's tables."""
    return FlinkPaimon("flink_paimon", 1.0, SHOP)


def _client(source: Source) -> dict[str, str]:
    return {f"properties.{name}": value for name, value in source.broker.jvm_client().items()}


def _options(options: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
