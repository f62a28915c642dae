"""From a project's declarations to tables that can run: schemas, plans, modes, storage."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from headrace.engine.refresh.strategies.weighted import merged
from headrace.engine.spark.query import run
from headrace.engine.statements.analyses import Analyses
from headrace.engine.table.limits import DEFAULT_LIMITS, Limits
from headrace.engine.table.table import Registry, StgTable, Table
from headrace.errors import SpecError
from headrace.planner import analyze
from headrace.planner.lint import lint
from headrace.planner.plan import Plan
from headrace.planner.policy.modes import effective_freshness, refresh_modes
from headrace.planner.sql.state import State
from headrace.planner.strategies import Weighted
from headrace.sources.schema import SourceSchema
from headrace.spec import Project
from headrace.spec.identity import digest, rows_identity
from headrace.spec.model import SchemaChangeBehavior as Behavior
from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.spec.sql.columns import check_columns, columns_read, lacking_columns
from headrace.spec.sql.extension import with_columns
from headrace.spec.sql.rendering import render
from headrace.storage.location import Location
from headrace.store.schema import TableSchema, spark_type
from headrace.store.tables import StoredTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Columns = tuple[tuple[str, str], ...]
Report = Callable[[str], None]


def assemble(
    spark: SparkSession,
    project: Project,
    sources: Mapping[SourceTable, SourceSchema],
    *,
    warehouse: Location,
    threshold: timedelta,
    shadow_one_in: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    behaviors: Mapping[SourceTable, Behavior] | None = None,
    analyses: Analyses | None = None,
    report: Report = lambda message: None,
) -> Registry:
    """Every table of the project, upstreams first. Nothing is written.

    Args:
        shadow_one_in: every so many refreshes of a table its alternative runs, too; 0 for never.
        behaviors: what is done when a captured table's columns change.
        analyses: what Spark has found of queries before.
        report: told how far it is.

    Raises:
        SpecError: a column that does not exist, a query Spark refuses, a key the query does not give.
    """
    check_columns(project, {table: schema.names for table, schema in sources.items()})
    behaviors, spark_finds = behaviors or {}, _Analysing(spark, analyses or Analyses())
    lacking = lacking_columns(
        project,
        {t: s.names if behaviors.get(t) is Behavior.IGNORE else s.present for t, s in sources.items()},
    )
    known = _Known()
    columns, keys = known.columns, known.keys
    for table, captured in sources.items():
        known.add(table, captured.typed, captured.key)
    modes = refresh_modes(project, threshold)
    registry = Registry(shadow_one_in=shadow_one_in, limits=limits)
    for done, spec in enumerate(project.tables.values()):
        report(f"its tables are read: {done} of {len(project.tables)}")
        source = sources[spec.source].reading(columns_read(spec)) if spec.source is not None else None
        if source is not None:
            _check_source(spec, source)
        own = spark_finds.columns(spec, columns)
        if source is not None and source.refused:  # what reads it is planned all the same
            keys[source.table] = source.key or _copied(source, own)
        known.add(spec.name, own, keys[source.table] if source is not None else spec.primary_key)
        _check_key(spec, keys[spec.name], own)
        _lint(spec, known)
        plan, extended, hidden = _plan(spark_finds, spec, known)
        mode, reason = modes[spec.name]
        schema = TableSchema(
            columns[spec.name], keys[spec.name], spec.partition_column, source is not None, hidden
        )
        template = template_hash(extended, schema)
        known_as = {former_template(extended, schema): template}
        store = StoredTable(spec.name, warehouse, schema, known_as)
        kind: Callable[..., Table] = Table
        if source is not None:
            behavior = behaviors.get(source.table, Behavior.LENIENT)
            kind = partial(StgTable, source=source, behavior=behavior)
        registry.tables[spec.name] = kind(
            spec,
            plan,
            mode,
            reason,
            store,
            template,
            effective_freshness(spec, project)[0],
            extended=extended if hidden else None,
            limits=limits,
            lacks=_halts(spec, source, lacking.get(spec.name)),
        )
    spark_finds.analyses.keep()
    return registry


@dataclass(frozen=True)
class _Known:
    """What is known of tables so far, in the forms that are asked for: made once a table."""

    columns: dict[TableName | SourceTable, Columns] = field(default_factory=dict)
    keys: dict[TableName | SourceTable, tuple[str, ...]] = field(default_factory=dict)
    names: dict[TableName | SourceTable, tuple[str, ...]] = field(default_factory=dict)
    types: dict[TableName | SourceTable, dict[str, str]] = field(default_factory=dict)
    lowered: dict[TableName | SourceTable, dict[str, str]] = field(default_factory=dict)

    def add(self, table: TableName | SourceTable, columns: Columns, key: tuple[str, ...]) -> None:
        self.columns[table], self.keys[table] = columns, key
        self.names[table] = tuple(name for name, _ in columns)
        self.types[table] = dict(columns)
        self.lowered[table] = {name.lower(): kind for name, kind in columns}


@dataclass(frozen=True)
class _Analysing:
    """What Spark finds of queries, where nobody has asked it before."""

    spark: SparkSession
    analyses: Analyses

    def columns(self, spec: TableSpec, known: Mapping[TableName | SourceTable, Columns]) -> Columns:
        """See `_query_columns`."""
        names = {i: f"input_{i}" for i in range(len(spec.references))}
        found = self.analyses.find(
            lambda: _query_columns(self.spark, spec, known),
            "columns",
            render(spec, {}, by_reference=names),
            spec.partition_format,
            [constraint.expression for constraint in spec.constraints],
            [known[r.upstream] for r in spec.references],
        )
        return tuple((name, kind) for name, kind in found)

    def refusal(self, state: State, types: dict[str, str], visible: Columns) -> str | None:
        """See `_refused_types`."""
        find = partial(_refused_types, self.spark, state, types, visible)
        found: str | None = self.analyses.find(find, "weighted", state, types, visible)
        return found


def _copied(source: SourceSchema, columns: Columns) -> tuple[str, ...]:
    """Columns of a source without a key that a query keeps: nothing less tells its rows apart."""
    kept = {name for name, _ in columns}
    return tuple(name for name in source.names if name in kept)


def _halts(spec: TableSpec, source: SourceSchema | None, lacking: SpecError | None) -> str | None:
    """What a person reads of a table that cannot run as its source is; None where it can."""
    if source is not None and source.refused:
        return source.why_refused(spec.references[0].location)
    return _dropped(lacking) if lacking is not None else None


def _dropped(error: SpecError) -> str:
    """What a person reads of a table whose query names a column that its source has dropped."""
    hint = f" ({error.hint})" if error.hint else ""
    says = f"{error.location}: {error.reason}: its source has dropped it{hint}"
    return f"{says}. Next: edit the file, `headrace apply`"


def _plan(
    spark_finds: _Analysing,
    spec: TableSpec,
    known: _Known,
) -> tuple[Plan, TableSpec, Columns]:
    """The plan, the declaration with hidden columns in its query, and these. Types are Spark's to know."""
    keys, names, types, columns = known.keys, known.names, known.types, known.columns
    plan = analyze(spec, keys, names, types)
    if not isinstance(plan.strategy, Weighted):
        return plan, spec, ()
    state = plan.strategy.state
    extended = with_columns(spec, state.at, state.hidden)
    stored = spark_finds.columns(extended, columns) if state.hidden else columns[spec.name]
    refused = spark_finds.refusal(state, dict(stored), columns[spec.name])
    if refused is not None:
        return analyze(spec, keys, names, types, excluded={Weighted.name: refused}), spec, ()
    return plan, extended, stored[len(columns[spec.name]) :]


