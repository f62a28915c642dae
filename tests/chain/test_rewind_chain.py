"""Rewind in the real stack: killed in the middle, done by the same statement, and read again from Kafka."""

from __future__ import annotations

import pytest
from chain_support import eventually
from running_shop import Shop, check_changelog

from headrace.errors import HeadraceError
from headrace.results import ParityResult, RewindResult

pytestmark = pytest.mark.long

TABLE, READ, LAST = "stg.page_words", "dwd.partition_word_count", "dws.partition_word_count"
"""The shortest chain that begins with a topic: each of its tables is written and compared several times."""


def test_killed_in_the_middle_of_a_rewind_nothing_is_lost(shop: Shop) -> None:
    shop.wait_caught_up()
    with shop.load(seed=51):
        shop.wait_advanced(TABLE, READ, LAST)
        then = shop.status()[TABLE]
        shop.wait_advanced(TABLE, READ, by=3)
        shop.wait_advanced(LAST)
    statement = f"ALTER MATERIALIZED TABLE {TABLE} REWIND TO VERSION {then.version} CASCADE"
    planned = RewindResult.model_validate(shop.client.run(f"{statement} DRY RUN").result)
    went_back = [t.table for t in planned.tables]
    assert went_back == [TABLE, READ, LAST]
    assert {s.state for s in shop.status().values()} == {"RUNNING"}

    pid = shop.pid
    assert pid is not None
    shop.arm("rewind.after_commit=kill")
    with shop.load(seed=52):
        with pytest.raises(HeadraceError):
            shop.client.run(statement)
        shop.wait_replaced(pid)
        shop.wait_answers()
        eventually("the tables are back", lambda: shop.status()["stg.users"].state == "RUNNING")
        assert {shop.status()[t].state for t in went_back} == {"SUSPENDED"}
        result = RewindResult.model_validate(shop.client.run(statement).result)
        done = {t.table: t.done for t in result.tables}
        assert set(went_back) <= set(done) and [t for t in done if done[t]] == [TABLE]
        went_back = list(done)  # one that lagged at the dry run may have come further since
        assert shop.status()[TABLE].rows == then.rows
        assert shop.status()[TABLE].frontier == then.frontier
        proofs = shop.client.run(f"VERIFY {', '.join(went_back)} WITHOUT SOURCE").result
        assert all(ParityResult.model_validate(p).equal for p in proofs), proofs
        for table in went_back:
            shop.client.run(f"ALTER MATERIALIZED TABLE {table} RESUME")
        shop.wait_running()
        shop.wait_advanced(TABLE, READ, LAST)
    shop.wait_caught_up()
    shop.verify(*went_back)  # all others are proven once, at the end of `test_warehouse`
    for table in went_back:
        check_changelog(shop.path(table, "changelog"), shop.primary_key(table))
