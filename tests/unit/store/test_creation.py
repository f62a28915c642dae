"""A stored table's Delta tables: what they say of themselves, and whether they are what is declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from stored_support import SCHEMA, append, made
from stored_support import no_jvm as no_jvm

from headrace.errors import TerminalError
from headrace.store.creation import DEFINITION, fits
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")


def definition(table: StoredTable) -> str | None:
    return DeltaTable(str(table.snapshot.path)).metadata().configuration.get(DEFINITION)


def test_a_table_says_what_made_its_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    append(table, ("+I", 1, "1.00"))
    before = table.pin
    assert definition(table) is None
    for text in ("CREATE 'x'\nAS SELECT 1", "CREATE 'x'\nAS SELECT 1", "other"):
        table.create("", text)
        assert definition(table) == text
    table.open()
    assert (table.pin.compacted, table.pin.through) == (before.compacted, before.through)
    assert table.pin.delta == before.delta + 2  # the same text is no commit
    assert table.head().count() == 1


def test_other_columns_or_another_partition_do_not_fit(tmp_path: Path) -> None:
    append(made(tmp_path), ("+I", 1, "1.00"))
    for other in (
        replace(SCHEMA, columns=(*SCHEMA.columns, ("more", "string"))),
        replace(SCHEMA, columns=tuple(reversed(SCHEMA.columns))),
        replace(SCHEMA, partition=None),
    ):
        table = StoredTable(made(tmp_path).name, tmp_path, other)
        assert not fits(table)
        table.open()
        with pytest.raises(TerminalError, match=r"other columns than its definition. Next: `headrace apply`"):
            table.head()
        assert (table.version, table.pin.compacted) == (1, 1)  # nothing to compact
    assert fits(made(tmp_path))
