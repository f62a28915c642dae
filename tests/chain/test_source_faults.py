"""What sources and brokers really do: no row is lost for it, and every halt names a way on that works."""

from __future__ import annotations

import psycopg
import pytest
from chain_support import eventually
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from running_shop import Shop, grant, kept

from headrace.gateway.client import StatementFailed
from headrace.results import ApplyResult, ParityResult, ResyncResult
from headrace.settings import SOURCE_ROLE
from headrace.sources.connect import ConnectClient
from headrace.sources.postgres.bulk.slot import drop_slot
from headrace.sources.stream.broker import Broker
from headrace.spec import load_project

WORDS, READERS = "stg.page_words", ("dwd.partition_word_count", "dws.partition_word_count")
TOPIC = "shop.public.page_words"


def count(shop: Shop) -> int:
    rows: list[int] = shop.client.query(f"SELECT count(*) AS n FROM {WORDS}").column(0).to_pylist()
    return rows[0]


def refused(shop: Shop, why: str) -> bool:
    """Whether the table may not go on, for this reason."""
    try:
        shop.client.run(f"ALTER MATERIALIZED TABLE {WORDS} RESUME")
    except StatementFailed as error:
        return why in str(error)
    return False


def test_a_table_is_truncated_and_filled_anew_in_one_transaction(shop: Shop) -> None:
    shop.wait_caught_up()
    seen: set[int] = set()
    with kept(shop) as source:
        before = count(shop)
        with source.transaction():
            source.execute("UPDATE page_words SET word = 'moved' WHERE word_id % 7 = 0")
            source.execute("TRUNCATE page_words")
            source.execute("INSERT INTO page_words SELECT * FROM kept WHERE word_id % 10 = 0")
        [(after,)] = source.execute("SELECT count(*) FROM page_words").fetchall()
        eventually("the truncation", lambda: seen.add(n := count(shop)) or n == after)
        assert seen <= {before, after}  # never the state between them
        shop.wait_caught_up()
        shop.verify(WORDS, *READERS)
    assert shop.status()[WORDS].state == "RUNNING"
    shop.verify(WORDS, *READERS)
    shop.check_changelogs()


@pytest.mark.long
def test_after_a_deleted_topic_a_resync_leads_back(shop: Shop) -> None:
    shop.wait_caught_up()
    admin = AdminClient(Broker.of(shop.settings).client())
    resync = f"ALTER MATERIALIZED TABLE {WORDS} RESYNC"
    with kept(shop) as source, shop.load(seed=71) as load:
        shop.client.run(f"ALTER MATERIALIZED TABLE {WORDS} SUSPEND")
        source.execute("DELETE FROM page_words WHERE word_id % 9 = 0")
        source.execute("UPDATE page_words SET word = 'lost' WHERE word_id % 9 = 1")
        shop.wait_advanced("stg.orders", by=2)
        admin.delete_topics([TOPIC])[TOPIC].result(timeout=30)
        eventually("what is lost is missed", lambda: refused(shop, f"Next: `headrace resync {WORDS}`"))
        assert shop.status()[WORDS].state == "NEEDS RESYNC"
        shop.wait_advanced("stg.orders", "dws.user_hour", by=2)  # the others go on
        dry = ResyncResult.model_validate(shop.client.run(f"{resync} DRY RUN").result)
        assert dry.found is not None and min(dry.found.extra, dry.found.missing) > 0
        assert shop.status()[WORDS].state == "NEEDS RESYNC"
        done = ResyncResult.model_validate(shop.client.run(resync).result).refreshed
        assert done is not None and done.deleted > 0 and done.updated > 0
        assert shop.status()[WORDS].state == "RUNNING"
        shop.wait_advanced(WORDS, by=2)
        load.raise_if_failed()
    shop.verify(WORDS, *READERS)
    shop.check_changelogs()


@pytest.mark.long
def test_a_table_that_left_the_publication_says_by_which_sql_it_is_back(shop: Shop) -> None:
    shop.wait_caught_up()
    back = 'ALTER PUBLICATION headrace_shop ADD TABLE "public"."page_words"'
    with kept(shop) as source:
        source.execute("ALTER PUBLICATION headrace_shop DROP TABLE page_words")
        source.execute("UPDATE page_words SET word = 'unheard' WHERE word_id % 5 = 0")
        eventually("it is missed", lambda: shop.status()[WORDS].state == "NEEDS RESYNC")
        assert back in (shop.status()[WORDS].last_error or "")
        assert shop.status()["stg.users"].state == "RUNNING"
        source.execute(back.encode())
        shop.client.run(f"ALTER MATERIALIZED TABLE {WORDS} RESYNC")
        assert shop.status()[WORDS].state == "RUNNING"
    shop.verify(WORDS, *READERS)


