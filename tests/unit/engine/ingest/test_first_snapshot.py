from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.ingest.first_snapshot import left_behind
from headrace.engine.table.table import StgTable
from headrace.sources.stream.envelope import sequence
from headrace.spec.model import TableName
from headrace.store.record.commits import Commit


@dataclass(frozen=True)
class Fake:
    name: TableName
    store: Any


def commit(read_at: int, changed_at: int = 0) -> Commit:
    high = max(read_at, changed_at)
    return Commit("stg.x", "stream", 1, snapshot=read_at, high=sequence(0, high) if high else "")


def table(name: str, head: Commit) -> StgTable:
    return cast(StgTable, Fake(TableName("stg", name), SimpleNamespace(commit=head)))


def behind(before: dict[str, Commit], after: dict[str, Commit]) -> list[str]:
    known = {TableName("stg", name): head for name, head in before.items()}
    return [t.name.table for t in left_behind([table(n, c) for n, c in after.items()], known)]


NOTHING = commit(0)


def test_a_table_that_the_second_attempt_found_empty_has_rows_that_are_gone() -> None:
    assert behind({"a": commit(5), "b": commit(5)}, {"a": commit(5), "b": commit(9)}) == ["a"]
    assert behind({"a": NOTHING, "b": NOTHING}, {"a": commit(5, 12), "b": commit(9, 14)}) == ["a"]


def test_it_is_found_after_a_kill_between_two_commits() -> None:
    assert behind({}, {"a": commit(5), "b": commit(9), "c": NOTHING}) == ["a"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": NOTHING, "b": NOTHING}, {"a": commit(5), "b": commit(5)}),
        ({"a": commit(5), "b": NOTHING}, {"a": commit(5), "b": commit(5)}),
        ({"a": commit(5, 7), "b": NOTHING}, {"a": commit(5, 7), "b": commit(9)}),  # asked for, of a new table
        ({}, {"a": commit(5, 7), "b": commit(9)}),
    ],
)
def test_one_attempt_leaves_nothing_behind(before: dict[str, Commit], after: dict[str, Commit]) -> None:
    assert behind(before, after) == []
