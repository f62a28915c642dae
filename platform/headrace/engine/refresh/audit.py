"""Write, audit, publish: the critical expectations of a table's suite hold before rows are committed.

The file is looked at again whenever it was written: a suite is no part of what is applied.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.spark.persisted import Persisted
from headrace.engine.table.table import Table
from headrace.errors import ConstraintViolated, SpecError, TerminalError
from headrace.quality.blocking import Blocking, RowRule, blocking
from headrace.quality.suites import Suite, suite_file, suite_of
from headrace.results import ConstraintResult
from headrace.spec.sql.literals import quoted
from headrace.store.schema import INSERT, KIND, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_RULE = "_rule"
_COMING = (INSERT, UPDATE_AFTER)


def rules(table: Table) -> Blocking:
    """The critical expectations of the table's file as it is now.

    Raises:
        SpecError: the file is wrong, and was never right while this process has run: nobody knows what is
            to hold.
    """
    path, run = suite_file(table.spec), table.run
    try:
        seen = path.stat()
    except FileNotFoundError:
        run.suite_seen, run.blocking = None, Blocking()
        return run.blocking
    now = (seen.st_mtime_ns, seen.st_size)
    if run.blocking is None or run.suite_seen != now:
        try:
            suite = suite_of(table.spec)
            run.blocking = blocking(suite, table.store.schema.key) if suite is not None else Blocking()
        except SpecError as error:
            if run.blocking is None:
                raise
            log.warning("%s: its expectations stay what they were: %s", table.name, error)
        run.suite_seen = now
    return run.blocking


def audit(spark: SparkSession, table: Table, changes: pa.Table | DataFrame) -> None:
    """Hold the rows that a change brings to the expectations of each row.

    Args:
        changes: visible columns at least, and `_kind`; without it all of them are new rows.
    Raises:
        ConstraintViolated: a row breaks one.
        TerminalError: one cannot be evaluated over this table's columns.
    """
    of_rows = rules(table).rows
    if not of_rows:
        return
    from pyspark.errors import (
        AnalysisException,
        ArithmeticException,
        DateTimeException,
        NumberFormatException,
    )

    try:
        broken = _broken(spark, table, changes, of_rows)
    except (AnalysisException, ArithmeticException, DateTimeException, NumberFormatException) as error:
        raise _cannot(table, of_rows, error) from error
    if not broken.num_rows:
        return
    rule = of_rows[broken.column(_RULE)[0].as_py()]
    shown = {column: broken.column(column)[0].as_py() for column in table.store.schema.key}
    count = f"{broken.num_rows} rows break" if isinstance(changes, pa.Table) else "rows break"
    raise ConstraintViolated(
        f"{rule.location}: `{table.name}`: {count} expectation `{rule.name}` ({rule.type}), one with key "
        f"{shown}; nothing was committed. Next: correct the data or the expectation, then "
        f"`headrace resume {table.name}`"
    )


def _broken(
    spark: SparkSession, table: Table, changes: pa.Table | DataFrame, of_rows: tuple[RowRule, ...]
) -> pa.Table:
    """Key and `_rule`, the place of the first rule that is broken, of the rows that break one."""
    from pyspark.sql import functions as F

    schema = table.store.schema
    cases = " ".join(f"WHEN NOT coalesce(({r.holds}), false) THEN {i}" for i, r in enumerate(of_rows))

    def build(frames: list[DataFrame]) -> DataFrame:
        marked = frames[0].selectExpr(*map(quoted, schema.key), f"CASE {cases} END AS {_RULE}")
        return marked.where(f"{_RULE} IS NOT NULL")

    if isinstance(changes, pa.Table):
        coming = changes
        if KIND in changes.column_names:
            coming = changes.filter(pc.is_in(changes.column(KIND), pa.array(_COMING)))
        if not coming.num_rows:
            return pa.table({_RULE: pa.array([], pa.int32())})
        return table.run.queries.run(spark, ("audit", of_rows), [(coming, schema.columns)], build)
    coming_rows = changes.where(F.col(KIND).isin(*_COMING)) if KIND in changes.columns else changes
    return build([coming_rows]).limit(1).toArrow()


def _cannot(table: Table, of_rows: tuple[RowRule, ...], error: Exception) -> TerminalError:
    """What a person reads of expectations that Spark refuses: the first whose column it names."""
    why = str(error).strip().splitlines()[0]
    rule = next((r for r in of_rows if f"`{r.column}`" in why), of_rows[0])
    return TerminalError(
        f"{rule.location}: `{table.name}`: expectation `{rule.name}` ({rule.type}) cannot be evaluated: "
        f"{why}; nothing was committed. Next: correct it, then `headrace resume {table.name}`"
    )


def audit_batch(table: Table, rows: DataFrame, persist: Persisted) -> DataFrame:
    """Hold all that a batch is about to write to the expectations of many rows together.

    Args:
        rows: of the partitions that it writes.
    Returns:
        The rows, kept where they were looked at.
    Raises:
        ConstraintViolated: one does not hold; the partitions stay as they are.
    """
    sets = rules(table).sets
    if not sets:
        return rows
    from headrace.quality import gx

    rows = persist(rows)
    suite = Suite(suite_file(table.spec), sets)
    found = gx.validate(rows.select(*table.store.schema.names), suite, table=str(table.name))
    failed = [(e, result) for e, result in zip(sets, found, strict=True) if not result.passed]
    if failed:
        expectation, result = failed[0]
        raise ConstraintViolated(
            f"{expectation.location}: `{table.name}`: expectation `{expectation.name}` ({expectation.type}) "
            f"does not hold for the {result.rows} rows that were to be published{_seen(result)}; the "
            "partitions are as they were. Next: correct the data or the expectation, then run it again"
        )
    return rows


def _seen(result: ConstraintResult) -> str:
    if result.error is not None:
        return f": {result.error}"
    if result.observed is not None:
        return f" (observed: {result.observed})"
    return f" (e.g. {result.sample[0]})" if result.sample else ""
