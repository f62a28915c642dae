"""Many small commits: the changelog's files are merged and its log kept short, and no reader notices."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from stored_support import SEQUENCED, append, changes, made
from stored_support import no_jvm as no_jvm

from headrace.errors import TransientError
from headrace.store.delta import files, logs
from headrace.store.delta.files import LoggedFile, logged_files, mergeable
from headrace.store.live.lookup import SnapshotIndex
from headrace.store.record.commits import Commit, latest
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


def stored(table: StoredTable) -> list[LoggedFile]:
    return logged_files(DeltaTable(str(table.changelog.path)))


def test_merging_keeps_every_change_and_its_version(tmp_path: Path) -> None:
    table = made(tmp_path)
    for i in range(1, 41):
        append(table, ("+I", i, f"{i}.00"))
    before = table.changelog.read(0, 40)
    assert table.changelog.merge(50) == 0
    assert table.changelog.merge(20) == 40
    table.open()  # else it has them in memory
    assert [(f.rows, f.low, f.high) for f in stored(table)] == [(40, 1, 40)]
    assert table.changelog.read(0, 40).equals(before)
    assert table.changelog.read(10, 12).column("id").to_pylist() == [11, 12]
    assert [table.changelog.count(*r) for r in ((0, 40), (10, 12), (40, 40))] == [40, 2, 0]
    entry = (table.changelog.path / "_delta_log" / f"{41:020d}.json").read_text()
    assert '"dataChange":true' not in entry


def test_versions_go_on_after_a_merge_and_after_a_restart(tmp_path: Path) -> None:
    table = made(tmp_path)
    for i in range(1, 6):
        append(table, ("+I", i, "1.00"))
    table.changelog.merge(2)
    found = latest(table.changelog.path)
    assert found is not None and (found[1].version, found[1].mode) == (5, "stream")
    append(table, ("-U", 1, "1.00"), ("+U", 1, "2.00"))
    assert table.version == 6
    table.changelog.merge(0)
    again = made(tmp_path)
    assert again.version == 6 and again.commit.rows == 5
    append(again, ("-D", 1, "2.00"))
    assert again.head().read().column("id").to_pylist() == [2, 3, 4, 5]
    assert made(tmp_path).head().read().num_rows == 4


def test_appends_and_merges_at_the_same_time(tmp_path: Path) -> None:
    table = made(tmp_path)
    stop = threading.Event()
    merged = []

    def keep_merging() -> None:
        while not stop.is_set():
            merged.append(table.changelog.merge(3))

    thread = threading.Thread(target=keep_merging)
    thread.start()
    try:
        for i in range(1, 61):
            append(table, ("+I", i, "1.00"))
    finally:
        stop.set()
        thread.join()
    assert sum(merged) > 0
    table.open()
    assert table.changelog.read(0, 60).column("_version").to_pylist() == list(range(1, 61))
    assert made(tmp_path).head().read().num_rows == 60


def test_a_foreign_commit_stops_the_table(tmp_path: Path) -> None:
    table = made(tmp_path)
    append(table, ("+I", 1, "1.00"))
    rows = table.changelog.logged(changes(table, ("+I", 9, "1.00")), Commit("x", "stream", 2), "stream")
    write_deltalake(str(table.changelog.path), rows, mode="append")
    with pytest.raises(TransientError, match="somebody else wrote version 2"):
        append(table, ("+I", 2, "1.00"))


def file(low: int, size: int) -> LoggedFile:
    return LoggedFile(f"f{low}", size, 1, low, low)


def test_only_neighbours_are_merged_and_large_old_files_wait() -> None:
    mib = 1 << 20
    assert mergeable([file(v, 10) for v in range(5)], bound=5) == []
    large = [file(1, 40 * mib), file(2, 9 * mib), *(file(v, 1000) for v in range(3, 9)), file(9, 33 * mib)]
    groups = mergeable([*large, file(10, 10), file(11, 10)], bound=3)
    assert [[f.low for f in g] for g in groups] == [[11, 10], [8, 7, 6, 5, 4, 3]]
    # where no tier has two files, size alone decides
    tiers = [file(1, 25 * mib), file(2, 5 * mib), file(3, mib // 2)]
    assert [[f.low for f in g] for g in mergeable(tiers, bound=2)] == [[3, 2, 1]]
    assert sum(f.size for g in mergeable([file(v, 7 * mib) for v in range(9)], bound=2) for f in g) > 0
    for group in mergeable([file(v, 7 * mib) for v in range(9)], bound=2):
        assert sum(f.size for f in group) <= files.SMALL_BYTES


def test_a_log_of_many_commits_is_cut_at_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHECKPOINT_AFTER", 10)
    table = made(tmp_path, SEQUENCED)
    path = table.changelog.path
    for i in range(1, 26):
        append(table, ("+I", i, "1.00"), seq=f"{i:05}")
    logs.checkpoint(path)
    assert logs.last_checkpoint(path) == 25
    logs.checkpoint(path)
    append(table, ("+I", 26, "1.00"), seq="00026")
    assert logs.clean(path, needed=24, seconds=0) == 0, "no checkpoint at or before 24"
    assert logs.clean(path, needed=26, seconds=3600) == 0, "too new"
    assert logs.clean(path, needed=26, seconds=0) >= 25
    again = made(tmp_path, SEQUENCED)
    assert again.version == 26 and again.head().read().num_rows == 26


def test_the_newest_record_is_found_where_only_maintenance_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHECKPOINT_AFTER", 1)
    table = made(tmp_path)
    for i in range(1, 6):
        append(table, ("+I", i, "1.00"))
    table.changelog.merge(2)
    logs.checkpoint(table.changelog.path)
    logs.clean(table.changelog.path, needed=6, seconds=0)
    assert [p.name for p in (table.changelog.path / "_delta_log").glob("*.json")] == [f"{6:020d}.json"]
    again = made(tmp_path)
    assert again.version == 5 and again.commit.rows == 5
    append(table, ("+I", 6, "1.00"))  # whose own view of the log ends where it was cut off
    assert made(tmp_path).version == 6


def test_look_ups_open_the_files_that_can_hold_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.snapshot.TARGET_BYTES", 20_000)
    monkeypatch.setattr("headrace.store.live.resident.RESIDENT.budget", 0)
    table = made(tmp_path)
    ids = [(i * 7919) % 20_000 for i in range(20_000)]  # in no order
    rows = changes(table, *[("+I", i, f"{i}.00") for i in ids]).drop_columns(["_kind"])
    table.snapshot.overwrite_local(rows, Commit("dwd.t", "compaction", 0), partitions=None)
    table.adopt(table.snapshot.newest())
    index = table.head().index
    total = len(index.fragments((), {()}))
    assert total >= 5
    assert len(index.fragments(("id",), {(7,)})) == 1
    assert len(index.fragments(("id",), {(7,), (19_999,)})) == 2
    assert index.find(("id",), {(7,), (19_999,), (20_001,)}).column("id").to_pylist() == [7, 19_999]


def test_partitions_that_a_compaction_left_alone_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    both = pa.concat_tables(
        [changes(table, ("+I", i, "1.00"), hour=f"h{i % 2}").drop_columns(["_kind"]) for i in range(10)]
    )
    table.snapshot.overwrite_local(both, Commit("dwd.t", "compaction", 0), partitions=None)
    table.adopt(table.snapshot.newest())
    new = changes(table, ("+I", 100, "1.00"), hour="h1").drop_columns(["_kind"])
    table.snapshot.overwrite_local(new, Commit("dwd.t", "compaction", 0), partitions=["h1"])
    loaded: list[int] = []
    load = SnapshotIndex.load
    monkeypatch.setattr(SnapshotIndex, "load", lambda self, f: loaded.append(len(f)) or load(self, f))
    table.adopt(table.snapshot.newest())
    assert loaded == [1]
    expected = sorted([*range(0, 10, 2), 100])
    assert sorted(table.head().read().column("id").to_pylist()) == expected
    table.snapshot.overwrite_local(new, Commit("dwd.t", "compaction", 0), partitions=["h1"])
    table.adopt(table.snapshot.newest(), rows=new, partitions=["h1"])
    assert loaded == [1] and sorted(table.head().read().column("id").to_pylist()) == expected
    # rows of the wrong partitions are not believed
    table.snapshot.overwrite_local(new, Commit("dwd.t", "compaction", 0), partitions=["h1"])
    table.adopt(table.snapshot.newest(), rows=new.slice(0, 0), partitions=["h9"])
    assert sorted(table.head().read().column("id").to_pylist()) == expected


def test_small_snapshot_files_are_merged_without_a_change(tmp_path: Path) -> None:
    table = made(tmp_path)
    for i in range(6):
        rows = changes(table, ("+I", i, "1.00"), hour="h1" if i < 5 else "h2").drop_columns(["_kind"])
        write_deltalake(str(table.snapshot.path), rows, mode="append", partition_by=["hour"])
    assert table.snapshot.merge(5) == 0
    before = table.snapshot.newest()
    assert table.snapshot.merge(4) == 5
    pin = table.snapshot.newest()
    assert pin.delta > before.delta and (pin.compacted, pin.through) == (before.compacted, before.through)
    table.adopt(pin)
    assert sorted(table.head().read().column("id").to_pylist()) == [0, 1, 2, 3, 4, 5]
    assert len(table.head().index.fragments((), {()})) == 2
