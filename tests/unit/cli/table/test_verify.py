"""verify: equal or not, with the rows, and repaired."""

from __future__ import annotations

import json
from decimal import Decimal

from cli_support import Cli, parity
from gateway_support import Gateway

from headrace.results import DifferingRow, Repaired
from headrace.spec.partitions.label_range import LabelRange


def test_verify_of_equal_tables_is_0(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.parity = [parity(equal=True)]
    assert "equal" in cli("verify", "stg.orders", "stg.users", "--no-source")
    assert gateway.warehouse.calls == [("verify", ["stg.orders", "stg.users"], None, False)]
    cli("verify", "--start", "2024010100", "--end", "2024010101")
    assert gateway.warehouse.calls[-1] == ("verify", None, LabelRange("2024010100", "2024010101"), True)


def test_verify_of_a_difference_is_1_and_shows_the_rows(cli: Cli, gateway: Gateway) -> None:
    sample = [
        DifferingRow(side="table", row={"id": 1, "amount": Decimal("2.00")}),
        DifferingRow(side="expected", row={"id": 1, "amount": Decimal("2.10")}),
    ]
    gateway.warehouse.parity = [
        parity(equal=True),
        parity(equal=False, sample=sample, partitions=["2024010100"]),
    ]
    out = cli("verify", code=1)
    assert "DIFFERS" in out and "2 rows differ, partitions 2024010100" in out
    assert ["table", "1", "2.00"] in [line.split() for line in out.splitlines()]
    assert ["expected", "1", "2.10"] in [line.split() for line in out.splitlines()]
    found = json.loads(cli("verify", "--json", code=1))
    assert found[1]["sample"][0] == {"side": "table", "row": {"id": 1, "amount": "2.00"}}


def test_verify_repair(cli: Cli, gateway: Gateway) -> None:
    done = Repaired(
        partitions=["2024010100"], missing=2, extra=1, inserted=1, updated=1, deleted=0, seconds=0.1
    )
    gateway.warehouse.parity = [parity(equal=True, repaired=done)]
    out = cli("verify", "stg.orders", "--no-source", "--repair")
    assert "repaired partitions 2024010100: 1 inserted, 1 updated, 0 deleted; proven equal" in out
    assert gateway.warehouse.calls[-1] == ("verify", ["stg.orders"], None, False, "repair")
    found = json.loads(cli("verify", "--repair", "--json"))
    assert found[0]["repaired"]["partitions"] == ["2024010100"]
    gateway.warehouse.parity = [parity(equal=False, repaired=done)]
    assert "DIFFERS STILL" in cli("verify", "--repair", code=1)


def test_verify_that_could_not_compare_is_1(cli: Cli, gateway: Gateway) -> None:
    gateway.warehouse.parity = [parity(equal=True, error="the source does not answer")]
    assert "the source does not answer" in cli("verify", code=1)
