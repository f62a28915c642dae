"""Runs a suite over a Spark DataFrame with Great Expectations. For the warehouse server only."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.quality.doors import BATCH
from headrace.quality.suites import Expectation, Severity, Suite
from headrace.results import EXAMPLES, ConstraintResult
from headrace.spec.model import Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOCK = threading.Lock()  # GX keeps one current context per process


def validate(dataframe: DataFrame, suite: Suite, *, table: str) -> list[ConstraintResult]:
    """The suite's verdict on these rows, one result an expectation, in the suite's order.

    One that cannot be built or evaluated fails with the reason and its place in the file, and the others
    count all the same. Costs seconds whatever the number of rows: call it once a window, and persist the
    frame before where it is costly. Nothing is persisted here and no session is started.
    """
    if not suite.expectations:
        return []
    with _LOCK:
        gx = load_gx()
        from great_expectations.data_context.types.base import ProgressBarsConfig

        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        found = {e.name: gx_expectation(e) for e in suite.expectations}
        built = gx.ExpectationSuite(
            name=table, expectations=[b for b in found.values() if not isinstance(b, str)]
        )
        source = context.data_sources.add_spark("warehouse", persist=False, force_reuse_spark_context=True)
        batches = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("window")
        outcome = batches.get_batch({"dataframe": dataframe}).validate(built, result_format="SUMMARY")
        rows = dataframe.count()
    evaluated = {result.expectation_config.meta["headrace"]: result for result in outcome.results}
    queried = {
        e.name: _queried(dataframe, str(e.kwargs["unexpected_rows_query"]))
        for e in suite.expectations
        if "unexpected_rows_query" in e.kwargs and e.name in evaluated and not evaluated[e.name].success
    }
    wrong = {name: why for name, why in found.items() if isinstance(why, str)}
    return [
        _failed(e, wrong[e.name], table, rows)
        if e.name in wrong
        else _result(e, evaluated[e.name], table, rows, queried.get(e.name, []))
        for e in suite.expectations
    ]


def load_gx() -> Any:
    """The package; it takes seconds."""
    # Only loopback: GX would report its use to its maker otherwise, decided when it is imported.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    return great_expectations


def gx_expectation(expectation: Expectation) -> Any:
    """GX's expectation, or why there is none."""
    from great_expectations.expectations.metadata_types import FailureSeverity
    from great_expectations.expectations.registry import get_expectation_impl

    try:
        return get_expectation_impl(expectation.type)(
            **expectation.kwargs,
            severity=FailureSeverity(expectation.severity.value),
            meta={"headrace": expectation.name},
        )
    except (TypeError, ValueError) as error:
        return _first_lines(error)


def _failed(expectation: Expectation, why: str, table: str, rows: int) -> ConstraintResult:
    return ConstraintResult(
        table=table,
        constraint=expectation.name,
        on_violation=_on_violation(expectation),
        passed=False,
        violations=0,
        rows=rows,
        error=f"{expectation.location}: `{expectation.type}` cannot be evaluated: {why}",
    )


def _queried(dataframe: DataFrame, query: str) -> list[dict[str, Any]]:
    """Rows of a query that was to have none: GX tells how many, and no row."""
    spark, name = dataframe.sparkSession, f"gx_{uuid.uuid4().hex[:12]}"
    dataframe.createOrReplaceTempView(name)
    try:
        found = spark.sql(query.replace(BATCH, name)).limit(EXAMPLES).toArrow().to_pylist()
    except Exception:  # what GX says of it is told
        return []
    finally:
        # `spark.catalog.dropTempView` would plan persisted frames anew, and leave them persisted.
        spark._jsparkSession.sessionState().catalog().dropTempView(name)
    return [{str(name): _plain(value) for name, value in row.items()} for row in found]


def _result(
    expectation: Expectation, result: Any, table: str, rows: int, queried: list[dict[str, Any]]
) -> ConstraintResult:
    if result.exception_info and (raised := _raised(result.exception_info)):
        return _failed(expectation, raised, table, rows)
    told = result.result or {}
    found = told.get("unexpected_count")
    violations = int(found) if found is not None else int(not result.success)
    return ConstraintResult(
        table=table,
        constraint=expectation.name,
        on_violation=_on_violation(expectation),
        passed=bool(result.success),
        violations=violations,
        rows=rows,
        observed=_plain(told.get("observed_value")),
        sample=[] if result.success else queried or _sample(expectation, told),
    )


def _on_violation(expectation: Expectation) -> Violation:
    return Violation.FAIL if expectation.severity is Severity.CRITICAL else Violation.WARN


def _sample(expectation: Expectation, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows or values that GX gives as examples."""
    rows = told.get("partial_unexpected_list") or []
    column = str(expectation.kwargs.get("column", "value"))
    examples = [row if isinstance(row, dict) else {column: row} for row in rows[:EXAMPLES]]
    return [{str(name): _plain(value) for name, value in row.items()} for row in examples]


def _plain(value: Any) -> Any:
    """GX's values come in whatever type its backend has."""
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _raised(info: dict[str, Any]) -> str | None:
    """GX puts one exception under its own keys, or several under metric names."""
    for entry in [info, *(v for v in info.values() if isinstance(v, dict))]:
        if entry.get("raised_exception"):
            return str(entry.get("exception_message", "")).strip().splitlines()[0]
    return None


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:4])
