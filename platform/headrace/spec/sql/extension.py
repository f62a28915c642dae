"""A table's query with columns appended to its SELECT list, every other character kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlglot
from sqlglot import exp

from headrace.spec.model import TableSpec


def with_columns(spec: TableSpec, at: int, columns: Sequence[tuple[str, str]]) -> TableSpec:
    """`spec` with `columns` (name, expression) after the last item of its SELECT list.

    Args:
        at: offset in `spec.query` at which that item ends.
    """
    if not columns:
        return spec
    added = "".join(f", {text} AS `{name}`" for name, text in columns)
    query = spec.query[:at] + added + spec.query[at:]
    parsed = sqlglot.parse_one(query, read="spark")
    assert isinstance(parsed, exp.Query)
    references = tuple(
        replace(r, start=r.start + len(added), end=r.end + len(added)) if r.start >= at else r
        for r in spec.references
    )
    return replace(spec, query=query, query_ast=parsed, references=references)
