"""Columns of assets: their types as the warehouse has them, and which upstream columns each comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg
from sqlglot import exp
from sqlglot.optimizer.scope import Scope, build_scope

from headrace.orchestration.lineage import asset_key
from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.storage.location import Location, delta_table, is_delta_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

Upstream = TableName | SourceTable
Deps = Mapping[str, frozenset[tuple[Upstream, str]]]
"""Upstream columns by column, in the columns' order."""

ColumnsOf = Callable[[Upstream], Sequence[str]]
"""The columns of a table, as far as they are known."""


def open_snapshot(table: Location, *, files: bool = True) -> DeltaTable | None:
    """The log of a table's snapshot; None where there is none.

    Args:
        table: its folder in the warehouse.
        files: also which files and partitions it has, which takes longer the more there are.
    """
    if not is_delta_table(table / "snapshot"):
        return None
    from deltalake.exceptions import DeltaError

    try:
        return delta_table(table / "snapshot", files=files)
    except DeltaError:  # made anew at this moment
        return None


def stored_columns(snapshot: DeltaTable | None) -> list[tuple[str, str]]:
    """Names and Spark SQL types of a table's columns; empty without a snapshot."""
    fields = [] if snapshot is None else snapshot.schema().fields
    return [(f.name, _spark_type(f.type)) for f in fields if not f.name.startswith("_")]


def column_lineage(spec: TableSpec, columns_of: ColumnsOf) -> dg.TableColumnLineage:
    """Which columns of its upstreams each column of a table is computed from.

    Args:
        columns_of: what `*` stands for.
    """
    upstreams = {str(r.upstream): r.upstream for r in spec.references}
    root = build_scope(spec.query_ast)
    found = _Reader(upstreams, columns_of).outputs(root) if root is not None else {}
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(asset_key=asset_key(upstream), column_name=name)
                for upstream, name in sorted(deps, key=lambda dep: (str(dep[0]), dep[1]))
            ]
            for column, deps in found.items()
        }
    )


def columns_of_source(spec: TableSpec, stored: Sequence[str]) -> list[str]:
    """Of a captured table, those that its stg table has by `*`: all that it does not name itself."""
    named = {s.alias_or_name for s in spec.query_ast.selects if not s.is_star}
    return [name for name in stored if name not in named]


class _Reader:
    """Follows columns through subqueries and CTEs. What cannot be told is left out."""

    def __init__(self, upstreams: Mapping[str, Upstream], columns_of: ColumnsOf) -> None:
        self._upstreams = upstreams
        self._columns_of = columns_of
        self._known: dict[int, Deps] = {}

    def outputs(self, scope: Scope) -> Deps:
        if id(scope) not in self._known:
            self._known[id(scope)] = {}  # of a query that reads itself
            self._known[id(scope)] = self._union(scope) if scope.set_operation_scopes else self._select(scope)
        return self._known[id(scope)]

    def _union(self, scope: Scope) -> Deps:
        """Columns of a set operation by their places; their names are the first query's."""
        first, *others = (self.outputs(part) for part in scope.set_operation_scopes)
        merged = {name: set(deps) for name, deps in first.items()}
        for other in others:
            for name, deps in zip(merged, other.values(), strict=False):
                merged[name] |= deps
        return {name: frozenset(deps) for name, deps in merged.items()}

    def _select(self, scope: Scope) -> Deps:
        sources = {alias: self._source(source) for alias, (_, source) in scope.selected_sources.items()}
        unknown = {
            a: t for a, (_, s) in scope.selected_sources.items() if (t := self._unknown(s)) is not None
        }
        inner = {id(child.expression): self.outputs(child) for child in scope.subquery_scopes}
        found: dict[str, frozenset[tuple[Upstream, str]]] = {}
        assert isinstance(scope.expression, exp.Query)
        for selected in scope.expression.selects:
            if selected.is_star:
                wanted = [selected.table] if isinstance(selected, exp.Column) else list(sources)
                left_out = _excepted(selected)
                for alias in wanted:
                    known = sources.get(alias, {})
                    found |= {name: deps for name, deps in known.items() if name not in left_out}
                continue
            deps: set[tuple[Upstream, str]] = set()
            for column in _own_columns(selected):
                deps |= _resolve(column, sources, unknown)
            for nested in selected.find_all(exp.Query):
                for of_one in inner.get(id(nested), {}).values():
                    deps |= of_one
            found[selected.alias_or_name] = frozenset(deps)
        return found

    def _source(self, source: exp.Table | Scope) -> Deps:
        if isinstance(source, Scope):
            return self.outputs(source)
        name = ".".join(part.name for part in source.parts)
        upstream = self._upstreams.get(name)
        if upstream is None:
            return {}
        return {column: frozenset({(upstream, column)}) for column in self._columns_of(upstream)}

    def _unknown(self, source: exp.Table | Scope) -> Upstream | None:
        """The upstream that a source is, where nobody knows its columns."""
        if isinstance(source, Scope) or self._source(source):
            return None
        return self._upstreams.get(".".join(part.name for part in source.parts))


def _resolve(
    column: exp.Column, sources: Mapping[str, Deps], unknown: Mapping[str, Upstream]
) -> frozenset[tuple[Upstream, str]]:
    """What a column of a SELECT is; of a table whose columns nobody knows what the text says of it."""
    aliases = [column.table] if column.table else list(sources)
    name = column.name.lower()
    for alias in aliases:
        for known, deps in sources.get(alias, {}).items():
            if known.lower() == name:
                return deps
    left = [unknown[alias] for alias in aliases if alias in unknown]
    return frozenset({(left[0], column.name)}) if len(left) == 1 else frozenset()


def _own_columns(selected: exp.Expr) -> Iterator[exp.Column]:
    """Those that the expression names itself, not in a subquery of it."""
    for node in selected.walk(prune=lambda n: isinstance(n, exp.Query)):
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            yield node


def _excepted(star: exp.Expr) -> set[str]:
    """Names in `* EXCEPT (…)`."""
    inner = star.this if isinstance(star, exp.Column) else star
    return {e.name for e in inner.args.get("except_") or inner.args.get("except") or ()}


def _spark_type(kind: object) -> str:
    """A Delta type in Spark SQL's words."""
    from deltalake.schema import ArrayType, MapType, PrimitiveType, StructType

    match kind:
        case PrimitiveType():
            names = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
            return names.get(kind.type, kind.type)
        case ArrayType():
            return f"array<{_spark_type(kind.element_type)}>"
        case MapType():
            return f"map<{_spark_type(kind.key_type)},{_spark_type(kind.value_type)}>"
        case StructType():
            return "struct<" + ",".join(f"{f.name}:{_spark_type(f.type)}" for f in kind.fields) + ">"
    return str(kind)
