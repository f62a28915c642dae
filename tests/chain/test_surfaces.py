"""What users have in their hands, each against the running stack: command line, Spark Connect."""

from __future__ import annotations

import ipaddress
import json
import os
import pty
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import psycopg
import pytest
from chain_support import eventually
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from psycopg import conninfo
from running_shop import Shop, command

from headrace.cases.model import cases_of
from headrace.encoding import encode
from headrace.results import ConstraintResult
from headrace.services import health, processes
from headrace.services.programs import kafka
from headrace.settings import SOURCE_ROLE
from headrace.sources.connect import ConnectClient
from headrace.sources.postgres.access import preflight
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.topics import Topics
from headrace.spec import load_project

HOURS = "dws.gmv_hour"
DAGSTER = {"dagster-code", "dagster-webserver", "dagster-daemon"}


def typed(shop: Shop, keys: str, *arguments: str) -> str:
    """What a terminal shows of `headrace …` while somebody types there, up to the command's end."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(shop.settings.project)
        environment = os.environ | shop.settings.variables() | {"TERM": "xterm", "LINES": "40"}
        os.execve(sys.executable, [sys.executable, "-m", "headrace.cli.main", *arguments], environment)
    os.write(terminal, keys.encode())
    shown = b""
    try:
        while part := os.read(terminal, 1 << 16):
            shown += part
            if b"\x1b[6n" in part:  # where is the cursor
                os.write(terminal, b"\x1b[1;1R")
    except OSError:  # the end of it
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    return shown.decode()


def test_statements_come_from_a_file_from_stdin_and_from_a_prompt(shop: Shop, tmp_path: Path) -> None:
    shop.wait_caught_up()
    script = tmp_path / "script.sql"
    explained = f"EXPLAIN MATERIALIZED TABLE {HOURS} HISTORY;"
    script.write_text(f"-- why; and when\n{explained}\nVERIFY {HOURS} WITHOUT SOURCE;\nSHOW WORKFLOWS;")
    said = command(shop, "sql", "-f", str(script)).stdout
    assert "freshness" in said and "committed" in said and "equal" in said and "due in" in said
    assert '{"' not in said
    described = command(shop, "sql", stdin=f"DESCRIBE MATERIALIZED TABLE {HOURS};\n").stdout
    assert "logdate" in described and "primary key" in described
    shown = typed(shop, f"SELECT count(*) AS hours\nFROM {HOURS};\nSELECT 1 FROM x.y;\nexit\n", "sql")
    assert "hours" in shown and "(1 row)" in shown and "no table `x.y`" in shown


def test_the_report_tells_how_the_tables_do(shop: Shop, tmp_path: Path) -> None:
    shop.wait_caught_up()
    shop.client.run(f"VERIFY {HOURS}")
    told = command(shop, "report", str(tmp_path / "page.html")).stderr
    text = (tmp_path / "page.html").read_text()
    assert "page.html" in told and all(f">{table}<" in text for table in shop.status())
    assert "passes" in text and "shop.public.orders" in text


def test_who_has_the_token_for_reading_reads_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", shop.settings.gateway_read_token.read_text().strip())
    [row] = json.loads(command(shop, "sql", "--json", f"SELECT count(*) AS n FROM {HOURS}").stdout)
    assert row["n"] > 0
    assert "the token is for reading" in command(shop, "suspend", HOURS, code=2).stderr
    assert shop.settings.gateway_read_token.stat().st_mode & 0o077 == 0


def test_logs_and_the_source_are_at_hand(shop: Shop) -> None:
    assert "headrace" in command(shop, "logs", "warehouse", "-n", "400").stdout
    count = command(shop, "psql", "-Atc", "SELECT current_database(), count(*) > 0 FROM orders").stdout
    assert count == "shop|t\n"
    assert "run `headrace up`" in command(shop, "open", code=3).stderr  # Dagster does not run


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


@pytest.mark.parametrize(
    "words",
    [("status",), ("plan",), ("explain", HOURS), ("sql", f"SELECT count(*) AS n FROM {HOURS}")],
    ids=lambda words: words[0],
)
def test_a_quick_command_asks_the_server_for_what_takes_long_to_import(
    shop: Shop, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.wait_caught_up()
    code = int(words[0] == "status")  # Dagster does not run
    told = command(shop, *words, code=code).stdout
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    begun = time.perf_counter()
    done = command(shop, *words, code=code)
    print(f"{words[0]}: {time.perf_counter() - begun:.2f} s, with every import written down")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "headrace.gateway.client" in imported
    slow = {"sqlglot", "sqlalchemy", "grpc", "confluent_kafka", "psycopg", "pyspark", "numpy.linalg"}
    assert not imported & slow
    if words[0] != "status":  # of which figures change
        assert done.stdout == told


def test_rows_of_every_kind_are_printed_as_a_client_has_them(shop: Shop) -> None:
    query = (
        "SELECT CAST(1.5 AS DECIMAL(10,2)) AS a, TIMESTAMP '2026-01-02 03:04:05.678901' AS b, "
        "array(1, 2) AS c, map('a', 1) AS d, named_struct('q', CAST(1.5 AS DOUBLE)) AS e, X'01ff' AS f, "
        "CAST('NaN' AS DOUBLE) AS g, CAST(NULL AS INT) AS h, TIMESTAMP_NTZ '2026-01-02 03:04:05' AS i, "
        "INTERVAL '1' DAY AS j, DATE '2026-01-02' AS k, true AS l"
    )
    told = json.loads(command(shop, "sql", "--json", query).stdout)
    assert told == encode(shop.client.query(query).to_pylist())


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


def by_spark_connect(address: str) -> subprocess.CompletedProcess[str]:
    """Number and sum of the hours, by a process of its own: one with a Spark of its own takes no other."""
    script = (
        "from pyspark.sql import SparkSession\n"
        f"spark = SparkSession.builder.remote({address!r}).getOrCreate()\n"
        f"row = spark.table({HOURS!r}).selectExpr('count(*) AS n', 'sum(orders) AS orders').first()\n"
        "print(row.n, row.orders)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_spark_connect_reads_the_live_rows_for_who_has_its_token(shop: Shop) -> None:
    shop.wait_caught_up()
    [expected] = shop.client.query(f"SELECT count(*) AS n, sum(orders) AS orders FROM {HOURS}").to_pylist()
    address = f"sc://localhost:{shop.settings.spark_connect_port}/"
    file = shop.settings.spark_connect_token
    token = file.read_text().strip()
    assert file.stat().st_mode & 0o077 == 0
    done = by_spark_connect(f"{address};token={token}")
    assert done.stdout.split() == [str(expected["n"]), str(expected["orders"])], done.stderr
    for stranger in (address, f"{address};token=guessed"):
        refused = by_spark_connect(stranger)
        assert refused.returncode and "token" in refused.stderr.lower(), refused.stderr
    for process in psutil.process_iter(["cmdline"]):
        assert not any(token in part for part in process.info["cmdline"] or ()), process


def test_what_the_stack_keeps_is_for_its_owner_alone(shop: Shop) -> None:
    """Every file that somebody else could reach, but for those of PostgreSQL, which keeps its own."""
    settings, open_to_others = shop.settings, []
    for folder in (settings.warehouse, settings.logs):
        assert folder.stat().st_mode & 0o077 == 0, folder
    for entry in settings.state.iterdir():
        if not entry.is_symlink() and entry.lstat().st_mode & 0o077 and not entry.name.startswith("postgres"):
            open_to_others.append(entry.name)
    assert not open_to_others
    files = [f for f in settings.warehouse.rglob("*") if f.is_file()]
    assert files and not [f for f in files if f.stat().st_mode & 0o077]


def test_every_listener_is_on_loopback(shop: Shop) -> None:
    """Those of the settings, and those that Spark's and Java's own parts choose."""
    found = {
        (process.name(), connection.laddr.ip, connection.laddr.port)
        for process in processes.marked(shop.settings.state.resolve())
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    there = [f for f in found if not ipaddress.ip_address(f[1].removeprefix("::ffff:")).is_loopback]
    assert not there
    own = {p for n, p in shop.settings.ports.items() if not n.startswith(("dagster", "postgres"))}
    assert own <= {port for _, _, port in found}


def test_a_stranger_is_let_in_neither_by_kafka_nor_by_connect(shop: Shop) -> None:
    """Without a login and with a wrong one, at the controller's own listener, too."""
    settings, broker = shop.settings, Broker.of(shop.settings)
    guessed = replace(broker, security=replace(broker.security, password="guessed"))
    strangers = [Broker(broker.bootstrap), guessed]
    strangers += [replace(b, bootstrap=f"127.0.0.1:{settings.kafka_controller_port}") for b in strangers]
    for stranger in strangers:
        said: list[KafkaError] = []
        listening: dict[str, Any] = {"error_cb": said.append, "group.id": "stranger"}
        consumer = Consumer(stranger.client() | listening)
        try:
            with pytest.raises(KafkaException):
                consumer.list_topics(timeout=1.5)
            consumer.assign([TopicPartition("shop.public.users", 0, 0)])
            assert consumer.poll(0.5) is None
        finally:
            consumer.close()
        refused = KafkaError._AUTHENTICATION in {error.code() for error in said}
        assert refused == (stranger.security.password == "guessed")
    with closing(Topics.of(broker)) as topics:
        assert topics.ends(["shop.public.users"])["shop.public.users"][0] > 0

    address = urlsplit(settings.connect_rest)
    connect = f"http://{address.hostname}:{address.port}"
    copied = {"name": "copied", "config": shop.project.connectors["shop"].config}
    for login in (None, ("headrace", "guessed")):
        # A connection each: Connect ends one whose request it has refused before its body came.
        alone = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=connect, auth=login, trust_env=False, limits=alone) as client:
            paths = ("/", "/health", "/connectors", "/connectors/shop/config")
            answers = [client.get(path) for path in paths]
            answers += [client.post("/connectors", json=copied), client.delete("/connectors/shop")]
        assert {answer.status_code for answer in answers} == {401}
        assert not any("database.hostname" in answer.text for answer in answers)
    with ConnectClient(settings.connect_rest) as own:
        assert "shop" in own.names() and "copied" not in own.names()


