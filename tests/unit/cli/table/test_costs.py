"""costs: what each table's work has taken."""

from __future__ import annotations

import json

from cli_support import Cli
from gateway_support import Gateway


def test_costs(cli: Cli, gateway: Gateway) -> None:
    lines = [line.split() for line in cli("costs", "--hours", "3").splitlines()]
    assert ("costs", 3) in gateway.warehouse.calls
    assert ["dws.total", "stream", "10", "500", "4.0", "2.5", "5.00"] in lines
    assert ["(all", "of", "a", "flow)", "stream", "10", "0", "2.0", "1.0", "–"] in lines
    assert lines[-1][0] == "together" and "3.5" in lines[-1]
    one = json.loads(cli("costs", "dws.total", "--json"))
    assert [cost["table"] for cost in one] == ["dws.total"]
    assert "dws.total" in cli("sql", "SHOW COSTS")
