"""Columns that change while others are followed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.statements import columns_follower
from headrace.engine.statements.columns_follower import ColumnsFollower
from headrace.engine.supervisor.failures import Failures
from headrace.errors import SourceChanged, TerminalError, TransientError
from headrace.spec.model import SourceTable, TableName

ORDERS = TableName("stg", "orders")
CAPTURED = SourceTable("shop", "public", "orders")


def follower(monkeypatch: pytest.MonkeyPatch, raised: list[Exception], seen: list[str]) -> ColumnsFollower:
    """Of one table, whose following raises these, one at each look."""
    monkeypatch.setattr(columns_follower, "is_stg", lambda table: True)
    table = SimpleNamespace(name=ORDERS, source=SimpleNamespace(table=CAPTURED))
    catalog = SimpleNamespace(observe=lambda name, state, text: seen.append(f"{name} {state}"))

    def follow(_captured: SourceTable) -> None:
        if raised:
            raise raised.pop(0)

    return ColumnsFollower(
        cast(Any, SimpleNamespace(tables={ORDERS: table})),
        Failures(cast(Any, catalog), changed={ORDERS}),
        follow,
        lambda table: seen.append(f"{table.name} goes on"),
    )


@pytest.mark.parametrize("error", [SourceChanged("`stg.users`: the columns …"), TransientError("busy")])
def test_what_passes_is_tried_again(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    seen: list[str] = []
    one = follower(monkeypatch, [error], seen)
    one.look()
    assert seen == [] and one.failures.changed == {ORDERS}
    one.look()
    assert seen == ["stg.orders goes on"] and not one.failures.changed


def test_what_a_person_is_to_decide_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    one = follower(monkeypatch, [TerminalError("narrower")], seen)
    one.look()
    one.look()
    assert seen == ["stg.orders FAILED"] and not one.failures.changed
