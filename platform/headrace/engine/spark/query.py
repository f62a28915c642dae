"""Running a table's own SQL text over any rows of its upstreams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.spec.model import Constraint, TableSpec, Violation
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import open_range
from headrace.spec.sql.rendering import render

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COUNTER = itertools.count()
VIOLATED = "_violated_"

BROKEN = "_constraints"
"""Of a row in quarantine: the names of the QUARANTINE constraints that it breaks."""


def run(
    spark: SparkSession,
    spec: TableSpec,
    inputs: Sequence[DataFrame],
    labels: LabelRange | None = None,
) -> DataFrame:
    """The table's query over `inputs`, one frame per reference in order of appearance.

    The text is the layer file's own; only what it reads differs. Rows that a DROP ROW or QUARANTINE
    constraint removes are gone, in stream and batch alike.

    Args:
        labels: what the text's parameters carry; without a range all labels that there can be.
    """
    result = _result(spark, spec, inputs, labels)
    for constraint in spec.constraints:
        if constraint.on_violation.removes_rows:
            result = result.where(f"coalesce({constraint.expression}, false)")
    return result


def quarantined(
    spark: SparkSession,
    spec: TableSpec,
    inputs: Sequence[DataFrame],
    labels: LabelRange | None = None,
) -> DataFrame:
    """The rows of the table's query that break a QUARANTINE constraint, and `BROKEN`: which of them.

    Args:
        inputs, labels: as of `run`.
    """
    rows = _result(spark, spec, inputs, labels)
    names = [
        f"CASE WHEN NOT coalesce({c.expression}, false) THEN '{c.name}' END" for c in quarantining(spec)
    ] or ["CAST(NULL AS string)"]
    marked = rows.selectExpr("*", f"array_compact(array({', '.join(names)})) AS {BROKEN}")
    return marked.where(f"size({BROKEN}) > 0")


def quarantining(spec: TableSpec) -> list[Constraint]:
    """The constraints whose violations are kept aside, in their order."""
    return [c for c in spec.constraints if c.on_violation is Violation.QUARANTINE]


def _result(
    spark: SparkSession, spec: TableSpec, inputs: Sequence[DataFrame], labels: LabelRange | None
) -> DataFrame:
    """All rows of the query, whatever its constraints say."""
    if labels is None:
        labels = open_range(spec) if spec.partition_format else LabelRange("", "")
    with temporary_views(spark, inputs) as names:
        text = render(spec, {}, by_reference=dict(enumerate(names)))
        return spark.sql(text, args={"start_date": labels.start, "end_date": labels.end})


@contextmanager
def temporary_views(spark: SparkSession, frames: Sequence[DataFrame]) -> Iterator[list[str]]:
    """Names by which a SQL text can read the frames. What it makes of them stays good after they are gone."""
    names = [f"hr_{next(_COUNTER)}" for _ in frames]
    # `spark.catalog.dropTempView` also plans every persisted frame anew that reads what the view read. A
    # thread that frees its frame at that moment frees the former plan, and the new one stays persisted.
    catalog = spark._jsparkSession.sessionState().catalog()
    try:
        for name, frame in zip(names, frames, strict=True):
            frame.createOrReplaceTempView(name)
        yield names
    finally:
        for name in names:
            catalog.dropTempView(name)


def used_columns(spec: TableSpec, columns: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The columns of an upstream that the query can read: those it names anywhere, all where it says `*`."""
    named = _named(spec)
    return columns if named is None else tuple(c for c in columns if c[0].lower() in named) or columns


@lru_cache(maxsize=1024)
def _named(spec: TableSpec) -> frozenset[str] | None:
    if any(not isinstance(star.parent, exp.Count) for star in spec.query_ast.find_all(exp.Star)):
        return None
    return frozenset(name.name.lower() for name in spec.query_ast.find_all(exp.Identifier))


@lru_cache(maxsize=1024)
def tests_rows(spec: TableSpec) -> bool:
    """Whether the query has a subquery in an expression (EXISTS, IN, a scalar one)."""
    relations = (exp.From, exp.Join, exp.CTE, exp.SetOperation, exp.Subquery)
    return any(
        node.parent is not None and not isinstance(node.parent, relations)
        for node in spec.query_ast.find_all(exp.Query)
    )


@lru_cache(maxsize=1024)
def drops_rows(spec: TableSpec) -> bool:
    """Whether the query may leave a row of its upstream out: False for columns of one table and no more."""
    if any(constraint.on_violation.removes_rows for constraint in spec.constraints):
        return True
    query = spec.query_ast
    used = {name for name, value in query.args.items() if value}
    if not isinstance(query, exp.Select) or not used <= {"expressions", "from_"}:
        return True
    relation = query.args["from_"].this
    return not isinstance(relation, exp.Table) or not all(
        isinstance(column.unalias(), exp.Star | exp.Column) for column in query.expressions
    )


def with_violations(result: DataFrame, spec: TableSpec) -> DataFrame:
    """`result` with one boolean column per FAIL constraint, true where the row breaks it."""
    from pyspark.sql import functions as F

    for position, constraint in enumerate(spec.constraints):
        if constraint.on_violation is Violation.FAIL:
            broken = F.expr(f"not coalesce({constraint.expression}, false)")
            result = result.withColumn(f"{VIOLATED}{position}", broken)
    return result
