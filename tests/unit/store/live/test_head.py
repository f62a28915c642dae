"""The newest state of a table, in the driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored_support import append, made
from stored_support import no_jvm as no_jvm

from headrace.store.record.commits import Commit

pytestmark = pytest.mark.usefixtures("no_jvm")


def test_rows_are_counted_by_partition(tmp_path: Path) -> None:
    """Those of the snapshot's files, without what has changed since, and what it is now."""
    table = made(tmp_path)
    assert table.head().counts("hour") == {}
    append(table, ("+I", 1, "1.00"), ("+I", 2, "1.00"), ("+I", 3, "1.00"))
    append(table, ("+I", 4, "1.00"), hour="h2")
    assert table.head().counts("hour") == {"h1": 3, "h2": 1}
    rows = table.head().read()
    record = Commit("dwd.t", "compaction", table.version, through=table.version)
    table.snapshot.overwrite_local(rows, record, partitions=None)
    table.adopt(table.snapshot.newest(), rows=rows)
    assert table.head().counts("hour") == {"h1": 3, "h2": 1}
    append(table, ("-D", 1, "1.00"), ("-U", 2, "1.00"), ("+U", 2, "5.00"))
    append(table, ("-D", 4, "1.00"), hour="h2")
    append(table, ("+I", 5, "1.00"), hour="h3")
    assert table.head().counts("hour") == {"h1": 2, "h3": 1}
