"""Read a SELECT list: which of its columns copy a column of a source."""

from __future__ import annotations

from sqlglot import exp

from headrace.planner.sql import functions
from headrace.planner.sql.clauses import Unsupported, shown
from headrace.planner.sql.facts import Origin, Output, Side
from headrace.planner.sql.names import Names


def read_outputs(select: exp.Select, names: Names) -> tuple[Output, ...]:
    """The columns of `select`, stars expanded."""
    outputs = list[Output]()
    for projection in select.expressions:
        star = projection.this if isinstance(projection, exp.Column) else projection
        if isinstance(star, exp.Star):
            outputs += _expand(projection, star, names)
        elif isinstance(projection, exp.Aliases):
            outputs += [Output(i.name, None, shown(projection.this)) for i in projection.args["expressions"]]
        else:
            value = projection.this if isinstance(projection, exp.Alias) else projection
            if value is projection and functions.is_generator(value):
                raise Unsupported(f"{shown(value)} gives columns without names; name them with AS")
            outputs.append(Output(projection.alias_or_name, names.resolve(value), shown(value)))
    return tuple(outputs)


def _expand(projection: exp.Expr, star: exp.Star, names: Names) -> list[Output]:
    if any(star.args.get(part) for part in ("replace", "rename", "ilike")):
        raise Unsupported(f"{shown(projection)} is not followed")
    dropped = {e.name.lower() for e in star.args.get("except_") or ()}
    if isinstance(projection, exp.Column):
        index = names.source_named((projection.table.lower(),))
        if index is None:
            raise Unsupported(f"{shown(projection)} names no table of its FROM clause")
        origins = [Origin(index, c) for c in names.sources[index].columns]
    else:
        origins = list(names.using.values())
        for index, source in enumerate(names.sources):
            if source.side is not Side.TEST:
                every = (Origin(index, c) for c in source.columns)
                origins += [o for o in every if o not in names.absorbed]
    found = [Output(o.column, o, f"`{o.column}`") for o in origins if o.column.lower() not in dropped]
    if isinstance(projection, exp.Star):
        found += [Output(c, None, f"`{c}`") for c in sorted(names.generated - dropped)]
    return found
