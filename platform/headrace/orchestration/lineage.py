"""Which upstream partitions a table's partition reads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import dagster as dg
from sqlglot import exp

from headrace.spec.model import SourceTable, TableName, TableSpec


def asset_key(name: TableName | SourceTable) -> dg.AssetKey:
    """`[layer, table]`, or `[source, schema, table]` of a captured table."""
    return dg.AssetKey(str(name).split("."))


def deps_of(spec: TableSpec, upstreams: Mapping[TableName, TableSpec]) -> list[dg.AssetDep]:
    """The table's upstreams. One that the query restricts to the range maps hour to hour, day to hours; any
    other partitioned one is read whole, whichever partition is computed."""
    ranged = ranged_upstreams(spec, upstreams)
    deps = []
    for upstream in spec.upstreams:
        mapping: dg.PartitionMapping | None = None
        partitioned = isinstance(upstream, TableName) and upstreams[upstream].partition_format is not None
        if partitioned and spec.partition_format is not None:
            mapping = _within_range() if upstream in ranged else dg.AllPartitionMapping()
        deps.append(dg.AssetDep(asset_key(upstream), partition_mapping=mapping))
    return deps


def ranged_upstreams(spec: TableSpec, upstreams: Mapping[TableName, TableSpec]) -> set[TableName]:
    """Partitioned upstreams that the query restricts to the range, with labels of the same time zone."""
    ranged = _ranged_aliases(spec)
    found = set()
    for upstream in spec.upstreams:
        if not isinstance(upstream, TableName) or upstreams[upstream].partition_format is None:
            continue
        aliases = {r.alias for r in spec.references if r.upstream == upstream}
        # Dagster maps times, and none of another zone.
        if aliases <= ranged and str(upstreams[upstream].completion.zone) == str(spec.completion.zone):
            found.add(upstream)
    return found


def _within_range() -> dg.PartitionMapping:
    """By time. A day may begin before the first of its hours that there is, and end after the open one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)


def _ranged_aliases(spec: TableSpec) -> set[str]:
    """Aliases whose column is compared with `${start_date}` or `${end_date}`."""
    everything = {r.alias for r in spec.references}
    found: set[str] = set()
    for marker in spec.query_ast.find_all(exp.Placeholder, exp.Parameter):
        if marker.name not in ("start_date", "end_date"):
            continue
        predicate = marker.find_ancestor(exp.Predicate)
        for column in predicate.find_all(exp.Column) if predicate else ():
            found |= {column.table} if column.table else _only_alias(column, everything)
    return found


def _only_alias(column: exp.Column, known: set[str]) -> set[str]:
    """An unqualified column belongs to its SELECT's tables: for certain only where that is one."""
    select = column.find_ancestor(exp.Select)
    tables = {t.alias_or_name for t in select.find_all(exp.Table)} if select else set()
    return tables & known if len(tables) == 1 else set()
