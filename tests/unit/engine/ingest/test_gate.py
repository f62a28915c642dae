"""Micro-batches are cut between transactions of the source, never inside one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import pytest

from headrace.engine.ingest.gate import Gate
from headrace.sources.stream import transactions
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.transactions import PATIENCE, Last, Transactions

ORDERS, ITEMS, TRANSACTIONS = "shop.public.orders", "shop.public.order_items", "shop.transaction"


class Kafka:
    """Messages with the offsets that Kafka would give them."""

    def __init__(self) -> None:
        self.ends: dict[str, dict[int, int]] = {t: {0: 0} for t in (ORDERS, ITEMS, TRANSACTIONS)}
        self.now = 0.0
        log = Transactions(TRANSACTIONS, [ORDERS, ITEMS], clock=lambda: self.now)
        self.gate = Gate([log])

    def event(
        self, topic: str, transaction: str | None, value: str = "{}", *, ms: int = 0, order: int | None = None
    ) -> Event:
        offset = self.ends[topic][0]
        self.ends[topic][0] += 1
        place = {"transaction": transaction, "transaction_order": order}
        return Event(topic, 0, offset, "{}", "c", None, "{}", offset, ms, None, value.encode(), **place)  # type: ignore[arg-type]

    def begin(self, name: str) -> Event:
        return self.event(TRANSACTIONS, None, json.dumps({"status": "BEGIN", "id": announced(name, 1)}))

    def end(self, name: str, counts: Mapping[str, int]) -> Event:
        collections = [{"data_collection": t.partition(".")[2], "event_count": n} for t, n in counts.items()]
        content = {"status": "END", "id": announced(name, 9), "data_collections": collections}
        return self.event(TRANSACTIONS, None, json.dumps(content))

    def batch(self, *events: Event) -> tuple[list[tuple[str, int]], dict[str, int]]:
        """What the gate lets through as (topic, offset), and the cut of the data topics."""
        ready, cut = self.gate.admit(events, self.ends)
        return [(e.topic, e.offset) for e in ready], {t: cut[t][0] for t in (ORDERS, ITEMS)}


def announced(name: str, lsn: int) -> str:
    """PostgreSQL's ids have a place of the log behind them, GTIDs have none."""
    return name if "-" in name else f"{name}:{lsn}"


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


def test_a_truncation_without_an_end_is_whole_by_itself(kafka: Kafka) -> None:
    """As MySQL's, whose END Debezium does not tell; PostgreSQL's has one, and an id of its own."""
    begun = kafka.batch(kafka.begin("0-1-7"))
    truncation = kafka.event(ORDERS, "0-1-7", order=1)._replace(op="t", key=None)
    later = kafka.event(ORDERS, "0-1-8", order=1)
    assert begun[0] == [] and kafka.batch(truncation, later)[0] == [(ORDERS, 0)]
    assert kafka.batch(kafka.begin("0-1-8"), kafka.end("0-1-8", {ORDERS: 1}))[0] == [(ORDERS, 1)]
    waits = kafka.event(ORDERS, "9", order=1)._replace(op="t", key=None, xid=9)
    assert kafka.batch(kafka.begin("9"), waits)[0] == []


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


def test_a_start_goes_on_after_what_each_topic_has_in_its_table(kafka: Kafka) -> None:
    """Killed between two tables: one has its part of 7, the other waits for all of its own, 8 for both."""
    kafka.gate.begin({ORDERS: {"7"}, ITEMS: {"6"}}, {TRANSACTIONS: 100})
    kafka.batch(kafka.begin("6"), kafka.end("6", {ORDERS: 3, ITEMS: 3}), kafka.begin("7"))
    half = kafka.event(ITEMS, "7", ms=120)
    assert kafka.batch(half, kafka.end("7", {ORDERS: 1, ITEMS: 2}))[0] == []
    assert kafka.batch(kafka.event(ITEMS, "7", ms=120))[0] == [(ITEMS, 0), (ITEMS, 1)]
    done = kafka.begin("8"), kafka.end("8", {ORDERS: 1, ITEMS: 1})
    assert kafka.batch(*done, kafka.event(ORDERS, "8", ms=130))[0] == []
    assert sorted(kafka.batch(kafka.event(ITEMS, "8", ms=130))[0]) == [(ITEMS, 2), (ORDERS, 0)]


