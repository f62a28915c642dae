"""QUARANTINE: what a constraint keeps out of a table can be read, is counted, and is never lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest
from harness import Harness, layer
from orders_chain import HOURS, RANGE, change, nine_orders

from headrace.engine.proof.check import check
from headrace.engine.proof.quarantine import Counting, Quarantine
from headrace.engine.read.views import select
from headrace.engine.warehouse.status import quarantine_alarms, quarantine_warnings
from headrace.progress import Progress

SMALL = ", CONSTRAINT small EXPECT (amount < 5) ON VIOLATION QUARANTINE"
KNOWN = ", CONSTRAINT known EXPECT (user_id > 1) ON VIOLATION QUARANTINE"
GONE = ", CONSTRAINT early EXPECT (hour < '2026112012') ON VIOLATION DROP ROW"
PER_USER = (
    f"SELECT user_id, hour, count(*) AS cnt, sum(amount) AS amount FROM stg.orders {RANGE} "
    "GROUP BY user_id, hour"
)
QUERIES = {  # refreshed by ROW, WEIGHTED, AFFECTED_KEYS and TOP_N
    "paid": ("order_id", f"SELECT * FROM stg.orders {RANGE}"),
    "by_user": ("user_id, hour", PER_USER),
    "most": (
        "user_id, hour",
        f"SELECT user_id, hour, max(amount) AS amount FROM stg.orders {RANGE} GROUP BY user_id, hour",
    ),
    "top": (
        "hour, place",
        "SELECT hour, place, order_id, amount, user_id FROM (SELECT hour, order_id, amount, user_id, "
        "row_number() OVER (PARTITION BY hour ORDER BY amount DESC, order_id) AS place FROM stg.orders "
        f"{RANGE}) WHERE place <= 3",
    ),
}
LAYERS = {
    **{f"dwd/{name}": layer(f"dwd.{name}", key, query) for name, (key, query) in QUERIES.items()},
    **{
        f"dws/{name}": layer(f"dws.{name}", key, query, extra=SMALL + KNOWN)
        for name, (key, query) in QUERIES.items()
    },
}


def quarantine_of(warehouse: Harness) -> Quarantine:
    return Quarantine(warehouse.sessions, warehouse.registry, cast("Any", None))


def kept_out(warehouse: Harness, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table's quarantine, sorted; the constraints of each are the last value."""
    rows = quarantine_of(warehouse).rows(warehouse.table(name)).to_pylist()
    return sorted((tuple(r.values()) for r in rows), key=repr)


@pytest.mark.parametrize("seed", [1, 2])
def test_table_and_quarantine_are_all_rows_of_the_query_at_every_step(
    harness: Callable[..., Harness], seed: int
) -> None:
    """A table without constraints has at each step what the same one with them has or keeps aside."""
    warehouse, chance = harness(LAYERS), Random(seed)
    seen = 0
    for _ in range(4):
        for _ in range(6):
            change(warehouse.source, chance)
        warehouse.step()
        for name in QUERIES:
            aside = kept_out(warehouse, f"dws.{name}")
            seen += len(aside)
            both = warehouse.rows(f"dws.{name}") + [row[:-1] for row in aside]
            assert sorted(both, key=repr) == warehouse.rows(f"dwd.{name}"), (name, aside)
            names = list(warehouse.table(f"dws.{name}").store.schema.names)
            for row in aside:
                amount, user = row[names.index("amount")], row[names.index("user_id")]
                broken = [
                    *(["small"] if amount is None or amount >= 5 else []),
                    *(["known"] if user is None or user <= 1 else []),
                ]
                assert row[-1] == broken, (name, row)
    assert seen
    warehouse.assert_parity()


def test_a_row_that_is_also_dropped_is_kept_in_quarantine(harness: Callable[..., Harness]) -> None:
    text = layer("dwd.paid", "order_id", f"SELECT * FROM stg.orders {RANGE}", extra=SMALL + GONE)
    warehouse = nine_orders(harness({"dwd/paid": text}))
    assert [row[0] for row in warehouse.rows("dwd.paid")] == [1, 3, 4]
    assert [(row[0], row[-1]) for row in kept_out(warehouse, "dwd.paid")] == [
        (key, ["small"]) for key in (5, 6, 7, 8, 9)
    ]


def test_without_a_rule_there_is_no_quarantine(harness: Callable[..., Harness]) -> None:
    warehouse = nine_orders(harness({"dwd/paid": LAYERS["dwd/paid"]}))
    assert kept_out(warehouse, "dwd.paid") == kept_out(warehouse, "stg.orders") == []
    assert warehouse.table("dwd.paid").run.quarantine is None


def test_a_select_reads_it_as_a_table(harness: Callable[..., Harness]) -> None:
    warehouse = nine_orders(harness({"dws/paid": LAYERS["dws/paid"]}))
    spark, work = warehouse.sessions.batch, quarantine_of(warehouse)

    def read(text: str) -> list[tuple[Any, ...]]:
        found = select(spark, warehouse.registry, text, lambda t: work.frame(spark, t), pytest.fail)
        return [tuple(row) for row in found.collect()]

    aside = "dws.`paid$quarantine`"
    assert read(f"SELECT order_id FROM {aside} WHERE NOT array_contains(_constraints, 'known')") == []
    assert read(
        f"SELECT q.hour, count(*), min(`paid$quarantine`.amount) FROM {aside} JOIN stg.orders q "
        "USING (order_id) GROUP BY q.hour ORDER BY q.hour"
    ) == [(HOURS[0], 3, 3), (HOURS[1], 3, 1), (HOURS[2], 3, 2)]


def test_check_and_status_count_it(harness: Callable[..., Harness]) -> None:
    warehouse = nine_orders(harness({"dws/paid": LAYERS["dws/paid"]}))
    table, work = warehouse.table("dws.paid"), quarantine_of(warehouse)
    found = check(warehouse.sessions.batch, table, None, quarantine=work, progress=Progress())
    assert [(r.constraint, r.violations, r.rows, r.passed) for r in found] == [
        ("small", 5, 5, False),
        ("known", 9, 9, False),
    ]
    counting = Counting(work)

    def looked() -> Any:
        counting.look(warehouse.registry)
        if counting._thread is not None:
            counting._thread.join()
        return table.run.quarantine

    table.run.quarantine = None
    counted = looked()
    assert (counted.rows, counted.by_constraint) == (9, {"small": 5, "known": 9})
    warehouse.source.put("orders", order_id=10, user_id=0, amount="10.00", hour=HOURS[0])
    warehouse.step()
    assert table.store.version == counted.version  # the row is in no version of the table
    assert looked() is counted  # so soon it is not counted again
    counting._tried["dws.paid"] -= 1_000.0
    assert looked().by_constraint == {"small": 6, "known": 10}
    [warning] = quarantine_warnings(table)
    assert warning.startswith("10 rows are in quarantine (small: 6, known: 10). Next: `headrace quarantine")
    for limit, alarms in ((None, 0), (10, 0), (9, 1)):
        table.spec = replace(table.spec, quarantine_limit=limit)
        assert len(quarantine_alarms(table)) == alarms
    counting.stop()
    counting._tried.clear()
    known = table.run.quarantine
    assert looked() is known
