"""headrace itself as a contender: its warehouse server over the layers of a project."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.live.contender import DWD, DWS, STG, Commit, Source, Tell
from headrace.gateway.client import GatewayClient
from headrace.services.stack import Stack
from headrace.store.record.commits import log_versions, read_commit
from headrace.store.schema import INSERT, KIND, UPDATE_AFTER

if TYPE_CHECKING:
    from headrace.settings import Settings

NAMES = {STG: "stg.orders", DWD: "dwd.orders", DWS: "dws.user_hour"}


class Headrace:
    """Its commits are those of the changelogs: a live read shows a change from then on."""

    name = "headrace"
    settle = 25.0

    def __init__(self, settings: Settings) -> None:
        self._stack = Stack(settings)
        self._commits: dict[str, dict[int, Commit | None]] = {}

    def install(self, home: Path, tell: Tell) -> None:
        """Nothing: it is what runs the suite."""

    def start(self, source: Source, directory: Path) -> None:
        self._stack.up(only=["warehouse"])

    def commits(self, table: str) -> Sequence[Commit]:
        path = self._changelog(table)
        known = self._commits.setdefault(table, {})
        for version in log_versions(path):
            if version not in known:
                known[version] = _commit(path, version)
        return [commit for _, commit in sorted(known.items()) if commit is not None]

    def rows(self, table: str) -> pa.Table:
        with GatewayClient(self._stack.settings) as client:
            return client.query(f"SELECT * FROM {_name(table)}")

    def oldest(self, table: str, partitions: int) -> tuple[str, str]:
        """The first and the last label of the first partitions that the table has."""
        with GatewayClient(self._stack.settings) as client:
            labels = client.query(
                f"SELECT DISTINCT logdate FROM {_name(table)} ORDER BY 1 LIMIT {partitions}"
            )
        start, *_, end = labels.column("logdate").to_pylist()
        return start, end

    def backfill(self, table: str, start: str, end: str) -> None:
        """Recompute the partitions between two labels by the table's own SQL."""
        with GatewayClient(self._stack.settings) as client:
            client.run(
                f"ALTER MATERIALIZED TABLE {_name(table)} "
                f"REFRESH PARTITION (logdate BETWEEN '{start}' AND '{end}')"
            )

    def roots(self) -> Sequence[int]:
        pid = self._stack.supervisor.process("warehouse").pid
        return [pid] if pid is not None else []

    def check(self) -> None:
        """Nothing: the supervisor starts the server again."""

    def stop(self) -> None:
        self._stack.supervisor.stop("warehouse")

    def _changelog(self, table: str) -> Path:
        layer, _, name = _name(table).partition(".")
        return self._stack.settings.data / "warehouse" / layer / name / "changelog"


def _name(table: str) -> str:
    """The shop's tables bear the same name in the comparison and in headrace."""
    return NAMES.get(table, table)


def _commit(path: Path, version: int) -> Commit | None:
    """None where that version changes no row."""
    record = read_commit(path, version)
    if record is None or record.mode not in ("stream", "backfill") or not record.kinds:
        return None
    at = (path / "_delta_log" / f"{version:020d}.json").stat().st_mtime
    return Commit(at, sum(record.kinds.values()), partial(_images, path, version))


def _images(path: Path, version: int) -> pa.Table:
    """The rows after the change in the files that one version of a changelog added."""
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8").splitlines()
    added = [entry["add"]["path"] for line in lines if "add" in (entry := json.loads(line))]
    rows = pa.concat_tables([pq.read_table(path / unquote(name)) for name in added])
    return rows.filter(pc.is_in(rows.column(KIND), pa.array([INSERT, UPDATE_AFTER])))
