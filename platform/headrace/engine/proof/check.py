"""Constraints and quality suites over a table's live rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.engine.proof.quarantine import Quarantine
from headrace.engine.rows.batch_rows import in_range
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import quarantining
from headrace.engine.table.table import Table
from headrace.progress import Progress
from headrace.results import EXAMPLES, ConstraintResult
from headrace.spec.partitions.label_range import LabelRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(
    spark: SparkSession,
    table: Table,
    labels: LabelRange | None,
    *,
    quarantine: Quarantine,
    progress: Progress,
) -> list[ConstraintResult]:
    """Violations of each constraint, all in one pass over the rows, and the table's quality suite.

    Those of a QUARANTINE constraint are the rows in quarantine: the table has none.
    """
    from pyspark.sql import functions as F

    from headrace.quality.suites import suite_of

    progress.report(f"checking {table.name}")
    rows = in_range(table.store.frame(spark), table, labels)
    broken = [
        F.expr(f"count_if(not coalesce({c.expression}, false))").alias(f"c{i}")
        for i, c in enumerate(table.spec.constraints)
    ]
    suite = suite_of(table.spec)
    with Persisted() as persist:
        if suite is not None:
            rows = persist(rows.select(*table.store.schema.names))
        counts = rows.agg(F.count("*").alias("rows"), *broken).collect()[0]
        examples = {
            i: rows.where(~F.expr(f"coalesce({c.expression}, false)")).limit(EXAMPLES).toArrow().to_pylist()
            for i, c in enumerate(table.spec.constraints)
            if counts[f"c{i}"]
        }
        results = _constraints(table, counts.asDict(), _kept_out(table, labels, quarantine), examples)
        if suite is not None:
            from headrace.quality import gx

            progress.report(f"{table.name}: {len(suite.expectations)} expectations")
            results += gx.validate(rows, suite, table=str(table.name))
    return results


def _kept_out(table: Table, labels: LabelRange | None, quarantine: Quarantine) -> dict[str, int]:
    if not quarantining(table.spec):
        return {}
    return quarantine.count(table, labels).by_constraint


def _constraints(
    table: Table,
    counts: dict[str, int],
    kept_out: Mapping[str, int],
    examples: Mapping[int, list[dict[str, Any]]],
) -> list[ConstraintResult]:
    broken = {c.name: counts[f"c{i}"] + kept_out.get(c.name, 0) for i, c in enumerate(table.spec.constraints)}
    return [
        ConstraintResult(
            table=str(table.name),
            constraint=c.name,
            on_violation=c.on_violation.value,
            passed=broken[c.name] == 0,
            violations=broken[c.name],
            rows=counts["rows"] + kept_out.get(c.name, 0),
            sample=examples.get(i, []),
        )
        for i, c in enumerate(table.spec.constraints)
    ]
