"""What databases do, and every type of value, through the real connector, equal to the source.

Comparisons read a standby in the source's place.

A file of `tests/scenarios/cdc` is what psql runs before there is a connector and, after `-- then`, while its
tables are followed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
import recording
import type_corpus
from chain_support import eventually
from registry import AS_CONFLUENT, converter, plugins, registry
from running_shop import ROOT, Shop, grant
from standby import standby
from type_corpus import COLUMNS, CORPUS, REFUSED, ROWS, ZONES, insert

from headrace.engine.table.limits import Limits
from headrace.gateway.client import GatewayClient, StatementFailed
from headrace.gateway.errors import StatementInterrupted
from headrace.results import ParityResult
from headrace.services.programs.postgres import postmaster
from headrace.services.scratch import free_ports, scratch_settings
from headrace.services.stack import Stack
from headrace.settings import LOOPBACK, Settings
from headrace.sources.connect import ConnectClient, ConnectorFile
from headrace.sources.dsn import source_dsn
from headrace.sources.postgres.access import preflight
from headrace.spec import load_project
from headrace.spec.connector import load_connector

SCENARIOS = ROOT / "tests" / "scenarios"
FILES = sorted((SCENARIOS / "cdc").glob("*.sql"))
SERVERS = ROOT / ".headrace" / "servers"
RENTAL = SCENARIOS / "dvd_rental.sql"
RULES = r"""
route:
  - source-table: dvd\..*
    sink-table: stg.dvd_<>
    replace-symbol: <>
"""


def parts(file: Path) -> tuple[str, str]:
    before, _, then = file.read_text().partition("\n-- then\n")
    assert before.startswith("-- ") and then, f"{file} says what it is about, and has two parts"
    return before, then


def created(file: Path) -> list[str]:
    """The tables of a file of the catalogue."""
    return re.findall(r"CREATE TABLE (cdc_\w+)", parts(file)[0])


def tables() -> list[str]:
    """Of the catalogue."""
    return [table for file in FILES for table in created(file)]


def psql(settings: Settings, text: str) -> None:
    """Statement by statement, as a person types them."""
    server = postmaster(settings)
    assert server is not None
    program = Path(server.exe()).with_name("psql")
    command = [program, "-q", "-X", "-v", "ON_ERROR_STOP=1", "-f", "-", settings.postgres_dsn()]
    subprocess.run(command, input=text, text=True, check=True)


def unreadable(settings: Settings) -> str:
    """What `headrace doctor` says of tables that the connector's role may not read."""
    connector = load_connector(settings.connectors / "shop.json")
    facts = preflight.look(source_dsn(connector, settings.source_environment()), connector, ())
    return "".join(check.detail for check in preflight.judge(facts) if "may not read" in check.detail)


@dataclass
class Followed(Shop):
    """
    Args:
        replica: URL of its source's standby.
        registry: the port on which a schema registry is expected.
    """

    replica: str = ""
    registry: int = 0


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """A stg table of each table of the catalogue, of the types and of a rental shop, by a source file."""
    tmp_path = tmp_path_factory.mktemp("followed")
    connector = json.loads((ROOT / "deploy" / "connectors" / "shop.json").read_text())
    connector["config"] |= {
        "table.include.list": r"public\.(cdc_.*|corpus),dvd\..*",
        "message.key.columns": "public.cdc_named_key:region,number",
    }
    files = {"deploy/connectors/shop.json": json.dumps(connector), "layers/stg/shop.source.yml": RULES}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    port, registry_port = free_ports(2)
    replicas = f"shop={LOOPBACK}:{port}"
    with (
        scratch_settings(
            tmp_path,
            driver_memory="1g",
            snapshot="connector",
            source_replicas=replicas,
            connect_plugins=plugins(SERVERS, tmp_path),
            schema_registry_url=f"http://{LOOPBACK}:{registry_port}{AS_CONFLUENT}",
        ) as settings,
        ExitStack() as beside,
    ):
        stack = Stack(settings)
        try:
            stack.up(only=["connect"])
            for file in FILES:
                psql(settings, parts(file)[0])
            psql(settings, parts(RENTAL)[0])
            type_corpus.create(settings.postgres_dsn())
            with psycopg.connect(settings.postgres_dsn()) as source:
                for table in tables():
                    if table != "cdc_default":
                        source.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
            assert '"dvd"."payment_2026_01"' in unreadable(settings)
            grant(settings.postgres_dsn(), settings.connectors / "shop.json")
            assert not unreadable(settings)
            replica = beside.enter_context(standby(settings, port))
            stack.up(only=["warehouse"])
            stack.register_connectors()
            with GatewayClient(settings) as client:
                shop = Followed(stack, client, load_project(tmp_path), replica, registry_port)
                captured = {f"stg.{table}" for table in (*tables(), "corpus")}
                assert captured < {str(name) for name in shop.project.tables}
                shop.wait_running()
                yield shop
        finally:
            stack.down()


