"""By which topics marked positions of a source arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.sources.marks import mark_topics, sends_messages
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable

ORDERS = SourceTable("shop", "public", "orders")
PGOUTPUT = {"plugin.name": "pgoutput", "table.include.list": "public.orders"}


def connector(**config: str) -> Connector:
    return Connector(
        "shop", Path("shop.json"), PGOUTPUT | {k.replace("_", "."): v for k, v in config.items()}
    )


def test_by_messages_and_by_a_table_where_one_is_captured() -> None:
    assert mark_topics(connector(), [ORDERS]) == ["shop.message"]
    both = connector(table_include_list="public.orders,public.headrace_marker")
    assert mark_topics(both, [ORDERS]) == ["shop.public.headrace_marker", "shop.message"]
    assert mark_topics(connector(table_include_list="", plugin_name="other"), [ORDERS]) == [
        "shop.public.headrace_marker"
    ]


@pytest.mark.parametrize(
    ("config", "passed"),
    [
        ({}, True),
        ({"message_prefix_include_list": "audit, head.*"}, True),
        ({"message_prefix_include_list": "audit"}, False),
        ({"message_prefix_exclude_list": "audit"}, True),
        ({"message_prefix_exclude_list": "headrace"}, False),
        ({"plugin_name": "decoderbufs"}, False),
    ],
)
def test_which_connectors_pass_messages_on(config: dict[str, str], passed: bool) -> None:
    assert sends_messages(connector(**config)) is passed
