"""The query as Spark runs it: names and parameters replaced by position, every other character kept."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp
from sqlglot.tokens import TokenType

from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.spec.sql.parameters import parameter_at
from headrace.spec.sql.query import query_tokens, tables

Edit = tuple[int, int, str]


def render(
    spec: TableSpec,
    bindings: Mapping[TableName | SourceTable, str],
    *,
    by_reference: Mapping[int, str] | None = None,
) -> str:
    """The query over other relations, ready for `spark.sql(text, args={"start_date": …, "end_date": …})`.

    Args:
        bindings: the relation (a temporary view's name) to read instead of each upstream.
        by_reference: overrides for single occurrences, by index into `spec.references`.
    """
    overrides = by_reference or {}
    edits: list[Edit] = []
    for i, reference in enumerate(spec.references):
        relation = overrides[i] if i in overrides else bindings[reference.upstream]
        # Without an alias of its own, columns may be qualified by the table's name.
        alias = "" if _has_alias(spec, reference.start) else f" AS `{reference.alias}`"
        edits.append((reference.start, reference.end, relation + alias))
    edits += _parameters(spec) + _long_qualifiers(spec)
    text = spec.query
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _has_alias(spec: TableSpec, start: int) -> bool:
    return any(
        bool(t.args.get("alias"))
        for t in tables(spec.query_ast)
        if isinstance(t.parts[0], exp.Identifier) and t.parts[0].meta.get("start") == start
    )


def _parameters(spec: TableSpec) -> list[Edit]:
    tokens = query_tokens(spec.query)
    edits: list[Edit] = []
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.PARAMETER and (name := parameter_at(spec.query, tokens, i)):
            end = tokens[i + 3].end + 1
            glued = re.match(r"\w", spec.query[end:])  # `${start_date}AND`
            edits.append((token.start, end, f":{name} " if glued else f":{name}"))
    return edits


def _long_qualifiers(spec: TableSpec) -> list[Edit]:
    """`dwd.orders.amount` → `orders.amount`: a view of another name has no such long qualifier."""
    names = {tuple(str(r.upstream).lower().split(".")) for r in spec.references}
    qualifiers = {name[start:] for name in names for start in range(len(name) - 1)}
    occurrences = {r.start for r in spec.references}
    tokens = query_tokens(spec.query)
    edits: list[Edit] = []
    for i, token in enumerate(tokens):
        if token.start in occurrences or (i and tokens[i - 1].token_type is TokenType.DOT):
            continue
        for parts in qualifiers:
            chain = tokens[i : i + 2 * len(parts)]
            written = tuple(t.text.lower() for t in chain[::2])
            dots = [t.token_type is TokenType.DOT for t in chain[1::2]]
            if written == parts and len(dots) == len(parts) and all(dots):
                edits.append((token.start, chain[-2].start, ""))
    return edits
