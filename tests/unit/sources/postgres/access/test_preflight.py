"""What a source lacks is said with the SQL that mends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.sources.postgres.access.functions import Refused
from headrace.sources.postgres.access.preflight import VALUES, Facts, TableFacts, judge
from headrace.sources.values import misread
from headrace.spec.connector import load_connector
from headrace.spec.model import SourceTable

CONNECTOR = Path(__file__).parents[5] / "deploy" / "connectors" / "shop.json"
ORDERS = SourceTable("shop", "public", "Orders")
GOOD = Facts("logical", "reader", True, 3, "headrace_shop", True, True, True, (TableFacts(ORDERS, True),))


def test_a_source_that_is_ready_says_so() -> None:
    [check] = judge(GOOD)
    assert check.ok and "1 tables" in check.detail
    assert judge(replace(GOOD, published=False))[0].ok  # the connector makes it


@pytest.mark.parametrize(
    ("lacks", "mends"),
    [
        ({"wal_level": "replica"}, "ALTER SYSTEM SET wal_level = logical"),
        ({"replicates": False}, "ALTER ROLE reader REPLICATION;"),
        ({"slots_left": 0}, "max_replication_slots"),
        ({"marks": False}, "GRANT SELECT, INSERT, UPDATE ON headrace_marker TO reader;"),
        (
            {"published": False, "autocreated": False},
            'CREATE PUBLICATION headrace_shop FOR TABLE "public"."Orders" WITH',
        ),
        ({"publishes": False}, '"publication.autocreate.mode": "disabled" in its file, then `headrace up`'),
        ({"writes": False}, "GRANT INSERT, UPDATE ON headrace_marker TO reader;"),
        (
            {"refused": (Refused("pg_control_system", "pg_control_system()"),)},
            "GRANT EXECUTE ON FUNCTION pg_control_system() TO reader;",
        ),
        ({"closed": ("sales",)}, 'GRANT USAGE ON SCHEMA "sales" TO reader;'),
        ({"misread": ('"a": "b" in the connector\'s file',)}, '"a": "b" in the connector'),
        ({"unreadable": (ORDERS,)}, 'its snapshot would fail: GRANT SELECT ON "public"."Orders" TO reader;'),
    ],
)
def test_what_a_server_lacks(lacks: dict[str, Any], mends: str) -> None:
    [check] = judge(replace(GOOD, **lacks))
    assert not check.ok and mends in check.detail


@pytest.mark.parametrize(
    ("lacks", "mends"),
    [
        ({"exists": False}, '"public"."Orders" does not exist'),
        ({"refused": "has no primary key. Next: a key"}, '"public"."Orders" has no primary key. Next: a key'),
        ({"identity": "n"}, 'ALTER TABLE "public"."Orders" REPLICA IDENTITY FULL;'),
        ({"readable": False}, 'GRANT SELECT ON "public"."Orders" TO reader;'),
        ({"published": False}, 'ALTER PUBLICATION headrace_shop ADD TABLE "public"."Orders";'),
    ],
)
def test_what_a_table_lacks(lacks: dict[str, Any], mends: str) -> None:
    [check] = judge(replace(GOOD, tables=(replace(GOOD.tables[0], **lacks),)))
    assert not check.ok and mends in check.detail


@pytest.mark.parametrize(
    ("changed", "mends"),
    [
        ({"decimal.handling.mode": "precise"}, '"decimal.handling.mode": "string"'),
        ({"time.precision.mode": "adaptive"}, '"time.precision.mode": "microseconds"'),
        ({"interval.handling.mode": "numeric"}, '"interval.handling.mode": "string"'),
        ({"binary.handling.mode": "hex"}, '"binary.handling.mode": "base64"'),
        ({"field.name.adjustment.mode": "avro"}, '"field.name.adjustment.mode": "none"'),
    ],
)
def test_settings_that_change_how_values_are_written_are_told(changed: dict[str, str], mends: str) -> None:
    shop = load_connector(CONNECTOR)
    assert misread(shop, VALUES) == []
    assert misread(replace(shop, config=shop.config | {"binary.handling.mode": "bytes"}), VALUES) == []
    [found] = misread(replace(shop, config=shop.config | changed), VALUES)
    assert mends in found
