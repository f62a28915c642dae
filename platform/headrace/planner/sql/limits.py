"""`ORDER BY … LIMIT` seen as a window, so that one rule tells whether both orders are total."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from headrace.spec.model import TableSpec

_PARTS = ("limit", "offset")


def limited(root: exp.Expr) -> Iterator[tuple[exp.Select, str]]:
    """Every SELECT that keeps rows by its ORDER BY, and the text of the window that has the same order."""
    for select in root.find_all(exp.Select):
        if select.args.get("order") and any(select.args.get(part) for part in _PARTS):
            yield select, _window(select).sql(dialect="spark", comments=False)


def limit_windows(spec: TableSpec) -> TableSpec:
    """The table with a window in QUALIFY in place of each LIMIT: for analysis only, never run."""
    root = spec.query_ast.copy()
    for select, _ in list(limited(root)):
        window: exp.Expr = _window(select)
        qualify = select.args.get("qualify")
        if qualify is not None:
            window = exp.and_(qualify.this, window, copy=False)
        for part in _PARTS:
            select.set(part, None)
        select.set("qualify", exp.Qualify(this=window))
    return replace(spec, query_ast=root)


def _window(select: exp.Select) -> exp.Window:
    order = select.args["order"].copy()
    for ordered in order.expressions:
        ordered.set("this", _meant(ordered.this, select).copy())
    return exp.Window(this=exp.CumeDist(), order=order)


def _meant(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """What an item of ORDER BY stands for: a position or an alias of the SELECT list first."""
    items = select.expressions
    if isinstance(node, exp.Literal) and node.is_int and not any(i.find(exp.Star) for i in items):
        position = int(node.name) - 1
        found = items[position] if 0 <= position < len(items) else node
        return found.unalias() if isinstance(found, exp.Expr) else node
    if isinstance(node, exp.Column) and not node.table:
        for item in items:
            if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                return item.this if isinstance(item.this, exp.Expr) else node
    return node
