"""Asset checks: parity with batch and source, accounting, constraints, expectations, and a table's state."""

# No `from __future__ import annotations`: Dagster compares the context's annotation with its classes.

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
from pydantic import TypeAdapter

from headrace.errors import SpecError
from headrace.orchestration import judgements, statements
from headrace.orchestration.assets import labels_of
from headrace.orchestration.automation import on_new_data
from headrace.orchestration.gateway import GatewayResource, run_statement
from headrace.orchestration.judgements import DEAD_LETTERS, FRESHNESS, RUNS, Judgement
from headrace.orchestration.specs import linked
from headrace.quality.suites import Severity, Suite
from headrace.results import ACCOUNTING, PARITY, ConstraintResult, ParityResult, TableAccount
from headrace.spec.model import TableSpec, Violation

CHECKS_FILE = "checks_file"
"""The check that fails where the table's `*.checks.yml` cannot be read."""

Result = TypeVar("Result", ParityResult, ConstraintResult, TableAccount)

_PARITY_RESULTS = TypeAdapter(list[ParityResult])
_CONSTRAINT_RESULTS = TypeAdapter(list[ConstraintResult])


def checks_of(
    spec: TableSpec,
    key: dg.AssetKey,
    suite: Suite | SpecError | None,
    pages: Mapping[str, Path] | None = None,
) -> list[dg.AssetChecksDefinition]:
    """Every check of a table: one step proves parity and that its rows add up, one evaluates constraints and
    expectations together, one looks at its state. A rule that is named like one of the others replaces it.

    Args:
        pages: files with more about the table; expectations point to them.
    """
    wrong, suite = (suite, None) if isinstance(suite, SpecError) else (None, suite)
    rules = [*_constraint_specs(spec, key), *_expectation_specs(suite, key, linked(pages or {}))]
    taken = {rule.name for rule in rules}
    proofs = [check for check in _proof_specs(spec, key) if check.name not in taken]
    states = [check for check in _state_specs(spec, key) if check.name not in taken]
    made = [(_proofs, proofs), (_rules, rules), (_states, states)]
    return [
        *(make(spec, specs) for make, specs in made if specs),
        *([_wrong_file(spec, key, wrong)] if wrong else []),
    ]


def _wrong_file(spec: TableSpec, key: dg.AssetKey, wrong: SpecError) -> dg.AssetChecksDefinition:
    """In place of the expectations of a file that cannot be read."""

    @dg.asset_check(asset=key, name=CHECKS_FILE, description=str(wrong))
    def checks_file() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=False, description=str(wrong))

    return checks_file


def _proof_specs(spec: TableSpec, key: dg.AssetKey) -> Iterator[dg.AssetCheckSpec]:
    text = "The table equals its own SQL in batch at its recorded frontier, as multisets."
    yield dg.AssetCheckSpec(PARITY["batch"], asset=key, description=text, automation_condition=on_new_data())
    if spec.source is not None:
        text = f"The table equals {spec.source} at a known position of the source, as multisets."
        yield dg.AssetCheckSpec(PARITY["source"], asset=key, description=text)
    text = "Rows and events add up: over all commits, one by one, and in the snapshot's files."
    yield dg.AssetCheckSpec(ACCOUNTING, asset=key, description=text)


def _state_specs(spec: TableSpec, key: dg.AssetKey) -> Iterator[dg.AssetCheckSpec]:
    yield dg.AssetCheckSpec(RUNS, asset=key, description="The table runs, and nothing threatens its input.")
    text = "Nine in ten commits of late are as fresh as the table declares."
    yield dg.AssetCheckSpec(FRESHNESS, asset=key, description=text)
    if spec.source is not None:
        text = "No message waits that could not be applied."
        yield dg.AssetCheckSpec(DEAD_LETTERS, asset=key, description=text)


def _states(spec: TableSpec, specs: Sequence[dg.AssetCheckSpec]) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(name=f"state_{spec.name.layer}_{spec.name.table}", specs=specs, can_subset=True)
    def look(
        context: dg.AssetCheckExecutionContext, gateway: GatewayResource
    ) -> Iterable[dg.AssetCheckResult]:
        with gateway.client() as client:
            found = {status.table: status for status in client.status()}
        status = found.get(str(spec.name))
        for key in sorted(context.selected_asset_check_keys):
            if status is None:
                judgement = Judgement(False, "the warehouse server does not know it: `headrace apply`")
            else:
                nothing = Judgement(True, "there is nothing to judge now")
                judgement = judgements.state(key.name, status) or nothing
            yield judgement.result(key)

    return look


