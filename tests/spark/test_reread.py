"""A stg table whose rows are read again from the source, and the events after them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from feeding import feed_large, three_users
from harness import Harness

from headrace.engine.backfill.backfill import backfill
from headrace.engine.backfill.reread import Reread
from headrace.progress import Progress
from headrace.sources.stream.envelope import Event, sequence
from headrace.store.frames import local
from headrace.store.schema import KIND, VERSION

USERS = "stg.users"


def read_again(
    shop: Harness, offsets: dict[str, dict[int, int]], *, lsn: int, floor: int, gen: int = 0
) -> None:
    """As a resync does it, with what the source has now."""
    spark, table = shop.sessions.batch, shop.table(USERS)
    rows = pa.Table.from_pylist(list(shop.source.rows["users"].values()))
    expected = local(spark, rows, (("user_id", "bigint"), ("city", "string")))
    reread = Reread(
        sequence=sequence(gen, floor),
        high=sequence(gen, lsn),
        offsets=offsets,
        generation=gen,
        origin={},
        lost=True,
    )
    backfill(
        shop.sessions,
        shop.registry,
        table,
        None,
        expected=expected,
        version=table.store.version,
        reread=reread,
        run_id="test",
        progress=Progress(),
    )


def check_changes(shop: Harness) -> None:
    """Every change fits the row that it meets, and the commit counts what is there."""
    store, held = shop.table(USERS).store, dict[int, str]()
    changes = store.changelog.read(0, store.version).to_pylist()
    for row in sorted(changes, key=lambda r: (r[VERSION], r[KIND].startswith("+"))):
        if row[KIND].startswith("-"):
            assert held.pop(row["user_id"]) == row["city"], row
        else:
            assert held.setdefault(row["user_id"], row["city"]) == row["city"], row
    assert sorted(held.items()) == shop.rows(USERS)
    assert store.commit.rows == len(held)


@pytest.fixture
def shop(harness: Callable[..., Harness]) -> Harness:
    return three_users(harness({}))


def wanted(shop: Harness) -> list[tuple[int, str]]:
    return sorted((row["user_id"], row["city"]) for row in shop.source.rows["users"].values())


def feed_small(shop: Harness, events: list[Event]) -> None:
    shop.feed(events)


def large(shop: Harness, events: list[Event]) -> None:
    feed_large(shop, shop.table(USERS), events)


Feed = Callable[[Harness, list[Event]], None]


@pytest.mark.parametrize("feed", [feed_small, large])
@pytest.mark.parametrize("rests", [True, False])
def test_events_that_a_flow_held_back_are_in_the_rows_already(shop: Harness, feed: Feed, rests: bool) -> None:
    shop.source.put("users", user_id=2, city="Lima")
    shop.source.put("users", user_id=4, city="Rome")
    shop.source.delete("users", 3)
    held = shop.source.take()
    offsets = {held[0].topic: {0: held[0].offset}} if rests else {}
    read_again(shop, offsets, lsn=held[-1].lsn, floor=held[0].lsn - 1)
    assert shop.rows(USERS) == wanted(shop)
    feed(shop, held)
    assert shop.rows(USERS) == wanted(shop)
    check_changes(shop)


@pytest.mark.parametrize("feed", [feed_small, large])
def test_a_transaction_that_was_under_way_comes_after_the_rows(shop: Harness, feed: Feed) -> None:
    """Its changes stand in the log before what was applied last, also those of a row that the table lacks."""
    shop.source.put("users", user_id=5, city="lost")
    shop.source.take()
    shop.source.put("users", user_id=1, city="slow")
    shop.source.put("users", user_id=5, city="slow")
    slow = shop.source.take()
    shop.source.put("users", user_id=2, city="fast")
    [fast] = shop.source.take()
    shop.feed([fast])
    shop.source.rows["users"] |= {  # as everybody else sees them
        1: {"user_id": 1, "city": "Oslo"},
        5: {"user_id": 5, "city": "lost"},
    }
    read_again(shop, {slow[0].topic: {0: slow[0].offset}}, lsn=fast.lsn, floor=slow[0].lsn - 1)
    assert shop.rows(USERS) == [(1, "Oslo"), (2, "fast"), (3, "Oslo"), (5, "lost")]
    feed(shop, slow)
    assert shop.rows(USERS) == [(1, "slow"), (2, "fast"), (3, "Oslo"), (5, "slow")]
    check_changes(shop)


def test_after_an_older_copy_of_the_source_what_follows_counts_as_later(shop: Harness) -> None:
    [newest] = [shop.source.put("users", user_id=1, city="before")] and shop.source.take()
    shop.feed([newest])
    shop.source.put("users", user_id=1, city="restored")
    [restored] = shop.source.take()
    read_again(shop, {restored.topic: {0: restored.offset}}, lsn=10, floor=5, gen=1)
    shop.source.put("users", user_id=1, city="after")
    [after] = shop.source.take()
    low = after._replace(lsn=20)
    shop.feed([low])
    assert (1, "after") in shop.rows(USERS)
    commit = shop.table(USERS).store.commit
    assert (commit.generation, commit.high) == (1, sequence(1, 20))
    check_changes(shop)
