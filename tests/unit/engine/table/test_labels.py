"""Which partitions a table has: those of its snapshot and of the changes since."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from stored_support import SCHEMA, append, changes, made
from stored_support import no_jvm as no_jvm

from headrace.engine.compaction.compaction import compact
from headrace.engine.statements.cascade import Cascade
from headrace.engine.table.labels import labels_of
from headrace.engine.table.limits import Limits
from headrace.engine.table.table import Table
from headrace.store.record.commits import Commit
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


@pytest.fixture
def store(tmp_path: Path) -> StoredTable:
    """Compacted rows of h1 and of no partition; later ones of h2, and one of h1 that is gone."""
    store = made(tmp_path)
    append(store, ("+I", 1, "1.00"))
    append(store, ("+I", 2, "1.00"), hour=cast("Any", None))
    compact(cast("Any", None), table_of(store), run_id="test")
    append(store, ("+I", 3, "1.00"), hour="h2")
    append(store, ("-D", 1, "1.00"))
    return store


def table_of(store: StoredTable) -> Table:
    return cast("Table", SimpleNamespace(store=store, name=store.name, template="template", limits=Limits()))


def test_labels_are_those_of_the_snapshot_and_of_the_tail(store: StoredTable) -> None:
    assert labels_of(table_of(store)) == {"h1", "h2"}


def test_a_cold_table_tells_those_of_its_snapshot(store: StoredTable) -> None:
    rows = changes(store, ("+I", 4, "1.00"), hour="h3")
    commit = Commit("dwd.t", "stream", store.version + 1)
    store.append_large(rows, commit, origin="stream", kinds={"+I": 1})
    assert store.cold
    assert labels_of(table_of(store)) == {"h1"}


def test_without_partitions_there_are_none(tmp_path: Path) -> None:
    store = made(tmp_path, replace(SCHEMA, partition=None))
    append(store, ("+I", 1, "1.00"))
    assert labels_of(table_of(store)) == set()


def test_a_cascade_counts_partitions_that_no_snapshot_has_yet(store: StoredTable, tmp_path: Path) -> None:
    below = made(tmp_path / "below", replace(SCHEMA, partition=None))
    registry = SimpleNamespace(upstreams=lambda table: {"dwd.t": table_of(store)})
    cascade = SimpleNamespace(registry=registry)
    assert Cascade.existing(cast("Cascade", cascade), table_of(below)) == {"h1", "h2"}
