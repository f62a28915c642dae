"""resync: what differs before, what has changed after."""

from __future__ import annotations

import json

import pytest
from cli_support import Cli
from gateway_support import Gateway

from headrace.results import ParityResult


def compared(*, equal: bool) -> ParityResult:
    return ParityResult(
        table="stg.orders",
        against="source",
        equal=equal,
        rows=7,
        missing=0,
        extra=0 if equal else 1,
        version=3,
    )


@pytest.mark.parametrize("equal", [True, False])
def test_a_dry_run_shows_what_differs_and_says_so_by_its_exit_code(
    cli: Cli, gateway: Gateway, equal: bool
) -> None:
    gateway.warehouse.parity = [compared(equal=equal)]
    out = cli("resync", "stg.orders", "--dry-run", code=0 if equal else 1)
    assert gateway.warehouse.calls == [("resync", "stg.orders", True)]
    assert ("equal" if equal else "DIFFERS") in out
    assert "nothing was changed: leave out --dry-run" in cli.stderr


def test_what_a_resync_has_changed_is_told(cli: Cli, gateway: Gateway) -> None:
    lines = [line.split() for line in cli("resync", "stg.orders").splitlines()]
    assert gateway.warehouse.calls == [("resync", "stg.orders", False)]
    assert ["stg.orders", "7", "1", "2", "3", "9", "0.5"] in lines
    assert json.loads(cli("resync", "stg.orders", "--json"))[0]["refreshed"]["deleted"] == 3


def test_a_part_of_a_table_is_resynced_by_a_condition(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.parity = [compared(equal=False)]
    cli("resync", "stg.orders", "--where", "order_id = 7 AND status = 'paid'")
    assert "DIFFERS" in cli("resync", "stg.orders", "--where", "order_id = 7", "--dry-run", code=1)
    assert gateway.warehouse.calls == [
        ("resync", "stg.orders", False, "order_id = 7 AND status = 'paid'"),
        ("resync", "stg.orders", True, "order_id = 7"),
    ]
    cli("resync", "--all", "--where", "order_id = 7", code=2)
    assert "--where is about one table" in cli.stderr


def test_all_that_need_it_are_resynced_and_no_others(cli: Cli, gateway: Gateway) -> None:
    cli("resync", "--all")
    assert gateway.warehouse.calls == []
    assert "no table says NEEDS RESYNC" in cli.stderr
    gateway.warehouse.state = "NEEDS RESYNC"
    cli("resync", "--all")
    assert gateway.warehouse.calls == [("resync", "stg.orders", False)]
    for wrong in ([], ["stg.orders", "--all"]):
        cli("resync", *wrong, code=2)
        assert "name tables, or pass --all" in cli.stderr
