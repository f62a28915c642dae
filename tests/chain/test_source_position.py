"""A comparison with the source stands in nobody's way there, and loses nothing of what goes on meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop

from headrace.results import ParityResult
from headrace.sources.postgres import MARKER_TABLE

pytestmark = pytest.mark.long

WAITING = f"""
SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO%{MARKER_TABLE}%' AND query NOT LIKE '%heartbeat%'
"""
MARKERS = f"SELECT count(*) FROM {MARKER_TABLE} WHERE id <> 'heartbeat'"
FIRST = -5
"""Below the ids that the load draws from, which are all up to the largest."""


def verified(shop: Shop, statement: str) -> list[ParityResult]:
    return [ParityResult.model_validate(result) for result in shop.client.run(statement).result]


def test_an_open_transaction_neither_waits_for_a_comparison_nor_lets_it_wait(shop: Shop) -> None:
    shop.wait_caught_up()
    with psycopg.connect(shop.dsn) as application:
        application.execute("UPDATE users SET city = 'Atlantis' WHERE user_id = 7")
        application.execute("INSERT INTO products VALUES (%s, 'open', 'open', 1, now(), now())", [FIRST])
        found = verified(shop, "VERIFY stg.users")
        assert all(result.equal for result in found), found
        # What a lock held for the comparison would have made a deadlock.
        application.execute("UPDATE users SET city = 'Lemuria' WHERE user_id = 8")
    found = verified(shop, "VERIFY stg.users")
    assert all(result.equal for result in found), found


def test_what_is_committed_between_a_snapshot_and_its_marker_is_compared_as_the_stream_has_it(
    shop: Shop,
) -> None:
    insert = "INSERT INTO users VALUES (%s, 'new', 'new@shop', %s, now(), now())"
    with psycopg.connect(shop.dsn, autocommit=True) as application:
        for number in range(3):
            application.execute(insert, [FIRST + number, None])
        shop.wait_caught_up()
        [(before,)] = application.execute(MARKERS).fetchall()
        with ThreadPoolExecutor(1) as pool, psycopg.connect(shop.dsn) as holding:
            holding.execute(f"LOCK TABLE {MARKER_TABLE} IN EXCLUSIVE MODE")
            statement = pool.submit(verified, shop, "VERIFY stg.users REPAIR")
            eventually("the marker waits", lambda: application.execute(WAITING).fetchall()[0][0])
            application.execute(insert, [FIRST + 3, "Mu"])
            application.execute("UPDATE users SET city = 'Mu' WHERE user_id = %s", [FIRST])
            application.execute("UPDATE users SET city = NULL WHERE user_id = 7")
            application.execute("DELETE FROM users WHERE user_id = %s", [FIRST + 1])
            application.execute("UPDATE users SET user_id = %s WHERE user_id = %s", [FIRST + 4, FIRST + 2])
        found = statement.result()
        [(after,)] = application.execute(MARKERS).fetchall()
    assert (
        after == before + 1
    )  # another position would have been tried where the first one showed a difference
    assert {result.against for result in found} == {"batch", "source"}
    assert all(result.equal and result.repaired is None for result in found), found
