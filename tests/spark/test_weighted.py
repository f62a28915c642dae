"""WEIGHTED: whatever is added, visible and hidden columns equal the table's SQL in batch."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from harness import Harness, layer
from orders_chain import HOURS, RANGE, change

from headrace.engine.backfill.backfill import backfill
from headrace.engine.compaction.compaction import compact, write_local
from headrace.engine.refresh import refresh as refresh_module
from headrace.engine.refresh.decision import history
from headrace.engine.rows.batch_rows import batch_rows
from headrace.engine.spark.prepared import Queries
from headrace.progress import Progress

LAYERS = {
    "dws/by_user": layer(
        "dws.by_user",
        "user_id, hour",
        "SELECT user_id, hour, count(*) AS cnt, sum(amount) AS amount, SUM(order_id) AS ids FROM stg.orders "
        f"{RANGE} GROUP BY user_id, stg.orders.hour",
        extra=", CONSTRAINT counted EXPECT (cnt > 0) ON VIOLATION FAIL",
    ),
    "dws/shares": layer(
        "dws.shares",
        "hour",
        "SELECT o.hour, COALESCE(SUM(o.amount), 0) AS sold, 100 * SUM(o.amount) FILTER (WHERE o.user_id = 1) "
        "/ NULLIF(SUM(amount), 0) AS share, -- in percent, FROM all\n count(amount) AS paid "
        f"FROM stg.orders AS o {RANGE} GROUP BY 1",
    ),
    "dws/parity": layer(
        "dws.parity",
        "odd",
        "WITH paid AS (SELECT * FROM stg.orders WHERE amount > 0) SELECT concat('u', user_id % 2) AS odd, "
        "count_if(amount > 2) AS large, sum(user_id) + 1 AS users, concat('u', user_id % 2) || '!' AS shown "
        "FROM paid WHERE user_id IS NOT NULL GROUP BY concat('u', user_id % 2)",
        partitioned=False,
    ),
    "dws/total": layer(
        "dws.total",
        "cnt",
        "SELECT count(*) AS cnt, sum(amount) AS amount, sum(amount) IS NULL AS nothing FROM stg.orders",
        partitioned=False,
    ),
    "dws/pairs": layer(
        "dws.pairs",
        "amount, hour, x",
        "SELECT amount, hour, x, count(x) AS n FROM stg.orders "
        "LATERAL VIEW explode(array(user_id, 7)) t AS x GROUP BY ALL",
        partitioned=False,
    ),
    "dws/by_city": layer(
        "dws.by_city",
        "city, hour",
        "SELECT u.city, o.hour, count(*) AS n, sum(o.amount) AS amount FROM stg.users u JOIN stg.orders o "
        "ON u.user_id = o.user_id WHERE o.hour >= ${start_date} AND o.hour <= ${end_date} GROUP BY ALL",
    ),
    "dws/places": layer(
        "dws.places",
        "place",
        "SELECT coalesce(u.city, '?') AS place, count(u.user_id) AS n, coalesce(sum(amount), 0) AS amount "
        "FROM stg.orders o LEFT JOIN stg.users u USING (user_id) GROUP BY 1",
        partitioned=False,
    ),
    "dws/meetings": layer(
        "dws.meetings",
        "user_id",
        "SELECT a.user_id, sum(b.order_id) AS ids FROM stg.orders a JOIN stg.orders b "
        "ON a.user_id = b.user_id AND a.hour = b.hour GROUP BY a.user_id",
        partitioned=False,
    ),
}
HIDDEN = {
    "dws.by_user": ("_count_3", "_count_5"),
    "dws.shares": ("_sum_1", "_sum_3", "_count_4", "_rows"),
    "dws.parity": ("_sum_2", "_count_3", "_rows"),
    "dws.total": ("_count_3",),
    "dws.pairs": ("_rows",),
    "dws.by_city": ("_count_3",),
    "dws.places": ("_sum_2", "_count_3", "_rows"),
    "dws.meetings": ("_count_2", "_rows"),
}


def test_each_is_weighted_and_hides_what_it_needs(harness: Callable[..., Harness]) -> None:
    made = harness(LAYERS)
    for name in HIDDEN:
        assert made.table(name).plan.strategy.name == "WEIGHTED", made.table(name).plan.refused
    assert {n: tuple(c for c, _ in made.table(n).store.schema.hidden) for n in HIDDEN} == HIDDEN


def groups(made: Harness) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """`dws.by_user` from the source's rows, without any SQL."""
    found: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in made.source.rows["orders"].values():
        found[row["user_id"], row["hour"]].append(row)
    expected = {}
    for key, rows in found.items():
        amounts = [Decimal(r["amount"]) for r in rows if r["amount"] is not None]
        expected[key] = len(rows), sum(amounts) if amounts else None, sum(r["order_id"] for r in rows)
    return expected