def test_a_start_goes_on_after_the_newest_transaction_of_any_partition(kafka: Kafka) -> None:
    kafka.gate.begin({ORDERS: {"6", "8"}, ITEMS: {"8"}}, {TRANSACTIONS: 100})
    kafka.batch(kafka.begin("6"), kafka.end("6", {ORDERS: 1, ITEMS: 2}))
    kafka.batch(kafka.begin("7"), kafka.end("7", {ORDERS: 2, ITEMS: 1}))
    new = kafka.event(ORDERS, "9", ms=130)
    eight = kafka.begin("8"), kafka.end("8", {ORDERS: 1, ITEMS: 1})
    assert kafka.batch(kafka.begin("9"), new, *eight)[0] == []
    assert kafka.batch(kafka.end("9", {ORDERS: 1}))[0] == [(ORDERS, 0)]


def test_what_was_committed_before_all_that_is_announced_does_not_wait(kafka: Kafka) -> None:
    kafka.gate.begin({}, {TRANSACTIONS: 100})
    assert kafka.batch(kafka.event(ORDERS, "3", ms=99))[0] == [(ORDERS, 0)]
    assert kafka.batch(kafka.event(ORDERS, "9", ms=100))[0] == []


def test_an_event_that_is_sent_again_counts_once(kafka: Kafka) -> None:
    """A connector that is killed within a transaction begins it again."""
    first = [kafka.event(ORDERS, "7", order=1), kafka.event(ORDERS, "7", order=2)]
    assert kafka.batch(kafka.begin("7"), *first)[0] == []
    again = [kafka.event(ORDERS, "7", order=1), kafka.event(ORDERS, "7", order=2)]
    assert kafka.batch(kafka.begin("7"), *again, kafka.end("7", {ORDERS: 3}))[0] == []
    assert len(kafka.batch(kafka.event(ORDERS, "7", order=3))[0]) == 5
    late = [kafka.begin("7"), kafka.event(ORDERS, "7", order=1), kafka.end("7", {ORDERS: 3})]
    assert kafka.batch(*late)[0] == [(ORDERS, 5)]


def test_an_event_that_never_comes_is_not_waited_for_once_a_later_one_is_there(kafka: Kafka) -> None:
    kafka.batch(kafka.begin("7"), kafka.end("7", {ORDERS: 1, ITEMS: 1}), kafka.event(ORDERS, "7"))
    assert kafka.batch(kafka.begin("8"), kafka.event(ORDERS, "8"))[0] == []
    assert kafka.batch(kafka.event(ITEMS, "8"))[0] == [(ORDERS, 0)]
    assert sorted(kafka.batch(kafka.end("8", {ORDERS: 1, ITEMS: 1}))[0]) == [(ITEMS, 0), (ORDERS, 1)]


def test_patience_counts_from_the_last_message(kafka: Kafka) -> None:
    """A transaction of a million rows takes its time."""
    kafka.batch(kafka.begin("7"))
    for _ in range(5):
        kafka.now += PATIENCE - 1
        assert kafka.batch(kafka.event(ORDERS, "7"))[0] == []
    assert len(kafka.batch(kafka.end("7", {ORDERS: 5}))[0]) == 5


def test_an_end_that_never_comes_is_not_waited_for_beside_others(kafka: Kafka) -> None:
    kafka.batch(kafka.begin("7"), kafka.event(ORDERS, "7"), kafka.begin("8"))
    kafka.now = PATIENCE - 1
    assert kafka.batch(kafka.event(ITEMS, "8"))[0] == []
    kafka.now += 2
    assert kafka.batch(kafka.event(ITEMS, "8"))[0] == [(ORDERS, 0)]


