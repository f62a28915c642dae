"""What the asset graph shows of a table: all of it read from its layer file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from sqlglot import exp

from headrace.orchestration.lineage import asset_key, deps_of
from headrace.orchestration.partitions import WHOLE_TABLE_PERIOD, Partitions, period_of
from headrace.spec.alteration import freshness_text
from headrace.spec.identity import digest, label_identity, rows_identity
from headrace.spec.model import RefreshMode, SourceTable, TableName, TableSpec
from headrace.spec.partitions.completion import RunMode

Freshness = tuple[timedelta | None, TableName]

SOURCE_GROUP = "source"
# What a stream needs beyond its freshness until its last closed partition stands in Dagster.
REPORTING = timedelta(minutes=5)


def table_spec(
    spec: TableSpec,
    *,
    mode: RefreshMode,
    freshness: Freshness,
    tables: Mapping[TableName, TableSpec],
    partitions: Partitions | None,
    columns: Sequence[tuple[str, str]] = (),
    lineage: dg.TableColumnLineage | None = None,
    pages: Mapping[str, Path] | None = None,
) -> dg.AssetSpec:
    """The asset of a materialized table.

    Args:
        mode: the refresh mode that follows from the freshness.
        freshness: the freshness to meet, if any, and the table that declares it.
        partitions: those of its labels.
        columns: names and types as the warehouse has them; none before it has the table.
        lineage: what its columns are computed from.
        pages: files with more about it, by what they are called.
    """
    return dg.AssetSpec(
        asset_key(spec.name),
        deps=deps_of(spec, tables),
        description=_description(spec, mode, freshness),
        group_name=spec.name.layer,
        kinds={"spark", "delta", "sql"},
        owners=list(spec.owners),
        tags={"layer": spec.name.layer, "refresh_mode": mode.value},
        partitions_def=partitions,
        freshness_policy=_freshness_policy(spec, mode, freshness[0]),
        code_version=code_version(spec),
        metadata=_metadata(spec, freshness, columns, lineage) | linked(pages or {}),
    )


def source_spec(source: SourceTable, connector: Mapping[str, str]) -> dg.AssetSpec:
    """A captured table: outside the warehouse, shown for its lineage."""
    database = next(
        (d for d in ("postgresql", "mysql") if d in connector.get("connector.class", "").lower()), None
    )
    return dg.AssetSpec(
        asset_key(source),
        group_name=SOURCE_GROUP,
        kinds={"debezium", *([database] if database else [])},
        description=f"Captured by the connector `{source.source}` through the topic `{source.topic}`.",
        metadata={"dagster/table_name": str(source), "topic": source.topic},
    )


def code_version(spec: TableSpec) -> str:
    """Changes with what decides the rows and their partitions, and with nothing else."""
    return digest(rows_identity(spec), label_identity(spec))


def _freshness_policy(
    spec: TableSpec, mode: RefreshMode, freshness: timedelta | None
) -> dg.FreshnessPolicy | None:
    """Dagster judges by the last materialization, and a stream has one for each closed partition."""
    if freshness is None or spec.run_mode is RunMode.OFFLINE:  # it is written when a partition is complete
        return None
    if mode is RefreshMode.CONTINUOUS:
        freshness += (period_of(spec) or WHOLE_TABLE_PERIOD) + REPORTING
    return dg.FreshnessPolicy.time_window(max(freshness, timedelta(minutes=1)))


def linked(pages: Mapping[str, Path]) -> dict[str, Any]:
    """Files as metadata. Paths, because no browser follows a page's link to a file."""
    return {name: dg.MetadataValue.path(path) for name, path in pages.items()}


def column_metadata(asset: dg.AssetSpec) -> dict[str, Any]:
    """Columns and their lineage, which Dagster's pages take from materializations."""
    shown = ("dagster/column_schema", "dagster/column_lineage")
    return {name: asset.metadata[name] for name in shown if name in asset.metadata}


def _metadata(
    spec: TableSpec,
    freshness: Freshness,
    stored: Sequence[tuple[str, str]],
    lineage: dg.TableColumnLineage | None,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "dagster/table_name": str(spec.name),
        "dagster/code_references": _code_reference(spec),
        "query": dg.MetadataValue.md(f"```sql\n{spec.query.strip()}\n```"),
    }
    window, origin = freshness
    if spec.calendar is not None:
        metadata["freshness_calendar"] = str(spec.calendar)
    if window is not None:
        of = "" if origin == spec.name else f" (of {origin})"
        metadata["declared_freshness"] = f"{window.total_seconds():g} s{of}"
        metadata["declared_freshness_seconds"] = window.total_seconds()
    if spec.primary_key:
        metadata["primary_key"] = ", ".join(spec.primary_key)
    if columns := _columns(spec, stored):
        metadata["dagster/column_schema"] = columns
    if lineage is not None and any(lineage.deps_by_column.values()):
        metadata["dagster/column_lineage"] = lineage
    return metadata


def _description(spec: TableSpec, mode: RefreshMode, freshness: Freshness) -> str:
    """The table's comment, then how fresh it is to be, and who says so."""
    window, origin = freshness
    text = f"Freshness {freshness_text(window)}" if window is not None else "No freshness declared"
    if origin != spec.name:
        text += f" of {origin}"
    elif window is not None:
        text += f", by {spec.freshness_origin}"
    calendar = f", on some days otherwise: {spec.calendar}" if spec.calendar is not None else ""
    return "\n\n".join(filter(None, [spec.comment, f"{text}{calendar}. {mode}."]))


def _code_reference(spec: TableSpec) -> dg.CodeReferencesMetadataValue:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        reference = dg.LocalFileCodeReference(
            file_path=str(spec.path.resolve()), line_number=spec.query_line, label=spec.path.name
        )
        return dg.CodeReferencesMetadataValue(code_references=[reference])


def _columns(spec: TableSpec, stored: Sequence[tuple[str, str]]) -> dg.TableSchema | None:
    """The columns as the warehouse has them; before it has any, those that the text alone names."""
    query = spec.query_ast
    if not stored:
        if query.is_star or not all(query.named_selects):
            return None
        casts = {e.alias_or_name: _cast_type(e) for e in query.selects}
        stored = [(name, casts.get(name) or "") for name in query.named_selects]
    key = set(spec.primary_key)
    return dg.TableSchema(
        [
            dg.TableColumn(
                name,
                kind,
                constraints=dg.TableColumnConstraints(nullable=name not in key, unique=key == {name}),
            )
            for name, kind in stored
        ]
    )


def _cast_type(expression: exp.Expr) -> str | None:
    inner = expression.unalias()
    return inner.to.sql(dialect="spark").lower() if isinstance(inner, exp.Cast) else None
