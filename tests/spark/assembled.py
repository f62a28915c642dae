"""Warehouses assembled once for each set of layer files: the same few are opened some four hundred times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.engine.statements import assemble as product
from headrace.engine.table.limits import Limits
from headrace.engine.table.run import TableRun
from headrace.engine.table.table import Registry
from headrace.sources.schema import SourceSchema
from headrace.spec import Project
from headrace.spec.model import SourceTable
from headrace.store.tables import StoredTable

_ASSEMBLED: dict[str, Registry] = {}
"""By what decides the result but for where it lies. Nothing runs by these tables themselves."""


def assembled(
    spark: SparkSession,
    project: Project,
    schemas: Mapping[SourceTable, SourceSchema],
    *,
    root: Path,
    limits: Limits,
    **options: object,
) -> Registry:
    """As the product's `assemble`, with stores of `root / "warehouse"` and of an empty process's memory.

    What small changes run was planned once, too, as in a server that has run for a while.

    Args:
        root: of the project and its warehouse; texts that name it mean the same elsewhere.
    """
    warehouse = root / "warehouse"
    hashed_by = product.template_hash.__name__  # a test has another one
    known_by = repr((list(project.tables.values()), sorted(schemas.items(), key=repr), options, hashed_by))
    known_by = known_by.replace(str(root), "")
    known = _ASSEMBLED.get(known_by)
    if known is None:
        known = product.assemble(spark, project, schemas, warehouse=warehouse, limits=limits, **options)  # type: ignore[arg-type]
        _ASSEMBLED[known_by] = known
    again = replace(known, limits=limits, tables={})
    for table in known:
        again.tables[table.name] = replace(
            table,
            spec=project.tables[table.name],
            store=StoredTable(table.name, warehouse, table.store.schema, table.store.known_as),
            reshaped=False,
            limits=limits,
            run=TableRun(queries=table.run.queries),
        )
    return again
