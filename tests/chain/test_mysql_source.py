"""A MariaDB beside the PostgreSQL source, in one warehouse: the same layer files, another connector file."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mysql_corpus as corpus
import pytest
from chain_support import eventually
from mariadb import MariaDb, mariadb
from running_shop import ROOT, Shop
from test_surfaces import command

from headrace.services.scratch import free_ports
from headrace.sources.connect import ConnectClient
from headrace.sources.database import database
from headrace.sources.dsn import source_dsn
from headrace.sources.stream.transactions import PATIENCE
from headrace.spec import load_project
from headrace.spec.connector import load_connector

SCENARIO = ROOT / "tests" / "scenarios" / "film_store.sql"
SERVERS = ROOT / ".headrace" / "servers"
PASSWORD = "it's secret"
TABLES = ("category", "film", "customer", "inventory", "rental", "payment", "balance", "corpus", "busy")
ZONES = ("+05:30", "-08:00", "+00:00")
CORPUS, BUSY, JOINED = "stg.store_corpus", "stg.store_busy", "dwd.sold_to_customers"

FILES = {
    "deploy/connectors/store.json": "",
    "layers/stg/store.source.yml": r"""
route:
- source-table: store\..*
  sink-table: stg.store_<>
  replace-symbol: <>
""",
    "layers/dwd/sold_to_customers.sql": f"""CREATE MATERIALIZED TABLE {JOINED} (PRIMARY KEY (order_id))
FRESHNESS = INTERVAL '10' SECOND
AS SELECT o.order_id, o.amount, c.email, f.title
FROM stg.orders o JOIN stg.store_customer c ON c.customer_id = o.user_id
JOIN stg.store_film f ON f.film_id = o.user_id
""",
    "layers/dws/paid_by_customer.sql": """CREATE MATERIALIZED TABLE dws.paid_by_customer
