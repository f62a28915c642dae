"""From a project's declarations to tables that can run: schemas, plans, modes, storage."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine.ingest import source_columns
from headrace.engine.query import run
from headrace.engine.table import Registry, Table
from headrace.errors import SpecError
from headrace.planner import analyze
from headrace.planner.lint import lint
from headrace.planner.modes import effective_freshness, refresh_mode
from headrace.sources.postgres import SourceSchema
from headrace.spec import Project
from headrace.spec.columns import check_columns
from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.store.schema import TableSchema, spark_type
from headrace.store.tables import StoredTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Columns = tuple[tuple[str, str], ...]


def assemble(
    spark: SparkSession,
    project: Project,
    sources: Mapping[SourceTable, SourceSchema],
    *,
    warehouse: Path,
    threshold: timedelta,
) -> Registry:
    """Every table of the project, upstreams first. Nothing is written.

    Raises:
        SpecError: a column that does not exist, a query Spark refuses, a key the query does not give.
    """
    check_columns(project, {table: schema.names for table, schema in sources.items()})
    columns: dict[TableName | SourceTable, Columns] = {t: source_columns(s) for t, s in sources.items()}
    keys: dict[TableName | SourceTable, tuple[str, ...]] = {t: s.key for t, s in sources.items()}
    registry = Registry()
    for spec in project.tables.values():
        source = sources[spec.source] if spec.source is not None else None
        columns[spec.name] = _query_columns(spark, spec, columns)
        keys[spec.name] = source.key if source is not None else spec.primary_key
        _check_key(spec, keys[spec.name], columns[spec.name])
        _lint(spec, keys, columns)
        plan = analyze(spec, keys, {name: tuple(c for c, _ in cs) for name, cs in columns.items()})
        mode, reason = refresh_mode(spec, threshold, project)
        schema = TableSchema(columns[spec.name], keys[spec.name], spec.partition_column, source is not None)
        store = StoredTable(spec.name, warehouse, schema)
        registry.tables[spec.name] = Table(
            spec,
            plan,
            mode,
            reason,
            store,
            template_hash(spec, schema),
            source,
            effective_freshness(spec, project)[0],
        )
    return registry


def _lint(
    spec: TableSpec,
    keys: Mapping[TableName | SourceTable, tuple[str, ...]],
    columns: Mapping[TableName | SourceTable, Columns],
) -> None:
    """Refuse what cannot be equal in stream and batch; log what only may not be."""
    names = {name: tuple(c for c, _ in cs) for name, cs in columns.items()}
    for finding in lint(spec, keys=keys, columns=names):
        if finding.level == "error":
            raise finding.error()
        log.warning("%s: %s: %s", finding.location, finding.expression, finding.message)


def template_hash(spec: TableSpec, schema: TableSchema) -> str:
    """Hash of what decides a table's rows: query, key, partition, columns, row-removing constraints."""
    removing = [(c.name, c.expression) for c in spec.constraints if c.on_violation.value in _REMOVING]
    parts = (spec.query.split(), schema.columns, schema.key, schema.partition, removing)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


_REMOVING = ("DROP ROW", "QUARANTINE")


def _query_columns(
    spark: SparkSession, spec: TableSpec, known: Mapping[TableName | SourceTable, Columns]
) -> Columns:
    """Spark's own names and types of the query's result, found by analysing it over empty inputs."""
    from pyspark.errors import PySparkException

    inputs = [spark.createDataFrame([], spark_type(known[r.upstream])) for r in spec.references]
    try:
        result = run(spark, spec, inputs)
        for constraint in spec.constraints:
            result.where(constraint.expression)
    except PySparkException as error:
        message = str(error).strip().splitlines()[0]
        location = spec.references[0].location
        raise SpecError(
            f"Spark refuses the query of `{spec.name}`: {message}", location, "correct it, then `headrace up`"
        ) from error
    return tuple((f.name, f.dataType.simpleString()) for f in result.schema.fields)


def _check_key(spec: TableSpec, key: tuple[str, ...], columns: Columns) -> None:
    names = {name for name, _ in columns}
    missing = [c for c in key if c not in names]
    if missing:
        raise SpecError(
            f"`{spec.name}` lacks its key column `{missing[0]}`",
            spec.references[0].location,
            "select every primary key column",
        )
