"""Micro-batches are cut between transactions of the source, never inside one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from headrace.engine.ingest.gate import Gate
from headrace.sources.envelope import Event
from headrace.sources.transactions import PATIENCE, Transactions

ORDERS, ITEMS, TRANSACTIONS = "shop.public.orders", "shop.public.order_items", "shop.transaction"


class Kafka:
    """Messages with the offsets that Kafka would give them."""

    def __init__(self) -> None:
        self.ends: dict[str, dict[int, int]] = {t: {0: 0} for t in (ORDERS, ITEMS, TRANSACTIONS)}
        self.now = 0.0
        log = Transactions(TRANSACTIONS, [ORDERS, ITEMS], clock=lambda: self.now)
        self.gate = Gate([log])

    def event(self, topic: str, transaction: str | None, value: str = "{}") -> Event:
        offset = self.ends[topic][0]
        self.ends[topic][0] += 1
        return Event(topic, 0, offset, "{}", "c", None, "{}", offset, 0, None, value.encode(), transaction)

    def begin(self, name: str) -> Event:
        return self.event(TRANSACTIONS, None, json.dumps({"status": "BEGIN", "id": f"{name}:1"}))

    def end(self, name: str, counts: Mapping[str, int]) -> Event:
        collections = [{"data_collection": t.partition(".")[2], "event_count": n} for t, n in counts.items()]
        content = {"status": "END", "id": f"{name}:9", "data_collections": collections}
        return self.event(TRANSACTIONS, None, json.dumps(content))

    def batch(self, *events: Event) -> tuple[list[tuple[str, int]], dict[str, int]]:
        """What the gate lets through as (topic, offset), and the cut of the data topics."""
        ready, cut = self.gate.admit(events, self.ends)
        return [(e.topic, e.offset) for e in ready], {t: cut[t][0] for t in (ORDERS, ITEMS)}


@pytest.fixture
def kafka() -> Kafka:
    made = Kafka()
    made.batch()  # what the first batch after a start continues is not known
    return made


def test_a_transaction_waits_for_its_other_table(kafka: Kafka) -> None:
    order = kafka.event(ORDERS, "7")
    first = kafka.batch(
        kafka.begin("7"), order, kafka.end("7", {ORDERS: 1, ITEMS: 2}), kafka.event(ITEMS, "7")
    )
    assert first == ([], {ORDERS: 0, ITEMS: 0})
    ready, cut = kafka.batch(kafka.event(ITEMS, "7"))
    assert sorted(ready) == [(ITEMS, 0), (ITEMS, 1), (ORDERS, 0)]
    assert cut == {ORDERS: 1, ITEMS: 2}


def test_a_transaction_without_its_end_waits_even_where_nothing_announced_it_yet(kafka: Kafka) -> None:
    assert kafka.batch(kafka.event(ORDERS, "7")) == ([], {ORDERS: 0, ITEMS: 0})
    assert kafka.batch(kafka.begin("7")) == ([], {ORDERS: 0, ITEMS: 0})
    assert kafka.batch(kafka.end("7", {ORDERS: 1})) == ([(ORDERS, 0)], {ORDERS: 1, ITEMS: 0})


def test_a_later_transaction_does_not_overtake(kafka: Kafka) -> None:
    kafka.batch(kafka.begin("7"), kafka.begin("8"))
    early, late = kafka.event(ORDERS, "7"), kafka.event(ORDERS, "8")
    done = kafka.end("7", {ORDERS: 1, ITEMS: 1}), kafka.end("8", {ORDERS: 1})
    assert kafka.batch(early, late, *done) == ([], {ORDERS: 0, ITEMS: 0})
    ready, _ = kafka.batch(kafka.event(ITEMS, "7"))
    assert sorted(ready) == [(ITEMS, 0), (ORDERS, 0), (ORDERS, 1)]


def test_complete_transactions_pass_before_one_that_is_not(kafka: Kafka) -> None:
    whole, half = kafka.event(ORDERS, "7"), kafka.event(ORDERS, "8")
    ready, cut = kafka.batch(whole, half, kafka.begin("7"), kafka.end("7", {ORDERS: 1}), kafka.begin("8"))
    assert (ready, cut) == ([(ORDERS, 0)], {ORDERS: 1, ITEMS: 0})


def test_a_row_read_by_a_snapshot_keeps_its_place_behind_a_waiting_event(kafka: Kafka) -> None:
    ready, cut = kafka.batch(kafka.event(ITEMS, None), kafka.event(ORDERS, "7"), kafka.event(ORDERS, None))
    assert (ready, cut) == ([(ITEMS, 0)], {ORDERS: 0, ITEMS: 1})


def test_events_of_tables_outside_the_flow_are_not_waited_for(kafka: Kafka) -> None:
    ready, _ = kafka.batch(kafka.event(ORDERS, "7"), kafka.end("7", {ORDERS: 1, "shop.public.users": 4}))
    assert ready == [(ORDERS, 0)]


def test_the_first_batch_after_a_start_is_taken_as_it_is() -> None:
    kafka = Kafka()
    assert kafka.batch(kafka.event(ORDERS, "7"))[0] == [(ORDERS, 0)]
    assert kafka.batch(kafka.event(ITEMS, "7"), kafka.end("7", {ORDERS: 1, ITEMS: 1}))[0] == [(ITEMS, 0)]


def test_the_rest_of_a_transaction_that_began_before_a_reset_is_not_waited_for(kafka: Kafka) -> None:
    kafka.batch(kafka.begin("7"), *(kafka.event(ORDERS, "7") for _ in range(3)))
    kafka.gate.reset()  # a large micro-batch took all that
    rest = kafka.event(ORDERS, "7")
    assert kafka.batch(rest, kafka.end("7", {ORDERS: 4}))[0] == [(ORDERS, 3)]
    assert kafka.batch(kafka.event(ORDERS, "7"))[0] == [(ORDERS, 4)]


def test_nor_where_its_end_comes_later(kafka: Kafka) -> None:
    kafka.gate.reset()
    assert kafka.batch() == ([], {ORDERS: 0, ITEMS: 0})
    assert kafka.batch(kafka.event(ORDERS, "7"))[0] == []  # its BEGIN may be on its way
    assert kafka.batch(kafka.end("7", {ORDERS: 4}))[0] == [(ORDERS, 0)]


def test_a_transaction_that_begins_in_the_first_batch_waits_for_its_other_table(kafka: Kafka) -> None:
    kafka.gate.reset()
    assert kafka.batch(kafka.begin("7"), kafka.event(ORDERS, "7"))[0] == []


def test_patience_ends(kafka: Kafka) -> None:
    kafka.batch(kafka.event(ORDERS, "7"), kafka.begin("7"), kafka.end("7", {ORDERS: 1, ITEMS: 1}))
    assert kafka.gate.holds
    kafka.now = PATIENCE + 1
    assert kafka.batch() == ([(ORDERS, 0)], {ORDERS: 1, ITEMS: 0})


def test_a_reset_forgets_what_was_held(kafka: Kafka) -> None:
    kafka.batch(kafka.event(ORDERS, "7"))
    kafka.gate.reset()
    assert kafka.batch(kafka.event(ITEMS, "8"))[0] == [(ITEMS, 0)]


def test_what_is_no_transaction_event_is_passed_over(kafka: Kafka) -> None:
    broken = kafka.event(TRANSACTIONS, None, "not JSON")
    assert kafka.batch(broken, kafka.event(ORDERS, None))[0] == [(ORDERS, 0)]