(PRIMARY KEY (customer_id)) FRESHNESS = INTERVAL '10' SECOND
AS SELECT customer_id, count(*) AS payments, sum(amount) AS paid FROM stg.store_payment GROUP BY customer_id
""",
}


def parts() -> tuple[list[str], list[str]]:
    """The statements before and after the first load."""
    before, _, then = SCENARIO.read_text().partition("\n-- then\n")
    return statements(before), statements(then)


def statements(text: str) -> list[str]:
    found = []
    for statement in re.sub(r"^--.*$", "", text, flags=re.M).split(";\n"):
        repeated = re.match(r"\s*\{1\.\.(\d+)\} (.*)", statement, re.S)
        if repeated is None:
            found.append(statement.strip().removesuffix(";"))
        else:
            found += [repeated[2].replace("#", str(n)) for n in range(1, int(repeated[1]) + 1)]
    return [one for one in found if one]


@dataclass
class Store:
    """The running shop with a MariaDB as its second source."""

    shop: Shop
    server: MariaDb
    names: list[str]

    def execute(self, *statements: str) -> None:
        self.server.execute(*statements, database="store")

    def rows(self, table: str) -> int:
        return self.shop.status()[table].rows

    def verify(self, *tables: str) -> None:
        self.shop.wait_running()
        self.shop.verify(*(tables or self.names))


def write_files(project: Path, port: int) -> None:
    connector = json.loads((ROOT / "docs" / "examples" / "mariadb.json").read_text())
    connector["config"] |= {
        "database.port": str(port),
        "database.user": "headrace_source",
        "database.password": PASSWORD,
    }
    for name, text in FILES.items():
        (project / name).write_text(text or json.dumps(connector))


@pytest.fixture(scope="module")
def store(running_shop: Shop) -> Iterator[Store]:
    shop, [port] = running_shop, free_ports(1)
    project = shop.settings.project
    with mariadb(SERVERS, port, ZONES[0]) as server:
        server.execute(*parts()[0])
        server.execute(corpus.create("corpus"), *corpus.rows("corpus", 1), database="store")
        server.execute("CREATE TABLE busy (id int PRIMARY KEY, n int, t text)", database="store")
        write_files(project, port)
        path = project / "deploy" / "connectors" / "store.json"
        connector = load_connector(path)
        as_owner = f"mysql://root:@127.0.0.1:{port}/"
        script = database(as_owner).role(connector, "headrace_source")
        server.execute(*(s.replace("…", PASSWORD.replace("'", "''")) for s in script.statements))
        try:
            said = command(shop, "apply").stderr
            assert "registering connector `store`" in said
            shop.project = load_project(project)
            shop.wait_running()
            names = [str(n) for n in shop.project.tables if "store_" in n.table]
            assert {n.removeprefix("stg.store_") for n in names} == set(TABLES)
            eventually("the first load", lambda: shop.status()[CORPUS].rows == len(corpus.rows("c", 1)))
            yield Store(shop, server, [*names, JOINED, "dws.paid_by_customer"])
        finally:
            (project / "layers" / "stg" / "store.source.yml").unlink()
            shop.restore()
            with ConnectClient(shop.settings.connect_rest) as connect:
                connect.delete("store")
            path.unlink()


@pytest.mark.long
def test_a_film_store_is_followed(store: Store) -> None:
    """200 changes and ten statements that change tables, after the first load and beside the other source."""
    store.verify()
    with store.shop.load(seed=91) as load:
        store.execute(*parts()[1])
        for zone in ZONES[1:]:
            follow_types_in(store, zone)
        load.raise_if_failed()
    eventually("what is renamed", lambda: "full_name" in columns(store, "stg.store_customer"))
    eventually("what is added", lambda: "stars" in columns(store, "stg.store_film"))
    store.shop.wait_caught_up()
    store.verify()
    assert not [t for t, s in store.shop.status().items() if s.dead_letters]


def follow_types_in(store: Store, zone: str) -> None:
    """The connector's sessions, and the server's own, have another zone than the first load had."""
    store.server.stop()
    store.server.zone = zone
    store.server.start()
    with ConnectClient(store.shop.settings.connect_rest) as connect:
        connect.restart("store")
        connect.wait_running("store")
    first = 100 * ZONES.index(zone) + 1
    store.execute(*corpus.rows("corpus", first))
    for place in range(3):
        store.execute(*corpus.updates("corpus", first, place))
    eventually(zone, lambda: store.rows(CORPUS) == len(corpus.rows("c", 1)) * (1 + ZONES.index(zone)))


def columns(store: Store, table: str) -> set[str]:
    return set(store.shop.client.query(f"SELECT * FROM {table} LIMIT 0").column_names)


@pytest.mark.long
def test_crashes_truncations_and_large_transactions_lose_nothing(store: Store) -> None:
    shop = store.shop
    store.execute("INSERT INTO busy SELECT seq, seq, repeat('a', seq % 50) FROM seq_1_to_30000")
    eventually("a large transaction", lambda: store.rows(BUSY) == 30_000)
    store.execute("TRUNCATE busy")
    begun = time.monotonic()
    eventually("it is empty", lambda: store.rows(BUSY) == 0)
    assert time.monotonic() - begun < PATIENCE, "Debezium tells no END of it, which is not waited for"
    store.execute(
        "BEGIN",
        "INSERT INTO busy SELECT seq, 0, NULL FROM seq_1_to_25000",
        *["UPDATE busy SET n = n + 1 WHERE id % 5000 = 0"] * 3,
        "UPDATE busy SET id = id + 100000 WHERE id <= 10",  # deletes and inserts
        "DELETE FROM busy WHERE id % 4 = 3",
        "COMMIT",
    )
    shop.kill()
    for step in range(20):
        store.execute(f"INSERT INTO busy VALUES ({200_000 + step}, {step}, 'while it starts')")
        store.execute(f"UPDATE busy SET n = n + {step}, t = 'x' WHERE id BETWEEN {step} AND {step * 3}")
    store.server.stop(signal.SIGKILL)
    store.server.start()
    store.execute("FLUSH BINARY LOGS", "UPDATE busy SET n = -n WHERE id % 3 = 0")
    with ConnectClient(shop.settings.connect_rest) as connect:
        eventually("its connector is there again", lambda: running(connect))
    eventually("all of it", lambda: store.rows(BUSY) == 18_750 + 20)
    store.verify(BUSY)
    shop.check_changelog(BUSY)


def running(connect: ConnectClient) -> bool:
    status = connect.status("store")
    if status.state == "FAILED":
        connect.restart_failed("store")
    return status.running


@pytest.mark.long
def test_a_log_that_is_gone_is_noticed_and_resync_leads_back(store: Store) -> None:
    """Its connector was stopped for longer than the database keeps its log."""
    shop = store.shop
    with ConnectClient(shop.settings.connect_rest) as connect:
        connect.stop("store")
        store.execute("DELETE FROM busy WHERE id % 2 = 0", "INSERT INTO busy VALUES (-1, 1, 'in the gap')")
        eventually("its log is gone", store.server.forget_log)
        connect.resume("store")
        eventually("it is noticed", lambda: shop.status()[BUSY].state == "NEEDS RESYNC")
        said = shop.status()[BUSY].last_error
        assert "has removed `mysql-bin." in said and f"headrace resync {BUSY}" in said
        assert shop.status()["stg.orders"].state == "RUNNING"
        command(shop, "resync", BUSY)
        for name in store.names:
            if name.startswith("stg.") and name != BUSY:
                shop.client.run(f"ALTER MATERIALIZED TABLE {name} RESYNC")
        store.execute("INSERT INTO busy VALUES (-2, 2, 'after it')")
        shop.wait_running()
        eventually("what follows", lambda: connect.status("store").running)
    store.verify(BUSY, "stg.store_customer", JOINED)
    assert len(shop.client.query(f"SELECT * FROM {BUSY} WHERE id < 0")) == 2


@pytest.mark.long
def test_the_doctor_names_what_a_database_of_this_kind_lacks(store: Store) -> None:
    project = store.shop.settings.project
    connector = load_connector(project / "deploy" / "connectors" / "store.json")
    dsn = source_dsn(connector, store.shop.settings.source_environment())
    tables = [t for t in store.shop.project.sources() if t.source == "store"]
    [well] = database(dsn).check(connector, tables)
    assert well.ok and "9 tables can be followed by 'headrace_source'@'%'" in well.detail
    store.execute(
        "CREATE USER poor@'%' IDENTIFIED BY 'p'",
        "GRANT SELECT ON store.film TO poor@'%'",
        "SET GLOBAL binlog_row_image = 'MINIMAL'",
        "RENAME TABLE headrace_marker TO elsewhere",
    )
    try:
        poor = f"mysql://poor:p@127.0.0.1:{store.server.port}/"
        said = "\n".join(check.detail for check in database(poor).check(connector, tables) if not check.ok)
        assert "GRANT RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'poor'" in said
        assert "SET GLOBAL binlog_row_image = 'FULL'" in said and "`store`.`film`" not in said
        assert "GRANT SELECT ON `store`.`busy` TO 'poor'@'%'" in said
        assert "CREATE TABLE `store`.`headrace_marker` (id varchar(64)" in said
    finally:
        store.execute(
            "RENAME TABLE elsewhere TO headrace_marker",
            "SET GLOBAL binlog_row_image = 'FULL'",
            "DROP USER poor@'%'",
        )
