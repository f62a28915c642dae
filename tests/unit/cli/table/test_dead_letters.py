"""dead-letters: listed and shown, replayed, dropped."""

from __future__ import annotations

import json

from cli_support import Cli
from gateway_support import Gateway

LETTER = {
    **{"table": "stg.users", "topic": "shop.public.users", "partition": 0, "offset": 3, "key": None},
    **{"value": "not at all", "reason": "not JSON", "at": "2026-11-25", "outcome": None, "why": None},
    **{"raw_key": None, "raw_value": "bm90"},
}


def test_they_are_listed(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.letters = [LETTER, LETTER | {"offset": 4, "outcome": "dropped", "why": "mine"}]
    shown = cli("dead-letters", "list")
    assert "not JSON" in shown and "bm90" not in shown and "mine" not in shown
    assert "mine" in cli("dead-letters", "list", "--all")
    assert json.loads(cli("dead-letters", "list", "stg.orders", "--json")) == []


def test_one_is_shown_whole(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.letters = [LETTER]
    assert "value:     not at all" in cli("dead-letters", "show", "stg.users", "0:3")
    cli("dead-letters", "show", "stg.users", "0:4", code=2)
    assert "list stg.users --all" in cli.stderr


def test_they_are_replayed(cli: Cli, gateway: Gateway) -> None:
    cli("dead-letters", "replay", "stg.users", "--at", "0:3", "--at", "1:4")
    assert "2 replayed" in cli.stderr
    assert gateway.warehouse.calls[-1] == ("replay_dead_letters", "stg.users", ((0, 3), (1, 4)))
    assert "not JSON" in cli("dead-letters", "replay", "stg.users", "--at", "0:9", code=1)
    cli("dead-letters", "replay", "stg.users", "--at", "nine", code=2)
    assert "write '0:17'" in cli.stderr


def test_they_are_dropped_for_a_reason(cli: Cli, gateway: Gateway) -> None:
    cli("dead-letters", "drop", "stg.users", "--at", "0:3", "--reason", "a test's")
    assert gateway.warehouse.calls[-1] == ("drop_dead_letters", "stg.users", ((0, 3),), "a test's")
    cli("dead-letters", "drop", "stg.users", code=2)
    assert "--reason" in cli.stderr
