"""The newest records of a changelog are known without its log, and are what the log tells."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from stored_support import append, changes, made
from stored_support import no_jvm as no_jvm

from headrace.errors import TransientError
from headrace.store import tables
from headrace.store.recent import Recent
from headrace.store.record.commits import Commit, records
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


@contextmanager
def no_log(store: StoredTable) -> Iterator[None]:
    """The changelog's log is not there."""
    log = store.changelog.path / "_delta_log"
    log.rename(log.with_name("away"))
    try:
        yield
    finally:
        log.with_name("away").rename(log)


def known(store: StoredTable, after: int, through: int) -> list[int]:
    """The versions of `(after, through]` that are known without the log."""
    with no_log(store):
        return [c.version for c in store.records(after, through) if c is not None]


def next_commit(store: StoredTable, **values: object) -> Commit:
    return replace(store.commit, mode="stream", version=store.version + 1, **values)  # type: ignore[arg-type]


def append_large(store: StoredTable) -> None:
    rows = changes(store, ("+I", 90 + store.version, "1.00"))
    store.append_large(rows, next_commit(store), origin="stream", kinds={"+I": 1})


def test_they_are_what_the_log_tells_whoever_wrote_them(tmp_path: Path) -> None:
    store = made(tmp_path)
    rows = changes(store, ("+I", 1, "1.00"), ("+I", 2, "1.00")).drop_columns(["_kind"])
    first = next_commit(store, offsets={"t": {0: 3}}, loaded=1, loaded_at={"t": {0: 1}})
    store.load(rows, first, replace(first, mode="compaction", through=1), tombstones=None)
    append(store, ("-U", 1, "1.00"), ("+U", 1, "2.00"), hour="h2")
    store.note(next_commit(store, upstreams={"stg.a": 7}, decision={"chosen": "ROW", "seconds": 0.5}))
    append_large(store)
    store.changelog.merge(1)  # maintenance repeats a record
    append(store, ("-D", 2, "1.00"))
    back = replace(next_commit(store), mode="rewind", rewinds=((6, 2),))
    store.append(changes(store, ("+I", 2, "1.00")), back, origin="rewind")
    store.reread()
    append(store, ("+I", 3, "1.00"))
    assert store.version == 7
    for after in range(8):
        for through in range(after, 8):
            told = records(store.changelog.path, after, through)
            assert store.records(after, through) == told
            with no_log(store):
                assert store.records(after, through) == told
    assert [c and c.mode for c in store.records(5, 7)] == ["rewind", "stream"]
    assert store.records(6, 9)[1:] == [None, None]  # nobody has committed them


def test_what_is_opened_again_is_read_from_the_log(tmp_path: Path) -> None:
    store = made(tmp_path)
    append(store, ("+I", 1, "1.00"))
    append(store, ("+I", 2, "1.00"))
    shutil.rmtree(store.root)
    other = made(tmp_path)  # another process makes it anew
    append(other, ("+I", 1, "1.00"), hour="h7")
    append(other, ("+I", 2, "1.00"), hour="h8")
    store.open()
    assert [c and c.partitions for c in store.records(0, 2)] == [("h7",), ("h8",)]
    assert known(store, 0, 2) == []
    append(store, ("+I", 3, "1.00"), hour="h9")
    assert known(store, 2, 3) == [3]
    assert [c and c.partitions for c in store.records(0, 3)] == [("h7",), ("h8",), ("h9",)]


def test_older_ones_are_read_from_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RECENT_COMMITS", 3)
    store = made(tmp_path)
    for number in range(5):
        append(store, ("+I", number, "1.00"))
    assert known(store, 2, 5) == [3, 4, 5]
    assert known(store, 1, 5) == []
    assert [c and c.version for c in store.records(1, 5)] == [2, 3, 4, 5]


def test_a_commit_that_failed_is_none(tmp_path: Path) -> None:
    store = made(tmp_path)
    append(store, ("+I", 1, "1.00"))
    store.close()
    with pytest.raises(TransientError):
        append(store, ("+I", 2, "1.00"))
    assert known(store, 0, 1) == [1]
    assert store.records(0, 2)[1] is None


def test_there_is_no_gap() -> None:
    found: Recent[Commit] = Recent(9)
    for version in (1, 2, 4, 5):
        found.add(version, Commit("dwd.t", "stream", version))
    assert found.between(0, 2) is None and found.between(1, 5) is None
    assert [c.version for c in found.between(3, 5) or []] == [4, 5]
    assert found.between(4, 4) == [] and found.between(5, 4) is None
    assert found.between(1, 4) is None and found.between(4, 6) is None
    found.add(5, Commit("dwd.t", "stream", 5))  # of one that was opened again
    assert found.between(3, 5) is None and found.between(4, 5) == [Commit("dwd.t", "stream", 5)]
    found.clear()
    assert found.between(4, 5) is None


def test_the_oldest_go_where_there_are_too_many() -> None:
    found: Recent[str] = Recent(5, len)
    for version, text in enumerate(("aa", "bb", "c"), start=1):
        found.add(version, text)
    assert found.between(0, 3) == ["aa", "bb", "c"]
    found.add(4, "d")
    assert found.between(0, 4) is None and found.between(1, 4) == ["bb", "c", "d"]
    found.add(5, "more than fits")
    assert found.between(4, 5) is None
    found.add(6, "e")
    assert found.between(5, 6) == ["e"]
