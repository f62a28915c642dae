"""The suites by name, and what every one of them is told."""

from __future__ import annotations

import importlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from benchmarks.report import Report, Result
from headrace.errors import UnknownName, did_you_mean
from headrace.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUITES = {
    name: f"benchmarks.suites.{name}"
    for name in (
        "snapshot",
        "freshness",
        "chain",
        "throughput",
        "incremental",
        "backfill",
        "compaction",
        "overhead",
        "rows",
        "scale",
        "tables",
        "tpch",
    )
}
"""A suite is a module with a function `run` as `Suite` says."""


FIGURES = Path(__file__).parents[1] / "docs" / "figures"
"""Each suite's last run: `SUITE.json`, `SUITE_quick.json` of its short form."""


@dataclass(frozen=True)
class Options:
    """What may be set of a run.

    Args:
        scale: TPC-H's scale factor; 1 is about 1 GB.
        rounds: rounds of changes.
        rows: rows of the large table; None for the suite's own number.
        tables: how many of them there are, of the suite of that name; None for its own numbers.
        peers: what else runs the same workload, where a suite compares.
        cache: folder for what later runs can use again, such as generated data.
        quick: a few minutes in place of the whole, where a suite can.
    """

    seed: int
    scale: float
    rounds: int
    rows: int | None
    cache: Path
    tables: int | None = None
    peers: tuple[str, ...] = ()
    quick: bool = False


@dataclass
class Bench:
    """What a suite works with.

    Args:
        directory: empty; removed afterwards.
        tell: shows progress.
    """

    settings: Settings
    directory: Path
    options: Options
    tell: Callable[[str], None]
    started: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        """A Spark application of the suite's own, started when it is first asked for."""
        from headrace.engine.spark.session import build_session

        if self.started is None:
            self.tell("starting Spark")
            self.started = build_session(self.settings)
            self.started.sparkContext.setLogLevel("ERROR")
        return self.started


class Suite(Protocol):
    def run(self, bench: Bench) -> list[Result]:
        """Measure."""


def find(name: str) -> Suite:
    """The suite of that name. Raises UnknownName; imports Spark's Python side."""
    if name not in SUITES:
        raise UnknownName(f"there is no suite `{name}`; {did_you_mean(name, SUITES)}")
    return cast("Suite", importlib.import_module(SUITES[name]))


def project_files(suite: str) -> Path:
    """The layer files that a suite runs."""
    return Path(__file__).parent / "projects" / suite


def last_run(name: str, options: Options) -> list[Result]:
    """What the repository keeps of the last run of the same suite and size; nothing where it has none."""
    part = "_quick" if options.quick else ""
    file = FIGURES / f"{name}{part}.json"
    if not file.is_file():
        return []
    content = json.loads(file.read_text("utf-8"))
    return [Result(**r) for r in content["results"]] if content.get("rows") == options.rows else []


def run(name: str, settings: Settings, options: Options, tell: Callable[[str], None]) -> Report:
    """Run one suite in a directory of its own."""
    suite = find(name)
    with _scratch(settings) as directory:
        bench = Bench(settings, directory, options, tell)
        try:
            return Report(name, options.seed, suite.run(bench), options.rows, options.quick)
        finally:
            if bench.started is not None:
                bench.started.stop()


@contextmanager
def _scratch(settings: Settings) -> Iterator[Path]:
    parent = settings.state / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
