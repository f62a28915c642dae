"""Derived tables: whatever changed and however it is carried, the table equals its SQL in batch."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, RANGE, change

from headrace.engine.compaction.compaction import compact
from headrace.errors import ConstraintViolated

STRATEGIES = {
    "dwd.paid": "ROW",
    "dwd.cities": "AFFECTED_KEYS",
    "dwd.maybe": "AFFECTED_KEYS",
    "dws.by_user": "WEIGHTED",
    "dws.by_city": "AFFECTED_KEYS",
    "dws.top": "AFFECTED_PARTITIONS",
    "dws.active": "AFFECTED_KEYS",
    "dws.spread": "AFFECTED_KEYS",
    "dws.events": "AFFECTED_KEYS",
    "dws.total": "WEIGHTED",
}


def test_the_planner_chose_each_strategy(harness: Callable[..., Harness]) -> None:
    warehouse = harness(LAYERS)
    chosen = {str(t.name): t.plan.strategy.name for t in warehouse.registry if t.spec.source is None}
    assert chosen == STRATEGIES


PLACES = {
    "driver": {},
    "arrow": {"small": -1, "changed": -1},
    # Nor may the driver commit and fold what Spark finds.
    "cluster": {"small": -1, "changed": -1, "changes": -1},
}
EVERYWHERE = ("dwd.paid", "dws.by_user", "dws.total")
"""Tables whose strategies run in each place, over one upstream."""


@pytest.mark.parametrize(
    "place", ["driver", *(pytest.param(p, marks=pytest.mark.long) for p in ("arrow", "cluster"))]
)
def test_random_changes_keep_every_table_equal_to_batch(harness: Callable[..., Harness], place: str) -> None:
    seed = 20261120
    print(f"seed {seed}")
    chance = random.Random(seed)
    warehouse = harness(LAYERS, batch_settings=True)
    warehouse.limit(**PLACES[place])
    for step in range(2):
        for _ in range(12):
            change(warehouse.source, chance)
        warehouse.step()
        if step == 0:
            compact(warehouse.sessions.batch, warehouse.table("dwd.paid"), run_id="test")
            warehouse.open()  # a restarted server finds everything in the log
        warehouse.assert_parity()
    assert {n: warehouse.table(n).store.commit.decision.get("path") for n in EVERYWHERE} == dict.fromkeys(
        EVERYWHERE, place
    )


def test_both_sides_of_a_join_deleted_at_once(harness: Callable[..., Harness]) -> None:
    warehouse = harness({k: LAYERS[k] for k in ("dwd/cities", "dws/by_city")})
    warehouse.source.put("users", user_id=1, city="Oslo")
    warehouse.source.put("orders", order_id=1, user_id=1, amount="1.00", hour=HOURS[0])
    warehouse.step()
    assert len(warehouse.rows("dws.by_city")) == 1
    warehouse.source.delete("orders", 1)
    warehouse.source.delete("users", 1)
    warehouse.step()
    assert warehouse.rows("dwd.cities") == warehouse.rows("dws.by_city") == []


def test_a_table_left_behind_catches_up_from_the_changelogs(harness: Callable[..., Harness]) -> None:
    """As after a kill between two tables of one micro-batch, and after a suspension of many."""
    warehouse = harness({k: LAYERS[k] for k in ("dwd/paid", "dws/by_user")})
    chance = random.Random(4)
    for _ in range(3):
        for _ in range(8):
            change(warehouse.source, chance)
        warehouse.feed()  # stg alone commits
    warehouse.open()
    warehouse.advance()
    for _ in range(8):
        change(warehouse.source, chance)
    warehouse.feed()
    for _ in range(8):
        change(warehouse.source, chance)
    warehouse.feed()
    warehouse.open()
    warehouse.advance()
    warehouse.assert_parity()
    assert warehouse.table("dws.by_user").store.commit.upstreams == {
        "dwd.paid": warehouse.table("dwd.paid").store.version
    }


def test_a_broken_fail_constraint_commits_nothing(harness: Callable[..., Harness]) -> None:
    strict = layer(
        "dws.by_user",
        "user_id, hour",
        f"SELECT user_id, hour, sum(amount) AS amount FROM stg.orders {RANGE} GROUP BY user_id, hour",
        extra=", CONSTRAINT small EXPECT (amount < 10) ON VIOLATION FAIL",
    )
    warehouse = harness({"dws/by_user": strict})
    warehouse.source.put("orders", order_id=1, user_id=1, amount="1.00", hour=HOURS[0])
    warehouse.step()
    before = warehouse.table("dws.by_user").store.version
    warehouse.source.put("orders", order_id=2, user_id=1, amount="99.00", hour=HOURS[0])
    with pytest.raises(ConstraintViolated, match=r"by_user\.sql:\d+:\d+.*small"):
        warehouse.step()
    assert warehouse.table("dws.by_user").store.version == before


def test_a_key_that_is_no_key_is_refused(harness: Callable[..., Harness]) -> None:
    wrong = layer("dwd.paid", "user_id", f"SELECT order_id, user_id, hour FROM stg.orders {RANGE}")
    warehouse = harness({"dwd/paid": wrong})
    warehouse.source.put("orders", order_id=1, user_id=1, amount="1.00", hour=HOURS[0])
    warehouse.source.put("orders", order_id=2, user_id=1, amount="1.00", hour=HOURS[0])
    with pytest.raises(ConstraintViolated, match="share the primary key"):
        warehouse.step()


def test_drop_row_holds_in_stream_and_batch(harness: Callable[..., Harness]) -> None:
    dropping = layer(
        "dwd.paid",
        "order_id",
        f"SELECT * FROM stg.orders {RANGE}",
        extra=", CONSTRAINT positive EXPECT (amount > 0) ON VIOLATION DROP ROW",
    )
    warehouse = harness({"dwd/paid": dropping})
    for amount in ("1.00", "-1.00", None):
        key = {"1.00": 1, "-1.00": 2}.get(amount or "", 3)
        warehouse.source.put("orders", order_id=key, user_id=1, amount=amount, hour=HOURS[0])
        warehouse.step()
    assert [r[0] for r in warehouse.rows("dwd.paid")] == [1]
    warehouse.assert_parity()
