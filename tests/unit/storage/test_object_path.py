"""Keys of an object store, asked as files are."""

from __future__ import annotations

import pytest
from memory_objects import memory_store as memory_store
from obstore.store import MemoryStore

from headrace.storage.location import append_text, names, remove_tree, replace_text, spark_path
from headrace.storage.object_path import ObjectPath
from headrace.storage.object_store import ObjectStore

STORE = ObjectStore("http://127.0.0.1:1", None, "user", "hidden")


@pytest.fixture
def root(memory_store: MemoryStore) -> ObjectPath:
    return ObjectPath.parse("s3://bucket/warehouse/", STORE)


def test_its_names_are_those_of_a_path(root: ObjectPath) -> None:
    file = root / "dws" / "t.parquet"
    assert str(file) == "s3://bucket/warehouse/dws/t.parquet"
    assert (file.name, str(file.parent)) == ("t.parquet", "s3://bucket/warehouse/dws")
    assert str(file.with_name(".t")) == "s3://bucket/warehouse/dws/.t"
    assert spark_path(file) == "s3a://bucket/warehouse/dws/t.parquet"
    assert ObjectPath.parse("s3a://bucket/warehouse", STORE) == root


def test_what_is_written_is_read_and_listed(root: ObjectPath) -> None:
    replace_text(root / "a" / "x.txt", "one\n")
    append_text(root / "a" / "x.txt", "two\n")
    append_text(root / "a" / "b" / "y.parquet", "three")
    file = root / "a" / "x.txt"
    assert file.read_text() == "one\ntwo\n"
    assert list(file.open()) == ["one\n", "two\n"]
    assert file.stat().st_size == 8
    assert sorted(names(root / "a")) == ["b", "x.txt"]
    assert names(root / "absent") == []
    assert list((root / "a").rglob("*.parquet")) == [root / "a" / "b" / "y.parquet"]
    assert (root / "a").is_dir() and not (root / "a").is_file() and file.is_file() and not file.is_dir()


def test_a_folder_is_not_one_whose_name_begins_the_same(root: ObjectPath) -> None:
    append_text(root / "ab" / "x", "")
    assert not (root / "a").is_dir()
    remove_tree(root / "a")
    assert (root / "ab" / "x").exists()


def test_what_is_gone_is_gone(root: ObjectPath) -> None:
    for name in ("a/x", "a/b/y", "c"):
        append_text(root / name, "")
    remove_tree(root / "a")
    (root / "c").unlink()
    assert names(root) == []
    with pytest.raises(FileNotFoundError):
        (root / "c").read_text()


def test_of_two_that_write_the_same_content_anew_one_is_told_that_it_was_late(root: ObjectPath) -> None:
    place = root / "lease"
    assert place.read_marked() is None
    first = place.write_if("1", None)
    assert first is not None
    assert place.write_if("2", None) is None
    second = place.write_if("3", first)
    assert second is not None
    assert place.write_if("4", first) is None
    assert place.read_marked() == ("3", second)


def test_a_key_is_shown_nowhere(root: ObjectPath) -> None:
    assert "hidden" not in f"{root!r} {STORE!r} {root}"
    assert "hidden" not in str(STORE.for_spark())
    assert STORE.environment()["AWS_SECRET_ACCESS_KEY"] == "hidden"
    assert STORE.for_delta()["aws_secret_access_key"] == "hidden"


def test_what_is_not_given_is_left_to_the_environment() -> None:
    store = ObjectStore()
    assert store.for_delta() == {"aws_conditional_put": "etag"}
    assert (store.for_spark(), store.environment()) == ({}, {})
