"""What is remembered of the sources lies with the tables."""

from __future__ import annotations

from pathlib import Path

from headrace.settings import Settings
from headrace.sources.postgres.bulk.record import LoadRecord, forget, load_record
from headrace.sources.records import records
from headrace.sources.restream import begins, note_begin


def settings(folder: Path, warehouse: Path) -> Settings:
    folder.mkdir(exist_ok=True)
    return Settings(project=folder, data=folder / "data", warehouse_url=f"file://{warehouse}")


def test_whoever_serves_the_warehouse_remembers(tmp_path: Path) -> None:
    one, other = (settings(tmp_path / name, tmp_path / "wh") for name in ("one", "other"))
    LoadRecord("shop", "slot", "STREAMING", lsn=7).save(records(one))
    note_begin(records(one), "shop", 4711)
    found = load_record(records(other), "shop")
    assert found is not None and found.lsn == 7
    assert begins(records(other), "shop") == 4711
    assert begins(records(other), "crm") == 0


def test_what_an_earlier_version_kept_comes_along_once(tmp_path: Path) -> None:
    own = settings(tmp_path / "one", tmp_path / "wh")
    LoadRecord("shop", "slot", "LOADED", lsn=7).save(own.state)
    note_begin(own.state, "shop", 4711)
    assert load_record(records(own), "shop") == LoadRecord("shop", "slot", "LOADED", lsn=7)
    assert begins(records(own), "shop") == 4711
    forget(records(own), "shop")
    assert load_record(records(own), "shop") is None
