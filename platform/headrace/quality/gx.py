"""Runs a suite over a Spark DataFrame with Great Expectations. For the warehouse server only."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from headrace.errors import SpecError
from headrace.quality.suites import Expectation, Severity, Suite
from headrace.results import ConstraintResult
from headrace.spec.model import Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOCK = threading.Lock()  # GX keeps one current context per process


def validate(dataframe: DataFrame, suite: Suite, *, table: str) -> list[ConstraintResult]:
    """The suite's verdict on these rows, one result an expectation, in the suite's order.

    Costs seconds whatever the number of rows: call it once a window, and persist the frame before where it is
    costly. Nothing is persisted here and no session is started. Raises SpecError where kwargs are wrong.
    """
    if not suite.expectations:
        return []
    with _LOCK:
        gx = _great_expectations()
        from great_expectations.data_context.types.base import ProgressBarsConfig

        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        built = gx.ExpectationSuite(name=table, expectations=[_build(e) for e in suite.expectations])
        source = context.data_sources.add_spark("warehouse", persist=False, force_reuse_spark_context=True)
        batches = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("window")
        outcome = batches.get_batch({"dataframe": dataframe}).validate(built, result_format="SUMMARY")
        rows = dataframe.count()
    by_name = {result.expectation_config.meta["headrace"]: result for result in outcome.results}
    return [_result(e, by_name[e.name], table, rows) for e in suite.expectations]


def _great_expectations() -> Any:
    # Only loopback: GX would report its use to its maker otherwise, decided when it is imported.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    return great_expectations


def _build(expectation: Expectation) -> Any:
    from great_expectations.expectations.metadata_types import FailureSeverity
    from great_expectations.expectations.registry import get_expectation_impl

    try:
        return get_expectation_impl(expectation.type)(
            **expectation.kwargs,
            severity=FailureSeverity(expectation.severity.value),
            meta={"headrace": expectation.name},
        )
    except (TypeError, ValueError) as error:
        raise SpecError(f"`{expectation.type}`: {_first_line(error)}", expectation.location) from error


def _result(expectation: Expectation, result: Any, table: str, rows: int) -> ConstraintResult:
    if result.exception_info and (raised := _raised(result.exception_info)):
        raise SpecError(f"`{expectation.type}` cannot be evaluated: {raised}", expectation.location)
    found = (result.result or {}).get("unexpected_count")
    violations = int(found) if found is not None else int(not result.success)
    critical = expectation.severity is Severity.CRITICAL
    return ConstraintResult(
        table=table,
        constraint=expectation.name,
        on_violation=Violation.FAIL if critical else Violation.WARN,
        passed=bool(result.success),
        violations=violations,
        rows=rows,
    )


def _raised(info: dict[str, Any]) -> str | None:
    """GX puts one exception under its own keys, or several under metric names."""
    for entry in [info, *(v for v in info.values() if isinstance(v, dict))]:
        if entry.get("raised_exception"):
            return str(entry.get("exception_message", "")).strip().splitlines()[0]
    return None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:4])
