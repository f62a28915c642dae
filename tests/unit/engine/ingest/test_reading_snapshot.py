"""Derived tables wait while Debezium reads a table for the first time, and no longer."""

from __future__ import annotations

from headrace.engine.ingest.ingest import reading_snapshot
from headrace.sources.stream.envelope import Event

ORDERS = "shop.public.orders"


def row(op: str, snapshot: str | None = None, *, partition: int = 0, topic: str = ORDERS) -> Event:
    return Event(topic, partition, 0, "{}", op, None, "{}", 1, 1, snapshot, b"{}")


def test_a_row_of_the_snapshot_says_that_more_may_come() -> None:
    assert reading_snapshot([row("r", "first"), row("r", "true")]) == {ORDERS: True}


def test_its_last_row_or_a_change_ends_it() -> None:
    assert reading_snapshot([row("r", "true"), row("r", "last_in_data_collection")]) == {ORDERS: False}
    assert reading_snapshot([row("r", "true"), row("c")]) == {ORDERS: False}


def test_its_last_row_in_one_partition_ends_it_for_all() -> None:
    events = [row("r", "last", partition=0), row("r", "true", partition=1), row("r", "true", partition=2)]
    assert reading_snapshot(events) == {ORDERS: False}


def test_a_change_in_one_partition_says_nothing_of_another() -> None:
    assert reading_snapshot([row("r", "true", partition=0), row("c", partition=1)]) == {ORDERS: True}


def test_topics_without_events_are_not_told_of() -> None:
    tombstone = Event(ORDERS, 0, 1, "{}", None, None, None, 1, 1, None, None)
    assert reading_snapshot([tombstone, row("c", topic="shop.public.users")]) == {"shop.public.users": False}