@pytest.mark.long
def test_without_its_privilege_a_table_is_followed_and_not_compared(shop: Shop) -> None:
    shop.wait_caught_up()
    with kept(shop) as source:
        source.execute(f"REVOKE SELECT ON page_words FROM {SOURCE_ROLE}")
        try:
            source.execute("UPDATE page_words SET word = 'revoked' WHERE word_id % 5 = 0")
            shop.wait_caught_up()
            with pytest.raises(StatementFailed, match=r"denied for table page_words.*headrace doctor"):
                shop.client.run(f"VERIFY {WORDS}")
            assert shop.status()[WORDS].state == "RUNNING"
        finally:
            source.execute(f"GRANT SELECT ON page_words TO {SOURCE_ROLE}")
        shop.verify(WORDS, *READERS)


@pytest.mark.long
def test_a_connector_that_runs_and_does_not_stream_is_an_alarm(shop: Shop) -> None:
    """As where the server's process dies of what it sends, or the network cuts each connection."""
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication"

    def alarmed(source: psycopg.Connection[tuple[object, ...]]) -> bool:
        source.execute(cut.encode())
        return any("has not streamed for" in alarm for alarm in shop.status()["stg.users"].alarms)

    with psycopg.connect(shop.dsn, autocommit=True) as source:
        eventually("an alarm", lambda: alarmed(source))
    eventually("it streams", lambda: not shop.status()["stg.users"].alarms)
    shop.verify("stg.users")


@pytest.mark.long
def test_a_transaction_that_began_before_a_resync_is_not_lost(shop: Shop) -> None:
    """Its changes stand in the log before the position, and come after it."""
    shop.wait_caught_up()
    with kept(shop) as source, psycopg.connect(shop.dsn) as slow:
        slow.execute("UPDATE page_words SET word = 'slow' WHERE word_id % 5 = 0")
        source.execute("UPDATE users SET city = 'fast' WHERE user_id % 5 = 0")
        shop.client.run(f"ALTER MATERIALIZED TABLE {WORDS} SUSPEND")
        source.execute("UPDATE page_words SET word = 'fast' WHERE word_id % 5 = 1")
        shop.client.run(f"ALTER MATERIALIZED TABLE {WORDS} RESYNC")
        assert shop.status()[WORDS].state == "SUSPENDED"
        slow.commit()
        shop.client.run(f"ALTER MATERIALIZED TABLE {WORDS} RESUME")
        shop.wait_caught_up()
        found = [ParityResult.model_validate(r) for r in shop.client.run(f"VERIFY {WORDS}").result]
        assert all(r.equal for r in found if r.against == "source"), found
    shop.verify(*READERS)


@pytest.mark.long
def test_a_value_that_was_not_sent_is_read_from_the_source(shop: Shop) -> None:
    """The replica identity is set back while the table runs, so a long value that stays is left out."""
    shop.wait_caught_up()
    with kept(shop) as source:
        source.execute("ALTER TABLE page_words ALTER COLUMN word SET STORAGE EXTERNAL")
        source.execute("UPDATE page_words SET word = repeat('w', 9000) WHERE word_id IN (3, 4)")
        shop.wait_advanced(WORDS)
        source.execute("ALTER TABLE page_words REPLICA IDENTITY DEFAULT")
        try:
            source.execute("DELETE FROM page_words WHERE word_id = 4")
            source.execute("UPDATE page_words SET page = '/unsent' WHERE word_id = 3")
            eventually("it halts", lambda: shop.status()[WORDS].state == "NEEDS RESYNC")
            says = shop.status()[WORDS].last_error or ""
            assert "column `word` was not sent" in says and f"`headrace resync {WORDS}`" in says
            source.execute("UPDATE page_words SET page = '/unsent/again' WHERE word_id = 3")
            shop.client.run(f"ALTER MATERIALIZED TABLE {WORDS} RESYNC")
            assert shop.status()[WORDS].state == "RUNNING"
            shop.wait_caught_up()
            shop.verify(WORDS, *READERS)
        finally:
            source.execute("ALTER TABLE page_words REPLICA IDENTITY FULL")
    shop.check_changelogs()


