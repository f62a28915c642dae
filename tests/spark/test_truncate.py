"""A TRUNCATE of the source is an event like others: every row before it is deleted, in one version."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from feeding import ends_of, feed_large, message, messages, three_users
from harness import Harness

from headrace.engine.ingest.ingest import ingest_events
from headrace.engine.ingest.spark import topic_rows
from headrace.engine.spark.persisted import Persisted
from headrace.engine.table.table import Table
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.messages import RAW
from headrace.store.frames import local
from headrace.store.schema import DELETE, INSERT, KIND

USERS = "stg.users"


def feed_few(warehouse: Harness, table: Table, events: list[Event]) -> None:
    """As a flow does it with a small micro-batch."""
    texts = [e._replace(value=message(e)[4]) for e in events]
    ends = ends_of(events)
    ingest_events(warehouse.sessions, warehouse.dead_letters, table, texts, ends, run_id="test", batch=0)


Feed = Callable[[Harness, Table, list[Event]], object]


@pytest.fixture
def shop(harness: Callable[..., Harness]) -> Harness:
    return three_users(harness({}))


@pytest.mark.parametrize("feed", [feed_few, feed_large])
def test_what_was_there_is_deleted_in_one_version_with_what_follows(shop: Harness, feed: Feed) -> None:
    table, source = shop.table(USERS), shop.source
    source.put("users", user_id=2, city="Lima")
    source.put("users", user_id=4, city="gone before anybody saw it")
    source.truncate("users")
    source.put("users", user_id=3, city="Rome")
    source.put("users", user_id=5, city="Rome")
    before = table.store.version
    feed(shop, table, source.take())
    assert shop.rows(USERS) == [(3, "Rome"), (5, "Rome")]
    assert table.store.version == before + 1
    assert table.store.commit.rows == 2
    account = {name: n for name, n in table.store.commit.accounting.items() if n}
    # 2 was updated before and 4 was inserted, 3 was inserted after; of 1 there was no event but the TRUNCATE
    assert account == {
        "events": 5,
        "inserted": 1,
        "updated": 1,
        "deleted": 1,
        "unchanged": 1,
        "truncates": 1,
        "truncated": 1,
    }


@pytest.mark.parametrize("feed", [feed_few, feed_large])
def test_what_came_before_it_does_not_come_back(shop: Harness, feed: Feed) -> None:
    """A connector that was killed sends events again that are older than the TRUNCATE, and the TRUNCATE."""
    table, source = shop.table(USERS), shop.source
    source.put("users", user_id=4, city="Oslo")
    source.truncate("users")
    source.put("users", user_id=5, city="Rome")
    feed(shop, table, source.take())
    source.repeat(6)
    for event in source.take():
        feed(shop, table, [event])
        assert shop.rows(USERS) == [(5, "Rome")]


@pytest.mark.parametrize("feed", [feed_few, feed_large])
def test_what_another_partition_brings_later_does_not_come_back(shop: Harness, feed: Feed) -> None:
    table, source = shop.table(USERS), shop.source
    source.put("users", user_id=4, city="nobody has seen it")
    [older] = source.take()
    source.truncate("users")
    source.put("users", user_id=5, city="Rome")
    feed(shop, table, source.take())
    source.put("users", user_id=6, city="Lima")
    feed(shop, table, source.take())
    feed(shop, table, [older._replace(partition=1, offset=0)])
    assert shop.rows(USERS) == [(5, "Rome"), (6, "Lima")]
    assert table.store.commit.accounting["duplicate"] == 1
    shop.open()
    feed(shop, shop.table(USERS), [older._replace(partition=1, offset=1)])
    assert shop.rows(USERS) == [(5, "Rome"), (6, "Lima")]


def test_an_empty_table_is_truncated(harness: Callable[..., Harness]) -> None:
    warehouse = harness({})
    warehouse.source.truncate("users")
    feed_few(warehouse, warehouse.table(USERS), warehouse.source.take())
    assert warehouse.rows(USERS) == []
    account = warehouse.table(USERS).store.commit.accounting
    assert (account["events"], account["truncates"]) == (1, 1)


def test_consumers_see_the_deletes(harness: Callable[..., Harness]) -> None:
    cities = """
        CREATE MATERIALIZED TABLE dws.cities (PRIMARY KEY (city)) FRESHNESS = INTERVAL '10' SECOND AS
        SELECT city, COUNT(*) AS users FROM stg.users GROUP BY city
    """
    warehouse = harness({"dws/cities": cities})
    for user in (1, 2, 3):
        warehouse.source.put("users", user_id=user, city="Oslo")
    warehouse.advance(warehouse.feed())
    warehouse.source.truncate("users")
    warehouse.source.put("users", user_id=9, city="Rome")
    table = warehouse.table(USERS)
    feed_few(warehouse, table, warehouse.source.take())
    kinds = table.store.changelog.read(1, table.store.version).column(KIND).to_pylist()
    assert kinds == [DELETE] * 3 + [INSERT]
    warehouse.advance()
    assert warehouse.rows("dws.cities") == [("Rome", 1)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pieces_and_the_whole_end_as_the_source(harness: Callable[..., Harness], seed: int) -> None:
    """And the topic read anew, as the proof reads it, says the same."""
    chance = random.Random(seed)
    pieces, whole = harness({}), harness({})
    source, read = pieces.source, list[Event]()
    for _ in range(4):
        for _ in range(chance.randint(3, 12)):
            user, what = chance.randint(1, 6), chance.random()
            if what < 0.15:
                source.truncate("users")
            elif what < 0.3 and user in source.rows["users"]:
                source.delete("users", user)
            elif what < 0.4:
                source.repeat(chance.randint(1, 8))
            else:
                source.put("users", user_id=user, city=chance.choice(["Oslo", "Lima", "Rome"]))
        events = source.take()
        read += events
        feed_large(whole, whole.table(USERS), events)
        while events:
            size = chance.randint(1, 5)
            feed_few(pieces, pieces.table(USERS), events[:size])
            events = events[size:]
        wanted = sorted((row["user_id"], row["city"]) for row in source.rows["users"].values())
        assert whole.rows(USERS) == wanted, seed
        assert pieces.rows(USERS) == wanted, seed
        assert of_topic(whole, read) == wanted, seed


def of_topic(warehouse: Harness, events: list[Event]) -> list[tuple[int, str]]:
    spark, table = warehouse.sessions.flow, warehouse.table(USERS)
    with Persisted() as persist:
        found: pa.Table = topic_rows(spark, table, local(spark, messages(events), RAW), persist).toArrow()
    return sorted(zip(*(found.column(c).to_pylist() for c in ("user_id", "city")), strict=True))
