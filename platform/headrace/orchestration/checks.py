"""Asset checks: parity with batch and source, accounting, constraints, and Great Expectations suites."""

# No `from __future__ import annotations`: Dagster compares the context's annotation with its classes.

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import dagster as dg
from pydantic import TypeAdapter

from headrace.orchestration import statements
from headrace.orchestration.assets import labels_of
from headrace.orchestration.gateway import GatewayResource, run_statement
from headrace.quality.suites import Severity, Suite
from headrace.results import ConstraintResult, DifferingRow, ParityResult, TableAccount
from headrace.spec.model import TableSpec, Violation

PARITY = {"batch": "parity", "source": "source_parity"}
ACCOUNTING = "accounting"

Result = TypeVar("Result", ParityResult, ConstraintResult, TableAccount)

_PARITY_RESULTS = TypeAdapter(list[ParityResult])
_CONSTRAINT_RESULTS = TypeAdapter(list[ConstraintResult])


def checks_of(spec: TableSpec, key: dg.AssetKey, suite: Suite | None) -> list[dg.AssetChecksDefinition]:
    """Every check of a table: one step proves parity and that its rows add up, one evaluates constraints and
    expectations together."""
    rules = [*_constraint_specs(spec, key), *_expectation_specs(suite, key)]
    return [_parity(spec, key), *([_rules(spec, rules)] if rules else [])]


def _parity(spec: TableSpec, key: dg.AssetKey) -> dg.AssetChecksDefinition:
    if spec.source is None:
        text = "The table equals its own SQL in batch at its recorded frontier, as multisets."
        checked = dg.AssetCheckSpec(PARITY["batch"], asset=key, description=text)
    else:
        text = f"The table equals {spec.source} at a known position of the source, as multisets."
        checked = dg.AssetCheckSpec(PARITY["source"], asset=key, description=text)

    text = "Rows and events add up: over all commits, one by one, and in the snapshot's files."
    specs = [checked, dg.AssetCheckSpec(ACCOUNTING, asset=key, description=text)]

    @dg.multi_asset_check(name=f"verify_{spec.name.layer}_{spec.name.table}", specs=specs, can_subset=True)
    def verify(
        context: dg.AssetCheckExecutionContext, gateway: GatewayResource
    ) -> Iterable[dg.AssetCheckResult]:
        selected = {k.name for k in context.selected_asset_check_keys}
        compared: dict[str, ParityResult] = {}
        accounts: dict[str, TableAccount] = {}
        with gateway.client() as client:
            if selected & set(PARITY.values()):
                statement = run_statement(client, statements.verify(spec, labels_of(context)), context.log)
                compared = {PARITY[r.against]: r for r in _PARITY_RESULTS.validate_python(statement.result)}
            if ACCOUNTING in selected:
                statement = run_statement(client, statements.accounting(spec), context.log)
                accounts = {ACCOUNTING: TableAccount.model_validate(statement.result)}
        asked = sorted(context.selected_asset_check_keys)
        yield from _results([k for k in asked if k.name != ACCOUNTING], compared, _parity_result)
        yield from _results([k for k in asked if k.name == ACCOUNTING], accounts, _account_result)

    return verify


def _rules(spec: TableSpec, specs: Sequence[dg.AssetCheckSpec]) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(name=f"check_{spec.name.layer}_{spec.name.table}", specs=specs, can_subset=True)
    def check(
        context: dg.AssetCheckExecutionContext, gateway: GatewayResource
    ) -> Iterable[dg.AssetCheckResult]:
        with gateway.client() as client:
            statement = run_statement(client, statements.check(spec, labels_of(context)), context.log)
        results = _CONSTRAINT_RESULTS.validate_python(statement.result)
        declared = {s.name for s in specs}
        for result in results:
            if not result.passed and result.constraint not in declared:
                text = (
                    f"`{spec.name}`: {result.constraint} fails on {result.violations} of {result.rows} rows"
                )
                raise dg.Failure(text, allow_retries=False)
        asked = sorted(context.selected_asset_check_keys)
        yield from _results(asked, {r.constraint: r for r in results}, _rule_result)

    return check


def _constraint_specs(spec: TableSpec, key: dg.AssetKey) -> Iterator[dg.AssetCheckSpec]:
    for constraint in spec.constraints:
        yield dg.AssetCheckSpec(
            constraint.name,
            asset=key,
            description=f"{constraint.expression} (on violation: {constraint.on_violation})",
            blocking=constraint.on_violation is Violation.FAIL,
        )


def _expectation_specs(suite: Suite | None, key: dg.AssetKey) -> Iterator[dg.AssetCheckSpec]:
    for expectation in suite.expectations if suite else ():
        kwargs = ", ".join(f"{k}={v!r}" for k, v in expectation.kwargs.items())
        yield dg.AssetCheckSpec(
            expectation.name,
            asset=key,
            description=f"{expectation.type}({kwargs})",
            blocking=expectation.severity is Severity.CRITICAL,
        )


def _results(
    asked: Iterable[dg.AssetCheckKey],
    results: Mapping[str, Result],
    convert: Callable[[Result, dg.AssetCheckKey], dg.AssetCheckResult],
) -> Iterator[dg.AssetCheckResult]:
    """The results of the checks that are asked for. One without a result fails: silence is no proof."""
    for key in asked:
        if (result := results.get(key.name)) is not None:
            yield convert(result, key)
        else:
            text = f"the warehouse server gave no result for `{key.name}`"
            yield dg.AssetCheckResult(
                passed=False, asset_key=key.asset_key, check_name=key.name, description=text
            )


def _parity_result(result: ParityResult, key: dg.AssetCheckKey) -> dg.AssetCheckResult:
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
    return dg.AssetCheckResult(
        passed=result.equal and result.error is None,
        asset_key=key.asset_key,
        check_name=key.name,
        description=result.error or ("equal" if result.equal else differs),
        metadata=metadata,
    )


def _account_result(result: TableAccount, key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {"rows": result.rows, "version": result.version, "commits": result.commits}
    if result.snapshot_rows is not None:
        metadata["snapshot_rows"] = result.snapshot_rows
    return dg.AssetCheckResult(
        passed=result.balanced,
        asset_key=key.asset_key,
        check_name=key.name,
        description="; ".join(result.problems) or "rows and events add up",
        metadata={**metadata, **{f"total: {name}": n for name, n in result.totals.items()}},
    )


def _rule_result(result: ConstraintResult, key: dg.AssetCheckKey) -> dg.AssetCheckResult:
    fails = result.on_violation == Violation.FAIL
    return dg.AssetCheckResult(
        passed=result.passed,
        asset_key=key.asset_key,
        check_name=key.name,
        severity=dg.AssetCheckSeverity.ERROR if fails else dg.AssetCheckSeverity.WARN,
        description=f"{result.violations} of {result.rows} rows violate it",
        metadata={
            "violations": result.violations,
            "rows": result.rows,
            "on_violation": result.on_violation,
        },
    )


def _record(row: DifferingRow) -> dg.TableRecord:
    cells = {name: _cell(value) for name, value in row.row.items()}
    return dg.TableRecord({"only in": row.side, **cells})


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