@pytest.mark.long
def test_the_catalogue_is_followed(followed: Followed) -> None:
    assert len(FILES) >= 21
    names = [f"stg.{table}" for table in tables()]
    with psycopg.connect(followed.dsn) as source:
        read = {f"stg.{t}": source.execute(f"SELECT count(*) FROM {t}").fetchone() for t in tables()}  # type: ignore[arg-type]

    def rows() -> dict[str, object]:
        return {table: (status.rows,) for table, status in followed.status().items() if table in read}

    eventually("the snapshot", lambda: rows() == read)
    for file in FILES:
        psql(followed.settings, parts(file)[1])
    followed.verify(*names)
    assert not [t for t, s in followed.status().items() if s.dead_letters]
    followed.check_changelogs()
    if os.environ.get(recording.VARIABLE):
        recording.record(followed, {file: created(file) for file in FILES})


@pytest.mark.long
def test_a_shop_with_domains_partitions_and_triggers_is_followed(followed: Followed) -> None:
    """200 changes and ten statements that change tables."""
    names = [str(name) for name in followed.project.tables if name.table.startswith("dvd_")]
    assert len(names) == 9
    psql(followed.settings, parts(RENTAL)[1])

    def columns(table: str) -> set[str]:
        return set(followed.client.query(f"SELECT * FROM {table} LIMIT 0").column_names)

    eventually("what is renamed", lambda: "family_name" in columns("stg.dvd_actor"))
    eventually("what is added", lambda: "stars" in columns("stg.dvd_film"))
    followed.wait_running()
    followed.verify(*names)


@pytest.mark.long
def test_values_are_those_of_the_source(followed: Followed) -> None:
    def rows() -> int:
        return followed.status()["stg.corpus"].rows

    eventually("the snapshot", lambda: rows() == len(ROWS))
    for number, zone in enumerate(ZONES[1:], 1):
        insert(followed.dsn, 1000 * number, zone)
        with ConnectClient(followed.settings.connect_rest) as connect:
            connect.restart("shop")  # its sessions have the database's new zone
            connect.wait_running("shop")
        eventually(zone, lambda n=number: rows() == (n + 1) * len(ROWS))
    left_out = {COLUMNS[kind] for kind, values in CORPUS.items() if not values} | {"more"}
    shown = {c: f"hex({c})" if kind == "bytea" else f"CAST({c} AS string)" for kind, c in COLUMNS.items()}
    listed = ", ".join(f"{text} AS {c}" for c, text in shown.items() if c not in left_out)
    found = {
        row["id"]: row for row in followed.client.query(f"SELECT id, {listed} FROM stg.corpus").to_pylist()
    }
    assert not left_out & found[0].keys()
    wrong = {}
    for number, zone in enumerate(ZONES):
        for place, (column, literal, value) in enumerate(ROWS):
            row = found[1000 * number + place]
            if value is not None and row[column] != value:
                wrong[zone, literal, column] = row[column]
            assert row[column] is not None, (zone, literal)
    assert not wrong
    followed.verify("stg.corpus")
    explained = followed.client.run("EXPLAIN MATERIALIZED TABLE stg.corpus").result
    assert "`more` of its source is left out: it is generated" in json.dumps(explained)


