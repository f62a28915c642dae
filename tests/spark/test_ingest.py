"""stg: per key the highest source sequence wins, whatever is repeated, reordered or broken."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from decimal import Decimal

import pytest
from harness import Harness
from orders_chain import LAYERS, change

from headrace.engine.ingest.ingest import ingest_events
from headrace.errors import SourceChanged

HOUR = "2026112010"


def order(key: int, amount: str = "1.00", user: int = 1, hour: str = HOUR) -> dict[str, object]:
    return {"order_id": key, "user_id": user, "amount": amount, "hour": hour}


def stored(key: int, amount: str = "1.00", user: int = 1, hour: str = HOUR) -> tuple[object, ...]:
    return (key, user, Decimal(amount), hour)


@pytest.fixture(params=[True, False], ids=["identity-full", "identity-default"])
def shop(request: pytest.FixtureRequest, harness: Callable[..., Harness]) -> Harness:
    return harness({}, full_identity=request.param)


def test_insert_update_delete(shop: Harness) -> None:
    shop.source.put("orders", **order(1))
    shop.source.put("orders", **order(2))
    shop.feed()
    shop.source.put("orders", **order(1, "5.00"))
    shop.source.delete("orders", 2)
    shop.feed()
    assert shop.rows("stg.orders") == [stored(1, "5.00")]
    kinds = shop.table("stg.orders").store.changelog.read(1, 2).column("_kind").to_pylist()
    assert sorted(kinds) == ["+U", "-D", "-U"]


def test_events_of_one_key_in_one_batch_fold_to_their_net_change(shop: Harness) -> None:
    shop.source.put("orders", **order(1))
    shop.feed()
    shop.source.put("orders", **order(1, "2.00"))
    shop.source.put("orders", **order(1, "3.00"))
    shop.source.put("orders", **order(7))
    shop.source.delete("orders", 7)
    shop.feed()
    assert shop.rows("stg.orders") == [stored(1, "3.00")]
    commit = shop.table("stg.orders").store.commit
    assert commit.accounting["updated"] == 1
    assert commit.accounting["folded"] == 2
    assert commit.accounting["unchanged"] == 1


def test_a_repeated_batch_changes_nothing(shop: Harness) -> None:
    shop.source.put("orders", **order(1))
    shop.source.put("orders", **order(1, "2.00"))
    shop.source.put("orders", **order(2))
    shop.source.delete("orders", 2)
    events = shop.source.take()
    shop.feed(events)
    again = [e._replace(offset=e.offset + 100) for e in events]  # Connect sent them a second time
    shop.feed(again)
    assert shop.rows("stg.orders") == [stored(1, "2.00")]
    commit = shop.table("stg.orders").store.commit
    assert commit.accounting["duplicate"] == 4
    assert commit.rows == 1
    assert shop.table("stg.orders").store.changelog.read(1, 2).num_rows == 0


def test_a_batch_read_twice_is_below_the_frontier(shop: Harness) -> None:
    shop.source.put("orders", **order(1))
    events = shop.source.take()
    shop.feed(events)
    assert not shop.feed(events)
    assert shop.table("stg.orders").store.version == 1


def test_a_late_event_loses_and_a_tombstone_blocks_resurrection(shop: Harness) -> None:
    shop.source.put("orders", **order(1))
    shop.source.put("orders", **order(1, "2.00"))
    shop.source.put("orders", **order(2))
    shop.source.delete("orders", 2)
    first, second, created, deleted = shop.source.take()
    shop.feed([second, deleted._replace(offset=2)])
    shop.feed([first._replace(offset=10), created._replace(offset=11)])
    assert shop.rows("stg.orders") == [stored(1, "2.00")]


def test_a_tombstone_blocks_after_compaction_and_restart(shop: Harness) -> None:
    from headrace.engine.compaction.compaction import compact

    shop.source.put("orders", **order(2))
    shop.source.delete("orders", 2)
    created, deleted = shop.source.take()
    shop.feed([deleted])
    compact(shop.sessions.batch, shop.table("stg.orders"), run_id="test")
    shop.open()
    shop.feed([created._replace(offset=11)])
    assert shop.rows("stg.orders") == []


def test_rows_that_come_and_go_within_a_batch_leave_only_tombstones(shop: Harness) -> None:
    for key in (1, 2, 3):
        shop.source.put("orders", **order(key))
        shop.source.delete("orders", key)
    events = shop.source.take()
    shop.feed(events)
    store = shop.table("stg.orders").store
    assert store.changelog.read(0, 1).num_rows == 0
    assert set(store.deletes.find({(1,), (2,), (3,)})) == {(1,), (2,), (3,)}
    shop.feed([e._replace(offset=e.offset + 100) for e in events if e.op == "c"])
    assert shop.rows("stg.orders") == []


def test_a_row_moves_between_partitions(shop: Harness) -> None:
    from headrace.engine.compaction.compaction import compact

    shop.source.put("orders", **order(1))
    shop.feed()
    compact(shop.sessions.batch, shop.table("stg.orders"), run_id="test")
    shop.source.put("orders", **order(1, hour="2026112011"))
    shop.feed()
    assert shop.rows("stg.orders") == [stored(1, hour="2026112011")]
    compact(shop.sessions.batch, shop.table("stg.orders"), run_id="test")
    shop.open()
    assert shop.rows("stg.orders") == [stored(1, hour="2026112011")]


def test_broken_messages_become_dead_letters_and_the_rest_goes_on(shop: Harness) -> None:
    shop.source.put("orders", **order(1))
    shop.source.put("orders", **order(2))
    shop.source.put("orders", **order(3))
    shop.source.put("orders", **order(4))
    good, not_json, wrong_type, no_key = shop.source.take()
    batch = [
        good,
        not_json._replace(op=None, before=None, after=None, value=b"not JSON"),
        wrong_type._replace(after='{"order_id": 3, "user_id": "x", "amount": "1.00", "hour": "2026112010"}'),
        no_key._replace(key=None),
    ]
    shop.feed(batch)
    assert shop.rows("stg.orders") == [stored(1)]
    letters = shop.dead_letters.rows()
    assert [x["offset"] for x in letters] == [1, 2, 3]
    assert "not JSON" in letters[0]["reason"]
    assert shop.dead_letters.count("stg.orders") == 3
    assert shop.table("stg.orders").store.commit.accounting["dead_letters"] == 3


def test_files_of_other_columns_are_made_anew_and_not_written(shop: Harness) -> None:
    """As where a server was killed after it noted the source's new columns, and before the files had them."""
    table = shop.table("stg.orders")
    table.store.fits = False
    shop.source.put("orders", **order(1))
    with pytest.raises(SourceChanged, match=r"do not have them yet\. Next: wait, or `headrace apply`"):
        ingest_events(shop.sessions, shop.dead_letters, table, shop.source.take(), {}, run_id="test", batch=0)
    assert table.store.version == 0