def test_another_password_than_the_brokers_is_told_with_what_mends_it(shop: Shop, tmp_path: Path) -> None:
    """As where somebody has removed the files: what runs knows the old ones."""
    other = shop.settings.model_copy(update={"data": tmp_path})
    kafka.ensure_passwords(other)
    for service in ("kafka", "connect"):
        with pytest.raises(health.Unhealthy, match="`headrace up`") as error:
            health.check(other, service)
        assert not [file for file in other.state.iterdir() if file.read_text().strip() in str(error.value)]
    external = {
        "kafka_bootstrap_servers": other.kafka_bootstrap,
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_sasl_mechanism": "PLAIN",
        "kafka_sasl_username": "ann",
        "kafka_sasl_password": "guessed",
    }
    with pytest.raises(health.Unhealthy, match="set `kafka_sasl_username` and `kafka_sasl_password`"):
        health.check(other.model_copy(update=external), "kafka")


def test_no_secret_is_where_it_does_not_belong(shop: Shop) -> None:
    """Neither in logs, tables and topics, nor in what Connect answers, nor on a command line."""
    settings = shop.settings
    files = (settings.gateway_token, settings.gateway_read_token, settings.spark_connect_token)
    files = (*files, settings.postgres_password, settings.kafka_password, settings.connect_password)
    secrets = {settings.source_password, *(file.read_text().strip() for file in files)}
    assert all(len(secret) > 8 for secret in secrets)

    def content(file: Path) -> bytes:
        try:
            return file.read_bytes()
        except FileNotFoundError:  # a temporary one of a service at work
            return b""

    leaks = [
        str(file)
        for folder in (
            settings.logs,
            settings.warehouse,
            settings.state / "kafka",
            settings.state / "dagster",
        )
        for at, _, names in os.walk(folder)
        for file in (Path(at, name) for name in names)
        if file.is_file() and any(secret.encode() in content(file) for secret in secrets)
    ]
    answers = httpx.get(f"{settings.connect_rest}/connectors?expand=info&expand=status").text
    assert "database.hostname" in answers
    leaks += ["Connect's REST" for secret in secrets if secret in answers]
    for process in psutil.process_iter(["cmdline"]):
        leaks += [str(process) for part in process.info["cmdline"] or () if any(s in part for s in secrets)]
    assert not leaks


