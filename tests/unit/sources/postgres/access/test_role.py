"""A role's SQL has what following a source needs, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from headrace.sources.postgres.access.functions import Refused
from headrace.sources.postgres.access.role import Capture, hints, role_sql
from headrace.spec.model import SourceTable

ORDERS, ODD = SourceTable("shop", "public", "orders"), SourceTable("shop", "Sales", "Odd one")
MARKER = SourceTable("shop", "public", "headrace_marker")
CAPTURE = Capture("shop", "headrace_shop", (ORDERS, ODD))


def test_it_reads_replicates_and_owns_nothing() -> None:
    assert role_sql("reader", CAPTURE) == [
        "CREATE ROLE reader LOGIN REPLICATION PASSWORD '…';",
        "GRANT CONNECT ON DATABASE shop TO reader;",
        'GRANT USAGE ON SCHEMA public, "Sales" TO reader;',
        'GRANT SELECT ON "public"."orders", "Sales"."Odd one" TO reader;',
        'CREATE PUBLICATION headrace_shop FOR TABLE "public"."orders", "Sales"."Odd one"'
        " WITH (publish_via_partition_root = true);",
    ]


def test_a_publication_that_is_there_gets_what_it_lacks() -> None:
    there = replace(CAPTURE, published=frozenset({("public", "orders")}))
    assert role_sql("reader", there)[-1] == 'ALTER PUBLICATION headrace_shop ADD TABLE "Sales"."Odd one";'
    whole = replace(CAPTURE, published=frozenset({("public", "orders"), ("Sales", "Odd one")}))
    assert not [line for line in role_sql("reader", whole) if "PUBLICATION" in line]


def test_the_marker_table_is_written_where_it_is_captured() -> None:
    written = [s for s in role_sql("reader", replace(CAPTURE, tables=(ORDERS, MARKER))) if "INSERT" in s]
    assert written == ['GRANT INSERT, UPDATE ON "public"."headrace_marker" TO reader;']


def test_partitions_that_the_patterns_name_are_read_and_not_published() -> None:
    part = SourceTable("shop", "public", "orders_2026")
    statements = role_sql("reader", replace(CAPTURE, partitions=(part,)))
    assert (
        'GRANT SELECT ON "public"."orders", "Sales"."Odd one", "public"."orders_2026" TO reader;'
        in statements
    )
    assert "orders_2026" not in statements[-1]


def test_what_not_every_role_may_call_is_granted() -> None:
    guarded = replace(CAPTURE, revoked=(Refused("pg_control_system", "pg_control_system()"),))
    assert "GRANT EXECUTE ON FUNCTION pg_control_system() TO reader;" in role_sql("reader", guarded)
    assert any("superuser" in line for line in hints("reader", guarded))
    assert not any("superuser" in line for line in hints("reader", CAPTURE))


def test_a_person_is_told_what_no_statement_does() -> None:
    said = "\n".join(hints("reader", replace(CAPTURE, known=False)))
    for needed in ("publication.autocreate.mode", "DEFAULT PRIVILEGES IN SCHEMA public", "does not answer"):
        assert needed in said
