"""The command line: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gateway_support import Gateway, free_port, serve, write_project
from typer.testing import CliRunner

import headrace
from headrace.catalog import Catalog
from headrace.cli.main import app
from headrace.errors import TerminalError
from headrace.gateway.client import GatewayClient, StatementRefused
from headrace.results import ConstraintResult, DifferingRow, ParityResult, Repaired
from headrace.services.stack import Stack
from headrace.services.status import ServiceStatus
from headrace.settings import Settings
from headrace.spec import load_project
from headrace.spec.alteration import Alteration, declared
from headrace.store.commits import Commit
from headrace.store.decision import Decision
from headrace.subscription import batches

HEAVY = {
    "pyspark",
    "dagster",
    "great_expectations",
    "fastapi",
    "uvicorn",
    "sqlalchemy",
    "pandas",
    "deltalake",
}


class Cli:
    """Runs commands of one project."""

    def __init__(self, project: Path) -> None:
        self.project = project

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """stdout of a command that must end with `code`."""
        self.result = CliRunner().invoke(app, [*arguments, "--project", str(self.project)])
        assert self.result.exit_code == code, self.result.output
        return self.result.stdout

    @property
    def stderr(self) -> str:
        return self.result.stderr


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with serve(tmp_path) as gateway:
        monkeypatch.setenv("HEADRACE_GATEWAY_PORT", str(gateway.settings.gateway_port))
        gateway.warehouse.go_on.set()
        yield gateway


@pytest.fixture
def cli(gateway: Gateway) -> Cli:
    return Cli(gateway.settings.project)


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A project whose services do not run."""
    monkeypatch.setenv("HEADRACE_GATEWAY_PORT", str(free_port()))
    return Cli(write_project(tmp_path / "p"))


def test_select_for_people_and_for_programs(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.rows = pa.table(
        {"name": ["a\nb", None], "amount": pa.array([Decimal("1.10"), Decimal("20.00")])}
    )
    lines = cli("sql", "SELECT * FROM stg.orders").splitlines()
    assert [line.split() for line in lines] == [["name", "amount"], ["a\\nb", "1.10"], ["–", "20.00"]]
    assert "(2 rows)" in cli.stderr
    assert json.loads(cli("sql", "SELECT * FROM stg.orders", "--json")) == [
        {"name": "a\nb", "amount": "1.10"},
        {"name": None, "amount": "20.00"},
    ]


def test_two_columns_of_one_name_are_not_lost_in_json(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.rows = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    assert cli("sql", "SELECT 1").split() == ["n", "n", "1", "2"]
    cli("sql", "SELECT 1", "--json", code=2)
    assert "two columns are named `n`" in cli.stderr


def test_other_statements_through_sql(cli: Cli) -> None:
    assert "stg.orders" in cli("sql", "SHOW MATERIALIZED TABLES")
    assert "EQUAL" in cli("sql", "SHOW PARTITIONS stg.orders")
    cli("sql", "SHOW PARTITIONS stg.users", code=1)
    assert "no partitions" in cli.stderr
    assert json.loads(cli("sql", "DESCRIBE MATERIALIZED TABLE stg.orders", "--json"))["table"] == "stg.orders"


def test_a_refused_statement_is_one_plain_line_and_2(cli: Cli) -> None:
    cli("sql", "SELECT * FROM stg.order", code=2)
    assert cli.stderr == (
        "headrace: 1:15: no table `stg.order`\n  hint: did you mean `stg.orders` or `stg.users`?\n"
    )


def test_a_failed_statement_is_1(cli: Cli, gateway: Gateway) -> None:
    def fail(_sql: str) -> pa.Table:
        raise TerminalError("the table halted")

    gateway.warehouse.on_select = fail
    cli("sql", "SELECT 1", code=1)
    assert cli.stderr == "headrace: the table halted\n"


def test_refresh(cli: Cli, gateway: Gateway) -> None:
    out = cli("refresh", "stg.orders", "--start", "2024010100", "--end", "2024010103")
    assert gateway.warehouse.calls == [("refresh", "stg.orders", "2024010100", "2024010103")]
    assert "1 inserted" in out and "version 8" in out
    assert "committing (2/2)" in cli.stderr
    assert json.loads(cli("refresh", "stg.users", "--json"))["table"] == "stg.users"
    assert gateway.warehouse.calls[-1] == ("refresh", "stg.users", None, None)


def test_refresh_cascade_shows_what_will_run_and_ends_with_its_proof(cli: Cli, gateway: Gateway) -> None:
    arguments = ["refresh", "stg.orders", "--start", "2024010100", "--end", "2024010103", "--cascade"]
    call = ("cascade", "stg.orders", "2024010100", "2024010103")
    out = cli(*arguments, "--dry-run")
    assert gateway.warehouse.calls == [(*call, True)]
    lines = [line.split() for line in out.splitlines()]
    assert ["stg.orders", "2024010100", "…", "2024010103", "1", "2,048"] in [line[:6] for line in lines]
    assert ["dwd.all", "all", "2,048", "skip", "a", "join"] in lines
    gateway.warehouse.parity = [parity(equal=True)]
    out = cli(*arguments)
    assert gateway.warehouse.calls[1:] == [(*call, True), (*call, False)]
    assert "equal" in out
    gateway.warehouse.parity = [parity(equal=False)]
    assert "DIFFERS" in cli(*arguments, code=1)
    gateway.warehouse.calls.clear()
    found = json.loads(cli(*arguments, "--json", code=1))
    assert gateway.warehouse.calls == [(*call, False)]
    assert [t["table"] for t in found["tables"]] == ["stg.orders", "dwd.all"]
    cli("refresh", "stg.users", "--dry-run", code=2)
    assert "pass --cascade too" in cli.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stg.orders"], "stg.orders is partitioned by logdate: pass --start and --end"),
        (["stg.orders", "--start", "2024010100"], "pass both --start and --end"),
        (["stg.orders", "--start", "20240101", "--end", "20240102"], "orders.sql:2"),
        (["stg.orders", "--start", "2024010102", "--end", "2024010101"], "after its end"),
        (["stg.order", "--start", "2024010100", "--end", "2024010101"], "did you mean `stg.orders`"),
        (["stg.users", "--start", "2024010100", "--end", "2024010101"], "has no partitions"),
        (["stg.orders", "--start", "' OR 1=1", "--end", "x"], "no partition"),
    ],
)
def test_refresh_of_a_wrong_range_is_2_and_runs_nothing(
    cli: Cli, gateway: Gateway, arguments: list[str], message: str
) -> None:
    cli("refresh", *arguments, code=2)
    assert message in cli.stderr and gateway.warehouse.calls == []


