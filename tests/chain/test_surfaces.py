"""What users have in their hands, each against the running stack: command line, Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import psycopg
from running_shop import Shop

from headrace.results import ConstraintResult

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
