"""A stored table that is opened again while others compact and read it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from stored_support import append, made
from stored_support import no_jvm as no_jvm

from headrace.engine.compaction.compaction import compact
from headrace.engine.table.limits import Limits
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


@pytest.fixture
def store(tmp_path: Path) -> StoredTable:
    """A compacted row and a later change of it."""
    store = made(tmp_path)
    append(store, ("+I", 1, "1.00"))
    compact_now(store)
    append(store, ("-U", 1, "1.00"), ("+U", 1, "2.00"))
    return store


def compact_now(store: StoredTable) -> None:
    table = SimpleNamespace(store=store, name=store.name, template="template", limits=Limits())
    compact(cast("Any", None), cast("Any", table), run_id="test")


def amounts(store: StoredTable) -> list[str]:
    return [str(value) for value in store.head().read().column("amount").to_pylist()]


def beside(monkeypatch: pytest.MonkeyPatch, store: StoredTable, what: Callable[[], None]) -> None:
    """Let `what` happen in another thread once `open` has the snapshot's files."""
    opened = store.open_index

    def opened_and(pin: Any) -> Any:
        monkeypatch.setattr(store, "open_index", opened)
        index = opened(pin)
        other = threading.Thread(target=what)
        other.start()
        other.join()
        return index

    monkeypatch.setattr(store, "open_index", opened_and)


def test_a_compaction_comes_before_or_after(monkeypatch: pytest.MonkeyPatch, store: StoredTable) -> None:
    def compact_where_it_may() -> None:
        if store.compacting.acquire(blocking=False):
            try:
                compact_now(store)
            finally:
                store.compacting.release()

    beside(monkeypatch, store, compact_where_it_may)
    store.open()
    assert amounts(store) == ["2.00"]
    compact_now(store)
    assert amounts(store) == ["2.00"]


def test_a_reader_never_sees_a_half(monkeypatch: pytest.MonkeyPatch, store: StoredTable) -> None:
    seen: list[tuple[int, list[str]]] = []
    beside(monkeypatch, store, lambda: seen.append((store.head().commit.version, amounts(store))))
    store.open()
    assert seen == [(2, ["2.00"])]