@pytest.mark.long
def test_what_spark_has_not_is_a_dead_letter(followed: Followed) -> None:
    with psycopg.connect(followed.dsn, autocommit=True) as source:
        for place, (kind, literal) in enumerate(REFUSED.items()):
            source.execute(f"INSERT INTO corpus (id, {COLUMNS[kind]}) VALUES ({5000 + place}, {literal})")
    sent = {5000 + place for place in range(len(REFUSED))}

    def refused() -> bool:
        letters = followed.client.run("SHOW DEAD LETTERS stg.corpus").result
        seen = {json.loads(letter["key"])["id"] for letter in letters}
        assert seen == sent, seen
        return True

    eventually("the letters", refused)
    letters = followed.client.run("SHOW DEAD LETTERS stg.corpus").result
    assert [letter["reason"] for letter in letters] == [
        f"column `{COLUMNS[kind]}` cannot be read" for kind in REFUSED
    ]
    assert followed.client.query("SELECT * FROM stg.corpus WHERE id >= 5000").num_rows == 0
    assert followed.status()["stg.corpus"].state == "RUNNING"
    with psycopg.connect(followed.dsn, autocommit=True) as source:
        source.execute("DELETE FROM corpus WHERE id >= 5000")
    followed.client.run("ALTER MATERIALIZED TABLE stg.corpus DROP DEAD LETTERS REASON 'tried'")
    assert followed.status()["stg.corpus"].dead_letters == 0


def many(place: int) -> tuple[int, int]:
    """Ids of as many new rows as no other place has."""
    return 30_000 * (place + 1), 30_000 * (place + 1) + Limits().small


@pytest.mark.long
def test_messages_may_change_their_form(followed: Followed, tmp_path: Path) -> None:
    """Avro with both kinds of ids, and JSON beside its schema, after plain JSON and in the same topics."""
    first, *others = (
        converter(followed.registry, as_confluent=True),
        converter(followed.registry, as_confluent=False),
        {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"},
    )
    file = ConnectorFile.read(followed.settings.connectors / "shop.json")
    names = ("stg.corpus", "stg.dvd_film", "stg.cdc_busy")
    with (
        ConnectClient(followed.settings.connect_rest) as connect,
        psycopg.connect(followed.dsn, autocommit=True) as source,
    ):

        def follow(place: int, settings: dict[str, str]) -> None:
            connect.put_connector(replace(file, config=file.config | settings))
            connect.restart_failed("shop")
            connect.wait_running("shop")
            insert(followed.dsn, 10_000 * (place + 1), ZONES[0])
            source.execute("DELETE FROM corpus WHERE id < 50")
            source.execute("UPDATE dvd.film SET title = title || '!'")
            source.execute("UPDATE cdc_busy SET n = n + 1")
            # More than the driver reads for a comparison: tasks of Spark's do.
            source.execute("INSERT INTO cdc_busy SELECT n, n FROM generate_series(%s, %s) AS n", many(place))
            followed.verify(*names)

        connect.put_connector(replace(file, config=file.config | first))
        source.execute("UPDATE cdc_busy SET n = n + 1")
        with pytest.raises(
            StatementInterrupted, match="position does not come: connector `shop` is FAILED: "
        ):
            followed.client.run("VERIFY stg.cdc_busy")
        with registry(SERVERS, followed.registry, tmp_path):
            for place, settings in enumerate((first, *others)):
                follow(place, settings)
        assert not [t for t, s in followed.status().items() if s.dead_letters]
        connect.put_connector(file)
        connect.wait_running("shop")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_comparison_waits_until_the_standby_has_what_the_table_has(followed: Followed) -> None:
    verify = "VERIFY stg.cdc_busy"
    with (
        psycopg.connect(followed.replica, autocommit=True) as replica,
        psycopg.connect(followed.dsn, autocommit=True) as source,
        ThreadPoolExecutor() as pool,
    ):
        before = followed.status()["stg.cdc_busy"].version
        replica.execute("SELECT pg_wal_replay_pause()")
        source.execute("DELETE FROM cdc_busy")
        eventually("it is deleted", lambda: followed.status()["stg.cdc_busy"].version > before)
        result = pool.submit(followed.client.run, verify)
        waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_last_wal_replay_lsn() >=%'"
        eventually("the comparison waits", lambda: replica.execute(waits).fetchall()[0][0] > 1)
        assert not result.done()
        replica.execute("SELECT pg_wal_replay_resume()")
        compared = [ParityResult.model_validate(found) for found in result.result().result]
        assert [r.against for r in compared] == ["batch", "source"] and all(r.equal for r in compared)
        replica.execute("SELECT pg_promote()")
        eventually(
            "it is promoted", lambda: replica.execute("SELECT pg_is_in_recovery()").fetchall() == [(False,)]
        )
    with pytest.raises(StatementFailed, match="is no standby"):
        followed.client.run(verify)
