"""Retention removes what is old and what nobody needs, and says so where somebody asks for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from stored_support import SEQUENCED, append, made
from stored_support import no_jvm as no_jvm

from headrace.catalog import Catalog
from headrace.catalog.schema import reader as readers_table
from headrace.engine.compaction.retention import Limits, Reader, abandoned, horizon, retain
from headrace.errors import NeedsResync
from headrace.spec.model import TableName
from headrace.store.delta.retained import Retained
from headrace.store.record.commits import Commit, records
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")

HOUR = 3600.0
LIMITS = Limits(changelog=10, vacuum=1, reader=20)


class Tables:
    """A registry of one stored table and of tables that read it at given frontiers."""

    def __init__(self, store: StoredTable, catalog: Catalog, **frontiers: int) -> None:
        self.table: Any = SimpleNamespace(name=store.name, store=store)
        self.readers = {name: self._reader(name, at) for name, at in frontiers.items()}
        self.states: dict[str, tuple[str, datetime]] = {}
        self.catalog: Any = SimpleNamespace(readers=catalog.readers, row=self._row)
        self.renewed = 0

    def _reader(self, name: str, frontier: int) -> Any:
        commit = Commit(f"dws.{name}", "stream", 1, upstreams={"dwd.t": frontier})
        return SimpleNamespace(name=TableName("dws", name), store=SimpleNamespace(version=1, commit=commit))

    def _row(self, name: TableName) -> Any:
        state, since = self.states.get(name.table, ("RUNNING", datetime.now(UTC)))
        return SimpleNamespace(state=state, updated_at=since)

    def upstreams(self, table: Any) -> set[TableName]:
        return {self.table.name} if table is not self.table else set()

    def __iter__(self) -> Iterator[Any]:
        return iter([self.table, *self.readers.values()])

    def retain(self, now: float, limits: Limits = LIMITS) -> list[str]:
        def renew(_table: Any) -> None:
            self.renewed += 1

        registry: Any = self
        return retain(self.table, registry, self.catalog, limits, now=now, renew=renew)


def compact(store: StoredTable) -> None:
    commit = Commit("dwd.t", "compaction", store.version, through=store.version)
    store.snapshot.overwrite_local(store.head().read(), commit, partitions=None)
    store.adopt(store.snapshot.newest())


@pytest.fixture
def store(tmp_path: Path, no_jvm: None) -> StoredTable:
    """Six versions, each compacted."""
    table = made(tmp_path / "w")
    for version in range(1, 7):
        append(table, ("+I", version, "1.00"))
        compact(table)
    return table


def versions(store: StoredTable) -> list[int]:
    removed = store.changelog.removed
    store.changelog.reopen()
    return sorted(set(store.changelog.read(removed, store.version).column("_version").to_pylist()))


def test_changes_go_when_they_are_old(store: StoredTable, catalog: Catalog) -> None:
    tables, now = Tables(store, catalog), time.time()
    assert tables.retain(now) == [] and versions(store) == [1, 2, 3, 4, 5, 6]
    append(store, ("+I", 7, "1.00"))
    assert tables.retain(now + 9 * HOUR) == [] and store.changelog.removed == 0
    tables.retain(now + 11 * HOUR)
    assert store.changelog.removed == 6 and versions(store) == [7] and tables.renewed > 0
    with pytest.raises(NeedsResync, match="after version 5 are gone, retention kept those after version 6"):
        store.changelog.read(5, 7)
    again = made(store.root.parents[1])
    assert again.changelog.removed == 6 and again.version == 7
    assert sorted(again.head().read().column("id").to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    append(again, ("-D", 7, "1.00"))
    assert again.commit.rows == 6


def test_a_reader_holds_back_what_it_has_not_seen(store: StoredTable, catalog: Catalog) -> None:
    tables, now = Tables(store, catalog, near=5, far=3), time.time()
    tables.retain(now)
    tables.retain(now + 11 * HOUR)
    assert store.changelog.removed == 3 and versions(store) == [4, 5, 6]
    pin = store.snapshot.pin_for(3)
    assert pin.compacted == 3
    store.open_index(pin).read()  # its files are still there
    catalog.readers.done("dwd.t", "audit", 4)
    tables.readers.pop("far")
    tables.retain(now + 12 * HOUR)
    assert store.changelog.removed == 4
    catalog.readers.drop("dwd.t", "audit")
    tables.retain(now + 13 * HOUR)
    assert store.changelog.removed == 5


def test_a_snapshot_that_a_frontier_needs_stays_whole(store: StoredTable, catalog: Catalog) -> None:
    tables, now = Tables(store, catalog, far=2), time.time()
    old = {v: store.snapshot.pin_for(v) for v in (1, 2, 5)}
    for hours in (0, 11):
        tables.retain(now + hours * HOUR, Limits(changelog=10, vacuum=0, reader=20))
    needed = store.snapshot.pin_for(2)
    assert needed.compacted == 2
    assert store.open_index(needed).read().column("id").to_pylist() == [1, 2]
    with pytest.raises(NeedsResync, match="no snapshot"):
        store.snapshot.pin_for(1)
    with pytest.raises(FileNotFoundError):
        store.open_index(old[1]).read()
    assert store.snapshot.pin_for(5).compacted == 2, (
        "where the newer one is gone, the older is folded forward"
    )
    store.changelog.reopen()
    assert store.changelog.read(2, 5).num_rows == 3


def test_an_uncompacted_tail_stays(store: StoredTable, catalog: Catalog) -> None:
    tables, now = Tables(store, catalog), time.time()
    append(store, ("+I", 7, "1.00"))
    append(store, ("+I", 8, "1.00"))
    for hours in (0, 100):
        tables.retain(now + hours * HOUR)
    assert store.changelog.removed == 6 and versions(store) == [7, 8]
    assert made(store.root.parents[1]).head().read().num_rows == 8


def test_an_abandoned_table_is_said_and_left_behind(store: StoredTable, catalog: Catalog) -> None:
    tables, now = Tables(store, catalog, far=2), time.time()
    tables.states["far"] = ("SUSPENDED", datetime.now(UTC) - timedelta(hours=1))
    assert tables.retain(now) == []
    assert tables.retain(now + 15 * HOUR) == [] and store.changelog.removed == 2
    (said,) = tables.retain(now + 21 * HOUR)
    assert "`dws.far` is abandoned at version 2" in said and "headrace refresh dws.far --all" in said
    assert store.changelog.removed == 6


def test_an_abandoned_subscriber_expires_and_may_come_back(
    store: StoredTable, catalog: Catalog, tmp_path: Path
) -> None:
    database = tmp_path / "state" / "catalog.db"
    tables, now = Tables(store, catalog), time.time()
    catalog.readers.done("dwd.t", "audit", 2)
    tables.retain(now)
    assert tables.retain(now + 15 * HOUR) == [] and store.changelog.removed == 2
    with sa.create_engine(f"sqlite:///{database}").begin() as connection:  # it has not been seen for a day
        past = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)
        connection.execute(sa.update(readers_table).values(progressed_at=past))
    (said,) = tables.retain(now + 21 * HOUR)
    assert "reader `audit` is abandoned at version 2" in said and "--drop audit" in said
    assert store.changelog.removed == 6 and catalog.readers.all()[0].expired
    catalog.readers.done("dwd.t", "audit", 6)
    assert not catalog.readers.all()[0].expired and tables.retain(now + 22 * HOUR) == []


def test_deletes_still_block_resurrection(tmp_path: Path, catalog: Catalog) -> None:
    table = made(tmp_path / "w", SEQUENCED)
    append(table, ("+I", 1, "1.00"), ("+I", 2, "1.00"), seq="00001")
    append(table, ("-D", 1, "1.00"), seq="00002")
    append(table, ("+I", 3, "1.00"), seq="00003")
    append(table, ("-D", 2, "1.00"), seq="00004")
    compact(table)
    expected = {(1,): "00002", (2,): "00004"}
    assert table.deletes.find({(1,), (2,), (3,)}) == expected
    tables, now = Tables(table, catalog), time.time()
    for hours in (0, 11, 22):
        tables.retain(now + hours * HOUR)
    assert table.changelog.removed == 4 and versions(table) == []
    append(table, ("-D", 3, "1.00"), seq="00005")
    expected[(3,)] = "00005"
    assert table.deletes.find({(1,), (2,), (3,), (4,)}) == expected
    again = made(tmp_path / "w", SEQUENCED)
    assert again.deletes.find({(1,), (2,), (3,), (4,)}) == expected


def test_deletes_beyond_memory_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.store.live.deletes.MEMORY_KEYS", 1)
    table = made(tmp_path, SEQUENCED)
    append(table, *[("+I", i, "1.00") for i in range(4)], seq="00000")
    append(table, *[("-D", i, "1.00") for i in range(4)], seq="00001")
    table.deletes.keep(0, 2)
    append(table, ("+I", 2, "1.00"), seq="00001")
    append(table, ("-D", 2, "1.00"), seq="00002")
    assert table.deletes.find({(1,), (2,), (9,)}) == {(1,): "00001", (2,): "00002"}


def test_records_are_found_by_the_changelogs_own_version(store: StoredTable) -> None:
    store.changelog.merge(1)
    append(store, ("+I", 7, "1.00"))
    found = records(store.changelog.path, 4, 7)
    assert [c and (c.version, c.mode) for c in found] == [(5, "stream"), (6, "stream"), (7, "stream")]


def test_ages_are_known_from_marks() -> None:
    kept = Retained()
    for hour, version in enumerate([1, 1, 5, 9]):
        kept = kept.marked(version, hour * HOUR, oldest=0.5 * HOUR)
    assert kept.marks == ((1, 0.0), (5, 2 * HOUR), (9, 3 * HOUR))
    assert [kept.aged(h * HOUR) for h in (-1, 0, 1.9, 2, 9)] == [0, 1, 1, 5, 9]
    assert kept.marked(9, 4 * HOUR, oldest=2.5 * HOUR).marks == ((5, 2 * HOUR), (9, 3 * HOUR))


def test_who_is_abandoned() -> None:
    running = Reader("t", 3, True, float("inf"))
    assert not abandoned(running, 9, 100.0)
    assert abandoned(Reader("r", 3, False, 50.0), 9, 100.0)
    assert not abandoned(Reader("r", 9, False, 50.0), 9, 100.0), "it has everything that old"
    assert not abandoned(Reader("r", 3, False, 150.0), 9, 100.0)
    assert horizon([running], compacted=7, aged=9) == 3
    assert horizon([], compacted=7, aged=9) == 7
