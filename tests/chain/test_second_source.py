"""A second database joins a warehouse by its connector, a source file and `headrace apply`."""

from __future__ import annotations

import json

import psycopg
import pytest
from chain_support import eventually
from psycopg import sql
from running_shop import Shop, grant
from test_surfaces import command

from headrace.gateway.client import StatementFailed
from headrace.sources.connect import ConnectClient
from headrace.sources.postgres.bulk.slot import drop_slot
from headrace.spec import load_project

CLIENTS, CALLS, SOLD = "stg.clients", "stg.phone_calls", "dwd.sold_to_clients"


def write_files(shop: Shop) -> list[str]:
    """Its connector, the shop's but for names, what its tables become, and one that reads both sources."""
    project = shop.settings.project
    connector = json.loads((project / "deploy" / "connectors" / "shop.json").read_text())
    connector["name"] = "crm"
    connector["config"] |= {
        "topic.prefix": "crm",
        "database.dbname": "crm",
        "table.include.list": r"public\..*",
        "slot.name": "headrace_crm",
        "publication.name": "headrace_crm",
    }
    del connector["config"]["message.prefix.include.list"]  # so messages of others come, too
    files = {
        "deploy/connectors/crm.json": json.dumps(connector),
        "layers/stg/crm.source.yml": "tables.exclude: public.secrets\nroute:\n- source-table: public.calls\n"
        "  sink-table: stg.phone_<>\n  replace-symbol: <>\n",
        "layers/dwd/sold_to_clients.sql": f"CREATE MATERIALIZED TABLE {SOLD} (PRIMARY KEY (order_id))\n"
        "FRESHNESS = INTERVAL '10' SECOND\nAS SELECT o.order_id, o.amount, c.name\n"
        "FROM stg.orders o JOIN stg.clients c ON c.user_id = o.user_id\n",
    }
    for name, text in files.items():
        (project / name).write_text(text)
    return list(files)


def follow_a_later_table(shop: Shop, dsn: str, crm: psycopg.Connection) -> None:
    """Nobody is asked: it appears, with what it had before, as soon as its owner lets it be followed."""
    crm.execute("CREATE TABLE calls (call_id bigint PRIMARY KEY, said text)")
    crm.execute("INSERT INTO calls SELECT n, 'before' FROM generate_series(1, 200) AS n")
    grant(dsn, shop.settings.connectors / "crm.json")
    crm.execute("UPDATE calls SET said = 'published' WHERE call_id <= 50")
    crm.execute("DELETE FROM calls WHERE call_id = 200")
    eventually("the later table", lambda: CALLS in shop.status())
    shop.project = load_project(shop.settings.project)
    shop.wait_running()
    crm.execute("INSERT INTO calls VALUES (201, 'after'), (202, 'after')")
    eventually("all of its rows", lambda: shop.status()[CALLS].rows == 201)
    with pytest.raises(
        StatementFailed, match=r"would come again, by .*crm.source.yml. Next: name public.calls"
    ):
        shop.client.run(f"DROP MATERIALIZED TABLE {CALLS}")


@pytest.mark.long
def test_a_second_database_is_applied_beside_the_first(shop: Shop) -> None:
    shop.wait_caught_up()
    with psycopg.connect(shop.dsn, autocommit=True) as server:
        server.execute("CREATE DATABASE crm")
        dsn = shop.dsn.rpartition("/")[0] + "/crm"
        with psycopg.connect(dsn, autocommit=True) as crm:
            crm.execute("CREATE TABLE headrace_marker (id text PRIMARY KEY, at timestamptz)")
            crm.execute("CREATE TABLE clients (user_id bigint PRIMARY KEY, name text)")
            crm.execute("CREATE TABLE secrets (id bigint PRIMARY KEY)")
            crm.execute("ALTER TABLE clients REPLICA IDENTITY FULL")
            crm.execute("INSERT INTO clients SELECT n, 'client ' || n FROM generate_series(1, 40) AS n")
            files = write_files(shop)
            grant(dsn, shop.settings.connectors / "crm.json")
            try:
                with shop.load(seed=81) as load:
                    said = command(shop, "apply").stderr
                    assert "registering connector `crm`" in said and "clients.sql is written" in said
                    shop.project = load_project(shop.settings.project)
                    shop.wait_running()
                    eventually("its rows", lambda: shop.status()[CLIENTS].rows == 40)
                    crm.execute("UPDATE clients SET name = 'renamed' WHERE user_id % 2 = 0")
                    for transactional in (True, False):
                        crm.execute(
                            "SELECT pg_logical_emit_message(%s, 'audit', 'a' || n::text) "
                            "FROM generate_series(1, 30) AS n",
                            [transactional],
                        )
                    crm.execute("DELETE FROM clients WHERE user_id % 10 = 0")
                    eventually("what follows", lambda: shop.status()[CLIENTS].rows == 36)
                    follow_a_later_table(shop, dsn, crm)
                    load.raise_if_failed()
                shop.wait_caught_up()
                shop.verify(CLIENTS, CALLS, SOLD, "stg.orders", "stg.users")
                assert "stg.secrets" not in shop.status()
            finally:
                (shop.settings.project / "layers" / "stg" / "crm.source.yml").unlink()
                shop.restore()
                with ConnectClient(shop.settings.connect_rest) as connect:
                    connect.stop("crm")
                    connect.delete("crm")
                drop_slot(dsn, "headrace_crm")
                (shop.settings.project / files[0]).unlink()
        server.execute(sql.SQL("DROP DATABASE crm WITH (FORCE)"))
    shop.wait_running()
