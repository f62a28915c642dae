"""One key out of a table's files: nothing of it is left there, and all else is as it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stored_support import SCHEMA, SEQUENCED, append, made
from stored_support import no_jvm as no_jvm

from headrace.errors import NeedsResync
from headrace.store.erasure import Erasure, HistoryErasure, KeyErasure
from headrace.store.record.commits import Commit
from headrace.store.schema import TableSchema
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")

GONE = "77777.77"


def snapshot(table: StoredTable) -> None:
    """As compaction writes it."""
    rows = table.head().read()
    table.snapshot.overwrite_local(
        rows, Commit("dwd.t", "compaction", table.version, through=table.version), partitions=None
    )
    table.adopt(table.snapshot.newest(), rows=rows)


def filled(root: Path, schema: TableSchema) -> StoredTable:
    """Key 7 came and went, through two snapshots; keys 1 and 8 stay."""
    table = made(root, schema)
    append(table, ("+I", 1, "1.00"), ("+I", 7, GONE), seq="1")
    snapshot(table)
    append(table, ("+I", 8, "8.00"), hour="h2", seq="2")
    append(table, ("-D", 7, GONE), seq="3")
    snapshot(table)
    append(table, ("-U", 1, "1.00"), ("+U", 1, "2.00"), seq="4")
    return table


def erased(erasure: Erasure) -> None:
    erasure.take_out_changes()
    erasure.purge(lambda: None)


def told(table: StoredTable) -> set[int]:
    """The keys that the log of the snapshot quotes of its files: smallest and largest ones."""
    texts = (p.read_text() for p in (table.snapshot.path / "_delta_log").glob("*.json"))
    return {int(found) for text in texts for found in re.findall(r'\\"id\\":([1-9])', text)}


@pytest.mark.parametrize("schema", [SCHEMA, SEQUENCED], ids=["derived", "stg"])
def test_a_key_goes_with_all_that_tells_of_it(tmp_path: Path, schema: TableSchema) -> None:
    table = filled(tmp_path, schema)
    erasure = KeyErasure(table, [{"id": 7}])
    before, changed = table.head().read(), table.changelog.read(1, 4).num_rows
    held = erasure.held()
    assert (held.changes, held.rows, held.live, held.newest) == (2, 1, 0, 3)
    assert 7 in told(table)
    erased(erasure)
    left = erasure.held()
    assert (left.changes, left.rows, left.tombstones) == (0, 0, int(schema.sequenced))
    assert 7 not in told(table)
    table.open()
    assert table.head().read().sort_by("id").equals(before.sort_by("id"))
    assert table.changelog.read(1, 4).num_rows == changed - 1
    if schema.sequenced:
        assert table.deletes.find({(7,)}) == {(7,): "3"}
    append(table, ("+I", 9, "9.00"), seq="5")
    snapshot(table)
    assert sorted(table.head().read().column("id").to_pylist()) == [1, 8, 9]
    with pytest.raises(NeedsResync):
        table.snapshot.pin_for(2)


def test_half_of_it_can_be_done_again(tmp_path: Path) -> None:
    table = filled(tmp_path, SEQUENCED)
    KeyErasure(table, [{"id": 7}]).take_out_changes()
    table.open()
    assert sorted(table.head().read().column("id").to_pylist()) == [1, 8]
    again = KeyErasure(table, [{"id": 7}])
    assert again.held().changes > 0  # the files that are no longer part of it
    erased(again)
    assert again.held().changes == again.held().rows == 0
    assert table.deletes.find({(7,)}) == {(7,): "3"}


def test_a_live_row_and_a_row_of_another_key_are_seen(tmp_path: Path) -> None:
    table = filled(tmp_path, SCHEMA)
    assert KeyErasure(table, [{"id": 8}]).held().live == 1
    assert KeyErasure(table, [{"id": 8}, {"id": 1}]).held().live == 2
    assert KeyErasure(table, [{"id": 8, "hour": "h1"}]).held().rows == 0  # its folder says another one
    assert KeyErasure(table, [{"id": 99}]).held().changes == 0


def test_all_older_versions_go(tmp_path: Path) -> None:
    table = filled(tmp_path, SCHEMA)
    erasure, before = HistoryErasure(table), table.head().read()
    held = erasure.held()
    assert (held.changes, held.newest) == (4, 3) and held.rows > 0
    erased(erasure)
    left = erasure.held()
    assert (left.changes, left.rows) == (0, 0)
    assert 7 not in told(table)
    table.open()
    assert table.head().read().sort_by("id").equals(before.sort_by("id"))
    assert table.changelog.read(3, 4).num_rows == 2
    with pytest.raises(NeedsResync, match="after version 2 are gone"):
        table.changelog.read(2, 4)
