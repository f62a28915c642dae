"""plan: what the files say without any service."""

from __future__ import annotations

import json

import pytest
from cli_support import Cli
from gateway_support import free_port

from headrace.catalog import Catalog
from headrace.settings import Settings
from headrace.spec import load_project
from headrace.spec.alteration import Alteration, declared


def test_plan_lists_tables_and_refuses_what_is_wrong(stopped: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_POSTGRES_PORT", str(free_port()))
    found = json.loads(stopped("plan", "--json"))
    assert [(t["table"], t["mode"], t["partitioned_by"]) for t in found["tables"]] == [
        ("stg.orders", "CONTINUOUS", "logdate"),
        ("stg.users", "CONTINUOUS", None),
    ]
    assert "the source does not answer" in found["notes"][0]
    assert not (stopped.project / ".headrace" / "data" / "state" / "catalog.db").exists()
    settings = Settings.load(stopped.project)
    catalog = Catalog(settings.catalog)
    users = load_project(stopped.project).table("stg.users")
    said = declared(users, "FRESHNESS")
    catalog.alterations.set(Alteration(users.name, "FRESHNESS", "INTERVAL '1' DAY", said))
    found = json.loads(stopped("plan", "--json"))
    assert [(t["table"], t["freshness"]) for t in found["tables"]][1] == ("stg.users", "24 h")
    told = f"stg.users: a statement has set FRESHNESS = INTERVAL '1' DAY; its file says {said}"
    assert told in found["notes"]
    (stopped.project / "layers" / "stg" / "users.sql").write_text("CREATE MATERIALISED TABLE stg.users")
    stopped("plan", code=2)
    assert "users.sql:1:8: " in stopped.stderr


def test_a_mistake_in_a_suite_is_found_before_anything_runs(stopped: Cli) -> None:
    file = stopped.project / "layers" / "stg" / "users.checks.yml"
    file.write_text("checks:\n  - type: expect_column_values_to_not_be_nul\n    kwargs: {column: user_id}\n")
    stopped("plan", code=2)
    assert (
        "users.checks.yml:2:" in stopped.stderr and "`expect_column_values_to_not_be_null`" in stopped.stderr
    )