def follow(made: Harness) -> None:
    """One step, not by the whole query where that costs less."""
    known = made.feed()
    for table in made.registry:
        if table.spec.source is None:
            refresh_module.refresh_table(
                made.sessions, made.registry, table, known, run_id="test", force="INCREMENTAL"
            )


def decision(made: Harness, name: str) -> tuple[str, str]:
    found = history(made.table(name))[-1]
    return found.chosen, found.path


JOINS = ("dws/by_city", "dws/places", "dws/meetings")


@pytest.mark.long
@pytest.mark.parametrize(
    ("reading", "path"),
    [
        ("one table", "driver"),
        ("one table", "arrow"),
        ("one table", "cluster"),
        ("joins", "driver"),
        ("joins", "cluster"),
    ],
)
def test_random_changes_are_added_exactly(
    harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch, reading: str, path: str
) -> None:
    layers = {n: text for n, text in LAYERS.items() if (n in JOINS) == (reading == "joins")}
    seed = 411
    print(f"seed {seed}")
    chance = random.Random(seed)
    made = harness(layers)
    names = [name.replace("/", ".") for name in layers]
    for step in range(4 if path == "driver" else 2):
        if path != "driver" and step == 1:  # the first load is FULL
            made.limit(small=-1, changed=-1)
            if path == "cluster":
                made.limit(changes=-1)
        for _ in range(10):
            change(made.source, chance)
        follow(made)
        ran = [n for n in names if history(made.table(n))]  # where nothing met yet, nothing ran
        ways = {decision(made, n) for n in ran} - {("FULL", "load")}
        if path == "arrow":  # but not where the changed rows do not tell the groups
            ways -= {("WEIGHTED", "cluster")}
        assert ways == ({("WEIGHTED", path)} if step else set())
        if step == 1:
            for name in (names[0], names[2], "stg.orders"):
                compact(made.sessions.batch, made.table(name), run_id="test")
            made.open()
        if step == 2:
            assert not any(made.backfill(n).updated for n in names[:2])
        made.assert_parity()
        if reading == "one table":
            assert {r[:2]: r[2:] for r in made.rows("dws.by_user")} == groups(made)
    for key in list(made.source.rows["orders"]):
        made.source.delete("orders", key)
    follow(made)
    made.assert_parity()
    assert made.rows(names[0]) == []
    if reading == "one table":
        assert made.rows("dws.total") == [(0, None, True)]


