"""The gateway over HTTP and its client, against each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from gateway_support import PATIENCE, FakeWarehouse, Gateway, free_port, serve, wait_until

from headrace.errors import Cancelled, TransientError
from headrace.gateway.client import (
    GatewayClient,
    NotReachable,
    StatementFailed,
    StatementInterrupted,
    StatementRefused,
)
from headrace.results import Statement
from headrace.settings import Settings
from headrace.spec.partitions.label_range import LabelRange

REFRESH = (
    "ALTER MATERIALIZED TABLE stg.orders REFRESH PARTITION (logdate BETWEEN '2024010100' AND '2024010101')"
)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with serve(tmp_path) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: Gateway) -> Iterator[GatewayClient]:
    with GatewayClient(gateway.settings) as client:
        yield client


def call(gateway: Gateway, method: str, path: str, **arguments: object) -> httpx.Response:
    return httpx.request(method, gateway.settings.gateway_url + path, trust_env=False, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/status"),
        ("GET", "/jvm"),
        ("POST", "/statements"),
        ("GET", "/statements"),
        ("GET", "/statements/x"),
        ("DELETE", "/statements/x"),
        ("GET", "/statements/x/rows"),
    ],
)
def test_everything_but_health_wants_the_token(
    gateway: Gateway, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = call(
        gateway, method, path, headers=headers, json={"sql": "VERIFY"} if method == "POST" else None
    )
    assert answer.status_code == 401 and answer.json() == {"error": "the token is missing or wrong"}
    assert gateway.warehouse.calls == [] and gateway.service.jobs.all() == []
    assert call(gateway, "GET", "/health").status_code == 200


@pytest.mark.parametrize(
    ("sql", "taken"),
    [
        ("SELECT 1", True),
        ("SHOW MATERIALIZED TABLES", True),
        ("EXPLAIN MATERIALIZED TABLE stg.orders", True),
        ("CHANGES stg.orders", True),
        ("CHANGES stg.orders READER 'mine'", False),
        ("VERIFY", False),
        (REFRESH, False),
        ("ALTER MATERIALIZED TABLE stg.orders SUSPEND", False),
        ("DROP MATERIALIZED TABLE stg.orders", False),
    ],
)
def test_the_token_for_reading_reads_alone(gateway: Gateway, sql: str, taken: bool) -> None:
    reader = {"Authorization": "Bearer reader"}
    answer = call(gateway, "POST", "/statements", headers=reader, json={"sql": sql})
    assert answer.status_code == (202 if taken else 403), answer.text
    if not taken:
        assert "the token is for reading" in answer.json()["error"] and gateway.service.jobs.all() == []
    assert call(gateway, "GET", "/status", headers=reader).status_code == 200


def test_the_token_for_reading_cancels_what_reads(gateway: Gateway) -> None:
    reader, owner = ({"Authorization": f"Bearer {token}"} for token in ("reader", "secret"))
    for headers, sql, status in ((reader, "SELECT 1", 200), (owner, "VERIFY", 403)):
        id = call(gateway, "POST", "/statements", headers=headers, json={"sql": sql}).json()["id"]
        assert call(gateway, "DELETE", f"/statements/{id}", headers=reader).status_code == status


def test_a_token_may_be_given_by_a_variable(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", "reader")
    with GatewayClient(gateway.settings) as client:
        assert client.status() == client.status()
        with pytest.raises(StatementRefused, match="the token is for reading"):
            client.run("VERIFY")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:28080", "127.0.0.1.evil.example", ""])
def test_another_site_s_name_is_refused(gateway: Gateway, host: str) -> None:
    headers = {"Host": host, "Authorization": "Bearer secret"}
    for path in ("/health", "/status"):
        assert call(gateway, "GET", path, headers=headers).status_code == 400


def test_no_documentation_is_served(gateway: Gateway) -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        answer = call(gateway, "GET", path, headers={"Authorization": "Bearer secret"})
        assert answer.status_code == 404 and answer.json() == {"error": "Not Found"}


def test_a_body_that_is_no_statement_is_refused(gateway: Gateway) -> None:
    headers = {"Authorization": "Bearer secret"}
    for body in ({}, {"sql": 1}, {"sql": "VERIFY", "limit": 3}, {"sql": "x" * 1_000_001}):
        answer = call(gateway, "POST", "/statements", headers=headers, json=body)
        assert answer.status_code == 422 and "cannot be read" in answer.json()["error"]


def test_a_select_s_rows_keep_their_types(client: GatewayClient, gateway: Gateway) -> None:
    gateway.warehouse.rows = pa.table(
        {"amount": pa.array([Decimal("1.10"), None], pa.decimal128(12, 2)), "n": pa.array([1, 2], pa.int32())}
    )
    statement = client.run("SELECT * FROM stg.orders;")
    assert statement.state == "SUCCEEDED" and statement.has_rows
    rows = client.rows(statement.id)
    assert rows.schema == gateway.warehouse.rows.schema and rows.equals(gateway.warehouse.rows)
    assert gateway.warehouse.calls == [("select", "SELECT * FROM stg.orders")]


def test_a_result_of_many_batches_and_an_empty_one(client: GatewayClient, gateway: Gateway) -> None:
    gateway.warehouse.rows = pa.table({"n": pa.array(range(120_000), pa.int32())})
    assert client.query("SELECT n FROM stg.orders").equals(gateway.warehouse.rows)
    gateway.warehouse.rows = gateway.warehouse.rows.slice(0, 0)
    empty = client.query("SELECT n FROM stg.orders")
    assert empty.num_rows == 0 and empty.schema == gateway.warehouse.rows.schema


@pytest.mark.parametrize(
    ("sql", "called"),
    [
        ("VERIFY", ("verify", None, None, True)),
        (
            "VERIFY stg.orders PARTITION (logdate = '2024010100') WITHOUT SOURCE",
            ("verify", ["stg.orders"], LabelRange("2024010100", "2024010100"), False),
        ),
        ("CHECK stg.users", ("check", "stg.users", None)),
        ("ALTER MATERIALIZED TABLE stg.users SUSPEND", ("suspend", "stg.users")),
        ("ALTER MATERIALIZED TABLE stg.users RESUME", ("resume", "stg.users")),
        ("ALTER MATERIALIZED TABLE stg.orders RESET IMMUTABLE", ("immutable", "stg.orders", None)),
        (
            "ALTER MATERIALIZED TABLE stg.users SET FRESHNESS = INTERVAL '1' DAY",
            ("alter", "stg.users", "FRESHNESS", "INTERVAL '1' DAY"),
        ),
        (
            "ALTER MATERIALIZED TABLE stg.users RESET REFRESH_MODE",
            ("alter", "stg.users", "REFRESH_MODE", None),
        ),
        ("CHANGES stg.users FROM VERSION 5", ("changes", "stg.users", 5, None)),
        ("CHANGES stg.users FROM LATEST READER 'audit'", ("changes", "stg.users", "LATEST", "audit")),
        ("DROP READER 'audit' ON stg.users", ("drop_reader", "audit", "stg.users")),
    ],
)
def test_what_a_statement_calls(
    client: GatewayClient, gateway: Gateway, sql: str, called: tuple[object, ...]
) -> None:
    assert client.run(sql).state == "SUCCEEDED"
    assert gateway.warehouse.calls == [called]


def test_answers_of_the_other_statements(client: GatewayClient, gateway: Gateway) -> None:
    gateway.warehouse.letters = [{"table": "stg.users", "offset": 3, "payload": b"\xff"}]
    assert client.run("SHOW PARTITIONS stg.orders").result == [{"label": "2026112209", "outcome": "EQUAL"}]
    assert client.run("SHOW MATERIALIZED TABLES").result == [{"table": "stg.orders", "state": "RUNNING"}]
    assert client.run("EXPLAIN MATERIALIZED TABLE stg.orders").result["strategy"] == "ROW"
    assert client.run("DESCRIBE MATERIALIZED TABLE stg.orders").result["columns"][0]["name"] == "id"
    assert client.run("SHOW DEAD LETTERS").result == [{"table": "stg.users", "offset": 3, "payload": "ff"}]
    assert client.run("SHOW DEAD LETTERS stg.orders").result == []
    assert [s.table for s in client.status()] == ["stg.orders"]
    jvm = client.jvm()
    assert jvm is not None and (jvm.classes_generated, jvm.micro_batches) == (3, 4)
    assert client.health() == {"state": "ready", "error": None}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM stg.order", "1:15: no table `stg.order`.*did you mean `stg.orders`"),
        ("SELECT 1; SELECT 2", "1:9: more than one statement"),
        (REFRESH.replace("2024010101'", "20240101'"), "orders.sql:2.*yyyyMMddHH"),
        (REFRESH.replace("2024010100", "2024010199"), "yyyyMMddHH|2024010199"),
        (REFRESH.replace("2024010100", "2025010100"), "after its end"),
        ("VERIFY PARTITION (logdate = 'x')", "yyyyMMddHH"),
    ],
)
def test_a_wrong_statement_is_refused_before_anything_runs(
    client: GatewayClient, gateway: Gateway, sql: str, message: str
) -> None:
    with pytest.raises(StatementRefused, match=f"(?s){message}"):
        client.submit(sql)
    assert gateway.warehouse.calls == [] and client.statements() == []


def test_progress_and_result_of_a_refresh(client: GatewayClient, gateway: Gateway) -> None:
    seen: list[Statement] = []

    def follow(statement: Statement) -> None:
        seen.append(statement)
        if statement.message == "recomputing":
            gateway.warehouse.go_on.set()

    statement = client.run(REFRESH, follow)
    assert statement.result["inserted"] == 1 and statement.result["partitions"] == ["2024010100"]
    assert ("recomputing", 1, 2) in [(s.message, s.done, s.total) for s in seen]
    assert seen[-1].state == "SUCCEEDED"


def test_a_select_passes_a_running_refresh(client: GatewayClient, gateway: Gateway) -> None:
    refresh = [client.submit(REFRESH).id for _ in range(3)]
    assert gateway.warehouse.refreshing.wait(PATIENCE)
    assert client.query("SELECT * FROM stg.orders").num_rows == 2
    assert {client.get(id).state for id in refresh} <= {"RUNNING", "QUEUED"}
    gateway.warehouse.go_on.set()
    assert {client.wait(id).state for id in refresh} == {"SUCCEEDED"}


def test_cancel_from_another_client(client: GatewayClient, gateway: Gateway) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.run, REFRESH)
        assert gateway.warehouse.refreshing.wait(PATIENCE)
        with GatewayClient(gateway.settings) as other:
            other.cancel(other.statements()[0].id)
        with pytest.raises(Cancelled, match="nothing of it was committed"):
            running.result(PATIENCE)


def test_an_interrupted_wait_cancels_the_statement(client: GatewayClient, gateway: Gateway) -> None:
    def interrupt(statement: Statement) -> None:
        if statement.state == "RUNNING":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.run(REFRESH, interrupt)
    id = client.statements()[0].id
    assert client.wait(id).state == "CANCELLED"


def test_failures_keep_their_kind(client: GatewayClient, gateway: Gateway) -> None:
    def lost(_sql: str) -> pa.Table:
        raise TransientError("lost a race")

    def broken(_sql: str) -> pa.Table:
        raise ZeroDivisionError("division by zero\nat line 1")

    gateway.warehouse.on_select = lost
    with pytest.raises(StatementInterrupted, match=r"^lost a race$"):
        client.run("SELECT 1")
    gateway.warehouse.on_select = broken
    with pytest.raises(StatementFailed, match=r"^ZeroDivisionError: division by zero \(statement \w+"):
        client.run("SELECT 1")


def test_an_unexpected_error_of_a_request_is_plain_json(client: GatewayClient, gateway: Gateway) -> None:
    gateway.warehouse.status = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(StatementFailed, match="ZeroDivisionError: division by zero"):
        client.status()


def test_rows_that_are_gone(client: GatewayClient, gateway: Gateway) -> None:
    without = client.run("VERIFY")
    with pytest.raises(StatementRefused, match="has no rows"):
        client.rows(without.id)
    with pytest.raises(StatementRefused, match="no statement `nix`"):
        client.rows("nix")
    with pytest.raises(StatementRefused, match="no statement `nix`"):
        client.cancel("nix")


def test_many_clients_get_their_own_rows(gateway: Gateway) -> None:
    gateway.warehouse.on_select = lambda sql: pa.table({"sql": [sql]})

    def ask(n: int) -> bool:
        with GatewayClient(gateway.settings) as client:
            return client.query(f"SELECT {n}")["sql"].to_pylist() == [f"SELECT {n}"]

    with ThreadPoolExecutor(max_workers=8) as pool:
        assert all(pool.map(ask, range(40)))


def test_while_it_starts_it_takes_no_statements(tmp_path: Path) -> None:
    go = threading.Event()
    warehouse = FakeWarehouse(on_start=lambda: go.wait(PATIENCE) and None)
    with (
        serve(tmp_path, warehouse=warehouse, until_started=False) as gateway,
        GatewayClient(gateway.settings) as client,
    ):
        answer = call(gateway, "GET", "/health")
        assert (answer.status_code, answer.json()["state"]) == (503, "starting")
        for act in (client.status, lambda: client.submit("VERIFY")):
            with pytest.raises(NotReachable, match="is starting"):
                act()
        go.set()
        wait_until(lambda: client.health()["state"] == "ready")
        assert client.run("VERIFY").state == "SUCCEEDED"
    assert warehouse.stopped


def test_a_standby_names_who_serves_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    warehouse = FakeWarehouse(stands_by_for="process 7 of elsewhere")
    warehouse.on_start = lambda: warehouse.gave_up.wait(PATIENCE) and None
    with (
        serve(tmp_path, warehouse=warehouse, until_started=False) as gateway,
        GatewayClient(gateway.settings) as client,
    ):
        wait_until(lambda: client.health()["state"] == "standby")
        assert client.serving_instead() == "process 7 of elsewhere"
        for act in (client.status, lambda: client.submit("VERIFY")):
            with pytest.raises(NotReachable, match="stands by for process 7 of elsewhere"):
                act()
    assert warehouse.gave_up.is_set() and warehouse.stopped


def test_a_warehouse_that_cannot_start_says_why(tmp_path: Path) -> None:
    def refuse() -> None:
        raise TransientError("another server holds the lease (pid 7)")

    with serve(tmp_path, warehouse=FakeWarehouse(on_start=refuse)) as gateway:
        answer = call(gateway, "GET", "/health")
        assert answer.status_code == 503
        assert answer.json() == {"state": "failed", "error": "another server holds the lease (pid 7)"}
        with GatewayClient(gateway.settings) as client, pytest.raises(StatementRefused, match="pid 7"):
            client.submit("VERIFY")


def test_nothing_listens(tmp_path: Path) -> None:
    settings = Settings(project=tmp_path, gateway_port=free_port())
    with GatewayClient(settings) as client:
        with pytest.raises(NotReachable, match="never started: run `headrace up`"):
            client.status()
        settings.gateway_token.parent.mkdir(parents=True)
        settings.gateway_token.write_text("secret")
        for act in (client.status, client.health):
            with pytest.raises(NotReachable, match=f"{settings.gateway_port}: run `headrace up`"):
                act()


def test_another_project_s_server_on_the_port(gateway: Gateway) -> None:
    gateway.settings.gateway_token.write_text("other")
    with GatewayClient(gateway.settings) as client, pytest.raises(NotReachable, match="another project"):
        client.status()


def test_another_program_on_the_port(tmp_path: Path) -> None:
    settings = Settings(project=tmp_path)
    settings.gateway_token.parent.mkdir(parents=True)
    settings.gateway_token.write_text("secret")
    strange = httpx.MockTransport(lambda _request: httpx.Response(404, text="<html>nginx</html>"))
    with (
        GatewayClient(settings, transport=strange) as client,
        pytest.raises(NotReachable, match="not headrace"),
    ):
        client.status()
