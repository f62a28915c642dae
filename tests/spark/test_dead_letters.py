"""Messages that could not be applied: what follows is right, each is replayed where it would have been."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from feeding import feed_large, messages
from harness import Harness
from orders_chain import HOURS, LAYERS

from headrace.engine.ingest import offsets
from headrace.engine.spark.prepared import Queries
from headrace.engine.statements.dead_letters import Settlement
from headrace.engine.table.table import StgTable
from headrace.errors import TerminalError, UnknownName
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.formats import Formats
from headrace.store.schema import KIND

ORDERS, TOPIC = "stg.orders", "shop.public.orders"
CHAIN = {name: LAYERS[name] for name in ("dwd/paid", "dws/by_user")}
OTHER = 70_000
"""A user that a smallint does not hold."""


@pytest.fixture
def shop(harness: Callable[..., Harness]) -> Harness:
    made = harness(CHAIN)
    for key in range(1, 5):
        put(made, key)
    made.step()
    return made


def put(shop: Harness, key: int, user: int = 1, amount: str = "1.00") -> None:
    shop.source.put("orders", order_id=key, user_id=user, amount=amount, hour=HOURS[0])


def orders(shop: Harness) -> StgTable:
    return cast("StgTable", shop.table(ORDERS))


@contextmanager
def reading(shop: Harness, kind: str) -> Iterator[None]:
    """As if users were read by a type that does not hold all of them, and then by theirs again."""
    table = orders(shop)
    right = table.source
    wrong = tuple(replace(c, json=kind) if c.name == "user_id" else c for c in right.columns)
    table.source = replace(right, columns=wrong)
    table.run.forget_plans()
    yield
    table.source = right
    table.run.forget_plans()


def settlement(shop: Harness) -> Settlement:
    @contextmanager
    def paused() -> Iterator[None]:
        yield

    flow = SimpleNamespace(names={orders(shop).name}, paused=paused, settle=lambda: shop.advance())
    return Settlement(shop.sessions, cast("Any", [flow]), shop.dead_letters, Formats(), "test")


def sent(events: list[Event]) -> list[Event]:
    """With the messages that they are of."""
    return [e._replace(value=messages([e]).column("value")[0].as_py()) for e in events]


def unreadable(event: Event) -> Event:
    return event._replace(after=(event.after or "").replace(f'"user_id": {OTHER}', '"user_id": "x"'))


@pytest.mark.parametrize("at_once", [True, False])
def test_what_follows_an_unreadable_row_is_applied(shop: Harness, at_once: bool) -> None:
    """The row before it in the source is not the one that the table holds."""
    put(shop, 1, OTHER)
    put(shop, 2, OTHER)
    put(shop, 2, 2)
    put(shop, 1, 3, "9.00")
    shop.source.delete("orders", 2)
    first, second, *later = shop.source.take()
    events = [unreadable(first), unreadable(second)]
    events += [e._replace(before=unreadable(e._replace(after=e.before)).after) for e in later]
    for batch in [events] if at_once else [[e] for e in events]:
        shop.feed(batch)
        shop.advance()
    assert [row[:2] for row in shop.rows(ORDERS)] == [(1, 3), (3, 1), (4, 1)]
    assert [x["offset"] for x in shop.dead_letters.rows()] == (
        [] if at_once else [4, 5]
    )  # at once, others count
    shop.assert_parity()
    held: dict[int, tuple[Any, ...]] = {}
    for row in orders(shop).store.changelog.read(0, orders(shop).store.version).to_pylist():
        image = (row["user_id"], row["amount"])
        if row[KIND].startswith("-"):
            assert held.pop(row["order_id"]) == image
        else:
            held[row["order_id"]] = image


def test_letters_are_replayed_where_they_would_have_been(shop: Harness) -> None:
    table = orders(shop)
    with reading(shop, "smallint"):
        put(shop, 1, OTHER)  # nothing follows
        put(shop, 2, OTHER)
        put(shop, 2, 2)  # newer
        put(shop, 9, OTHER)
        shop.source.delete("orders", 9)  # gone since
        put(shop, 10, OTHER)
        put(shop, 3, OTHER)
        events = shop.source.take()
        broken = events[-1]._replace(op=None, value=b"\xff", after=None, before=None)
        shop.feed([*sent(events[:-1]), broken])
        shop.advance()
        assert shop.dead_letters.count(ORDERS) == 5
    version, end = table.store.version, table.store.commit.offsets
    done = settlement(shop).replay(table, ())
    assert (done.replayed, [r["offset"] for r in done.refused]) == (4, [10])
    assert {row[0]: row[1] for row in shop.rows(ORDERS)} == {1: OTHER, 2: 2, 3: 1, 4: 1, 10: OTHER}
    assert (table.store.version, table.store.commit.offsets) == (version + 1, end)
    shop.assert_parity()
    assert settlement(shop).replay(table, ()).replayed == 0
    assert table.store.version == version + 1
    shop.open()  # as after a restart
    assert [x["offset"] for x in shop.dead_letters.open_rows(ORDERS)] == [10]
    assert shop.dead_letters.count(ORDERS) == 1


def test_a_letter_is_dropped_for_a_reason(shop: Harness) -> None:
    with reading(shop, "smallint"):
        put(shop, 1, OTHER)
        put(shop, 2, OTHER)
        shop.feed(sent(shop.source.take()))
    work, table = settlement(shop), orders(shop)
    with pytest.raises(UnknownName, match=r"no open dead letter at 0:99"):
        work.drop(table, [(0, 99)], "never was")
    assert work.drop(table, [(0, 4)], "a test's").dropped == 1
    assert [(x["offset"], x["outcome"], x["why"]) for x in shop.dead_letters.rows(ORDERS)] == [
        (4, "dropped", "a test's"),
        (5, None, None),
    ]
    assert shop.dead_letters.count(ORDERS) == 1
    assert shop.dead_letters.dropped(ORDERS) == [(0, 4)]
    assert work.replay(table, ()).replayed == 1
    assert {row[0]: row[1] for row in shop.rows(ORDERS)} == {1: 1, 2: OTHER, 3: 1, 4: 1}


def test_more_than_a_few_halt_the_table_and_move_nothing(shop: Harness) -> None:
    shop.dead_letters = DeadLetters(shop.dead_letters.path, most=2)
    with reading(shop, "smallint"):
        for key in (1, 2, 3):
            put(shop, key, OTHER)
        events = shop.source.take()
        shop.feed(events[:2])
        before = orders(shop).store.commit
        with pytest.raises(
            TerminalError, match=r"3 messages cannot be applied, more than the 2 .*replay stg.orders"
        ):
            shop.feed(events[2:])
    assert orders(shop).store.commit == before
    assert len(shop.dead_letters.rows()) == 2
    shop.feed(events[2:])
    assert {row[0]: row[1] for row in shop.rows(ORDERS)} == {1: 1, 2: 1, 3: OTHER, 4: 1}


@pytest.mark.parametrize("large", [False, True])
def test_bytes_that_are_no_text_are_kept_as_they_are(shop: Harness, large: bool) -> None:
    put(shop, 7)
    put(shop, 8)
    put(shop, 6)
    events = shop.source.take()
    sent = messages(events)
    values = [b"\xff\xfe{", *sent.column("value").to_pylist()[1:]]
    keys = [*sent.column("key").to_pylist()[:1], b"\x80", sent.column("key")[2].as_py()]
    sent = sent.set_column(4, "value", [values]).set_column(3, "key", [keys])
    found = offsets.collect(shop.sessions.flow, Queries(), sent)
    if large:
        feed_large(shop, orders(shop), found)
    else:
        shop.feed(found)
    letters = shop.dead_letters.rows()
    assert [(x["raw_key"], x["raw_value"]) for x in letters] == [*zip(keys, values, strict=True)][:2]
    assert "not JSON" in letters[0]["reason"] and "no UTF-8" in letters[1]["reason"]
    assert [row[0] for row in shop.rows(ORDERS)] == [1, 2, 3, 4, 6]
