"""publish: what differs is shown by its keys, and by the exit code where nothing is mended."""

from __future__ import annotations

import json

import pytest
from cli_support import Cli
from gateway_support import Gateway


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_differs_is_shown(cli: Cli, gateway: Gateway, dry_run: bool) -> None:
    differing = {"missing": 1, "extra": 2, "examples": [{"order_id": "7", "hour": "a"}]}
    gateway.warehouse.published = gateway.warehouse.published.model_copy(update=differing)
    out = cli("publish", "stg.orders", *["--dry-run"][: int(dry_run)], code=int(dry_run))
    assert ["stg.orders", "reports.orders", "at", "db/x", "7", "2", "1", "0", "2"] in [
        line.split() for line in out.splitlines()
    ]
    assert "order_id = 7, hour = a" in out
    assert ("nothing was changed" if dry_run else "they are mended") in cli.stderr
    assert gateway.warehouse.calls == [("publish", "stg.orders", dry_run)]


def test_equal_tables(cli: Cli, gateway: Gateway) -> None:
    cli("publish", "stg.orders", "--dry-run")
    assert json.loads(cli("publish", "stg.orders", "--json"))["extra"] == 0
    assert "mended" not in cli.stderr
