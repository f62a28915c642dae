"""status: services and tables, with and without a server."""

from __future__ import annotations

import json

import pytest
from cli_support import Cli
from gateway_support import Gateway

from headrace.services.stack import Stack
from headrace.services.status import ServiceStatus


def services(state: str) -> list[ServiceStatus]:
    return [ServiceStatus(name="kafka", state=state, pid=1, port=2, rss_bytes=3 << 20)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("service", "table", "code"),
    [
        ("RUNNING", "RUNNING", 0),
        ("RUNNING", "SUSPENDED", 0),
        ("FAILED", "RUNNING", 1),
        ("RUNNING", "FAILED", 1),
    ],
)
def test_status(
    cli: Cli, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, service: str, table: str, code: int
) -> None:
    monkeypatch.setattr(Stack, "status", lambda _self: services(service))
    said = {"state": table, "last_error": "why\nnot", "warnings": ["reader `audit` is abandoned"]}
    one = gateway.warehouse.status()[0].model_copy(update=said)
    gateway.warehouse.status = lambda: [one]  # type: ignore[method-assign]
    out = cli("status", code=code)
    assert ["kafka", service, "1", "2", "3", "MiB"] in [line.split() for line in out.splitlines()]
    row = next(line for line in out.splitlines() if line.startswith("stg.orders"))
    assert row.split() == f"stg.orders CONTINUOUS {table} ROW 10 s 1.5 s – 2 7 – 0".split()
    assert "stg.orders: why\\nnot" in out and "stg.orders: reader `audit` is abandoned" in out
    found = json.loads(cli("status", "--json", code=code))
    assert found["tables"][0]["measured_freshness"] == 1.5 and found["services"][0]["name"] == "kafka"


def test_status_without_services_is_3(stopped: Cli) -> None:
    assert "STOPPED" in stopped("status", code=3)
    assert "run `headrace up`" in stopped.stderr
    found = json.loads(stopped("status", "--json", code=3))
    assert found["tables"] is None and "headrace up" in found["error"]
