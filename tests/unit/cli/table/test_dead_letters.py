"""dead-letters: those of one table or of all."""

from __future__ import annotations

import json

from cli_support import Cli
from gateway_support import Gateway


def test_dead_letters(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.letters = [{"table": "stg.users", "offset": 3, "reason": "not JSON"}]
    assert "not JSON" in cli("dead-letters", "list")
    assert json.loads(cli("dead-letters", "list", "stg.orders", "--json")) == []
