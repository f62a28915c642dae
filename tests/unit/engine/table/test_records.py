"""Commits without rows: how far a table has come, and what stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from stored_support import append, made
from stored_support import no_jvm as no_jvm

from headrace.engine.compaction.retention import record_progress
from headrace.engine.table.immutable import protect
from headrace.engine.table.table import Table
from headrace.store.record.commits import decisions, newest
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")

DECISION = {"chosen": "ROW", "path": "driver", "why": "", "estimates": {}, "seconds": 1.0, "rows_in": 1,
            "rows_out": 1, "driving": 1, "upstream": 1, "table": 1, "changes": {}, "shadow": {}}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> StoredTable:
    """A row, then a commit that a refresh has made."""
    store = made(tmp_path)
    append(store, ("+I", 1, "1.00"))
    made_by_refresh = replace(
        store.commit, version=2, upstreams={"stg.a": 3}, decision=DECISION, batch=7, source_ms=5
    )
    store.note(made_by_refresh)
    return store


def table_of(store: StoredTable, **reached: int) -> Table:
    names = {name.replace("_", "."): version for name, version in reached.items()}
    return cast("Table", SimpleNamespace(store=store, name=store.name, reached=names))


def test_progress_is_noted_once(store: StoredTable) -> None:
    assert record_progress(table_of(store, stg_a=9), run_id="retention")
    assert not record_progress(table_of(store, stg_a=9), run_id="retention")
    found = store.commit
    assert (found.version, found.mode, found.upstreams) == (3, "stream", {"stg.a": 9})
    assert (found.rows, found.source_ms, found.batch, found.run_id) == (1, 5, -1, "retention")


def test_a_bound_is_noted_with_it_once(store: StoredTable) -> None:
    assert protect(table_of(store, stg_a=9), "h2", run_id="test")
    assert not protect(table_of(store, stg_a=9), "h1", run_id="test")
    found = store.commit
    assert (found.version, found.immutable_before, found.upstreams) == (3, "h2", {"stg.a": 9})
    assert not protect(table_of(store), "h3", run_id="test")  # it has come from nowhere yet


def test_what_a_refresh_took_counts_once(store: StoredTable) -> None:
    record_progress(table_of(store, stg_a=9), run_id="retention")
    protect(table_of(store, stg_a=9), "h2", run_id="test")
    assert len(decisions(newest(store.changelog.path, 9))) == 1
