"""What checks show: of comparisons, accounts and rules as the server found them, and of a table's state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from headrace.errors import HeadraceError
from headrace.results import (
    CheckEvaluation,
    ConstraintResult,
    DifferingRow,
    ParityResult,
    TableAccount,
    TableStatus,
)
from headrace.spec.model import Violation

RUNS, FRESHNESS, DEAD_LETTERS = "runs", "freshness", "dead_letters"
"""Checks of a table's state."""


@dataclass(frozen=True)
class Judgement:
    """What one check found."""

    passed: bool
    description: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR

    def result(self, key: dg.AssetCheckKey) -> dg.AssetCheckResult:
        """For a run that evaluates the check."""
        return dg.AssetCheckResult(
            passed=self.passed,
            asset_key=key.asset_key,
            check_name=key.name,
            severity=self.severity,
            description=self.description,
            metadata=self.metadata,
        )

    def evaluation(self, key: dg.AssetCheckKey) -> dg.AssetCheckEvaluation:
        """For a check that somebody else has evaluated."""
        return dg.AssetCheckEvaluation(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=self.metadata,
        )


def judged(evaluation: CheckEvaluation) -> Judgement:
    """An evaluation that somebody asked the warehouse server for, with when and about what."""
    match evaluation.kind:
        case "parity":
            found = parity(ParityResult.model_validate(evaluation.result))
        case "accounting":
            found = account(TableAccount.model_validate(evaluation.result))
        case "constraint":
            found = rule(ConstraintResult.model_validate(evaluation.result))
    told: dict[str, Any] = {"evaluated_at": dg.MetadataValue.timestamp(evaluation.evaluated_at)}
    if evaluation.labels:
        told["labels"] = evaluation.labels
    return Judgement(found.passed, found.description, {**told, **found.metadata}, found.severity)


def parity(result: ParityResult) -> Judgement:
    metadata: dict[str, Any] = {
        "rows": result.rows,
        "missing": result.missing,
        "extra": result.extra,
        "version": result.version,
        "seconds": round(result.seconds, 3),
        "frontier": dg.MetadataValue.json(result.frontier),
    }
    if result.position:
        metadata["position"] = result.position
    if result.partitions:
        metadata["partitions_that_differ"] = ", ".join(result.partitions)
    if result.sample:
        metadata["differing_rows"] = dg.MetadataValue.table([_record(row) for row in result.sample])
    differs = f"{result.missing} rows missing, {result.extra} too many"
    return Judgement(
        result.equal and result.error is None,
        result.error or ("equal" if result.equal else differs),
        metadata,
    )


def account(result: TableAccount) -> Judgement:
    metadata: dict[str, Any] = {"rows": result.rows, "version": result.version, "commits": result.commits}
    if result.snapshot_rows is not None:
        metadata["snapshot_rows"] = result.snapshot_rows
    return Judgement(
        result.balanced,
        "; ".join(result.problems) or "rows and events add up",
        {**metadata, **{f"total: {name}": n for name, n in result.totals.items()}},
    )


def rule(result: ConstraintResult) -> Judgement:
    fails = result.on_violation == Violation.FAIL
    metadata: dict[str, Any] = {
        "violations": result.violations,
        "rows": result.rows,
        "on_violation": result.on_violation,
    }
    if result.observed is not None:
        metadata["observed"] = str(result.observed)
    if result.sample:
        rows = [{name: _cell(value) for name, value in row.items()} for row in result.sample]
        metadata["rows_that_break_it"] = dg.MetadataValue.table([dg.TableRecord(row) for row in rows])
    return Judgement(
        result.passed,
        result.error or f"{result.violations} of {result.rows} rows violate it",
        metadata,
        dg.AssetCheckSeverity.ERROR if fails else dg.AssetCheckSeverity.WARN,
    )


def state(check: str, status: TableStatus) -> Judgement | None:
    """One of the checks of a table's state; None where there is nothing to judge now."""
    match check:
        case "runs":
            return _runs(status)
        case "freshness":
            return _freshness(status)
    return _dead_letters(status)


def unknown(error: HeadraceError) -> Judgement:
    """Of whether a table runs, where the warehouse server does not say."""
    return Judgement(False, f"nobody can tell: {error}")


def _runs(status: TableStatus) -> Judgement:
    if status.state in ("FAILED", "NEEDS RESYNC"):
        return Judgement(False, f"{status.state}: {status.last_error or 'no reason is known'}")
    if status.alarms:
        return Judgement(False, "\n".join(status.alarms))
    warn = dg.AssetCheckSeverity.WARN
    if status.state == "SUSPENDED":
        text = f"suspended: `headrace resume {status.table}` or the job `resume_streams` lets it go on"
        return Judgement(False, text, severity=warn)
    if status.state == "INITIALIZING":
        return Judgement(False, status.last_error or "it has not begun", severity=warn)
    return Judgement(True, status.last_error or "it runs")


def _freshness(status: TableStatus) -> Judgement | None:
    if status.state != "RUNNING" or (declared := status.freshness_to_keep) is None:
        return None
    measured = status.measured_p90
    metadata = {"declared_freshness_seconds": declared}
    if measured is None:
        return Judgement(True, "nothing has changed lately", metadata)
    metadata["freshness_p90_seconds"] = measured
    text = f"nine in ten commits kept {measured:.3g} s, {declared:g} s are declared"
    return Judgement(not status.late, text, metadata)


def _dead_letters(status: TableStatus) -> Judgement:
    count = status.dead_letters
    text = f"{count} messages could not be applied: `headrace dead-letters list {status.table}`"
    return Judgement(not count, text if count else "every message was applied", {"dead_letters": count})


def _record(row: DifferingRow) -> dg.TableRecord:
    cells = {name: _cell(value) for name, value in row.row.items()}
    return dg.TableRecord({"only in": row.side, **cells})


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
