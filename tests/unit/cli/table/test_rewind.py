"""rewind: what went back, and how to go on."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from cli_support import Cli
from gateway_support import Gateway


def test_rewind_tells_what_went_back_and_how_to_go_on(cli: Cli, gateway: Gateway) -> None:
    out = cli("rewind", "stg.orders", "--to-version", "5", "--cascade", "--dry-run")
    assert gateway.warehouse.calls == [("rewind", "stg.orders", 5, True, True)]
    lines = [line.split() for line in out.splitlines()]
    assert [
        "stg.orders", "7", "5", "2026-11-20", "10:00:00", "1", "2", "3", "shop.public.orders:0@12",
    ] in lines  # fmt: skip
    assert "nothing was changed" in cli.stderr
    gateway.warehouse.calls.clear()
    cli("rewind", "stg.orders", "--to-time", "2026-11-20 12:00:00+02:00")
    assert gateway.warehouse.calls == [
        ("rewind", "stg.orders", datetime(2026, 11, 20, 10, tzinfo=UTC), False, False)
    ]
    assert "`headrace resume stg.orders`" in cli.stderr
    found = json.loads(cli("rewind", "stg.orders", "--to-version", "5", "--json"))
    assert found["suspended"] == ["stg.orders"]
    for wrong in ([], ["--to-version", "5", "--to-time", "2026-11-20 12:00:00"]):
        cli("rewind", "stg.orders", *wrong, code=2)
        assert "pass one of --to-version and --to-time" in cli.stderr
    cli("rewind", "stg.orders", "--to-time", "2026-11-20", code=2)
    assert "is a day and no time" in cli.stderr