_COMPARED = ("tinyint", "smallint", "int", "bigint", "decimal", "string", "date", "timestamp", "boolean")
"""Types of group columns that mean the same to Spark and in the driver."""


def _refused_types(spark: SparkSession, state: State, types: dict[str, str], visible: Columns) -> str | None:
    """Why adding changes would not be exact."""
    for name in state.groups:
        if types[name].partition("(")[0] not in _COMPARED:
            return f"it groups by `{name}`, a {types[name]}"
    for total in state.sums:
        if types[total.column] != "bigint" and not types[total.column].startswith("decimal("):
            return f"`{total.text}` is a {types[total.column]}: adding to it is not exact"
    empty = spark.createDataFrame([], spark_type(tuple((n, types[n]) for n in state.columns)))
    found = merged(state, types, empty, empty, empty)
    given = tuple((f.name, f.dataType.simpleString()) for f in found.schema.fields)
    if given[: len(visible)] != visible:
        return f"its columns come out as {given[: len(visible)]}"
    return None


def _lint(spec: TableSpec, known: _Known) -> None:
    """Refuse what cannot be equal in stream and batch; log what only may not be."""
    for finding in lint(spec, keys=known.keys, columns=known.names, types=known.lowered):
        if finding.level == "error":
            raise finding.error()
        log.warning("%s", finding)


def template_hash(spec: TableSpec, schema: TableSchema) -> str:
    """Hash of what decides a table's rows: what is declared, and the columns that Spark makes of it."""
    return digest(rows_identity(spec), schema.columns, schema.key, schema.partition)


def former_template(spec: TableSpec, schema: TableSchema) -> str:
    """`template_hash` as records have it from before comments and white space in texts were told apart."""
    removing = [(c.name, c.expression) for c in spec.constraints if c.on_violation.removes_rows]
    return digest(spec.query.split(), schema.columns, schema.key, schema.partition, removing)


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


_WITHIN = re.compile(
    r"_(image|role|json|i|bad|corrupt|refused|fault|tombstone|unsent|seq|had|n|gone|side|key\d+|e_.*)"
)
"""Names by which columns go beside those of the source while messages become rows."""


def _check_source(spec: TableSpec, source: SourceSchema) -> None:
    """Raises SpecError where columns cannot be told apart from others."""
    lowered = [name.lower() for name in source.names]
    for name in source.names:
        if _WITHIN.fullmatch(name.lower()):
            why = f"column `{name}` of `{source.table}` has a name that headrace uses itself"
            hint = "name the columns to read in place of `*`, without it"
        elif lowered.count(name.lower()) > 1:
            why = f"columns of `{source.table}` differ from `{name}` in upper and lower case alone"
            hint = "rename one of them in the source"
        else:
            continue
        raise SpecError(why, spec.references[0].location, hint)


def _check_key(spec: TableSpec, key: tuple[str, ...], columns: Columns) -> None:
    names = {name for name, _ in columns}
    missing = [c for c in key if c not in names]
    if missing:
        raise SpecError(
            f"`{spec.name}` lacks its key column `{missing[0]}`",
            spec.references[0].location,
            "select every primary key column",
        )
