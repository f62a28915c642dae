"""Standing between two micro-batches of the flows that advance some tables, while these may be rearranged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.engine.flow.rejoin import between_batches
from headrace.spec.model import TableName

A, B, C = (TableName("dwd", name) for name in "abc")


class Lock:
    """Counts who holds it; `taken` is called when somebody does."""

    def __init__(self) -> None:
        self.held = 0
        self.taken = lambda: None

    def __enter__(self) -> None:
        self.held += 1
        self.taken()

    def __exit__(self, *_: object) -> None:
        self.held -= 1


def flow(*tables: TableName) -> Any:
    return SimpleNamespace(lock=Lock(), tables=[SimpleNamespace(name=name) for name in tables])


def test_the_flows_of_the_tables_rest_and_no_others() -> None:
    one, two, other = flow(A), flow(B, C), flow(C)
    with between_batches([one, two, other], {A, B}):
        assert (one.lock.held, two.lock.held, other.lock.held) == (1, 1, 0)
    assert (one.lock.held, two.lock.held) == (0, 0)


def test_a_table_that_moves_to_another_flow_meanwhile_rests_all_the_same() -> None:
    was, now = flow(A), flow(A)
    flows = [was]
    was.lock.taken = lambda: flows.__setitem__(0, now)
    with between_batches(flows, {A}):
        assert (was.lock.held, now.lock.held) == (0, 1)
    assert now.lock.held == 0
