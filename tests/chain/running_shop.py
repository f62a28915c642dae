"""A whole stack over a small shop, and what chain tests ask of it."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chain_support import eventually
from deltalake import DeltaTable

from headrace.demo.load import LoadGenerator
from headrace.demo.shop import TABLES, create_shop, row_counts
from headrace.demo.waiting import not_caught_up
from headrace.gateway.client import GatewayClient
from headrace.results import ParityResult, TableStatus
from headrace.services.programs.program import Program
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.spec import Project, load_project
from headrace.store.delta.retained import Retained
from headrace.store.record.commits import history
from headrace.store.schema import KIND, ORIGIN, TOMBSTONE, VERSION

ROOT = Path(__file__).resolve().parents[2]
RATE = 20.0

Row = dict[str, Any]


@dataclass
class Shop:
    """A running stack over a small shop."""

    stack: Stack
    client: GatewayClient
    project: Project

    @property
    def settings(self) -> Settings:
        return self.stack.settings

    @property
    def dsn(self) -> str:
        return self.settings.postgres_dsn()

    @property
    def pid(self) -> int | None:
        return self.stack.supervisor.process("warehouse").pid

    def load(self, seed: int, rate: float = RATE) -> LoadGenerator:
        return LoadGenerator(self.dsn, seed=seed, rate=rate)

    def serve(self, program: Program) -> None:
        """Replace the warehouse server by one that runs so; returns at once."""
        self.stack.supervisor.configure(program)
        self.stack.supervisor.launch("warehouse")

    def status(self) -> dict[str, TableStatus]:
        return {status.table: status for status in self.client.status()}

    def wait_running(self) -> None:
        states = eventually(
            "every table runs",
            lambda: (s := self.status()) and {t.state for t in s.values()} == {"RUNNING"} and s,
            timeout=120,
        )
        assert set(states) == {str(name) for name in self.project.tables}

    def wait_caught_up(self) -> None:
        """Every change of the source, which must rest, is in every table."""
        counts = row_counts(self.dsn)
        rows = {f"stg.{table}": counts[table] for table in TABLES}

        def caught_up() -> bool:
            outstanding = not_caught_up(self.client.status(), rows)
            assert outstanding is None, outstanding
            return True

        eventually("caught up", caught_up, timeout=120)

    def wait_advanced(self, *tables: str, by: int = 1) -> None:
        before = self.status()
        eventually(
            f"{', '.join(tables)} advance",
            lambda: (now := self.status()) and all(now[t].version >= before[t].version + by for t in tables),
        )

    def verify(self, *tables: str) -> None:
        """Streams equal batch, and stg equals its source."""
        names = tables or tuple(str(name) for name in self.project.tables)
        statement = self.client.run(f"VERIFY {', '.join(tables)}".strip())
        results = [ParityResult.model_validate(result) for result in statement.result]
        wrong = [r.model_dump(exclude={"frontier"}) for r in results if not r.equal or r.error]
        assert not wrong
        compared = {(name, "batch") for name in names}
        compared |= {(name, "source") for name in names if name.startswith("stg.")}
        assert {(r.table, r.against) for r in results} == compared

    def path(self, table: str, part: str) -> Path:
        layer, _, name = table.partition(".")
        return self.settings.warehouse / layer / name / part

    def check_changelogs(self) -> None:
        for name in self.project.tables:
            check_changelog(self.path(str(name), "changelog"), self.primary_key(str(name)))

    def primary_key(self, table: str) -> list[str]:
        key: list[str] = self.client.run(f"DESCRIBE MATERIALIZED TABLE {table}").result["primary_key"]
        return key


def check_changelog(path: Path, key: list[str]) -> None:
    """Replayed one by one, every change fits the row it meets: none is lost and none is there twice."""
    log = DeltaTable(str(path))
    changes: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in log.to_pyarrow_table().to_pylist():
        if row[ORIGIN] != TOMBSTONE:
            changes[tuple(row[column] for column in key)].append(row)
    held = begun_with(path.parent, key)
    for of_key, rows in changes.items():
        rows.sort(key=lambda row: (row[VERSION], row[KIND].startswith("+")))
        repeated = [at for at, n in Counter((r[VERSION], r[KIND]) for r in rows).items() if n > 1]
        assert not repeated, f"{path}: {of_key} has {repeated} more than once"
        for row in rows:
            image = {name: value for name, value in row.items() if not name.startswith("_")}
            where = f"{path}: {row[KIND]} of {of_key} in version {row[VERSION]}"
            if row[KIND].startswith("-"):
                was = held.pop(of_key, None)
                assert was == image, f"{where} takes away {image}, there was {was}; all: {rows}"
            else:
                assert of_key not in held, f"{where} adds to a row that is there"
                held[of_key] = image
    read = log.version()  # the stream may have gone on; maintenance takes Delta versions of its own
    commit = next(c for at, c in history(path) if at <= read and c.mode != "maintenance")
    assert commit.version >= max((row[VERSION] for rows in changes.values() for row in rows), default=0)
    assert commit.rows == len(held), path


def begun_with(table: Path, key: list[str]) -> dict[tuple[Any, ...], Row]:
    """Rows before the first change that a changelog has: those of a table that began again."""
    removed = Retained.load(table).removed
    if not removed:
        return {}
    at = next(at for at, c in history(table / "snapshot") if c.version == removed)
    rows = DeltaTable(str(table / "snapshot"), version=at).to_pyarrow_table().to_pylist()
    images = [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]
    return {tuple(image[column] for column in key): image for image in images}


def copy_project(project: Path) -> None:
    """The layers and connectors of this repository in an empty folder.

    Tables that trail their flow by a minute trail it by less: a trailing table is refreshed four times within
    its freshness, and whoever waits until all changes are everywhere waits for that. They trail still, since
    the tightest declares 10 s.
    """
    shutil.copytree(ROOT / "layers", project / "layers")
    shutil.copytree(ROOT / "deploy" / "connectors", project / "deploy" / "connectors")
    minute = "FRESHNESS = INTERVAL '1' MINUTE"
    for file in (project / "layers").glob("*/*.sql"):
        file.write_text(file.read_text().replace(minute, "FRESHNESS = INTERVAL '24' SECOND"))


@contextmanager
def start_shop(project: Path) -> Iterator[Shop]:
    """The layers of this repository over a shop of 2,000 orders, in an empty folder; stopped at the end."""
    copy_project(project)
    with scratch_settings(project, compaction_interval_seconds=5.0, driver_memory="1g") as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["postgres"])
            create_shop(settings.postgres_dsn(), seed=11, orders=2_000, users=60, products=25, words=400)
            stack.up(only=["connect", "warehouse"])
            stack.register_connectors()
            with GatewayClient(settings) as client:
                yield Shop(stack, client, load_project(project))
        finally:
            stack.down()
