"""The columns every table has, checked before anything runs.

Only what certainly is wrong is refused: Spark analyses the same text again and has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.tokens import TokenType

from headrace.errors import Location, SpecError, did_you_mean
from headrace.spec.ddl.elements import parse_expression
from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.spec.project import Project, raise_all
from headrace.spec.sql.query import query_tokens
from headrace.spec.sql.resolver import BARE, Resolver
from headrace.spec.sql.scopes import Columns
from headrace.spec.syntax.text import advance


def check_columns(
    project: Project, source_columns: Mapping[SourceTable, Sequence[str]]
) -> dict[TableName, tuple[str, ...]]:
    """Each table's output columns, in order; `*` is expanded through `source_columns`.

    A table whose columns only Spark can tell (a pivot, a source that `source_columns` lacks) gets `()`,
    and what reads it is not checked.

    Raises:
        SpecError: a column that no upstream has, two output columns of one name or one without a name,
            a key, partition or constraint column that the query does not return.
    """
    output, errors = _checked(project, source_columns)
    raise_all(list(errors.values()))
    return output


def lacking_columns(
    project: Project, source_columns: Mapping[SourceTable, Sequence[str]]
) -> dict[TableName, SpecError]:
    """The tables that name a column which no upstream has; what reads these is not asked."""
    return _checked(project, source_columns)[1]


def _checked(
    project: Project, source_columns: Mapping[SourceTable, Sequence[str]]
) -> tuple[dict[TableName, tuple[str, ...]], dict[TableName, SpecError]]:
    known: dict[str, Columns] = {str(source): tuple(names) for source, names in source_columns.items()}
    output: dict[TableName, tuple[str, ...]] = {}
    errors: dict[TableName, SpecError] = {}
    for name, spec in project.tables.items():
        try:
            known[str(name)] = table_columns(spec, known)
        except SpecError as error:
            errors[name] = error
            known[str(name)] = None
        output[name] = known[str(name)] or ()
    return output, errors


def columns_read(spec: TableSpec) -> frozenset[str] | None:
    """The names, in lower case, that a query of one upstream may take from it; None: all that it has."""
    if any(token.token_type == TokenType.PIPE_GT for token in query_tokens(spec.query)):
        return None
    stars = (star for star in spec.query_ast.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    if any(True for _ in stars):
        return None
    columns = spec.query_ast.find_all(exp.Column)
    return frozenset(part.name.lower() for column in columns for part in column.parts)


def table_columns(spec: TableSpec, upstream_columns: Mapping[str, Columns]) -> Columns:
    """One table's output columns over those of its upstreams; None where only Spark can tell."""
    resolver = Resolver(spec, upstream_columns)
    columns = resolver.output(spec.query_ast)
    if columns is None:
        return None
    _check_names(spec, columns)
    beginning = Location(spec.path, 1)
    for role, names, location in (
        ("key", spec.primary_key, spec.key_location),
        ("partition", spec.partitioned_by, spec.partition_location),
    ):
        for name in names:
            _check_returned(f"{role} column `{name}`", name, columns, location or beginning)
    for constraint in spec.constraints:
        for column in parse_expression(constraint.expression).find_all(exp.Column):
            first = column.parts[0]
            at = advance(constraint.location, constraint.expression[: first.meta.get("start", 0)])
            if first.name.lower() not in BARE | {spec.name.table}:
                what = f"column `{first.name}` of constraint `{constraint.name}`"
                _check_returned(what, first.name, columns, at)
    return columns


def _check_returned(what: str, name: str, columns: tuple[str, ...], at: Location) -> None:
    if name.lower() not in (c.lower() for c in columns):
        raise SpecError(f"{what} is not returned by the query", at, did_you_mean(name, columns))


def _check_names(spec: TableSpec, columns: tuple[str, ...]) -> None:
    start = spec.locate(0)
    if "" in columns:
        nth = columns.index("") + 1
        raise SpecError(f"output column {nth} of {spec.name} has no name", start, "add `AS name` to it")
    lowered = [c.lower() for c in columns]
    if twice := sorted({c for c in lowered if lowered.count(c) > 1}):
        hint = "rename one with AS, or list the columns instead of *"
        raise SpecError(f"{spec.name} returns column `{twice[0]}` more than once", start, hint)
