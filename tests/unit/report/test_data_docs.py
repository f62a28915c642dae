"""Great Expectations' pages, from suites and from what the warehouse server keeps of their evaluations."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from headrace.quality.suites import suite_page
from headrace.report.gather import Gathered
from headrace.report.write import write_report
from headrace.results import CheckEvaluation, ConstraintResult
from headrace.settings import Settings

LAYER = """CREATE MATERIALIZED TABLE stg.orders FRESHNESS = INTERVAL '1' HOUR AS
SELECT * FROM shop.public.orders"""
CONNECTOR = """{"name": "shop", "config": {"topic.prefix": "shop", "table.include.list": "public.orders",
"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.dbname": "shop"}}"""
SUITE = """checks:
  - type: expect_column_values_to_be_between
    kwargs: {column: amount, max_value: 1000}
    name: plausible
  - type: expect_table_row_count_to_be_between
    kwargs: {min_value: 1}
    name: filled
"""


def evaluation(name: str, **fields: object) -> CheckEvaluation:
    known: dict[str, object] = {"table": "stg.orders", "on_violation": "FAIL", "passed": True, "rows": 100}
    return CheckEvaluation.of(ConstraintResult.model_validate({**known, "constraint": name, **fields}))


def write(project: Path, *checks: CheckEvaluation) -> Path | None:
    gathered = Gathered("shop", datetime.now(UTC), [], {}, list(checks), [])
    return write_report(Settings.load(project), gathered).data_docs


def test_pages_of_a_suite_and_of_what_it_found_and_none_without_one(tmp_path: Path) -> None:
    for name, text in {"layers/stg/orders.sql": LAYER, "deploy/connectors/shop.json": CONNECTOR}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    settings = Settings.load(tmp_path)
    assert write(tmp_path) is None and settings.report_page.is_file()
    (tmp_path / "layers/stg/orders.checks.yml").write_text(SUITE)
    fails = evaluation("plausible", passed=False, violations=2, sample=[{"amount": 77777}])
    index = write(tmp_path, fails, evaluation("filled", violations=0, observed=100))
    assert index == settings.data_docs / "index.html"
    assert "stg.orders" in index.read_text()
    suite = suite_page(settings.data_docs, "stg.orders").read_text()
    assert "1000" in suite and "amount" in suite
    [found] = (settings.data_docs / "validations").rglob("*.html")
    assert "77777" in found.read_text() and "Failed" in found.read_text()
    assert settings.report.stat().st_mode & 0o077 == 0