@pytest.mark.long
def test_a_proof_goes_on_after_kafka_has_removed_what_was_read(shop: Shop) -> None:
    shop.wait_caught_up()
    admin = AdminClient(Broker.of(shop.settings).client())
    at = shop.status()[WORDS]
    [offset] = at.frontier[TOPIC].values()
    place = TopicPartition(TOPIC, 0, offset)
    for future in admin.delete_records([place]).values():
        future.result(timeout=30)
    with kept(shop) as source:
        source.execute("DELETE FROM page_words WHERE word_id % 8 = 0")
        source.execute("UPDATE page_words SET word = 'after' WHERE word_id % 8 = 1")
        shop.wait_caught_up()
        found = [ParityResult.model_validate(r) for r in shop.client.run(f"VERIFY {WORDS}").result]
        assert all(r.equal and r.error is None for r in found), found
        since = {r.against: r.since for r in found}
        assert since["batch"] > 0 and since["source"] == 0
        assert any(r.rows > 0 for r in found)


@pytest.mark.long
def test_after_a_lost_slot_a_resync_makes_the_stream_anew(shop: Shop) -> None:
    stg = [str(name) for name in shop.project.tables if name.layer == "stg"]
    shop.wait_caught_up()

    def halted() -> list[str]:
        return [t for t in stg if shop.status()[t].state == "NEEDS RESYNC"]

    with kept(shop) as source, ConnectClient(shop.settings.connect_rest) as connect:
        connect.stop("shop")
        drop_slot(shop.dsn, "headrace_shop")
        source.execute("DELETE FROM page_words WHERE word_id % 6 = 0")
        source.execute("UPDATE users SET city = 'Lost' WHERE user_id % 6 = 1")
        eventually("every stg table halts", lambda: halted() == stg)
        assert "`headrace_shop` is not there any more" in (shop.status()[WORDS].last_error or "")
        shop.client.run(f"ALTER MATERIALIZED TABLE {WORDS} RESYNC")
        assert halted() == [t for t in stg if t != WORDS]
        source.execute("UPDATE page_words SET word = 'found' WHERE word_id % 6 = 2")
        shop.kill()  # what is to be read again is not forgotten
        eventually("it runs again", lambda: shop.status()[WORDS].state == "RUNNING")
        assert halted() == [t for t in stg if t != WORDS]
        eventually(
            "what is known of the others",
            lambda: "slot was made anew" in (shop.status()["stg.users"].last_error or ""),
        )
        for table in halted():
            shop.client.run(f"ALTER MATERIALIZED TABLE {table} RESYNC")
        shop.wait_running()
        shop.wait_caught_up()
        shop.verify()
    shop.check_changelogs()


@pytest.mark.long
def test_a_table_that_is_captured_later_is_whole(shop: Shop) -> None:
    """No connector reads the rows that it had before; its topic begins with what changed since."""
    connector = shop.settings.connectors / "shop.json"
    was = connector.read_text()
    file = shop.settings.project / "layers" / "stg" / "suppliers.sql"
    with psycopg.connect(shop.dsn, autocommit=True) as source:
        source.execute("CREATE TABLE suppliers (id bigint PRIMARY KEY, name text)")
        source.execute("INSERT INTO suppliers SELECT n, 'before' FROM generate_series(1, 300) AS n")
        try:
            with shop.load(seed=72) as load:
                connector.write_text(was.replace("public.users,", "public.users,public.suppliers,"))
                grant(shop.dsn, connector)
                shop.stack.register_connectors()
                source.execute("UPDATE suppliers SET name = 'captured' WHERE id <= 100")
                source.execute("DELETE FROM suppliers WHERE id = 300")
                file.write_text(
                    "CREATE MATERIALIZED TABLE stg.suppliers FRESHNESS = INTERVAL '10' SECOND\n"
                    "AS SELECT * FROM shop.public.suppliers\n"
                )
                applied = ApplyResult.model_validate(shop.client.run("APPLY").result)
                assert [(t.table, t.change) for t in applied.tables] == [("stg.suppliers", "ADDED")]
                shop.project = load_project(shop.settings.project)
                shop.wait_running()
                assert shop.status()["stg.suppliers"].rows == 299
                source.execute("UPDATE suppliers SET name = 'after' WHERE id % 3 = 0")
                source.execute("INSERT INTO suppliers VALUES (301, 'after')")
                eventually("what follows", lambda: shop.status()["stg.suppliers"].rows == 300)
                load.raise_if_failed()
            shop.verify("stg.suppliers", "stg.orders")
        finally:
            shop.restore()
            connector.write_text(was)
            shop.stack.register_connectors()
            source.execute("DROP TABLE suppliers")
    assert not file.exists()
    shop.wait_running()