@pytest.mark.long
def test_cases_are_written_from_live_rows_and_run(shop: Shop) -> None:
    """By the command line and by pytest, each with a Spark of its own."""
    table, layer = "dwd.order_items", shop.settings.project / "layers" / "dwd"
    files = [layer / "order_items.sql", layer / "order_items.cases.yml"]
    files += [shop.settings.project / "layers" / "stg" / "users.cases.yml"]
    before = {file: file.read_text() for file in files}
    try:
        files[2].unlink()
        for written in ("stg.users", table):
            assert "Next: `headrace test" in command(shop, "test", "--new", written).stderr
        [case] = cases_of(load_project(shop.settings.project).table("stg.users")).cases  # type: ignore[union-attr]
        assert len(case.steps[0].expect) == 4
        run = [sys.executable, "-m", "pytest", "-q", *map(str, files[1:])]
        said = subprocess.run(run, cwd=shop.settings.project, capture_output=True, text=True, check=False)
        assert said.returncode == 0 and "9 passed" in said.stdout, said.stdout + said.stderr
        files[0].write_text(before[files[0]].replace("i.quantity * i.price", "i.quantity + i.price"))
        shown = command(shop, "test", table, code=1)
        assert "2 cases in 3 modes: 0 passed, 6 failed" in shown.stderr
        assert "FAILED  " in shown.stdout and "1 rows missing, 1 too many" in shown.stdout
    finally:
        for file, text in before.items():
            file.write_text(text)