def test_a_backlog_of_transactions_costs_each_of_them_the_same(kafka: Kafka) -> None:
    """A flow that is new, or was away for long, reads announcements of thousands at once."""

    def lines(names: range) -> int:
        """Lines of the module that run for a backlog of these transactions."""
        many, count = [str(n) for n in names], 0
        events = [e for name in many for e in (kafka.begin(name), kafka.end(name, {ORDERS: 1}))]

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal count
            count += event == "line" and frame.f_code.co_filename == transactions.__file__
            return trace

        former = sys.gettrace()
        sys.settrace(trace)
        try:
            assert kafka.batch(*events)[0] == []
        finally:
            sys.settrace(former)
        assert len(kafka.batch(*(kafka.event(ORDERS, name) for name in many))[0]) == len(many)
        return count

    few, many = lines(range(100, 150)), lines(range(1000, 1200))
    assert few < many < 5 * few


class Large:
    """Cuts whose events nobody holds: only the last of each topic is known."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka

    def may(self, *announced: Event, **last: tuple[str | None, int]) -> dict[str, bool]:
        topics = {"orders": ORDERS, "items": ITEMS}
        known = {topics[name]: Last(*found) for name, found in last.items()}
        self.kafka.gate.whole({TRANSACTIONS: [e.value for e in announced]}, known)
        return {t: self.kafka.gate.done(ORDERS, Last(t)) for t in ("7", "8", "9")}


def test_a_large_cut_holds_the_transactions_before_its_last_events(kafka: Kafka) -> None:
    large, both = Large(kafka), {ORDERS: 2, ITEMS: 1}
    log = [e for n in ("7", "8") for e in (kafka.begin(n), kafka.end(n, both))]
    nothing = dict.fromkeys("789", False)
    assert large.may(*log, orders=("8", 1)) == nothing  # no event of the other table is there yet
    assert large.may(orders=("8", 1), items=("7", 1)) == nothing | {"7": True}
    assert large.may(orders=("8", 2), items=("7", 1)) == nothing | {"7": True}
    assert large.may(orders=("9", 1), items=("8", 1)) == nothing | {"7": True, "8": True}
    # What follows is looked at event by event again.
    assert kafka.batch(kafka.event(ORDERS, "9"))[0] == []
    assert kafka.batch(kafka.begin("9"), kafka.end("9", {ORDERS: 1}))[0] == [(ORDERS, 0)]


def test_a_row_of_a_snapshot_or_one_that_is_done_tells_of_none_after_it(kafka: Kafka) -> None:
    large = Large(kafka)
    log = kafka.begin("7"), kafka.end("7", {ORDERS: 1})
    assert not large.may(*log, orders=(None, 0))["7"]
    assert large.may(orders=("7", 1))["7"]
    log = kafka.begin("8"), kafka.end("8", {ORDERS: 1})
    assert not large.may(*log, orders=("7", 1))["8"]


def test_patience_ends(kafka: Kafka) -> None:
    kafka.batch(kafka.event(ORDERS, "7"), kafka.begin("7"), kafka.end("7", {ORDERS: 1, ITEMS: 1}))
    assert kafka.gate.holds
    kafka.now = PATIENCE + 1
    assert kafka.batch() == ([(ORDERS, 0)], {ORDERS: 1, ITEMS: 0})


def test_a_start_forgets_what_was_held(kafka: Kafka) -> None:
    kafka.batch(kafka.event(ORDERS, "7"))
    kafka.gate.begin({}, {})
    assert not kafka.gate.holds
    assert kafka.batch(kafka.event(ITEMS, None))[0] == [(ITEMS, 0)]


def test_what_is_no_transaction_event_is_passed_over(kafka: Kafka) -> None:
    broken = kafka.event(TRANSACTIONS, None, "not JSON")
    assert kafka.batch(broken, kafka.event(ORDERS, None))[0] == [(ORDERS, 0)]
