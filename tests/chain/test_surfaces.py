"""What users have in their hands, each against the running stack: command line, Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import psycopg
import pytest
from chain_support import eventually
from psycopg import conninfo
from running_shop import Shop

from headrace.results import ConstraintResult
from headrace.settings import SOURCE_ROLE
from headrace.sources.postgres.access import preflight
from headrace.spec import load_project

HOURS = "dws.gmv_hour"
DAGSTER = {"dagster-code", "dagster-webserver", "dagster-daemon"}


def command(shop: Shop, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """`headrace …` as a process of its own, in the shop's project."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", *arguments],
        env=os.environ | shop.settings.environment(),
        cwd=shop.settings.project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_command_line_says_what_the_server_says(shop: Shop) -> None:
    shop.wait_caught_up()
    [row] = shop.client.query(f"SELECT count(*) AS n, sum(orders) AS orders FROM {HOURS}").to_pylist()
    assert row["n"] > 1
    assert json.loads(command(shop, "sql", "--json", f"SELECT count(*) AS n FROM {HOURS}").stdout) == [
        {"n": row["n"]}
    ]
    status = json.loads(command(shop, "status", "--json", code=1).stdout)  # Dagster does not run
    assert {s["name"] for s in status["services"] if s["state"] != "RUNNING"} == DAGSTER
    assert {t["table"]: t["rows"] for t in status["tables"]} == {t: s.rows for t, s in shop.status().items()}
    explained = command(shop, "explain", HOURS).stdout
    assert HOURS in explained
    assert f"`{HOURS}x`" in command(shop, "explain", f"{HOURS}x", code=2).stderr
    [proof] = json.loads(command(shop, "verify", HOURS, "--json").stdout)
    assert proof["equal"] and proof["table"] == HOURS


def test_a_comment_in_a_query_changes_nothing(shop: Shop) -> None:
    shop.wait_caught_up()
    file = shop.settings.project / "layers" / "dws" / "top_products.sql"
    text, version = file.read_text(), shop.status()["dws.top_products"].version
    assert "    -- product_id" in text
    file.write_text(
        text.replace("    -- product_id", "    -- Why the second column:\n    /* */ -- product_id")
    )
    try:
        assert "nothing differs from what was applied last" in command(shop, "plan").stderr
        assert "nothing differs from what was applied last" in command(shop, "apply").stderr
        assert shop.status()["dws.top_products"].version == version
        file.write_text(text.replace("rank <= 10", "rank <= 9"))
        assert "LOGIC" in command(shop, "plan").stdout
    finally:
        file.write_text(text)


def test_the_server_checks_constraints(shop: Shop) -> None:
    """Rows of the first eight hours of a day break the second one."""
    table = "dws.early"
    shop.client.run(
        f"CREATE MATERIALIZED TABLE {table} (PRIMARY KEY (logdate), CONSTRAINT some EXPECT (orders > 0) "
        "ON VIOLATION WARN, CONSTRAINT late EXPECT (substr(logdate, 9) >= '08') ON VIOLATION WARN) "
        f"FRESHNESS = INTERVAL '10' SECOND AS SELECT logdate, orders FROM {HOURS}"
    )
    try:
        early = f"SELECT count(*) AS n FROM {HOURS} WHERE substr(logdate, 9) < '08'"
        [expected] = shop.client.query(early).to_pylist()
        found = [ConstraintResult.model_validate(r) for r in shop.client.run(f"CHECK {table}").result]
        assert {c.constraint: c.violations for c in found} == {"some": 0, "late": expected["n"]}
        assert expected["n"] > 0
    finally:
        shop.client.run(f"DROP MATERIALIZED TABLE {table}")


@pytest.mark.long
def test_what_is_in_quarantine_comes_in_once_the_rule_is_mended(shop: Shop) -> None:
    """A table over the stream of its source, and one that is derived."""

    def declare(limit: int) -> None:
        rule = f"CONSTRAINT cheap EXPECT (price < {limit}) ON VIOLATION QUARANTINE"
        fresh = "FRESHNESS = INTERVAL '10' SECOND AS SELECT"
        tables = (
            f"stg.offered ({rule}) {fresh} * FROM shop.public.products",
            f"dws.offered (PRIMARY KEY (product_id), {rule}) {fresh} product_id, price FROM stg.products",
        )
        for table in tables:
            shop.client.run(f"CREATE OR ALTER MATERIALIZED TABLE {table}")
        shop.project = load_project(shop.settings.project)

    def both_sides(table: str) -> tuple[list[int], list[int]]:
        layer, name = table.split(".")
        held = shop.client.query(f"SELECT product_id FROM {table}")
        aside = shop.client.query(f"SELECT product_id FROM {layer}.`{name}$quarantine`")
        return sorted(held["product_id"].to_pylist()), sorted(aside["product_id"].to_pylist())

    def expected(limit: int) -> tuple[list[int], list[int]]:
        with psycopg.connect(shop.dsn) as source:
            prices = dict(source.execute("SELECT product_id, price FROM products").fetchall())
        cheap = sorted(key for key, price in prices.items() if price < limit)
        return cheap, sorted(prices.keys() - set(cheap))

    def agree(limit: int) -> None:
        for table in ("stg.offered", "dws.offered"):
            eventually(table, lambda t=table: both_sides(t) == expected(limit))

    with psycopg.connect(shop.dsn, autocommit=True) as source:
        [(middle, first)] = source.execute(
            "SELECT ceil(percentile_cont(0.5) WITHIN GROUP (ORDER BY price))::int, min(product_id) "
            "FROM products"
        ).fetchall()
        try:
            declare(middle)
            shop.wait_running()
            agree(middle)
            assert all(expected(middle))
            aside = json.loads(command(shop, "quarantine", "stg.offered", "--json").stdout)
            assert {row["product_id"]: row["_constraints"] for row in aside} == {
                key: ["cheap"] for key in expected(middle)[1]
            }
            kept_out = expected(middle)[1][-1]  # its event finds no row that it would delete
            for change in (1, -1):
                source.execute(
                    "UPDATE products SET price = price + %s WHERE product_id = %s", (change, kept_out)
                )
            source.execute("UPDATE products SET price = price + 100000 WHERE product_id = %s", (first,))
            agree(middle)
            assert first in expected(middle)[1]
            declare(1_000_000)
            agree(1_000_000)
            assert not expected(1_000_000)[1]
        finally:
            source.execute("UPDATE products SET price = price - 100000 WHERE product_id = %s", (first,))
        agree(1_000_000)
    shop.verify("stg.offered", "dws.offered")
    for name in shop.project.tables:
        account = shop.client.run(f"SHOW ACCOUNTING {name}").result
        assert account["balanced"], account
    eventually("it is counted", lambda: shop.status()["dws.offered"].quarantined_by == {"cheap": 0})
    assert shop.status()["stg.offered"].accounting["quarantined cheap"] >= 1
    lines = json.loads(command(shop, "explain", "dws.offered", "--history", "--json").stdout)["accounts"]
    assert [line["mode"] for line in lines].count("backfill") == 1
    assert lines[0]["reads"] == {"stg.products": 2} and lines[0]["updated"] == 1


