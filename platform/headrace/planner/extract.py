"""Read `QueryFacts` from the syntax tree of a table's query. What is not understood is an obstacle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.planner import clauses, functions
from headrace.planner.clauses import Unsupported, shown
from headrace.planner.facts import Equality, Level, Origin, Output, QueryFacts, Side, Source
from headrace.planner.names import Names
from headrace.spec.model import SourceTable, TableName, TableSpec

Upstream = TableName | SourceTable

_SELECT_CLAUSES = (
    *("with_", "expressions", "hint", "distinct", "from_", "laterals", "joins", "where", "group", "having"),
    *("qualify", "windows", "distribute", "sort", "cluster", "order"),
)
_CLAUSE_REASONS = {
    "limit": "LIMIT keeps rows by a global order",
    "offset": "OFFSET skips rows by a global order",
    "sample": "TABLESAMPLE picks rows at random",
    "pivots": "PIVOT is not followed",
}
_JOIN_PARTS = frozenset({"this", "on", "side", "kind", "using", "hint"})
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "hints"})
_SUBQUERY_PARTS = frozenset({"this", "alias"})


@dataclass(frozen=True)
class _Cte:
    query: exp.Expr
    columns: tuple[str, ...]
    visible: Mapping[str, _Cte]


def extract(
    spec: TableSpec, keys: Mapping[Upstream, tuple[str, ...]], columns: Mapping[Upstream, tuple[str, ...]]
) -> QueryFacts:
    """The facts of `spec`'s query. `keys` and `columns` are those of every upstream and of the table."""
    facts = QueryFacts(
        table=spec.name,
        columns=tuple(columns.get(spec.name, ())),
        primary_key=tuple(keys.get(spec.name, spec.primary_key)),
        partitioned_by=spec.partitioned_by,
        references=spec.references,
        reference_keys=tuple(tuple(keys.get(r.upstream, ())) for r in spec.references),
        root=None,
    )
    reader = _Reader(spec, columns)
    try:
        root = reader.query(spec.query_ast, {})
        reader.all_read()
    except Unsupported as obstacle:
        return replace(facts, obstacle=str(obstacle))
    return replace(facts, root=root)


def _parts(node: exp.Expr, allowed: Iterable[str], what: str) -> None:
    """Refuse a node with a part that this module does not know."""
    for part, value in node.args.items():
        if value and part not in allowed:
            raise Unsupported(
                _CLAUSE_REASONS.get(part, f"{part.strip('_').upper()} of {what} is not followed")
            )


