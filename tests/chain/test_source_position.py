"""A comparison with the source stands in nobody's way there, and loses nothing of what goes on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop

from headrace.results import ParityResult
from headrace.settings import SOURCE_ROLE

pytestmark = pytest.mark.long

WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE wait_event = 'advisory' AND query LIKE 'SELECT pg_logical_emit_message%'
"""
HELD = f"""
CREATE SEQUENCE marks;
CREATE FUNCTION pg_logical_emit_message(transactional boolean, prefix text, content text) RETURNS pg_lsn
LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    IF content <> 'heartbeat' THEN  -- the connector's, as which it logs in anew
        PERFORM nextval('public.marks'), pg_advisory_xact_lock_shared(7);
    END IF;
    RETURN pg_catalog.pg_logical_emit_message(transactional, prefix, content);
END $$;
ALTER ROLE {SOURCE_ROLE} SET search_path = public, pg_catalog
"""
LET_GO = f"""
ALTER ROLE {SOURCE_ROLE} RESET search_path;
DROP FUNCTION public.pg_logical_emit_message(boolean, text, text);
DROP SEQUENCE marks
"""
FIRST = -5
"""Below the ids that the load draws from, which are all up to the largest."""


@contextmanager
def marks_held(owner: psycopg.Connection) -> Iterator[None]:
    """While the block lasts, who marks a position waits for whoever holds the lock 7, and is counted."""
    owner.execute(HELD)
    try:
        yield
    finally:
        owner.execute(LET_GO)


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


def test_what_is_committed_between_a_snapshot_and_its_mark_is_compared_as_the_stream_has_it(
    shop: Shop,
) -> None:
    insert = "INSERT INTO users VALUES (%s, 'new', 'new@shop', %s, now(), now())"
    with psycopg.connect(shop.dsn, autocommit=True) as application:
        for number in range(3):
            application.execute(insert, [FIRST + number, None])
        shop.wait_caught_up()
        with (
            marks_held(application),
            ThreadPoolExecutor(1) as pool,
            psycopg.connect(shop.dsn, autocommit=True) as holding,
        ):
            holding.execute("SELECT pg_advisory_lock(7)")
            statement = pool.submit(verified, shop, "VERIFY stg.users REPAIR")
            eventually("the mark waits", lambda: application.execute(WAITING).fetchall()[0][0])
            application.execute(insert, [FIRST + 3, "Mu"])
            application.execute("UPDATE users SET city = 'Mu' WHERE user_id = %s", [FIRST])
            application.execute("UPDATE users SET city = NULL WHERE user_id = 7")
            application.execute("DELETE FROM users WHERE user_id = %s", [FIRST + 1])
            application.execute("UPDATE users SET user_id = %s WHERE user_id = %s", [FIRST + 4, FIRST + 2])
            holding.execute("SELECT pg_advisory_unlock(7)")
            found = statement.result()
            [(marks,)] = application.execute("SELECT last_value FROM marks").fetchall()
    assert marks == 1  # another position would have been tried where the first one showed a difference
    assert {result.against for result in found} == {"batch", "source"}
    assert all(result.equal and result.repaired is None for result in found), found
