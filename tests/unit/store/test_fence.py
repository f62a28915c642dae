"""A new holder of the lease shuts out the one before."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from stored_support import append, made
from stored_support import no_jvm as no_jvm

from headrace.errors import TransientError
from headrace.storage.permit import PERMIT
from headrace.store.delta.files import commit_actions
from headrace.store.fence import EPOCH, fence
from headrace.store.record.commits import latest
from headrace.store.tables import StoredTable

ROWS = pa.table({"id": [1]})

pytestmark = pytest.mark.usefixtures("no_jvm")


@pytest.fixture
def store(tmp_path: Path) -> StoredTable:
    table = made(tmp_path)
    append(table, ("+I", 1, "1.00"))
    return table


def test_every_table_has_the_mark_and_nothing_else_of_it(store: StoredTable, tmp_path: Path) -> None:
    (tmp_path / "notes.d").mkdir()
    write_deltalake(str(tmp_path / "dead_letters" / "shop"), ROWS)
    before = [latest(place.path) for place in (store.changelog, store.snapshot)]
    assert fence([tmp_path], 7) == 3
    for place in (store.changelog.path, store.snapshot.path, tmp_path / "dead_letters" / "shop"):
        assert DeltaTable(str(place)).metadata().configuration[EPOCH] == "7"
    assert [latest(place.path) for place in (store.changelog, store.snapshot)] == before
    store.open()
    append(store, ("+I", 2, "2.00"))
    assert store.head().count() == 2


def test_a_writer_with_a_commit_in_hand_is_shut_out(
    store: StoredTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told that it may commit, stands still, and goes on when another one has taken over."""
    asked: list[str] = []

    def check() -> None:
        asked.append("")
        if len(asked) > 1:
            raise TransientError("the lease was not renewed")
        with pytest.MonkeyPatch.context() as other:  # which has a permit of its own
            other.setattr(PERMIT, "check", lambda: None)
            fence([tmp_path], 7)

    monkeypatch.setattr(PERMIT, "check", check)
    with pytest.raises(TransientError, match="lease was not renewed"):
        append(store, ("+I", 2, "2.00"))
    assert len(asked) == 2
    found = latest(store.changelog.path)
    assert found is not None and found[1].version == 1


def test_a_commit_of_maintenance_that_was_begun_before_fails_too(store: StoredTable, tmp_path: Path) -> None:
    """Delta itself would let it go on after an append."""
    found = latest(store.changelog.path)
    assert found is not None
    table = DeltaTable(str(store.changelog.path))
    append(store, ("+I", 2, "2.00"))
    commit_actions(table, [], found[1])
    old = DeltaTable(str(store.changelog.path))
    fence([tmp_path], 7)
    with pytest.raises(CommitFailedError, match=r"(?i)metadata"):
        commit_actions(old, [], found[1])


def test_an_append_of_delta_alone_fails_after_it(store: StoredTable, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "other"), ROWS)
    old = DeltaTable(str(tmp_path / "other"))
    fence([tmp_path], 7)
    with pytest.raises(DeltaError, match=r"(?i)metadata"):
        write_deltalake(old, ROWS, mode="append")


def test_who_has_no_permit_shuts_nobody_out(
    store: StoredTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise TransientError("no")

    monkeypatch.setattr(PERMIT, "check", refuse)
    with pytest.raises(TransientError):
        fence([tmp_path], 7)
    assert EPOCH not in DeltaTable(str(store.changelog.path)).metadata().configuration
