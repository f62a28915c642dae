"""A table's freshness is changed by a statement while everything runs, in the real stack."""

from __future__ import annotations

import time

import pytest
from chain_support import eventually
from running_shop import Shop

from headrace.gateway.client import StatementFailed
from headrace.results import AlterResult

pytestmark = pytest.mark.long

REPORT = "dws.gmv_hour"
COMPARED = "dws.gmv_compared"
READ = "dwd.orders"
NEIGHBOUR = "dws.user_hour"
STREAMS_WITHIN = 30.0


def alter(shop: Shop, change: str, table: str = REPORT) -> AlterResult:
    return AlterResult.model_validate(shop.client.run(f"ALTER MATERIALIZED TABLE {table} {change}").result)


def test_a_daily_report_streams_and_rests_again_by_one_statement(shop: Shop) -> None:
    shop.wait_caught_up()  # else its first rows come as a refresh of their own
    with shop.load(seed=31) as load:
        daily = alter(shop, "SET FRESHNESS = INTERVAL '1' DAY")
        # What reads it alone has nothing to stream from, and goes with it.
        assert (daily.mode, daily.moved) == ("INCREMENTAL", dict.fromkeys((REPORT, COMPARED), "INCREMENTAL"))
        assert daily.file == "INTERVAL '30' SECOND"
        # It is refreshed once, then not before half a day is over.
        eventually(
            "it rests", lambda: (s := shop.status()[REPORT]) and (s.lag or 0) >= 5 and s.state == "RUNNING"
        )
        shop.wait_advanced("stg.orders", by=3)  # the one refresh may be under way
        rested = shop.status()[REPORT]
        shop.wait_advanced("stg.orders", READ, NEIGHBOUR, by=3)
        assert shop.status()[REPORT].version == rested.version
        assert rested.declared_freshness == 86_400
        [workflow] = [w for w in shop.client.workflows() if w.table == REPORT]
        assert (workflow.state, workflow.freshness) == ("WAITING", 86_400)
        new = shop.client.run(f"ALTER MATERIALIZED TABLE {REPORT} REFRESH NEW").result
        assert new["version"] > rested.version
        with pytest.raises(StatementFailed, match=r"`dws.user_hour` streams"):
            shop.client.run(f"ALTER MATERIALIZED TABLE {NEIGHBOUR} REFRESH NEW")

        begun = time.monotonic()
        sale = alter(shop, "SET FRESHNESS = INTERVAL '10' SECOND")
        assert (sale.mode, sale.moved) == ("CONTINUOUS", dict.fromkeys((REPORT, COMPARED), "CONTINUOUS"))
        shop.wait_advanced(REPORT)
        assert time.monotonic() - begun < STREAMS_WITHIN
        shop.wait_advanced(REPORT, NEIGHBOUR, by=2)

        again = alter(shop, "SET FRESHNESS = INTERVAL '1' DAY")
        assert again.mode == "INCREMENTAL"
        shop.wait_advanced(READ, NEIGHBOUR)
        load.raise_if_failed()
        described = shop.client.run(f"DESCRIBE MATERIALIZED TABLE {REPORT}").result
        assert described["altered"] == {
            "FRESHNESS": {"value": "INTERVAL '1' DAY", "file": "INTERVAL '30' SECOND"}
        }
        assert alter(shop, "RESET FRESHNESS").mode == "CONTINUOUS"
    shop.wait_caught_up()
    shop.verify(REPORT, COMPARED)
    shop.check_changelogs()


def test_a_suspended_table_stays_so_in_any_mode(shop: Shop) -> None:
    shop.client.run(f"ALTER MATERIALIZED TABLE {REPORT} SUSPEND")
    alter(shop, "SET FRESHNESS = INTERVAL '1' DAY")
    alter(shop, "RESET FRESHNESS")
    with shop.load(seed=33):
        before = shop.status()[REPORT]
        shop.wait_advanced(READ, NEIGHBOUR)
        after = shop.status()[REPORT]
        assert (after.state, after.version, after.mode) == ("SUSPENDED", before.version, "CONTINUOUS")
        shop.client.run(f"ALTER MATERIALIZED TABLE {REPORT} RESUME")
        shop.wait_advanced(REPORT)
    shop.verify(REPORT)


def test_a_stg_table_streams_in_any_case(shop: Shop) -> None:
    result = alter(shop, "SET FRESHNESS = INTERVAL '1' DAY", "stg.page_words")
    try:
        with shop.load(seed=34):
            shop.wait_advanced("stg.page_words")
    finally:
        alter(shop, "RESET FRESHNESS", "stg.page_words")
    assert result.freshness == "INTERVAL '1' DAY"
    with pytest.raises(StatementFailed, match=r"`stg.orders` reads a source"):
        shop.client.run("ALTER MATERIALIZED TABLE stg.orders SET REFRESH_MODE = INCREMENTAL")


def test_a_flow_with_a_backlog_takes_more_messages_at_once(shop: Shop) -> None:
    """A micro-batch of ten messages has little but fixed costs, and more come than it works off."""

    def decided(what: str) -> set[tuple[str, str]]:
        found = [
            shop.client.run(f"EXPLAIN MATERIALIZED TABLE {t}").result["decisions"]
            for t in shop.project.tables
        ]
        return {(d["was"], d["became"]) for of_table in found for d in of_table if d["what"] == what}

    with shop.served({"HEADRACE_MAX_OFFSETS_PER_TRIGGER": "10"}):
        with shop.load(seed=35, rate=100.0) as load:
            eventually("its micro-batches have grown", lambda: len(decided("BATCH_SIZE")) > 2)
            load.raise_if_failed()
        assert ("kept", "missed") in decided("MEASURED")
        shop.wait_caught_up()
        shop.verify(NEIGHBOUR, READ)
    shop.check_changelogs()
