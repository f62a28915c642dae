"""Standing between two micro-batches of the flows that advance some tables, while these may be rearranged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from headrace.engine.flow.rejoin import between_batches
from headrace.spec.model import TableName

A, B, C = (TableName("dwd", name) for name in "abc")


class Paused:
    """A flow that counts who pauses it; `taken` is called when somebody does."""

    def __init__(self, *tables: TableName) -> None:
        self.tables = [SimpleNamespace(name=name) for name in tables]
        self.held = 0
        self.taken = lambda: None

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.held += 1
        self.taken()
        yield
        self.held -= 1


def flow(*tables: TableName) -> Any:
    return Paused(*tables)


def test_the_flows_of_the_tables_rest_and_no_others() -> None:
    one, two, other = flow(A), flow(B, C), flow(C)
    with between_batches([one, two, other], {A, B}):
        assert (one.held, two.held, other.held) == (1, 1, 0)
    assert (one.held, two.held) == (0, 0)


def test_a_table_that_moves_to_another_flow_meanwhile_rests_all_the_same() -> None:
    was, now = flow(A), flow(A)
    flows = [was]
    was.taken = lambda: flows.__setitem__(0, now)
    with between_batches(flows, {A}):
        assert (was.held, now.held) == (0, 1)
    assert now.held == 0
