"""A source that is not what it was: its connector reads it anew, or an older copy stands in its place."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from chain_support import eventually
from confluent_kafka.admin import AdminClient
from running_shop import Shop, kept, own_shop

from headrace.services.programs.postgres import data_directory
from headrace.sources.connect import ConnectClient
from headrace.sources.stream.broker import Broker


@pytest.fixture(scope="module")
def stg_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The stg tables of a small shop, alone with a PostgreSQL that may be put back, and Connect's topics."""
    small = {"slot_lag_warning": "1m", "slot_lag_alarm": "8m"}
    with own_shop(tmp_path_factory.mktemp("stg"), seed=11, layers="stg", **small) as shop:
        yield shop


@pytest.mark.long
def test_after_connect_has_lost_its_topics_the_source_is_read_again(stg_alone: Shop) -> None:
    """The connector reads its source anew and streams from there, past what was deleted meanwhile."""
    shop = stg_alone
    admin = AdminClient(Broker.of(shop.settings).client())
    own = [t for t in admin.list_topics(timeout=30).topics if t.startswith(shop.settings.connect_group)]
    assert len(own) == 3
    with kept(shop) as source:
        source.execute("UPDATE page_words SET word = 'before' WHERE word_id % 2 = 0")
        source.execute("UPDATE order_items SET quantity = quantity + 1")
        shop.wait_caught_up()
        shop.stack.supervisor.stop("connect")
        for future in admin.delete_topics(own).values():
            future.result(timeout=30)
        source.execute("DELETE FROM order_items WHERE item_id % 4 = 0")
        source.execute("DELETE FROM page_words")  # none of its rows is read again
        source.execute("UPDATE users SET city = 'lost' WHERE user_id % 3 = 0")
        shop.stack.up(only=["connect"])
        shop.stack.register_connectors()
        source.execute("UPDATE users SET city = 'since' WHERE user_id % 5 = 0")
        shop.wait_caught_up()  # nobody was asked
        shop.wait_running()
        shop.verify()


def see_a_stopped_connector(shop: Shop) -> None:
    """Its tables are late and its source keeps log for it: `status` says so, and what it says to do helps.

    Backfills wait meanwhile.
    """

    def alarms(*texts: str) -> bool:
        found = shop.status()["stg.users"].alarms
        assert len(found) == len(texts) and all(t in a for t, a in zip(texts, found, strict=True)), found
        return True

    eventually("all is well", alarms)
    cities = "FRESHNESS = INTERVAL '10' SECOND AS SELECT city, count(*) AS n FROM stg.users GROUP BY city"
    shop.client.run(f"CREATE MATERIALIZED TABLE dws.cities (PRIMARY KEY (city)) {cities}")
    with ConnectClient(shop.settings.connect_rest) as connect, psycopg.connect(shop.dsn) as source:
        connect.stop("shop")
        eventually("it is seen", lambda: alarms("connector `shop` is STOPPED"))
        for _ in range(12):
            source.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', 1000000))")
        eventually(
            "so is the log", lambda: alarms("is STOPPED", "MiB of log that its connector has not confirmed")
        )
    backfill = shop.client.submit("ALTER MATERIALIZED TABLE dws.cities REFRESH")
    waits = "dws.cities waits: the database of `shop` keeps"
    eventually("a backfill waits", lambda: shop.client.get(backfill.id).message.startswith(waits))
    shop.stack.register_connectors()  # as `headrace up` does
    eventually("all is well again", alarms)
    assert shop.client.wait(backfill.id).state == "SUCCEEDED"
    shop.client.run("DROP MATERIALIZED TABLE dws.cities")


@pytest.mark.long
def test_after_an_older_copy_of_the_source_a_resync_follows_what_it_has(stg_alone: Shop) -> None:
    shop, stg = stg_alone, [str(name) for name in stg_alone.project.tables]
    supervisor = shop.stack.supervisor
    cluster = data_directory(shop.settings)
    assert cluster is not None
    copy = cluster.with_name("copy")
    see_a_stopped_connector(shop)

    def source(statement: str) -> None:
        with psycopg.connect(shop.dsn) as connection:
            connection.execute(statement)

    def halted() -> list[str]:
        return [t for t in stg if shop.status()[t].state == "NEEDS RESYNC"]

    supervisor.stop("postgres")
    subprocess.run(["cp", "-a", cluster, copy], check=True)  # with the owner, who is another one under root
    supervisor.launch("postgres")
    eventually("the source", lambda: source("SELECT 1") is None)
    shop.wait_advanced("stg.users", by=0)
    source("UPDATE users SET city = 'lost' WHERE user_id % 2 = 0")
    source("DELETE FROM page_words WHERE word_id % 2 = 0")
    source("UPDATE orders SET amount = amount + 1")
    shop.wait_caught_up()

    supervisor.stop("postgres")
    shutil.rmtree(cluster)
    subprocess.run(["cp", "-a", copy, cluster], check=True)
    supervisor.launch("postgres")
    eventually("the source is back", lambda: source("SELECT 1") is None)
    eventually("those that were ahead halt", lambda: {"stg.users", "stg.page_words"} <= set(halted()))
    assert "an older copy of itself" in (shop.status()["stg.users"].last_error or "")
    source("UPDATE users SET city = 'since' WHERE user_id % 3 = 0")
    while left := halted():
        for table in left:
            shop.client.run(f"ALTER MATERIALIZED TABLE {table} RESYNC")
        eventually("a look at the sources", lambda: shop.status()["stg.users"].state == "RUNNING")
    source("UPDATE users SET city = 'after' WHERE user_id % 5 = 0")
    source("DELETE FROM page_words WHERE word_id % 5 = 0")
    shop.wait_running()
    shop.wait_caught_up()
    shop.verify()