@pytest.mark.long
def test_a_project_is_made_of_a_database(shop: Shop, tmp_path: Path) -> None:
    """Its owner's URL, as a stranger would give it: tables with odd names, and one without a key."""
    new = tmp_path / "new"
    with psycopg.connect(shop.dsn, autocommit=True) as owner:
        owner.execute('CREATE SCHEMA "Odd"; CREATE TABLE "Odd"."Order Lines" ("Id" uuid PRIMARY KEY, n int)')
        owner.execute('CREATE TABLE "Odd".users (code text, day date, PRIMARY KEY (code, day))')
        owner.execute('CREATE TABLE "Odd".keyless (n int)')
        try:
            said = command(shop, "init", str(new), "--from", shop.dsn, "--source", "mine").stderr
        finally:
            owner.execute('DROP SCHEMA "Odd" CASCADE')
    assert "follows 7 tables" in said and "`Odd.keyless`" in said
    assert "the database lacks: " in said and "CREATE PUBLICATION headrace_mine FOR TABLE" in said
    assert not [f for f in new.rglob("*") if f.is_file() and (conninfo_password(shop) in f.read_text())]
    planned = json.loads(command(shop, "plan", "--project", str(new), "--json").stdout)["tables"]
    plain = ("users", "products", "orders", "order_items", "page_words", "order_lines", "odd_users")
    assert {t["table"] for t in planned} == {f"stg.{table}" for table in plain}
    ran = command(shop, "test", "--project", str(new), "--json").stdout
    assert len({o["table"] for o in json.loads(ran)}) == 7
    assert all(o["passed"] for o in json.loads(ran))


def conninfo_password(shop: Shop) -> str:
    """Of the database's owner."""
    return str(conninfo.conninfo_to_dict(shop.dsn)["password"])


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