def test_a_group_is_not_read_again(harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong stored sum stays wrong by as much: the change alone is read."""
    made = harness({"dws/by_user": LAYERS["dws/by_user"]})
    for key in (1, 2):
        made.source.put("orders", order_id=key, user_id=1, amount="1.00", hour=HOURS[0])
    made.step()
    read: dict[object, list[int]] = {}
    kept = Queries.run

    def noting(self: Queries, spark: Any, purpose: object, inputs: Any, build: Any) -> Any:
        read[purpose] = [rows.num_rows for rows, _ in inputs]
        return kept(self, spark, purpose, inputs, build)

    monkeypatch.setattr(Queries, "run", noting)
    made.source.put("orders", order_id=2, user_id=1, amount="5.00", hour=HOURS[0])
    made.step()
    assert read["weighted"] == [1, 1, 1]  # stored group, old image, new image
    assert made.rows("dws.by_user") == [(1, HOURS[0], 2, Decimal("6.00"), 3)]


def test_columns_are_computed_from_whole_groups_only(harness: Callable[..., Harness]) -> None:
    """A part of a group may divide by zero where the group does not."""
    ratio = layer(
        "dws.ratio", "hour", f"SELECT hour, 12 / SUM(user_id) AS r FROM stg.orders {RANGE} GROUP BY hour"
    )
    made = harness({"dws/ratio": ratio})
    made.source.put("orders", order_id=1, user_id=3, amount=None, hour=HOURS[0])
    made.step()
    made.source.put("orders", order_id=2, user_id=0, amount=None, hour=HOURS[0])
    made.step()
    assert made.rows("dws.ratio") == [(HOURS[0], 4.0)]
    made.source.put("orders", order_id=3, user_id=1, amount=None, hour=HOURS[0])
    made.step()
    made.assert_parity()


def test_hidden_columns_are_seen_by_nobody(harness: Callable[..., Harness]) -> None:
    follower = layer("dwd.copy", "hour", f"SELECT * FROM dws.shares {RANGE}")
    made = harness({"dws/shares": LAYERS["dws/shares"], "dwd/copy": follower})
    made.source.put("orders", order_id=1, user_id=3, amount="2.00", hour=HOURS[0])
    made.step()
    made.source.put("orders", order_id=2, user_id=1, amount="6.00", hour=HOURS[0])
    made.step()
    made.assert_parity()
    from headrace.engine.read.views import live_sql, select

    text = "SELECT * FROM dws.shares"
    shown = select(made.sessions.batch, made.registry, text, quarantine=pytest.fail, one_cut=pytest.fail)
    assert shown.columns == ["hour", "sold", "share", "paid"]
    assert made.sessions.batch.sql(live_sql(made.table("dws.shares"))).columns == shown.columns
    assert [n for n, _ in made.table("dwd.copy").store.schema.columns] == shown.columns


def test_sums_that_are_not_exact_are_refused(harness: Callable[..., Harness]) -> None:
    floats = layer(
        "dws.floats",
        "hour",
        f"SELECT hour, SUM(sqrt(user_id)) AS a FROM stg.orders {RANGE} GROUP BY hour",
    )
    made = harness({"dws/floats": floats})
    assert made.table("dws.floats").plan.strategy.name == "AFFECTED_PARTITIONS"
    refused = dict(made.table("dws.floats").plan.refused)
    assert refused["WEIGHTED"] == "`SUM(sqrt(user_id))` is a double: adding to it is not exact"


def test_a_backfill_corrects_what_the_stream_adds_to(harness: Callable[..., Harness]) -> None:
    """What was wrong when the backfill began is corrected also where the stream has changed it since."""
    made = harness({"dws/by_user": LAYERS["dws/by_user"]})
    for key in (1, 2, 3):
        made.source.put("orders", order_id=key, user_id=key % 2, amount="1.00", hour=HOURS[0])
    made.step()
    table = made.table("dws.by_user")
    rows = table.store.head().read()
    wrong = rows.set_column(2, "cnt", pa.array([9] * rows.num_rows, pa.int64()))
    write_local(table, wrong, None, version=1, compacted=1, run_id="test")
    expected = batch_rows(made.sessions.batch, made.registry, table, table.store.commit.upstreams)
    expected = expected.localCheckpoint()
    made.source.put("orders", order_id=3, user_id=1, amount="50.00", hour=HOURS[0])
    made.source.put("orders", order_id=4, user_id=1, amount="1.00", hour=HOURS[0])
    made.step()
    assert sorted(r[2] for r in made.rows("dws.by_user")) == [9, 10]
    backfill(
        made.sessions, made.registry, table, None,
        expected=expected, version=1, run_id="test", progress=Progress(),
    )  # fmt: skip
    made.assert_parity()
    assert sorted(r[2] for r in made.rows("dws.by_user")) == [1, 3]


@pytest.mark.parametrize("name", ["dws.by_user", "dws.parity"])
def test_a_correction_of_what_was_never_added_is_not_added_twice(
    harness: Callable[..., Harness], name: str
) -> None:
    """`dws.parity` has computed groups, so the whole query runs."""
    text = LAYERS[name.replace(".", "/")]
    copied = layer("dwd.copied", "order_id", f"SELECT * FROM stg.orders {RANGE}")
    made = harness({"dwd/copied": copied, name.replace(".", "/"): text.replace("stg.orders", "dwd.copied")})
    assert made.table(name).plan.strategy.name == "WEIGHTED"
    for key in (1, 2, 3):
        made.source.put("orders", order_id=key, user_id=1, amount="3.00", hour=HOURS[0])
    made.step()
    right = made.rows(name)
    upstream = made.table("dwd.copied")
    lost = upstream.store.head().read().slice(1)
    write_local(upstream, lost, None, version=1, compacted=1, run_id="test")
    assert made.backfill("dwd.copied", HOURS[0], HOURS[0]).inserted == 1
    made.advance()
    assert made.rows(name) == right
    made.assert_parity()
