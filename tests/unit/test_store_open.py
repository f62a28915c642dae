"""A table that is opened again while others read it and compact it."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from stored_support import append, made
from stored_support import no_jvm as no_jvm

from headrace.store.schema import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


@pytest.fixture
def table(tmp_path: Path) -> StoredTable:
    """Three rows in three versions, none compacted."""
    table = made(tmp_path)
    append(table, (INSERT, 1, "1.00"), (INSERT, 2, "2.00"))
    append(table, (UPDATE_BEFORE, 1, "1.00"), (UPDATE_AFTER, 1, "9.00"))
    append(table, (INSERT, 3, "3.00"))
    return table


def amounts(table: StoredTable) -> dict[int, str]:
    rows = table.head().read()
    return dict(zip(rows.column("id").to_pylist(), map(str, rows.column("amount").to_pylist()), strict=True))


def test_while_the_tail_is_read_nobody_sees_less(table: StoredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    read, seen, compacting = table.changelog.read, [], []

    def other_thread() -> None:
        seen.append((amounts(table), table.head().commit.version))
        compacting.append(table.compacting.acquire(blocking=False))

    def beside(after: int, through: int) -> pa.Table:
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join(30)
        return read(after, through)

    right = amounts(table)
    monkeypatch.setattr(table.changelog, "read", beside)
    table.open()
    assert right == {1: "9.00", 2: "2.00", 3: "3.00"}
    assert seen == [(right, 3)]
    assert compacting == [False]
    assert amounts(table) == right and table.tail_rows == 3
