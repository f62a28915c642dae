"""The suites by name, and what every one of them is told."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from headrace.bench.report import Report, Result
from headrace.errors import TerminalError, UnknownName, did_you_mean
from headrace.settings import Settings, checkout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUITES = {"incremental": "headrace.bench.incremental", "tpch": "headrace.bench.tpch"}
"""A suite is a module with a function `run` as `Suite` says."""


@dataclass(frozen=True)
class Options:
    """What may be set of a run.

    Args:
        scale: TPC-H's scale factor; 1 is about 1 GB.
        rounds: rounds of changes.
        rows: rows of the large table of `incremental`.
        cache: folder for what later runs can use again, such as generated data.
    """

    seed: int
    scale: float
    rounds: int
    rows: int
    cache: Path


class Suite(Protocol):
    def run(
        self, spark: SparkSession, directory: Path, options: Options, tell: Callable[[str], None]
    ) -> list[Result]:
        """Run in an empty `directory`, which is removed afterwards; `tell` shows progress."""


def find(name: str) -> Suite:
    """The suite of that name. Raises UnknownName; imports Spark's Python side."""
    if name not in SUITES:
        raise UnknownName(f"there is no suite `{name}`; {did_you_mean(name, SUITES)}")
    return cast("Suite", importlib.import_module(SUITES[name]))


def project_files(suite: str) -> Path:
    """The layer files of a suite. Raises TerminalError where headrace runs from a wheel without them."""
    root = checkout()
    if root is None or not (root / "benchmarks" / suite).is_dir():
        raise TerminalError(f"benchmarks/{suite} is part of headrace's repository: run the suite from there")
    return root / "benchmarks" / suite


def run(name: str, settings: Settings, options: Options, tell: Callable[[str], None]) -> Report:
    """Run one suite in a Spark application of its own."""
    from headrace.engine.session import build_session

    suite = find(name)
    tell("starting Spark")
    spark = build_session(settings, connect=False)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with _scratch(settings) as directory:
            return Report(name, options.seed, suite.run(spark, directory, options, tell))
    finally:
        spark.stop()


@contextmanager
def _scratch(settings: Settings) -> Iterator[Path]:
    parent = settings.state / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
