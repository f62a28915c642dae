"""Which versions of a table are on record: by its log while that lasts, then one a minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from stored_support import append, made
from stored_support import no_jvm as no_jvm

from headrace.engine.compaction.maintenance import optimize
from headrace.store.delta import logs
from headrace.store.record import versions
from headrace.store.record.commits import read_commit
from headrace.store.record.frontier import earliest_offsets
from headrace.store.record.versions import forget, note, recorded
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


@pytest.fixture
def store(tmp_path: Path) -> StoredTable:
    return made(tmp_path)


def on_record(store: StoredTable) -> list[int]:
    return [entry.commit.version for entry in recorded(store.root)]


def lose_log(store: StoredTable) -> None:
    """As maintenance does it after an hour."""
    from deltalake import DeltaTable

    DeltaTable(str(store.changelog.path)).create_checkpoint()
    logs.clean(store.changelog.path, needed=logs.last_checkpoint(store.changelog.path), seconds=-1)


def notes(store: StoredTable) -> list[Path]:
    assert isinstance(store.root, Path)
    return sorted(store.root.glob("versions*"))


def move_back(store: StoredTable, by: timedelta) -> None:
    """Let the one note be older."""
    [file] = notes(store)
    at = recorded(store.root)[0].at
    text = file.read_text().replace(at.isoformat(), (at - by).isoformat())
    file.unlink()
    (file.parent / f"versions-{at - by:%Y%m%dT%H}.jsonl").write_text(text)


def test_the_log_tells_of_every_version_and_when_it_was_committed(store: StoredTable) -> None:
    assert on_record(store) == []
    begun = datetime.now(UTC) - timedelta(milliseconds=1)
    for number in range(3):
        append(store, ("+I", number, "1"))
    assert on_record(store) == [1, 2, 3]
    times = [entry.at for entry in recorded(store.root)]
    assert begun <= times[0] <= times[1] <= times[2] <= datetime.now(UTC)
    assert recorded(store.root)[1].commit == read_commit(store.changelog.path, 2)


def test_notes_outlast_the_log(store: StoredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "NOTE_SECONDS", 0.0)
    for number in range(4):
        append(store, ("+I", number, "1"))
        if number != 1:
            optimize(cast("Any", _Named(store)), bound=100)
    before = {entry.commit.version: entry for entry in recorded(store.root)}
    store.changelog.merge(0)  # its commit repeats the newest record, later
    lose_log(store)
    after = {entry.commit.version: entry for entry in recorded(store.root)}
    assert set(after) == {1, 3, 4}
    assert {v: entry.at for v, entry in after.items()} == {v: before[v].at for v in after}
    assert after[3].commit == replace(before[3].commit, kinds=None, partitions=None, totals={})


class _Named:
    def __init__(self, store: StoredTable) -> None:
        self.store, self.name = store, store.name


def test_one_version_a_minute_is_noted(store: StoredTable) -> None:
    assert not note(store.root, store.commit)
    append(store, ("+I", 1, "1"))
    assert note(store.root, store.commit)
    assert not note(store.root, store.commit)
    append(store, ("+I", 2, "1"))
    assert not note(store.root, store.commit)
    move_back(store, timedelta(seconds=61))
    assert note(store.root, store.commit)


def test_a_note_that_was_cut_short_is_none(store: StoredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "NOTE_SECONDS", 0.0)
    for number in range(3):
        append(store, ("+I", number, "1"))
        note(store.root, store.commit)
    [path] = notes(store)
    path.write_text(path.read_text()[:-20])
    lose_log(store)
    assert on_record(store)[:2] == [1, 2]


def test_retention_forgets_what_cannot_be_gone_back_to(
    store: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "NOTE_SECONDS", 0.0)
    for number in range(4):
        append(store, ("+I", number, "1"))
        note(store.root, store.commit)
    lose_log(store)
    forget(store.root, 3)
    assert on_record(store) == [3, 4]
    assert len(notes(store)) == 1


def test_notes_of_another_hour_lie_in_another_file_and_go_with_it(
    store: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "NOTE_SECONDS", 0.0)
    append(store, ("+I", 1, "1"))
    note(store.root, store.commit)
    move_back(store, timedelta(hours=1))
    append(store, ("+I", 2, "1"))
    note(store.root, store.commit)
    lose_log(store)
    assert on_record(store) == [1, 2] and len(notes(store)) == 2
    forget(store.root, 2)
    assert on_record(store) == [2] and len(notes(store)) == 1


def test_notes_of_an_older_headrace_count(store: StoredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "NOTE_SECONDS", 0.0)
    for number in range(2):
        append(store, ("+I", number, "1"))
        note(store.root, store.commit)
        if not number:
            notes(store)[0].rename(store.root / versions.FILE)
    lose_log(store)
    assert on_record(store) == [1, 2]
    assert not note(store.root, store.commit)


def test_a_rewind_is_in_every_later_record(store: StoredTable) -> None:
    append(store, ("+I", 1, "1"))
    append(store, ("+I", 2, "1"))
    head = store.commit
    rewound = replace(head, mode="rewind", version=3, rewinds=((3, 1),))
    store.append(_deleted(store, 2), rewound, origin="rewind")
    append(store, ("+I", 3, "1"))
    assert store.commit.rewinds == ((3, 1),)
    store.open()
    assert (store.commit.rewinds, store.changelog.rewinds) == (((3, 1),), ((3, 1),))
    assert store.changelog.read(0, 4, live=True).column("id").to_pylist() == [1, 3]
    assert store.changelog.read(0, 4).column("id").to_pylist() == [1, 2, 2, 3]


def _deleted(store: StoredTable, key: int) -> Any:
    from stored_support import changes

    return changes(store, ("-D", key, "1"))


def test_the_earlier_offset_of_a_topic_that_two_tables_read() -> None:
    assert earliest_offsets({"a": {0: 7}}, {"b": {0: 3}}) == {"a": {0: 7}, "b": {0: 3}}
    assert earliest_offsets({"a": {0: 7, 1: 2}}, {"a": {0: 3, 1: 5}}) == {"a": {0: 3, 1: 2}}
    assert earliest_offsets({"a": {0: 7}}, {"a": {}}) == {"a": {}}
    assert earliest_offsets({"a": {}}, {"a": {0: 7}}) == {"a": {}}
