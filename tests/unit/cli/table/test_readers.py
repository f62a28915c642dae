"""readers: listed and forgotten."""

from __future__ import annotations

import json

from cli_support import Cli
from gateway_support import Gateway


def test_readers(cli: Cli, gateway: Gateway) -> None:
    assert "audit" in cli("readers", "stg.orders")
    assert json.loads(cli("readers", "--json"))[0]["behind"] == 2
    cli("readers", "stg.orders", "--drop", "audit")
    assert gateway.warehouse.calls == [("drop_reader", "audit", "stg.orders")]
    cli("readers", "--drop", "audit", code=2)
