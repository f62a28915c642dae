"""Rows of the newest versions in memory: the same as from the files, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored_support import append, made
from stored_support import no_jvm as no_jvm

from headrace.errors import NeedsResync
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


@pytest.fixture
def store(tmp_path: Path) -> StoredTable:
    table = made(tmp_path)
    for number in range(1, 6):
        append(table, ("+I", number, f"{number}.00"))
    append(table, ("-U", 1, "1.00"), ("+U", 1, "2.00"))
    return table


def test_what_is_in_memory_is_what_the_files_hold(store: StoredTable) -> None:
    log = store.changelog.path / "_delta_log"
    log.rename(log.with_name("away"))  # a read of the files would fail
    known = [store.changelog.read(*part, live=True) for part in ((0, 6), (2, 4), (5, 6))]
    log.with_name("away").rename(log)
    store.open()
    assert [store.changelog.read(*part, live=True) for part in ((0, 6), (2, 4), (5, 6))] == known
    assert known[0].num_rows == 7 and known[1].column("id").to_pylist() == [3, 4]


def test_what_retention_has_removed_is_refused_all_the_same(store: StoredTable) -> None:
    store.changelog.removed = 3
    with pytest.raises(NeedsResync, match="after version 2 are gone"):
        store.changelog.read(2, 6)
    assert store.changelog.read(3, 6).num_rows == 4


def test_somebody_else_may_have_written_what_is_opened_again(store: StoredTable, tmp_path: Path) -> None:
    other = made(tmp_path)
    append(other, ("+I", 9, "9.00"))
    store.open()
    append(store, ("+I", 10, "9.00"))
    assert store.changelog.read(0, 8).column("id").to_pylist() == [1, 2, 3, 4, 5, 1, 1, 9, 10]
