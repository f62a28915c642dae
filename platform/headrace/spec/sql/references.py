"""The upstreams of a query: every occurrence, by position."""

from __future__ import annotations

from sqlglot import exp

from headrace.spec.model import LAYERS, Reference, SourceTable, TableName
from headrace.spec.sql.query import Query, tables


def find_references(query: Query, parsed: exp.Query, *, layer: str) -> tuple[Reference, ...]:
    """Every occurrence of an upstream, in order of position."""
    found = [
        _reference(query, table, layer)
        for table in tables(parsed)
        if isinstance(table.this, exp.Identifier) and not _is_cte(table)
    ]
    if not found:
        raise query.error("the query reads no table", 0, "a materialized table is made of upstreams")
    return tuple(sorted(found, key=lambda r: r.start))


def _is_cte(table: exp.Table) -> bool:
    """Whether a one-part name means a common table expression that is visible here."""
    if table.args.get("db"):
        return False
    node: exp.Expr | None = table
    while node is not None:
        if with_ := node.args.get("with_"):
            for cte in with_.expressions:
                if cte.alias.lower() == table.name.lower() and (with_.recursive or not _inside(table, cte)):
                    return True
                if _inside(table, cte):  # it sees those before it only
                    break
        node = node.parent
    return False


def _inside(node: exp.Expr, ancestor: exp.Expr) -> bool:
    current: exp.Expr | None = node
    while current is not None and current is not ancestor:
        current = current.parent
    return current is ancestor


def _reference(query: Query, table: exp.Table, layer: str) -> Reference:
    parts = [p for p in table.parts if isinstance(p, exp.Identifier)]
    written = ".".join(p.name for p in parts)
    start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
    upstream: TableName | SourceTable
    if layer == "stg":
        if len(parts) != 3:
            hint = "a stg table reads its source as source.schema.table, e.g. shop.public.orders"
            raise query.error(f"`{written}` is no source table", start, hint)
        upstream = SourceTable(*(p.name for p in parts))
    else:
        names = [p.name.lower() for p in parts]
        if len(parts) == 3:
            hint = "only stg reads a source; read the stg table of it"
            raise query.error(f"a {layer} table reads `{written}`", start, hint)
        if len(parts) != 2 or names[0] not in LAYERS:
            what = f"`{written}` names no layer" if len(parts) < 2 else f"`{names[0]}` is no layer"
            hint = f"write layer.table, e.g. {LAYERS[LAYERS.index(layer) - 1]}.{names[-1]}"
            raise query.error(what, start, hint)
        upstream = TableName(*names)
    return Reference(
        upstream, table.alias or parts[-1].name, start, end, query.source.location(query.start + start)
    )
