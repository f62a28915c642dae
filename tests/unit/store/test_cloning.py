"""A clone is the table as it is now: its files are the same ones, and either goes its own way from there."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from stored_support import append, made
from stored_support import no_jvm as no_jvm

from headrace.errors import TransientError
from headrace.store import cloning
from headrace.store.cloning import Shared, clone_delta, clone_table
from headrace.store.delta import logs
from headrace.store.delta.retained import Retained
from headrace.store.record.versions import note
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


@pytest.fixture
def store(tmp_path: Path) -> StoredTable:
    (tmp_path / "one").mkdir()
    table = made(tmp_path / "one")
    for number in range(1, 6):
        append(table, ("+I", number, f"{number}.00"))
    return table


def cloned(store: StoredTable, root: Path) -> StoredTable:
    """The clone of a table, opened."""
    clone_table(store.root, root / store.name.layer / store.name.table)
    return made(root)


def ids(store: StoredTable) -> list[int]:
    return sorted(store.read(store.version).column("id").to_pylist())


def test_both_go_their_own_way(store: StoredTable, tmp_path: Path) -> None:
    other = cloned(store, tmp_path / "two")
    assert other.commit == store.commit and ids(other) == [1, 2, 3, 4, 5]
    append(store, ("+I", 6, "6.00"))
    append(other, ("+I", 7, "7.00"))
    store.open()
    other.open()
    assert (ids(store), ids(other)) == ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7])


def test_its_files_take_no_room_and_outlive_the_other_s(store: StoredTable, tmp_path: Path) -> None:
    place = tmp_path / "two" / "t"
    shared = clone_table(store.root, place)
    files = list(place.rglob("*.parquet"))
    assert shared == Shared(linked=len(files)) and files
    assert {f.stat().st_ino for f in files} == {f.stat().st_ino for f in store.root.rglob("*.parquet")}
    shutil.rmtree(store.root)
    assert DeltaTable(place / "changelog").to_pyarrow_table().num_rows == 5


def test_another_file_system_has_copies(
    store: StoredTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    shared = clone_table(store.root, tmp_path / "t")
    assert shared.linked == 0 and shared.copied == len(list((tmp_path / "t").rglob("*.parquet")))
    assert DeltaTable(tmp_path / "t" / "changelog").to_pyarrow_table().num_rows == 5


def test_older_versions_are_known_as_far_as_they_were(store: StoredTable, tmp_path: Path) -> None:
    assert note(store.root, store.commit)
    with next(store.root.glob("versions*.jsonl")).open("a") as file:
        file.write('{"half a li')
    [name] = [p.name for p in store.root.glob("versions*.jsonl")]
    clone_table(store.root, tmp_path / "t")
    text = (tmp_path / "t" / name).read_text()
    assert text.endswith("\n") and '"half' not in text and text.count("\n") == 1


def test_what_retention_has_removed_is_known(store: StoredTable, tmp_path: Path) -> None:
    clone_table(store.root, tmp_path / "none")
    assert Retained.load(tmp_path / "none") == Retained()
    known = Retained(removed=2, whole_since=1, kept=(0,), marks=((4, 10.0), (9, 20.0)))
    known.save(store.root)
    clone_table(store.root, tmp_path / "t")
    assert Retained.load(tmp_path / "t") == replace(known, marks=((4, 10.0),))


def test_a_log_that_begins_with_a_checkpoint_is_whole(store: StoredTable, tmp_path: Path) -> None:
    place = store.changelog.path
    DeltaTable(place).create_checkpoint()
    append(store, ("+I", 6, "6.00"))
    logs.clean(place, needed=DeltaTable(place).version(), seconds=-1)
    assert not (place / "_delta_log" / f"{0:020}.json").exists()
    clone_delta(place, tmp_path / "t")
    assert DeltaTable(tmp_path / "t").to_pyarrow_table().num_rows == 6


def test_a_log_that_is_cleaned_meanwhile_is_cloned_again(
    store: StoredTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, left = store.changelog.path, [1]

    def listed(folder: Path) -> list[str]:
        found = sorted(p.name for p in folder.iterdir())
        return found if not left.pop() else [f"{1:020}.gone.json", *found]

    monkeypatch.setattr(cloning, "names", listed)
    left[:] = [0, 1]
    clone_delta(place, tmp_path / "t")
    assert DeltaTable(tmp_path / "t").to_pyarrow_table().num_rows == 5
    left[:] = [1] * cloning.ATTEMPTS
    with pytest.raises(TransientError, match=r"was cleaned while it was cloned\. Next: try again"):
        clone_delta(place, tmp_path / "other")


def test_a_commit_after_a_gap_is_not_in_it(
    store: StoredTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder's listing is not of one moment."""
    missed = f"{4:020}.json"
    monkeypatch.setattr(
        cloning, "names", lambda folder: [p.name for p in folder.iterdir() if p.name != missed]
    )
    clone_delta(store.changelog.path, tmp_path / "t")
    assert DeltaTable(tmp_path / "t").version() == 3


@pytest.mark.long
def test_clones_of_a_table_that_is_written_are_prefixes_of_it(store: StoredTable, tmp_path: Path) -> None:
    """Beside commits, merges, checkpoints and cleaned logs."""
    stop = threading.Event()

    def write() -> None:
        for number in range(6, 400):
            append(store, ("+I", number, f"{number}.00"))
            if number % 10 == 0:
                store.changelog.merge(2)
                DeltaTable(store.changelog.path).create_checkpoint()
                logs.clean(store.changelog.path, needed=number - 5, seconds=-1)
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(20):
            place = tmp_path / f"clone{number}"
            clone_table(store.root, place)
            found = sorted(DeltaTable(place / "changelog").to_pyarrow_table().column("id").to_pylist())
            assert found == list(range(1, len(found) + 1)) and found
    finally:
        stop.set()
        writer.join()
