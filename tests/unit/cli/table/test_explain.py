"""explain: from the server, from the files, and what the linter refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_support import Cli
from gateway_support import Gateway

from headrace.results import CommitAccount
from headrace.store.record.commits import Commit
from headrace.store.record.decision import Decision


def test_explain_history(cli: Cli) -> None:
    out = cli("explain", "stg.orders", "--history")
    row = out.splitlines()[-1]
    assert [part in row for part in ("ROW", "driver", "0.25", "FULL 0.80", "append only")] == [True] * 5
    found = json.loads(cli("explain", "stg.orders", "--history", "--json"))
    assert found["history"][0]["estimates"] == {"ROW": 0.1, "FULL": 0.8}
    assert json.loads(cli("explain", "stg.orders", "--json"))["history"] == []


def test_explain_history_shows_what_each_commit_did(cli: Cli, gateway: Gateway) -> None:
    events = {"events": 5, "inserted": 2, "updated": 1, "folded": 1, "quarantined": {"small": 1}}
    line = {
        "version": 8,
        "committed_at": datetime(2026, 11, 20, 9, 30, 1, tzinfo=UTC),
        "mode": "backfill",
        "partitions": 3,
        "before": 7,
        "inserted": 2,
        "updated": 1,
        "deleted": 0,
        "after": 9,
    }
    gateway.warehouse.accounts = [CommitAccount(**line, reads={"stg.orders": 3}, events=events)]
    row = cli("explain", "stg.orders", "--history").splitlines()[-1]
    assert row.split() == [
        "8",
        *["2026-11-20", "09:30:01"],
        "backfill",
        "3",
        "7",
        "2",
        "1",
        "0",
        "9",
        *["stg.orders", "3,", "events", "5,", "folded", "1,", "quarantined", "by", "small", "1"],
    ]


def test_explain_history_without_a_server_reads_the_log(stopped: Cli) -> None:
    decision = Decision("FULL", "load", "the table is empty", {"FULL": 0.8}, 1.5, 9, 4)
    log = stopped.project / ".headrace/data/warehouse/stg/orders/changelog/_delta_log"
    log.mkdir(parents=True)
    for version, decided in enumerate((decision, replace(decision, path="driver"))):
        commit = Commit("stg.orders", "stream", version, decision=decided.as_dict())
        text = json.dumps({"commitInfo": {"timestamp": 1_763_000_000_000, "userMetadata": commit.encode()}})
        (log / f"{version:020d}.json").write_text(text)
    found = json.loads(stopped("explain", "stg.orders", "--history", "--json"))["history"]
    assert [(d["version"], d["path"]) for d in found] == [(1, "driver"), (0, "load")]
    assert found[0]["committed_at"] == "2025-11-13T02:13:20Z"


def test_explain_without_a_server_reads_the_files(stopped: Cli) -> None:
    found = json.loads(cli_out := stopped("explain", "stg.orders", "--json"))
    assert found["refresh_mode"] == "CONTINUOUS", cli_out
    assert any("planned from the files" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("expression", "query"),
    [
        ("NOW()", "SELECT order_id,\n  now() AS t\nFROM dwd.o"),
        (
            "SUM(CAST(amount AS DOUBLE))",
            "SELECT order_id,\n  SUM(CAST(amount AS DOUBLE)) AS t\nFROM dwd.o GROUP BY 1",
        ),
        (
            "ROW_NUMBER() OVER (PARTITION BY amount ORDER BY b)",
            "SELECT order_id,\n  ROW_NUMBER() OVER (PARTITION BY amount ORDER BY b) AS t\nFROM dwd.o",
        ),
        (
            "ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY amount)",  # nobody knows stg's key here
            "SELECT order_id,\nROW_NUMBER() OVER (PARTITION BY order_id ORDER BY amount) AS t FROM stg.users",
        ),
        ("FIRST(b)", "SELECT order_id,\n  first(b) AS t\nFROM dwd.o GROUP BY 1"),
        ("LIMIT 10", "SELECT order_id, b AS t\nFROM dwd.o LIMIT 10"),
        ("ORDER BY b LIMIT 10", "SELECT order_id, b AS t FROM dwd.o\nORDER BY b LIMIT 10"),
    ],
)
def test_explain_and_plan_refuse_with_expression_and_line(stopped: Cli, expression: str, query: str) -> None:
    def write(name: str, key: str, text: str) -> Path:
        path = stopped.project / "layers" / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = name.replace("/", ".")
        header = (
            f"CREATE MATERIALIZED TABLE {table} (PRIMARY KEY ({key}))\nFRESHNESS = INTERVAL '1' MINUTE AS\n"
        )
        path.write_text(header + text)
        return path

    write("dwd/o", "order_id", "SELECT order_id, amount, amount + 1 AS b FROM stg.orders")
    path = write("dws/bad", "order_id", query)
    stopped("explain", "dws.bad", code=2)
    assert f": {expression}" in stopped.stderr
    assert "hint: " in stopped.stderr
    assert f"{path}:4:" in stopped.stderr
    if "stg.users" in query:  # only its owner can tell: plan warns
        stopped("plan")
        assert f"warning: {path}:4:" in stopped.stderr
    else:
        stopped("plan", code=2)
        assert f"{path}:4:" in stopped.stderr