def _proofs(spec: TableSpec, specs: Sequence[dg.AssetCheckSpec]) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(name=f"verify_{spec.name.layer}_{spec.name.table}", specs=specs, can_subset=True)
    def verify(
        context: dg.AssetCheckExecutionContext, gateway: GatewayResource
    ) -> Iterable[dg.AssetCheckResult]:
        selected = {k.name for k in context.selected_asset_check_keys}
        compared: dict[str, ParityResult] = {}
        accounts: dict[str, TableAccount] = {}
        with gateway.client() as client:
            if compares := selected & set(PARITY.values()):
                text = statements.verify(spec, labels_of(context, spec), source=PARITY["source"] in compares)
                statement = run_statement(client, text, context.log)
                compared = {PARITY[r.against]: r for r in _PARITY_RESULTS.validate_python(statement.result)}
            if ACCOUNTING in selected:
                statement = run_statement(client, statements.accounting(spec), context.log)
                accounts = {ACCOUNTING: TableAccount.model_validate(statement.result)}
        asked = sorted(context.selected_asset_check_keys)
        yield from _results([k for k in asked if k.name != ACCOUNTING], compared, judgements.parity)
        yield from _results([k for k in asked if k.name == ACCOUNTING], accounts, judgements.account)

    return verify


def _rules(spec: TableSpec, specs: Sequence[dg.AssetCheckSpec]) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(name=f"check_{spec.name.layer}_{spec.name.table}", specs=specs, can_subset=True)
    def check(
        context: dg.AssetCheckExecutionContext, gateway: GatewayResource
    ) -> Iterable[dg.AssetCheckResult]:
        with gateway.client() as client:
            statement = run_statement(client, statements.check(spec, labels_of(context, spec)), context.log)
        results = _CONSTRAINT_RESULTS.validate_python(statement.result)
        declared = {s.name for s in specs}
        for result in results:
            if not result.passed and result.constraint not in declared:
                text = (
                    f"`{spec.name}`: {result.constraint} fails on {result.violations} of {result.rows} rows"
                )
                raise dg.Failure(text, allow_retries=False)
        asked = sorted(context.selected_asset_check_keys)
        yield from _results(asked, {r.constraint: r for r in results}, judgements.rule)

    return check


def _constraint_specs(spec: TableSpec, key: dg.AssetKey) -> Iterator[dg.AssetCheckSpec]:
    for constraint in spec.constraints:
        yield dg.AssetCheckSpec(
            constraint.name,
            asset=key,
            description=f"{constraint.expression} (on violation: {constraint.on_violation})",
            blocking=constraint.on_violation is Violation.FAIL,
            automation_condition=on_new_data(),
        )


def _expectation_specs(
    suite: Suite | None, key: dg.AssetKey, pages: Mapping[str, Any]
) -> Iterator[dg.AssetCheckSpec]:
    for expectation in suite.expectations if suite else ():
        kwargs = ", ".join(f"{k}={v!r}" for k, v in expectation.kwargs.items())
        yield dg.AssetCheckSpec(
            expectation.name,
            asset=key,
            metadata=pages,
            automation_condition=on_new_data(),
            description="\n\n".join(filter(None, [expectation.description, f"{expectation.type}({kwargs})"])),
            blocking=expectation.severity is Severity.CRITICAL,
        )


def _results(
    asked: Iterable[dg.AssetCheckKey],
    results: Mapping[str, Result],
    judge: Callable[[Result], Judgement],
) -> Iterator[dg.AssetCheckResult]:
    """The results of the checks that are asked for. One without a result fails: silence is no proof."""
    for key in asked:
        if (result := results.get(key.name)) is not None:
            yield judge(result).result(key)
        else:
            text = f"the warehouse server gave no result for `{key.name}`"
            yield dg.AssetCheckResult(
                passed=False, asset_key=key.asset_key, check_name=key.name, description=text
            )