def test_spark_connect_reads_the_live_rows(shop: Shop) -> None:
    """In a process of its own: one with a Spark of its own takes no other."""
    shop.wait_caught_up()
    [expected] = shop.client.query(f"SELECT count(*) AS n, sum(orders) AS orders FROM {HOURS}").to_pylist()
    address = f"sc://127.0.0.1:{shop.settings.spark_connect_port}"
    script = (
        "from pyspark.sql import SparkSession\n"
        f"spark = SparkSession.builder.remote({address!r}).getOrCreate()\n"
        f"row = spark.table({HOURS!r}).selectExpr('count(*) AS n', 'sum(orders) AS orders').first()\n"
        "print(row.n, row.orders)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.split() == [str(expected["n"]), str(expected["orders"])], done.stderr


def test_the_doctor_says_by_which_sql_a_source_is_mended(shop: Shop) -> None:
    def of_source(code: int) -> list[dict[str, object]]:
        found = json.loads(command(shop, "doctor", "--json", code=code).stdout)
        return [finding for finding in found if finding["check"] == "source shop"]

    [well] = of_source(code=0)
    assert well["ok"] and "5 tables can be followed" in str(well["detail"])
    with psycopg.connect(shop.dsn, autocommit=True) as source:
        source.execute("ALTER TABLE users REPLICA IDENTITY NOTHING")
        try:
            [ill] = of_source(code=1)
        finally:
            source.execute("ALTER TABLE users REPLICA IDENTITY FULL")
    assert not ill["ok"] and 'ALTER TABLE "public"."users" REPLICA IDENTITY FULL;' in str(ill["detail"])


def test_a_source_that_may_not_be_watched_is_an_alarm(shop: Shop) -> None:
    def says() -> bool:
        alarms = shop.status()["stg.users"].alarms
        return any("may not call pg_control_system" in alarm for alarm in alarms)

    with psycopg.connect(shop.dsn, autocommit=True) as owner:
        assert not says()
        owner.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        try:
            eventually("an alarm", says)
            command(shop, "status", code=1)
            found = json.loads(command(shop, "doctor", "--json", code=1).stdout)
            [ill] = [f["detail"] for f in found if f["check"] == "source shop" and not f["ok"]]
            mends = f"GRANT EXECUTE ON FUNCTION pg_control_system() TO {SOURCE_ROLE};"
            assert mends in ill and mends in command(shop, "source", "role", "shop").stdout
            owner.execute(mends.encode())
            eventually("no alarm", lambda: not says())
        finally:
            owner.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
            owner.execute(f"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM {SOURCE_ROLE}".encode())


def test_a_source_is_followed_by_a_role_that_can_do_nothing_else(shop: Shop) -> None:
    written = "INSERT, UPDATE, DELETE, TRUNCATE"
    with psycopg.connect(shop.dsn, autocommit=True) as owner:
        followers = owner.execute("SELECT DISTINCT usename FROM pg_stat_replication").fetchall()
        assert followers == [(SOURCE_ROLE,)]
        [rights] = owner.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolbypassrls, has_database_privilege(oid, "
            "current_database(), 'CREATE'), has_schema_privilege(oid, 'public', 'CREATE') "
            "FROM pg_roles WHERE rolname = %s",
            [SOURCE_ROLE],
        ).fetchall()
        [tables] = owner.execute(
            "SELECT count(*), count(*) FILTER (WHERE has_table_privilege(%s, relid, %s)) "
            "FROM pg_stat_user_tables",
            [SOURCE_ROLE, written],
        ).fetchall()
        assert not any(rights) and tables[0] >= 5 and tables[1] == 0

        said = command(shop, "source", "role", "shop", "--name", "auditor").stdout.replace("…'", "known'")
        assert "publication.autocreate.mode" in said and "INSERT" not in said
        owner.execute(said.encode())
        try:
            connector = shop.project.connectors["shop"]
            own = conninfo.make_conninfo(shop.dsn, user="auditor", password="known")
            [check] = preflight.judge(preflight.look(own, connector, shop.project.sources()))
            assert check == preflight.Check(True, "5 tables can be followed by `auditor`")
        finally:
            owner.execute("DROP OWNED BY auditor; DROP ROLE auditor")
