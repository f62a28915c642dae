"""A store that loses commits is found before the first one."""

from __future__ import annotations

import threading

import pytest
from memory_objects import memory_store as memory_store
from obstore.store import MemoryStore

from headrace.errors import TerminalError
from headrace.storage import conditional_puts
from headrace.storage.object_path import ObjectPath
from headrace.storage.object_store import ObjectStore

ROOT = ObjectPath("bucket", "warehouse", ObjectStore())


def test_a_store_that_keeps_them_is_left_as_it_was(memory_store: MemoryStore) -> None:
    conditional_puts.require(ROOT)
    assert list(ROOT.rglob("*")) == []


def test_a_store_that_looks_first_and_writes_then_is_refused(
    memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Barrier(conditional_puts.RACERS)

    def look_then_write(self: ObjectPath, text: str, mark: str | None) -> str | None:
        there = self.is_file()
        looked.wait(10)
        self.write_text(text)
        return None if there else text

    monkeypatch.setattr(ObjectPath, "write_if", look_then_write)
    with pytest.raises(TerminalError, match=r"s3://bucket/warehouse.*does not keep.*4 were told.*Next: "):
        conditional_puts.require(ROOT)
    assert list(ROOT.rglob("*")) == []


def test_a_bucket_that_is_not_there_is_named_with_the_settings_to_look_at(
    memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*of: object) -> None:
        raise FileNotFoundError("Object at location warehouse/lease not found: NoSuchBucket\nDebug source: …")

    monkeypatch.setattr(ObjectPath, "write_if", refused)
    with pytest.raises(TerminalError, match=r"s3://bucket/warehouse.*NoSuchBucket\. Next: .*warehouse_url"):
        conditional_puts.require(ROOT)
