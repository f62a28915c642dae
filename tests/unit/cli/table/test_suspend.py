"""suspend and resume."""

from __future__ import annotations

import json

from cli_support import Cli
from gateway_support import Gateway


def test_explain_suspend_resume(cli: Cli, gateway: Gateway) -> None:
    out = cli("explain", "stg.orders")
    assert "ROW: one upstream" in out and "JOIN: no join" in out
    assert json.loads(cli("explain", "stg.orders", "--json"))["strategy"] == "ROW"
    cli("suspend", "stg.orders")
    cli("resume", "stg.orders")
    assert gateway.warehouse.calls == [("suspend", "stg.orders"), ("resume", "stg.orders")]
    cli("suspend", "stg.order", code=2)
    assert "did you mean `stg.orders`" in cli.stderr
