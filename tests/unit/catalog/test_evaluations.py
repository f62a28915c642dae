"""The record of what checks found last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.catalog import Catalog
from headrace.results import CheckEvaluation, ConstraintResult, ParityResult, TableAccount, evaluations

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)


def constraint(*, passed: bool) -> ConstraintResult:
    return ConstraintResult(
        table="dws.a", constraint="named", on_violation="WARN", passed=passed, violations=1, rows=2
    )


def test_the_newest_of_each_check_is_kept(catalog: Catalog) -> None:
    parity = ParityResult(table="dws.a", against="source", equal=True, rows=3, missing=0, extra=0, version=2)
    account = TableAccount(
        table="dws.b",
        version=2,
        rows=3,
        totals={},
        commits=2,
        snapshot_version=None,
        snapshot_rows=None,
        balanced=False,
    )
    catalog.evaluations.note(evaluations([parity, constraint(passed=False)], "10 … 11"))
    catalog.evaluations.note(evaluations([account], None))
    later = CheckEvaluation.of(constraint(passed=True)).model_copy(update={"evaluated_at": NOW})
    catalog.evaluations.note([later])
    found = {(e.table, e.check): (e.kind, e.passed, e.labels) for e in catalog.evaluations.all()}
    assert found == {
        ("dws.a", "named"): ("constraint", True, ""),
        ("dws.a", "source_parity"): ("parity", True, "10 … 11"),
        ("dws.b", "accounting"): ("accounting", False, ""),
    }
    named, source = catalog.evaluations.all("dws.a")
    assert named == later and ConstraintResult.model_validate(named.result).violations == 1
    assert datetime.now(UTC) - source.evaluated_at < timedelta(minutes=5)


def test_what_cannot_be_kept_costs_no_statement_its_answer(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    broken = CheckEvaluation.of(constraint(passed=True)).model_copy(update={"kind": None})
    catalog.evaluations.note([broken])
    assert "not recorded" in caplog.text and catalog.evaluations.all() == []
