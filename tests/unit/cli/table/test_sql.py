"""sql: rows for people and for programs, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
from cli_support import Cli
from gateway_support import Gateway

from headrace.errors import TerminalError


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
