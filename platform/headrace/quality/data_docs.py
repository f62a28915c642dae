"""Great Expectations' own pages of the suites and of what they found last, as files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.quality.gx import gx_expectation, load_gx
from headrace.quality.suites import Expectation, Suite
from headrace.results import CheckEvaluation, ConstraintResult

SITE = "headrace"


def write_data_docs(
    directory: Path, suites: Mapping[str, Suite], evaluations: Iterable[CheckEvaluation]
) -> Path:
    """Build Data Docs anew in a directory that is theirs alone. Opens no Spark.

    Args:
        suites: by table.
        evaluations: what checks have found last; those of no expectation are left out.

    Returns:
        Their first page.
    """
    gx = load_gx()
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    place = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(directory)}
    index = {"class_name": "DefaultSiteIndexBuilder"}
    site = {"class_name": "SiteBuilder", "show_how_to_buttons": False, "store_backend": place}
    context.add_data_docs_site(SITE, {**site, "site_index_builder": index})
    found: dict[str, dict[str, CheckEvaluation]] = {}
    for evaluation in evaluations:
        if evaluation.kind == "constraint":
            found.setdefault(evaluation.table, {})[evaluation.check] = evaluation
    for table, suite in suites.items():
        built = [(e, b) for e in suite.expectations if not isinstance(b := gx_expectation(e), str)]
        context.suites.add(gx.ExpectationSuite(name=table, expectations=[b for _, b in built]))
        known = [(e, b, found[table][e.name]) for e, b in built if e.name in found.get(table, {})]
        if known:
            _add_results(context, table, known)
    if directory.exists():
        shutil.rmtree(directory)
    context.build_data_docs(site_names=[SITE])
    return directory / "index.html"


def _add_results(context: Any, table: str, known: Sequence[tuple[Expectation, Any, CheckEvaluation]]) -> None:
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    results = []
    for expectation, built, evaluation in known:
        result = ConstraintResult.model_validate(evaluation.result)
        raised = {"raised_exception": bool(result.error), "exception_message": result.error}
        results.append(
            ExpectationValidationResult(
                success=result.passed,
                expectation_config=built.configuration,
                result=_details(expectation, result),
                exception_info={**raised, "exception_traceback": None},
            )
        )
    passed = sum(bool(r.success) for r in results)
    newest = max((evaluation for *_, evaluation in known), key=lambda e: e.evaluated_at)
    run = RunIdentifier(run_name="CHECK", run_time=newest.evaluated_at)
    asset = {"datasource_name": "warehouse", "data_connector_name": "", "data_asset_name": table}
    outcome = ExpectationSuiteValidationResult(
        success=passed == len(results),
        suite_name=table,
        results=results,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": passed,
            "unsuccessful_expectations": len(results) - passed,
            "success_percent": 100.0 * passed / len(results),
        },
        meta={
            "run_id": run,
            "batch_spec": {},
            "batch_markers": {},
            "active_batch_definition": {**asset, "batch_identifiers": {"labels": newest.labels or "all"}},
        },
    )
    key = ValidationResultIdentifier(ExpectationSuiteIdentifier(table), run, newest.labels or "all")
    context.validation_results_store.set(key, outcome)


def _details(expectation: Expectation, result: ConstraintResult) -> dict[str, Any]:
    """As GX's result format SUMMARY has them; of what looks at all rows together it has no count."""
    details: dict[str, Any] = {"element_count": result.rows, "observed_value": result.observed}
    if result.observed is not None:
        return details
    column = str(expectation.kwargs.get("column", "value"))
    percent = 100.0 * result.violations / result.rows if result.rows else 0.0
    examples = [row.get(column, row) for row in result.sample]
    counts = {"unexpected_count": result.violations, "unexpected_percent": percent}
    return {**details, **counts, "partial_unexpected_list": examples}