def parity(*, equal: bool, **more: Any) -> ParityResult:
    counts = {"missing": 0, "extra": 0} if equal else {"missing": 1, "extra": 1}
    return ParityResult(table="stg.orders", against="batch", equal=equal, rows=9, version=7, **counts, **more)


def test_verify_of_equal_tables_is_0(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.parity = [parity(equal=True)]
    assert "equal" in cli("verify", "stg.orders", "stg.users", "--no-source")
    assert gateway.warehouse.calls == [("verify", ["stg.orders", "stg.users"], None, None, False)]
    cli("verify", "--start", "2024010100", "--end", "2024010101")
    assert gateway.warehouse.calls[-1] == ("verify", None, "2024010100", "2024010101", True)


def test_verify_of_a_difference_is_1_and_shows_the_rows(cli: Cli, gateway: Gateway) -> None:
    sample = [
        DifferingRow(side="table", row={"id": 1, "amount": Decimal("2.00")}),
        DifferingRow(side="expected", row={"id": 1, "amount": Decimal("2.10")}),
    ]
    gateway.warehouse.parity = [
        parity(equal=True),
        parity(equal=False, sample=sample, partitions=["2024010100"]),
    ]
    out = cli("verify", code=1)
    assert "DIFFERS" in out and "2 rows differ, partitions 2024010100" in out
    assert ["table", "1", "2.00"] in [line.split() for line in out.splitlines()]
    assert ["expected", "1", "2.10"] in [line.split() for line in out.splitlines()]
    found = json.loads(cli("verify", "--json", code=1))
    assert found[1]["sample"][0] == {"side": "table", "row": {"id": 1, "amount": "2.00"}}


def test_verify_repair(cli: Cli, gateway: Gateway) -> None:
    done = Repaired(
        partitions=["2024010100"], missing=2, extra=1, inserted=1, updated=1, deleted=0, seconds=0.1
    )
    gateway.warehouse.parity = [parity(equal=True, repaired=done)]
    out = cli("verify", "stg.orders", "--no-source", "--repair")
    assert "repaired partitions 2024010100: 1 inserted, 1 updated, 0 deleted; proven equal" in out
    assert gateway.warehouse.calls[-1] == ("verify", ["stg.orders"], None, None, False, "repair")
    found = json.loads(cli("verify", "--repair", "--json"))
    assert found[0]["repaired"]["partitions"] == ["2024010100"]
    gateway.warehouse.parity = [parity(equal=False, repaired=done)]
    assert "DIFFERS STILL" in cli("verify", "--repair", code=1)


def test_verify_that_could_not_compare_is_1(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.parity = [parity(equal=True, error="the source does not answer")]
    assert "the source does not answer" in cli("verify", code=1)


def test_check(cli: Cli, gateway: Gateway) -> None:
    def holds(passed: bool) -> ConstraintResult:
        return ConstraintResult(
            table="stg.orders", constraint="counted", on_violation="FAIL", passed=passed, violations=3, rows=9
        )

    gateway.warehouse.constraints = [holds(True)]
    assert "holds" in cli("check", "stg.orders")
    gateway.warehouse.constraints = [holds(True), holds(False)]
    assert "BROKEN" in cli("check", "stg.orders", code=1)


def test_explain_history(cli: Cli) -> None:
    out = cli("explain", "stg.orders", "--history")
    row = out.splitlines()[-1]
    assert [part in row for part in ("ROW", "driver", "0.25", "FULL 0.80", "append only")] == [True] * 5
    found = json.loads(cli("explain", "stg.orders", "--history", "--json"))
    assert found["history"][0]["estimates"] == {"ROW": 0.1, "FULL": 0.8}
    assert json.loads(cli("explain", "stg.orders", "--json"))["history"] == []


def test_explain_history_without_a_server_reads_the_log(stopped: Cli) -> None:
    decision = Decision("FULL", "load", "the table is empty", {"FULL": 0.8}, 1.5, 9, 4)
    log = stopped.project / ".headrace/data/warehouse/stg/orders/changelog/_delta_log"
    log.mkdir(parents=True)
    for version, decided in enumerate((decision, replace(decision, path="driver"))):
        commit = Commit("stg.orders", "stream", version, decision=decided.as_dict())
        text = json.dumps({"commitInfo": {"userMetadata": commit.encode()}})
        (log / f"{version:020d}.json").write_text(text)
    found = json.loads(stopped("explain", "stg.orders", "--history", "--json"))["history"]
    assert [d["path"] for d in found] == ["driver", "load"]


def test_explain_without_a_server_reads_the_files(stopped: Cli) -> None:
    found = json.loads(cli_out := stopped("explain", "stg.orders", "--json"))
    assert found["refresh_mode"] == "CONTINUOUS", cli_out
    assert any("planned from the files" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("expression", "query"),
    [
        ("NOW()", "SELECT order_id,\n  now() AS t\nFROM dwd.o"),
        (
            "SUM(CAST(amount AS DOUBLE))",
            "SELECT order_id,\n  SUM(CAST(amount AS DOUBLE)) AS t\nFROM dwd.o GROUP BY 1",
        ),
        (
            "ROW_NUMBER() OVER (PARTITION BY amount ORDER BY b)",
            "SELECT order_id,\n  ROW_NUMBER() OVER (PARTITION BY amount ORDER BY b) AS t\nFROM dwd.o",
        ),
        (
            "ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY amount)",  # nobody knows stg's key here
            "SELECT order_id,\nROW_NUMBER() OVER (PARTITION BY order_id ORDER BY amount) AS t FROM stg.users",
        ),
        ("FIRST(b)", "SELECT order_id,\n  first(b) AS t\nFROM dwd.o GROUP BY 1"),
        ("LIMIT 10", "SELECT order_id, b AS t\nFROM dwd.o LIMIT 10"),
        ("ORDER BY b LIMIT 10", "SELECT order_id, b AS t FROM dwd.o\nORDER BY b LIMIT 10"),
    ],
)
def test_explain_and_plan_refuse_with_expression_and_line(stopped: Cli, expression: str, query: str) -> None:
    def write(name: str, key: str, text: str) -> Path:
        path = stopped.project / "layers" / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = name.replace("/", ".")
        header = (
            f"CREATE MATERIALIZED TABLE {table} (PRIMARY KEY ({key}))\nFRESHNESS = INTERVAL '1' MINUTE AS\n"
        )
        path.write_text(header + text)
        return path

    write("dwd/o", "order_id", "SELECT order_id, amount, amount + 1 AS b FROM stg.orders")
    path = write("dws/bad", "order_id", query)
    stopped("explain", "dws.bad", code=2)
    assert f": {expression}" in stopped.stderr
    assert "hint: " in stopped.stderr
    assert f"{path}:4:" in stopped.stderr
    if "stg.users" in query:  # only its owner can tell: plan warns
        stopped("plan")
        assert f"warning: {path}:4:" in stopped.stderr
    else:
        stopped("plan", code=2)
        assert f"{path}:4:" in stopped.stderr


def test_explain_suspend_resume(cli: Cli, gateway: Gateway) -> None:
    out = cli("explain", "stg.orders")
    assert "ROW: one upstream" in out and "JOIN: no join" in out
    assert json.loads(cli("explain", "stg.orders", "--json"))["strategy"] == "ROW"
    cli("suspend", "stg.orders")
    cli("resume", "stg.orders")
    assert gateway.warehouse.calls == [("suspend", "stg.orders"), ("resume", "stg.orders")]
    cli("suspend", "stg.order", code=2)
    assert "did you mean `stg.orders`" in cli.stderr


def test_rewind_tells_what_went_back_and_how_to_go_on(cli: Cli, gateway: Gateway) -> None:
    out = cli("rewind", "stg.orders", "--to-version", "5", "--cascade", "--dry-run")
    assert gateway.warehouse.calls == [("rewind", "stg.orders", 5, True, True)]
    lines = [line.split() for line in out.splitlines()]
    assert [
        "stg.orders", "7", "5", "2026-11-20", "10:00:00", "1", "2", "3", "shop.public.orders:0@12",
    ] in lines  # fmt: skip
    assert "nothing was changed" in cli.stderr
    gateway.warehouse.calls.clear()
    cli("rewind", "stg.orders", "--to-time", "2026-11-20 12:00:00+02:00")
    assert gateway.warehouse.calls == [
        ("rewind", "stg.orders", datetime(2026, 11, 20, 10, tzinfo=UTC), False, False)
    ]
    assert "`headrace resume stg.orders`" in cli.stderr
    found = json.loads(cli("rewind", "stg.orders", "--to-version", "5", "--json"))
    assert found["suspended"] == ["stg.orders"]
    for wrong in ([], ["--to-version", "5", "--to-time", "2026-11-20 12:00:00"]):
        cli("rewind", "stg.orders", *wrong, code=2)
        assert "pass one of --to-version and --to-time" in cli.stderr
    cli("rewind", "stg.orders", "--to-time", "2026-11-20", code=2)
    assert "is a day and no time" in cli.stderr


def test_changes_are_json_lines(cli: Cli, gateway: Gateway) -> None:
    lines = cli("changes", "stg.orders", "--from", "6", "--json").splitlines()
    assert [json.loads(line) for line in lines] == [{"id": 1, "_version": 7}, {"id": 2, "_version": 7}]
    assert gateway.warehouse.calls == [("changes", "stg.orders", 6, None)]
    assert cli("changes", "stg.orders").splitlines()[0] == "id=1  _version=1"
    assert len(cli("changes", "stg.orders", "--from", "0").splitlines()) == 2 * 7
    assert cli("changes", "stg.orders", "--from", "snapshot").splitlines()[0] == "id=1  _version=7"
    cli("changes", "stg.orders", "--from", "later", code=2)
    assert "`snapshot` or `latest`" in cli.stderr
    cli("changes", "stg.orders", "--from", "99", code=1)
    assert "are gone" in cli.stderr


def test_follow_goes_on_after_the_last_version_seen(
    cli: Cli, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_more_version(_seconds: float) -> None:
        gateway.warehouse.head += 1
        if gateway.warehouse.head == 10:
            raise KeyboardInterrupt

    monkeypatch.setattr("headrace.subscription.time.sleep", one_more_version)
    cli("changes", "stg.orders", "--follow", code=130)
    starts = [start for _, _, start, _ in gateway.warehouse.calls]
    assert starts == ["LATEST", 7, 8, 8, 9]


def test_a_reader_says_what_it_has_done_when_it_asks_for_more(gateway: Gateway) -> None:
    with GatewayClient(gateway.settings) as client:
        found = batches(client, "stg.orders", from_version=5, follow=False, reader="audit")
        assert [(b.after, b.through) for b in found] == [(5, 6), (6, 7)]
    assert [call[2:] for call in gateway.warehouse.calls] == [(5, "audit"), (6, "audit"), (7, "audit")]


def test_subscribe_takes_a_project(gateway: Gateway) -> None:
    found = list(headrace.subscribe("stg.orders", project=gateway.settings.project, from_version=6))
    assert [b.rows.column("id").to_pylist() for b in found] == [[1, 2]]


def test_a_statement_from_python_answers_rows_or_plain_data(gateway: Gateway) -> None:
    project = gateway.settings.project
    rows = headrace.sql("SELECT * FROM stg.orders", project=project)
    assert rows.num_rows and "id" in rows.column_names
    assert headrace.sql("ALTER MATERIALIZED TABLE stg.users SUSPEND", project=project) == {
        "table": "stg.users",
        "desired": "SUSPENDED",
    }
    assert gateway.warehouse.calls[-1] == ("suspend", "stg.users")
    with pytest.raises(StatementRefused, match="1:1: `SUSPEND` begins no statement"):
        headrace.sql("SUSPEND stg.users", project=project)


def test_readers(cli: Cli, gateway: Gateway) -> None:
    assert "audit" in cli("readers", "stg.orders")
    assert json.loads(cli("readers", "--json"))[0]["behind"] == 2
    cli("readers", "stg.orders", "--drop", "audit")
    assert gateway.warehouse.calls == [("drop_reader", "audit", "stg.orders")]
    cli("readers", "--drop", "audit", code=2)


def test_dead_letters(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.letters = [{"table": "stg.users", "offset": 3, "reason": "not JSON"}]
    assert "not JSON" in cli("dead-letters", "list")
    assert json.loads(cli("dead-letters", "list", "stg.orders", "--json")) == []


def services(state: str) -> list[ServiceStatus]:
    return [ServiceStatus(name="kafka", state=state, pid=1, port=2, rss_bytes=3 << 20)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("service", "table", "code"),
    [
        ("RUNNING", "RUNNING", 0),
        ("RUNNING", "SUSPENDED", 0),
        ("FAILED", "RUNNING", 1),
        ("RUNNING", "FAILED", 1),
    ],
)
def test_status(
    cli: Cli, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, service: str, table: str, code: int
) -> None:
    monkeypatch.setattr(Stack, "status", lambda _self: services(service))
    said = {"state": table, "last_error": "why\nnot", "warnings": ["reader `audit` is abandoned"]}
    one = gateway.warehouse.status()[0].model_copy(update=said)
    gateway.warehouse.status = lambda: [one]  # type: ignore[method-assign]
    out = cli("status", code=code)
    assert ["kafka", service, "1", "2", "3", "MiB"] in [line.split() for line in out.splitlines()]
    row = next(line for line in out.splitlines() if line.startswith("stg.orders"))
    assert row.split() == f"stg.orders CONTINUOUS {table} ROW 10 s 1.5 s – 2 7 – 0".split()
    assert "stg.orders: why\\nnot" in out and "stg.orders: reader `audit` is abandoned" in out
    found = json.loads(cli("status", "--json", code=code))
    assert found["tables"][0]["measured_freshness"] == 1.5 and found["services"][0]["name"] == "kafka"


def test_status_without_services_is_3(stopped: Cli) -> None:
    assert "STOPPED" in stopped("status", code=3)
    assert "run `headrace up`" in stopped.stderr
    found = json.loads(stopped("status", "--json", code=3))
    assert found["tables"] is None and "headrace up" in found["error"]


@pytest.mark.parametrize(
    "command",
    [["sql", "SELECT 1"], ["verify"], ["changes", "x"], ["suspend", "x"]],
)
def test_without_a_server_every_command_says_up_and_3(stopped: Cli, command: list[str]) -> None:
    stopped(*command, code=3)
    assert "`headrace up`" in stopped.stderr and "Traceback" not in stopped.stderr


def test_up_brings_the_rest_up_where_a_connector_fails(stopped: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def register(_self: Stack, **_more: object) -> list[str]:
        raise TerminalError("the table public.users does not exist")

    monkeypatch.setattr(Stack, "up", lambda _self, only=None, **_more: calls.append(only))
    monkeypatch.setattr(Stack, "register_connectors", register)
    stopped("up", code=1)
    assert calls == [["connect"], None]
    assert stopped.stderr == "headrace: the table public.users does not exist\n"


def test_demo_hands_over(stopped: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def run(settings: object, **options: Any) -> int:
        seen.update(options)
        return 1

    monkeypatch.setattr("headrace.demo.run", run)
    stopped("demo", "--exit", "--json", str(tmp_path / "f.json"), "--seed", "7", "--rate", "9", code=1)
    assert seen == {
        "exit_at_end": True,
        "json_file": tmp_path / "f.json",
        "seed": 7,
        "rate": 9.0,
        "seconds": 60.0,
    }


def test_plan_lists_tables_and_refuses_what_is_wrong(stopped: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_POSTGRES_PORT", str(free_port()))
    found = json.loads(stopped("plan", "--json"))
    assert [(t["table"], t["mode"], t["partitioned_by"]) for t in found["tables"]] == [
        ("stg.orders", "CONTINUOUS", "logdate"),
        ("stg.users", "CONTINUOUS", None),
    ]
    assert "the source does not answer" in found["notes"][0]
    assert not (stopped.project / ".headrace" / "data" / "state" / "catalog.db").exists()
    settings = Settings.load(stopped.project)
    catalog = Catalog(settings.catalog)
    users = load_project(stopped.project).table("stg.users")
    said = declared(users, "FRESHNESS")
    catalog.alterations.set(Alteration(users.name, "FRESHNESS", "INTERVAL '1' DAY", said))
    found = json.loads(stopped("plan", "--json"))
    assert [(t["table"], t["freshness"]) for t in found["tables"]][1] == ("stg.users", "24 h")
    told = f"stg.users: a statement has set FRESHNESS = INTERVAL '1' DAY; its file says {said}"
    assert told in found["notes"]
    (stopped.project / "layers" / "stg" / "users.sql").write_text("CREATE MATERIALISED TABLE stg.users")
    stopped("plan", code=2)
    assert "users.sql:1:8: " in stopped.stderr


def test_init_makes_a_project_once(tmp_path: Path) -> None:
    run = CliRunner()
    made = run.invoke(app, ["init", str(tmp_path / "new")])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "new" / "layers" / "dws").is_dir()
    assert "connector" in made.stderr
    again = run.invoke(app, ["init", str(tmp_path / "new")])
    assert again.exit_code == 2 and "is a project already" in again.stderr
    empty = run.invoke(app, ["plan", "--project", str(tmp_path / "new")])
    assert empty.exit_code == 1 and "no layer file" in empty.stderr


def test_the_project_is_found_from_below(
    stopped: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(stopped.project / "layers" / "stg")
    found = CliRunner().invoke(app, ["status", "--json"])
    assert json.loads(found.stdout)["project"] == str(stopped.project.resolve())
    monkeypatch.chdir(tmp_path)
    lost = CliRunner().invoke(app, ["status"])
    assert lost.exit_code == 2 and "headrace init" in lost.stderr
    named = CliRunner().invoke(app, ["status", "--project", str(tmp_path / "nowhere")])
    assert named.exit_code == 2 and "nowhere has no layers/" in named.stderr


def test_a_wrong_setting_is_2(stopped: Cli) -> None:
    (stopped.project / "headrace.toml").write_text("gateway_prot = 1\n")
    stopped("status", code=2)
    assert "`gateway_port`" in stopped.stderr


def test_a_mistake_of_headrace_is_one_line_unless_debugging(
    stopped: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stack, "down", lambda _self, **_more: {}["x"])
    stopped("down", code=1)
    assert (
        stopped.stderr.splitlines()[0] == "headrace: KeyError: 'x'" and "HEADRACE_DEBUG=1" in stopped.stderr
    )
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    stopped("down", code=1)
    assert isinstance(stopped.result.exception, KeyError)


def test_doctor_finds_a_foreign_program_on_a_port(gateway: Gateway, cli: Cli) -> None:
    found = {f["check"]: f for f in json.loads(cli("doctor", "--json", code=1))}
    assert found["python"]["ok"] and found["layers"]["detail"] == "2 tables, 1 sources"
    held = found["gateway_port"]
    assert not held["ok"] and str(gateway.settings.gateway_port) in held["detail"]
    assert str(os.getpid()) in held["detail"] and "headrace.toml" in held["detail"]


@pytest.mark.parametrize("arguments", [["--help"], ["status"], ["sql", "SELECT 1"]])
def test_a_client_imports_nothing_heavy(stopped: Cli, arguments: list[str]) -> None:
    code = (
        "import sys, atexit\n"
        "from headrace.cli.main import main\n"
        "atexit.register(lambda: print('LOADED', *sorted({m.partition('.')[0] for m in sys.modules})))\n"
        f"sys.argv = ['headrace', *{arguments!r}]\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=stopped.project, timeout=60
    )
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert "headrace" in loaded and not HEAVY & set(loaded)
    assert "pyarrow" not in loaded and "sqlglot" not in loaded
