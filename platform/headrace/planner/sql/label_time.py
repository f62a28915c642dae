"""The time from which a query makes its table's partition labels: a range of labels is a range of it."""

from __future__ import annotations

from sqlglot import exp

from headrace.planner.sql.direct import pattern_of, time_of
from headrace.spec.model import TableSpec

_CLAUSES = {"expressions", "from_", "where", "group", "having", "distinct"}
_MIXES = (exp.Window, exp.Query, exp.Pivot, exp.TableSample)


def label_time(spec: TableSpec) -> str | None:
    """The column of the one table that the query reads whose label is each row's partition.

    It is `date_format(column, pattern) AS partition` in a SELECT whose rows each come from rows of one
    label: it filters and projects, or groups by that label. Where the column is a time, labels sort as it
    does. Then the rows of labels A to B follow from the rows whose column lies in the time of A to B, and
    from them alone.

    Returns:
        The column as the text writes it, which may be the name of another expression where the table has no
        such column; None where the query is none of these.
    """
    query = spec.query_ast
    if len(spec.references) != 1 or spec.partition_format is None or not isinstance(query, exp.Select):
        return None
    if not {name for name, value in query.args.items() if value} <= _CLAUSES:
        return None
    if any(node is not query for node in query.find_all(*_MIXES)):
        return None
    if not isinstance(query.args["from_"].this, exp.Table):
        return None
    found = [e for e in query.expressions if e.alias_or_name.lower() == (spec.partition_column or "").lower()]
    if len(found) != 1 or not isinstance(found[0], exp.Alias):
        return None
    label = found[0].this
    if not isinstance(label, exp.TimeToStr) or pattern_of(label) != spec.partition_format:
        return None
    time = time_of(label)
    if not isinstance(time, exp.Column) or not _groups_by(query, label, found[0]):
        return None
    # `a.b` may be a field of a column.
    qualifiers = [part.name.lower() for part in time.parts[:-1]]
    return time.name if qualifiers in ([], [spec.references[0].alias.lower()]) else None


def _groups_by(query: exp.Select, label: exp.Expression, alias: exp.Alias) -> bool:
    """Whether groups, where there are any, have one label each."""
    group = query.args.get("group")
    if group is None:  # without it Spark has no aggregate beside a label
        return True
    if any(value for name, value in group.args.items() if name != "expressions"):
        return False
    place = str(query.expressions.index(alias) + 1)
    return any(
        one == label
        or (isinstance(one, exp.Column) and not one.table and one.name.lower() == alias.alias.lower())
        or (isinstance(one, exp.Literal) and not one.is_string and one.this == place)
        for one in group.expressions
    )
