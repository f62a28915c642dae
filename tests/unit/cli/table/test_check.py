"""check: whether constraints hold."""

from __future__ import annotations

from decimal import Decimal

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


def test_what_breaks_it_and_what_hinders_it_are_shown(cli: Cli, gateway: Gateway) -> None:
    known = {"table": "stg.orders", "on_violation": "FAIL", "passed": False, "violations": 1, "rows": 9}
    sample = [{"order_id": 7, "amount": Decimal("-1.50")}, {"order_id": 8, "amount": None}]
    gateway.warehouse.constraints = [
        ConstraintResult(constraint="positive", sample=sample, **known),
        ConstraintResult(constraint="known", error="orders.checks.yml:2:5: no column `nope`", **known),
    ]
    lines = [line.split() for line in cli("check", "stg.orders", code=1).splitlines()]
    assert ["order_id", "amount"] in lines and ["7", "-1.50"] in lines and ["8", "–"] in lines
    assert ["known:", "orders.checks.yml:2:5:", "no", "column", "`nope`"] in lines
    assert ["known", "ERROR", "1", "9", "FAIL"] in lines
