"""Following a table from Python."""

from __future__ import annotations

from gateway_support import Gateway

import headrace
from headrace.gateway.client import GatewayClient
from headrace.subscription import batches


def test_a_reader_says_what_it_has_done_when_it_asks_for_more(gateway: Gateway) -> None:
    with GatewayClient(gateway.settings) as client:
        found = batches(client, "stg.orders", from_version=5, follow=False, reader="audit")
        assert [(b.after, b.through) for b in found] == [(5, 6), (6, 7)]
    assert [call[2:] for call in gateway.warehouse.calls] == [(5, "audit"), (6, "audit"), (7, "audit")]


def test_subscribe_takes_a_project(gateway: Gateway) -> None:
    found = list(headrace.subscribe("stg.orders", project=gateway.settings.project, from_version=6))
    assert [b.rows.column("id").to_pylist() for b in found] == [[1, 2]]
