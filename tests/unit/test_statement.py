"""A statement from Python."""

from __future__ import annotations

import pytest
from gateway_support import Gateway

import headrace
from headrace.gateway.client import StatementRefused


def test_a_statement_from_python_answers_rows_or_plain_data(gateway: Gateway) -> None:
    project = gateway.settings.project
    rows = headrace.sql("SELECT * FROM stg.orders", project=project)
    assert rows.num_rows and "id" in rows.column_names
    assert headrace.sql("ALTER MATERIALIZED TABLE stg.users SUSPEND", project=project) == {
        "table": "stg.users",
        "desired": "SUSPENDED",
    }
    assert gateway.warehouse.calls[-1] == ("suspend", "stg.users")
    with pytest.raises(StatementRefused, match="1:1: `SUSPEND` begins no statement"):
        headrace.sql("SUSPEND stg.users", project=project)
