"""What a source lacks is said with the SQL that mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.sources.postgres.access.functions import Refused
from headrace.sources.postgres.access.preflight import Facts, TableFacts, judge
from headrace.spec.model import SourceTable

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
