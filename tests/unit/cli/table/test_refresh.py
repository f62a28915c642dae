"""refresh: a range, a cascade, and ranges that are wrong."""

from __future__ import annotations

import json

import pytest
from cli_support import Cli, parity
from gateway_support import Gateway, refresh_result

from headrace.cli._shared.tables import show_refresh


def test_refresh(cli: Cli, gateway: Gateway) -> None:
    out = cli("refresh", "stg.orders", "--start", "2024010100", "--end", "2024010103")
    assert gateway.warehouse.calls == [("refresh", "stg.orders", "2024010100", "2024010103")]
    assert "1 inserted" in out and "version 8" in out
    assert "committing (2/2)" in cli.stderr
    assert json.loads(cli("refresh", "stg.users", "--json"))["table"] == "stg.users"
    assert gateway.warehouse.calls[-1] == ("refresh", "stg.users", None, None)


def test_a_range_without_rows_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped year, say: nothing is wrong with it otherwise."""
    nothing = {"rows": 0, "inserted": 0, "start": "2099010100", "end": "2099010103"}
    show_refresh(refresh_result("stg.orders", **nothing).model_dump())
    assert "no rows from 2099010100 to 2099010103" in capsys.readouterr().err
    show_refresh(refresh_result("stg.orders").model_dump())
    assert capsys.readouterr().err == ""


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
