"""check: whether constraints hold."""

from __future__ import annotations

from cli_support import Cli
from gateway_support import Gateway

from headrace.results import ConstraintResult


def test_check(cli: Cli, gateway: Gateway) -> None:
    def holds(passed: bool) -> ConstraintResult:
        return ConstraintResult(
            table="stg.orders", constraint="counted", on_violation="FAIL", passed=passed, violations=3, rows=9
        )

    gateway.warehouse.constraints = [holds(True)]
    assert "holds" in cli("check", "stg.orders")
    gateway.warehouse.constraints = [holds(True), holds(False)]
    assert "BROKEN" in cli("check", "stg.orders", code=1)
