"""sql: rows for people and for programs, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from cli_support import Cli, parity
from gateway_support import Gateway
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from headrace.cli._shared.prompt import completer, prompt
from headrace.cli._shared.shown import SHOWN
from headrace.cli.table.sql import run
from headrace.errors import TerminalError
from headrace.gateway import statements
from headrace.gateway.client import GatewayClient
from headrace.results import ConstraintResult


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


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("EXPLAIN MATERIALIZED TABLE stg.orders HISTORY", ["mode      CONTINUOUS", "FULL 0.80"]),
        ("DESCRIBE MATERIALIZED TABLE stg.orders", ["stg.orders", "bigint"]),
        ("SHOW WORKFLOWS", ["2 min", "60 min"]),
        ("ALTER MATERIALIZED TABLE stg.orders SUSPEND", ["stg.orders: SUSPENDED from now on"]),
        ("ALTER MATERIALIZED TABLE stg.orders RESUME", ["stg.orders: RUNNING from now on"]),
        (
            "ALTER MATERIALIZED TABLE stg.orders SET FRESHNESS = INTERVAL '1' HOUR",
            ["freshness INTERVAL '1' HOUR, mode INCREMENTAL"],
        ),
        (
            "ALTER MATERIALIZED TABLE stg.orders SET IMMUTABLE WHERE (logdate < '2026112100')",
            ["partitions before 2026112100 stay as they are", "2026112000"],
        ),
        ("APPLY DRY RUN", ["nothing differs from what was applied last"]),
        ("APPLY", ["applied in 0.0 s"]),
        (
            "ALTER MATERIALIZED TABLE stg.orders REWIND TO VERSION 5",
            ["2026-11-20 10:00:00", "headrace resume"],
        ),
        ("ALTER MATERIALIZED TABLE stg.orders RESYNC", ["stg.orders", "inserted"]),
        ("ALTER MATERIALIZED TABLE stg.orders ERASE KEY (7)", ["change rows", "a tombstone stays"]),
        ("ALTER MATERIALIZED TABLE stg.orders REPLAY DEAD LETTERS", ["0 replayed"]),
        ("ALTER MATERIALIZED TABLE stg.orders REFRESH NEW", ["1 inserted, 0 updated"]),
        ("LOAD SOURCE shop", ["shop: 3 rows"]),
    ],
)
def test_every_answer_is_words_and_columns(cli: Cli, statement: str, said: list[str]) -> None:
    out = cli("sql", statement) + cli.stderr
    assert [part in out for part in said] == [True] * len(said), out
    assert "{" not in out


def test_what_checks_found_last_is_listed(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.parity = [parity(equal=False)]
    rows = cli("sql", "SHOW CHECKS stg.orders").splitlines()
    assert rows[0].split() == ["table", "check", "evaluated", "labels", "found"], rows
    assert rows[1].split()[:3] == ["stg.orders", "parity", "FAILS"] and "1 missing, 1 extra" in rows[1]
    assert json.loads(cli("sql", "SHOW CHECKS", "--json"))[0]["passed"] is False


def test_each_answer_that_is_shown_is_one_of_a_statement() -> None:
    assert {name for name in SHOWN if not hasattr(statements, name)} == set()


def test_what_is_not_well_is_1(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.parity = [parity(equal=True)]
    cli("sql", "VERIFY")
    gateway.warehouse.parity = [parity(equal=False)]
    assert "DIFFERS" in cli("sql", "VERIFY", code=1)
    cli("sql", "VERIFY", "--json", code=1)
    cli("sql", "ALTER MATERIALIZED TABLE stg.orders REFRESH ALL CASCADE", code=1)
    cli("sql", "ALTER MATERIALIZED TABLE stg.orders RESYNC DRY RUN", code=1)
    gateway.warehouse.constraints = [
        ConstraintResult(
            table="stg.orders", constraint="c", on_violation="WARN", passed=False, violations=1, rows=2
        )
    ]
    assert "BROKEN" in cli("sql", "CHECK stg.orders", code=1)


def test_a_file_is_run_up_to_what_fails(cli: Cli, gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "script.sql"
    file.write_text("SELECT ';' AS a; -- one;\n\nSELECT 2 /* ; */;\n;;SELECT * FROM stg.order; SELECT 4")
    cli("sql", "-f", str(file), code=2)
    assert [text.strip() for _, text in gateway.warehouse.calls] == ["SELECT ';' AS a", "SELECT 2"]
    assert "script.sql:4: this statement:" in cli.stderr and "did you mean `stg.orders`" in cli.stderr
    file.write_text("SELECT 'open")
    cli("sql", "--file", str(file), code=2)
    assert "not closed" in cli.stderr
    cli("sql", "--file", str(tmp_path / "none.sql"), code=2)
    assert "none.sql: No such file" in cli.stderr
    cli("sql", "SELECT 1", "--file", str(file), code=2)
    assert "not both" in cli.stderr


def test_what_comes_on_stdin_is_run(cli: Cli, gateway: Gateway) -> None:
    cli("sql", stdin="SELECT 1;\nSELECT 2;")
    assert [text for _, text in gateway.warehouse.calls] == ["SELECT 1", "SELECT 2"]


def test_at_the_prompt_statements_take_lines_and_mistakes_cost_nothing(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = "SELECT 1,\n';' AS a;\nSELECT * FROM stg.order;\n\nSELECT count(*) FROM stg.orders;\n"
    with (
        create_pipe_input() as keys,
        create_app_session(input=keys, output=DummyOutput()),
        GatewayClient(gateway.settings) as client,
    ):
        keys.send_text(f"{typed}exit\nSELECT 9;\n")
        prompt(client, gateway.settings, run)
    assert [" ".join(text.split()) for _, text in gateway.warehouse.calls] == [
        "SELECT 1, ';' AS a",
        "SELECT count(*) FROM stg.orders",
    ]
    shown = capsys.readouterr()
    assert "did you mean `stg.orders`" in shown.err and "(2 rows)" in shown.err
    offered = completer(["stg.orders"]).get_completions(Document("SELECT 1 FROM stg.or"), CompleteEvent())
    assert [c.text for c in offered] == ["stg.orders"]
    assert (gateway.settings.state / "sql_history").read_text().count("+SELECT") == 3