def test_an_unreadable_decimal_is_refused_by_name(shop: Harness) -> None:
    shop.source.put("orders", **order(1, "NAN"))
    shop.feed()
    assert "amount" in shop.dead_letters.rows()[0]["reason"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_at_once_equals_one_by_one(harness: Callable[..., Harness], seed: int) -> None:
    """A random change log gives the same table whether it comes as one batch or event by event."""
    chance = random.Random(seed)
    at_once, one_by_one = harness({}), harness({})
    for _ in range(25):
        key = chance.randint(1, 6)
        if key in at_once.source.rows["orders"] and chance.random() < 0.3:
            at_once.source.delete("orders", key)
        else:
            amount = f"{chance.randint(1, 99)}.00"
            at_once.source.put("orders", **order(key, amount, hour=f"20261120{chance.randint(10, 12)}"))
    events = at_once.source.take()
    at_once.feed(events)
    for event in events:
        one_by_one.feed([event])
    expected = sorted(
        stored(k, r["amount"], hour=r["hour"]) for k, r in at_once.source.rows["orders"].items()
    )
    assert at_once.rows("stg.orders") == one_by_one.rows("stg.orders") == expected


def test_a_clock_that_jumps_decides_nothing(
    harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day ahead, a day back, then right again: as events, so commits are ordered by what they follow."""
    names = ("dwd/paid", "dws/by_user")
    warehouse = harness({name: LAYERS[name] for name in names})
    chance, real = random.Random(50), time.time
    for ahead in (0, 86_400, -86_400, -1, 0):
        monkeypatch.setattr(time, "time", lambda ahead=ahead: real() + ahead)
        for _ in range(6):
            change(warehouse.source, chance)
        warehouse.step()
        warehouse.assert_parity()
    rows = warehouse.source.rows["orders"].values()
    held = [(*row.values(),) for row in rows]
    expected = [(o, u, None if a is None else Decimal(a), h) for o, u, a, h in held]
    assert warehouse.rows("stg.orders") == sorted(expected, key=repr)
