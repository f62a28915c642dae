"""quarantine: the rows that constraints keep out."""

from __future__ import annotations

import json

from cli_support import Cli
from gateway_support import Gateway


def test_quarantine(cli: Cli, gateway: Gateway) -> None:
    assert "id" in cli("quarantine", "stg.orders")
    assert json.loads(cli("quarantine", "stg.orders", "--json")) == [{"id": 1}, {"id": 2}]
    assert gateway.warehouse.calls == [("quarantine", "stg.orders")] * 2