def test_prometheus_reads_what_the_status_tells(shop: Shop) -> None:
    with shop.load(seed=71):
        shop.wait_advanced("dws.user_hour", by=3)
        reader = {"Authorization": f"Bearer {shop.settings.gateway_read_token.read_text().strip()}"}
        answer = httpx.get(f"{shop.settings.gateway_url}/metrics", headers=reader, trust_env=False)
    found = {
        (s.name, s.labels.get("table"), s.labels.get("state") or s.labels.get("change")): s.value
        for family in text_string_to_metric_families(answer.text)
        for s in family.samples
    }
    for table, status in shop.status().items():
        assert found["headrace_table_state", table, "running"] == 1
        assert 0 <= found["headrace_table_version", table, None] <= status.version
        moved = found["headrace_table_changes_total", table, "inserted"]
        assert moved <= status.accounting.get("inserted", 0)
    assert found["headrace_table_changes_total", "dws.user_hour", "inserted"] > 0
    assert 0 < found["headrace_table_freshness_seconds", "dws.user_hour", None] < 60
    assert found["headrace_jvm_micro_batches_total", None, None] > 3
    assert found["headrace_table_core_seconds_total", "dws.user_hour", None] > 0
    of_source = {s.name: s.value for f in text_string_to_metric_families(answer.text) for s in f.samples}
    assert of_source["headrace_source_up"] == of_source["headrace_source_connector_running"] == 1
    assert of_source["headrace_source_slot_lag_bytes"] >= 0


def test_costs_tell_what_each_kind_of_work_takes(shop: Shop) -> None:
    def cost(work: str) -> dict[str, Any]:
        found = json.loads(command(shop, "costs", "dws.user_hour", "--json").stdout)
        of = [each for each in found if each["work"] == work]
        return of[0] if of else {"core_seconds": 0.0, "runs": 0, "changes": 0, "seconds": 0.0}

    works = ("stream", "backfill", "verify", "compaction")
    before = {work: cost(work) for work in works}
    with shop.load(seed=72):
        shop.wait_advanced("dws.user_hour", by=3)
        shop.client.run("ALTER MATERIALIZED TABLE dws.user_hour REFRESH ALL")
    shop.verify("dws.user_hour")
    eventually("it is compacted", lambda: cost("compaction")["runs"] > before["compaction"]["runs"])
    for work in works:
        after = cost(work)
        spent = after["core_seconds"] - before[work]["core_seconds"]
        assert 0 < spent < 2 * (os.cpu_count() or 1) * (after["seconds"] - before[work]["seconds"]), work
    assert cost("stream")["changes"] > before["stream"]["changes"]
    table = command(shop, "costs").stdout
    assert "(all of a flow)" in table and "together" in table


def test_a_select_reads_older_versions(shop: Shop) -> None:
    """Over a backfill and beside a load: what the table was then, and what has come since."""
    shop.wait_caught_up()
    before = shop.status()["dws.user_hour"].version
    [then] = shop.client.query("SELECT sum(cnt) AS n FROM dws.user_hour").to_pylist()
    at = datetime.now(UTC).isoformat(" ", "milliseconds")
    with shop.load(seed=73):
        shop.wait_advanced("dws.user_hour", by=3)
        shop.client.run("ALTER MATERIALIZED TABLE dws.user_hour REFRESH ALL")
    for clause in (f"VERSION AS OF {before}", f"TIMESTAMP AS OF '{at}'"):
        found = command(shop, "sql", "--json", f"SELECT sum(cnt) AS n FROM dws.user_hour {clause}")
        assert json.loads(found.stdout) == [then], clause
    now = f"SELECT count(*) AS n FROM dws.user_hour n LEFT ANTI JOIN dws.user_hour VERSION AS OF {before} w"
    [changed] = shop.client.query(f"{now} ON n.user_id = w.user_id AND n.logdate = w.logdate").to_pylist()
    assert changed["n"] > 0
    refused = command(shop, "sql", "SELECT * FROM dws.user_hour VERSION AS OF 99999999", code=1)
    assert "there is no version 99999999" in refused.stderr
