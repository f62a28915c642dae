"""What consumers do with corrections, and which partitions a table in FULL mode runs again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, RANGE, corrupt, files, forget

from headrace.engine.compaction.compaction import compact
from headrace.engine.refresh.refresh import refresh_table
from headrace.store.record.commits import latest

COPY = layer("dws.copy", "order_id", f"SELECT order_id, amount, hour FROM dwd.paid {RANGE}")


def declared(text: str, policy: str) -> str:
    return text.replace("'yyyyMMddHH')", f"'yyyyMMddHH', 'correction.policy' = '{policy}')", 1)


@pytest.mark.parametrize(
    ("policy", "after"),
    [
        # The correction inserts orders 1, 4 and 7 of the hour; order 4 is all that the consumer lacks there,
        # and order 2 of another hour, of which the correction says nothing.
        ("skip", {"held": 7, "kinds": []}),
        ("propagate", {"held": 8, "kinds": ["+I", "+I", "+I"]}),
        ("recompute", {"held": 8, "kinds": ["+I"]}),
    ],
)
def test_policies(harness: Callable[..., Harness], policy: str, after: dict[str, object]) -> None:
    made = harness({"dwd/paid": LAYERS["dwd/paid"], "dws/copy": declared(COPY, policy)})
    for key in range(1, 10):
        made.source.put("orders", order_id=key, user_id=1, amount=f"{key}.00", hour=HOURS[key % 3])
    made.step()
    corrupt(made, "dwd.paid", HOURS[1])
    forget(made, "dws.copy", "order_id", {2, 4}.__contains__)
    version = made.table("dws.copy").store.version
    assert made.backfill("dwd.paid", HOURS[1], HOURS[1]).inserted == 3
    made.advance()
    store = made.table("dws.copy").store
    kinds = store.changelog.read(version, store.version).column("_kind").to_pylist()
    assert {"held": len(made.rows("dws.copy")), "kinds": kinds} == after
    assert (2 not in {r[0] for r in made.rows("dws.copy")}) and store.commit.upstreams != {}
    made.backfill("dws.copy")
    made.assert_parity()


def test_a_correction_of_a_table_without_partitions_is_recomputed_by_key(
    harness: Callable[..., Harness],
) -> None:
    by_user = layer(
        "dws.users",
        "user_id",
        "SELECT user_id, count(*) AS cnt FROM dwd.paid GROUP BY user_id",
        partitioned=False,
    )
    made = harness({"dwd/paid": LAYERS["dwd/paid"], "dws/users": by_user})
    for key in range(1, 10):
        made.source.put("orders", order_id=key, user_id=key % 2, amount="1.00", hour=HOURS[key % 3])
    made.step()
    right = made.rows("dws.users")
    corrupt(made, "dwd.paid", HOURS[1])
    made.backfill("dwd.paid", HOURS[1], HOURS[1])
    made.advance()
    assert made.rows("dws.users") == right
    made.assert_parity()


def test_late_data_runs_exactly_the_partitions_that_it_touched(harness: Callable[..., Harness]) -> None:
    """Old and new places of a moved row, and no others: these keep their files."""
    made = harness({k: LAYERS[k] for k in ("dwd/paid", "dws/by_user", "dws/top")})
    hours = [f"20261120{h:02}" for h in range(10, 16)]
    for key in range(1, 13):
        made.source.put("orders", order_id=key, user_id=key, amount=f"{key}.00", hour=hours[key % 6])
    made.advance(made.feed())
    for name in ("dws.by_user", "dws.top"):
        compact(made.sessions.batch, made.table(name), run_id="test")
    before = {name: files(made, name) for name in ("dws.by_user", "dws.top")}
    made.source.put("orders", order_id=1, user_id=1, amount="99.00", hour=hours[4])  # from hour 1
    made.advance_one("dwd.paid", made.feed())
    for name in before:
        table = made.table(name)
        refresh_table(made.sessions, made.registry, table, {}, run_id="test", recompute=True)
        compact(made.sessions.batch, table, run_id="test")
        after = files(made, name)
        touched = {h for h in {*after, *before[name]} if after.get(h) != before[name].get(h)}
        assert touched == {f"hour={hours[1]}", f"hour={hours[4]}"}
        assert table.store.commit.partitions == (hours[1], hours[4])
        found = latest(table.store.snapshot.path)
        assert found is not None and found[1].partitions == (hours[1], hours[4])
        assert table.store.commit.upstreams == {"dwd.paid": made.table("dwd.paid").store.version}
    made.assert_parity()
