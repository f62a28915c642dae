"""erase: where a key was, what is left, and what was not reached."""

from __future__ import annotations

import json

from cli_support import Cli
from gateway_support import Gateway


def test_what_was_erased_is_told_place_by_place(cli: Cli, gateway: Gateway) -> None:
    lines = [line.split() for line in cli("erase", "stg.orders", "17").splitlines()]
    assert gateway.warehouse.calls == [("erase", "stg.orders", ((None, "17"),), False, False)]
    assert ["stg.orders", "changelog", "change", "rows", "4", "0"] in lines
    assert ["stg.orders", "tombstones", "keys", "0", "1"] in lines
    assert "a tombstone stays" in cli.stderr and "a note" in cli.stderr
    assert json.loads(cli("erase", "stg.orders", "17", "--json"))["key"] == {"order_id": "17"}


def test_a_key_may_have_several_columns_and_hostile_text(cli: Cli, gateway: Gateway) -> None:
    cli("erase", "stg.orders", "grp=1", "id=it's = so", "--history")
    cli("erase", "stg.orders", "'); DROP MATERIALIZED TABLE stg.orders; --", "--dry-run")
    assert gateway.warehouse.calls == [
        ("erase", "stg.orders", (("grp", "1"), ("id", "it's = so")), True, False),
        ("erase", "stg.orders", ((None, "'); DROP MATERIALIZED TABLE stg.orders; --"),), False, True),
    ]
    assert "the source has the row" in cli.stderr and "nothing was changed" in cli.stderr


def test_what_is_left_is_a_failure(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.kept_messages = 2
    cli("erase", "stg.orders", "17", code=1)
    cli("erase", "stg.orders", "17", "--dry-run")