class _Reader:
    def __init__(self, spec: TableSpec, columns: Mapping[Upstream, tuple[str, ...]]) -> None:
        self._spec = spec
        self._columns = columns
        self._read: set[int] = set()
        self._expanded: set[int] = set()

    def all_read(self) -> None:
        for index, reference in enumerate(self._spec.references):
            if index not in self._read:
                raise Unsupported(f"{reference.upstream} stands in a CTE that the query does not read")

    def query(self, node: exp.Expr, ctes: Mapping[str, _Cte]) -> Level:
        while isinstance(node, exp.Subquery):
            _parts(node, _SUBQUERY_PARTS, "a query in parentheses")
            node = node.this
        if isinstance(node, exp.SetOperation):
            raise Unsupported(f"{type(node).__name__.upper()} joins several queries")
        if not isinstance(node, exp.Select):
            raise Unsupported(f"{shown(node)} is not a plain SELECT")
        _parts(node, _SELECT_CLAUSES, "a SELECT")
        return self._select(node, self._with(node, ctes))

    def _with(self, select: exp.Select, ctes: Mapping[str, _Cte]) -> Mapping[str, _Cte]:
        clause = select.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise Unsupported("a recursive CTE reads itself")
        visible = dict(ctes)
        for cte in clause.expressions:
            names = tuple(c.name for c in cte.args["alias"].columns)
            visible[cte.alias.lower()] = _Cte(cte.this, names, dict(visible))
        return visible

    def _select(self, select: exp.Select, ctes: Mapping[str, _Cte]) -> Level:
        self._check_functions(select)
        names, equalities = self._from(select, ctes)
        outputs = self._outputs(select, names)
        where = select.args.get("where")
        if where is not None:
            equalities += clauses.equalities(where.this, names, introduced=None)
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise Unsupported("DISTINCT ON is not followed")
        listed = [n for p in select.expressions for n in functions.own_nodes(p) if functions.is_generator(n)]
        generators = [*listed, *(lateral.this for lateral in select.args.get("laterals") or ())]
        grouping, plain = clauses.grouping(select, names)
        level = Level(
            sources=tuple(names.sources),
            outputs=outputs,
            equalities=tuple(equalities),
            grouping=grouping,
            plain_grouping=plain,
            windows=clauses.windows(select, names),
            distinct=distinct is not None,
            generator=shown(generators[0]) if generators else None,
        )
        if listed and level.mixes_rows:  # before or after them? LATERAL VIEW is always before
            raise Unsupported(f"{level.generator} stands beside an aggregate, a window or DISTINCT")
        return level

    def _check_functions(self, select: exp.Select) -> None:
        for part, value in select.args.items():
            if part in ("with_", "hint"):
                continue
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, exp.Expr):
                    self._check_nodes(item, relations=part in ("from_", "joins"))

    def _check_nodes(self, root: exp.Expr, *, relations: bool) -> None:
        for node in functions.own_nodes(root):
            if isinstance(node, exp.Query) and not (
                relations and isinstance(node.parent, exp.From | exp.Join)
            ):
                raise Unsupported(f"a subquery inside an expression is not followed: {shown(node)}")
            if functions.is_volatile(node):
                raise Unsupported(f"{shown(node)} differs from run to run")
            if functions.is_unknown(node):
                raise Unsupported(f"nothing is known about the function in {shown(node)}")

    def _from(self, select: exp.Select, ctes: Mapping[str, _Cte]) -> tuple[Names, list[Equality]]:
        clause = select.args.get("from_")
        if clause is None:
            raise Unsupported("a SELECT without FROM")
        names, equalities = Names(), list[Equality]()
        names.sources.append(self._source(clause.this, Side.FROM, ctes))
        for join in select.args.get("joins") or ():
            equalities += self._join(join, names, ctes)
        if len(names.sources) > 1:
            for source in names.sources:
                if source.level is not None and _leaves(source.level) != 1:
                    raise Unsupported(f"`{source.qualifiers[-1]}` joins tables and is joined again")
        for lateral in select.args.get("laterals") or ():
            alias = lateral.args.get("alias")
            if alias is None or not alias.columns:
                raise Unsupported(f"LATERAL VIEW without column names: {shown(lateral)}")
            if any(alias.name.lower() == s.qualifiers[-1] for s in names.sources):
                raise Unsupported(f"LATERAL VIEW takes the name of a table: `{alias.name}`")
            names.generated |= {c.name.lower() for c in alias.columns}
        return names, equalities

    def _join(self, join: exp.Join, names: Names, ctes: Mapping[str, _Cte]) -> list[Equality]:
        if join.method:
            raise Unsupported(f"{join.method} JOIN is not followed")
        if join.kind in ("SEMI", "ANTI") or join.side in ("RIGHT", "FULL"):
            kind = join.kind if join.kind in ("SEMI", "ANTI") else join.side
            raise Unsupported(f"{kind} JOIN {shown(join.this)} is not followed")
        if join.kind not in ("", "INNER", "OUTER", "CROSS") or join.side not in ("", "LEFT"):
            raise Unsupported(f"{shown(join)} is not followed")
        _parts(join, _JOIN_PARTS, "a JOIN")
        names.sources.append(self._source(join.this, Side.LEFT if join.side else Side.INNER, ctes))
        introduced = len(names.sources) - 1
        equalities = list[Equality]()
        for column in join.args.get("using") or ():
            left_names = Names(names.sources[:introduced], names.merged)
            left, right = left_names.unqualified(column.name), names.within(introduced, column.name)
            if left is None or right is None:
                raise Unsupported(f"USING ({column.name}) does not name one column on each side")
            names.merged[column.name.lower()] = left
            equalities.append(Equality(left, right, False, introduced))
        if (on := join.args.get("on")) is not None:
            equalities += clauses.equalities(on, names, introduced=introduced)
        return equalities

    def _source(self, node: exp.Expr, side: Side, ctes: Mapping[str, _Cte]) -> Source:
        alias = node.args.get("alias")
        name = node.alias.lower()
        renamed = tuple(c.name for c in alias.columns) if alias is not None else ()
        if isinstance(node, exp.Subquery):
            _parts(node, _SUBQUERY_PARTS, "a subquery")
            if not isinstance(node.this, exp.Query):
                raise Unsupported(f"a join in parentheses is not followed: {shown(node)}")
            level = _rename(self.query(node.this, ctes), renamed)
            return Source((name,), tuple(o.name for o in level.outputs), side, level=level)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise Unsupported(f"{shown(node)} is no table")
        _parts(node, _TABLE_PARTS, shown(node))
        if not node.db and (cte := ctes.get(node.name.lower())) is not None:
            if id(cte.query) in self._expanded:
                raise Unsupported(f"the CTE `{node.name}` is read more than once")
            self._expanded.add(id(cte.query))
            level = _rename(_rename(self.query(cte.query, cte.visible), cte.columns), renamed)
            return Source(
                (name or node.name.lower(),), tuple(o.name for o in level.outputs), side, level=level
            )
        return self._leaf(node, side, name, renamed)

    def _leaf(self, node: exp.Table, side: Side, alias: str, renamed: tuple[str, ...]) -> Source:
        start = min(p.meta.get("start", -1) for p in node.parts)
        found = [i for i, r in enumerate(self._spec.references) if r.start <= start < r.end]
        if start < 0 or len(found) != 1:
            raise Unsupported(f"{shown(node)} cannot be located in the query's text")
        self._read.add(found[0])
        upstream = self._spec.references[found[0]].upstream
        columns = tuple(self._columns.get(upstream, ()))
        if renamed:
            raise Unsupported(f"{shown(node)} renames the columns of a table; rename them in the SELECT list")
        parts = (alias,) if alias else tuple(p.name.lower() for p in node.parts)
        return Source(parts, columns, side, reference=found[0])

    def _outputs(self, select: exp.Select, names: Names) -> tuple[Output, ...]:
        outputs = list[Output]()
        for projection in select.expressions:
            star = projection.this if isinstance(projection, exp.Column) else projection
            if isinstance(star, exp.Star):
                outputs += _expand(projection, star, names)
            elif isinstance(projection, exp.Aliases):
                outputs += [
                    Output(i.name, None, shown(projection.this)) for i in projection.args["expressions"]
                ]
            else:
                value = projection.this if isinstance(projection, exp.Alias) else projection
                outputs.append(Output(projection.alias_or_name, names.resolve(value), shown(value)))
        return tuple(outputs)


def _leaves(level: Level) -> int:
    return sum(1 if s.level is None else _leaves(s.level) for s in level.sources)


def _rename(level: Level, columns: tuple[str, ...]) -> Level:
    if not columns:
        return level
    if len(columns) != len(level.outputs):
        raise Unsupported(f"a list of {len(columns)} column names for {len(level.outputs)} columns")
    renamed = zip(level.outputs, columns, strict=True)
    return replace(level, outputs=tuple(replace(o, name=c) for o, c in renamed))


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
        origins = list(names.merged.values())
        for index, source in enumerate(names.sources):
            origins += [Origin(index, c) for c in source.columns if c.lower() not in names.merged]
    found = [Output(o.column, o, f"`{o.column}`") for o in origins if o.column.lower() not in dropped]
    if isinstance(projection, exp.Star):
        found += [Output(c, None, f"`{c}`") for c in sorted(names.generated - dropped)]
    return found
