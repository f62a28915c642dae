"""Read `QueryFacts` from the syntax tree of a table's query. What is not understood is an obstacle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from headrace.planner.sql import clauses, functions
from headrace.planner.sql.clauses import Unsupported, shown
from headrace.planner.sql.decompose import decompose
from headrace.planner.sql.facts import Level, Output, QueryFacts, Union
from headrace.planner.sql.names import Names
from headrace.planner.sql.outputs import read_outputs
from headrace.planner.sql.relations import SUBQUERY_PARTS, Cte, Ctes, check_parts, read_from
from headrace.planner.sql.subqueries import read_subqueries
from headrace.spec.model import SourceTable, TableName, TableSpec

Upstream = TableName | SourceTable

_SELECT_CLAUSES = (
    *("with_", "expressions", "hint", "distinct", "from_", "laterals", "joins", "where", "group", "having"),
    *("qualify", "windows", "distribute", "sort", "cluster", "order"),
)
_SET_CLAUSES = ("with_", "this", "expression", "distinct", "order", "sort", "cluster", "distribute")
_READINGS = 50
"""Readings of CTEs that are followed; CTEs of CTEs that are each read twice multiply."""


def extract(
    spec: TableSpec,
    keys: Mapping[Upstream, tuple[str, ...]],
    columns: Mapping[Upstream, tuple[str, ...]],
    types: Mapping[Upstream, Mapping[str, str]] | None = None,
) -> QueryFacts:
    """The facts of `spec`'s query. `keys` and `columns` are those of every upstream and of the table;
    `types` gives each upstream's Spark SQL type by column."""
    facts = QueryFacts(
        table=spec.name,
        columns=tuple(columns.get(spec.name, ())),
        primary_key=tuple(keys.get(spec.name, spec.primary_key)),
        partitioned_by=spec.partitioned_by,
        references=spec.references,
        reference_keys=tuple(tuple(keys.get(r.upstream, ())) for r in spec.references),
        root=None,
    )
    if types is not None:
        by_reference = [types.get(r.upstream, {}) for r in spec.references]
        facts = replace(
            facts, types=tuple({c.lower(): kind for c, kind in known.items()} for known in by_reference)
        )
    reader = _Reader(spec, columns)
    try:
        root = reader.query(spec.query_ast, {})
        reader.all_read()
    except Unsupported as obstacle:
        return replace(facts, obstacle=str(obstacle))
    return replace(facts, root=root, state=decompose(spec, root, facts.columns))


class _Reader:
    def __init__(self, spec: TableSpec, columns: Mapping[Upstream, tuple[str, ...]]) -> None:
        self._spec = spec
        self._columns = columns
        self._read: set[int] = set()
        self._readings = 0

    def all_read(self) -> None:
        for index, reference in enumerate(self._spec.references):
            if index not in self._read:
                raise Unsupported(f"{reference.upstream} stands in a CTE that the query does not read")

    def expanding(self, cte: str) -> None:
        self._readings += 1
        if self._readings > _READINGS:
            raise Unsupported(f"the CTE `{cte}` and others are read more than {_READINGS} times")

    def leaf(self, node: exp.Table) -> tuple[int, tuple[str, ...]]:
        start = min(p.meta.get("start", -1) for p in node.parts)
        found = [i for i, r in enumerate(self._spec.references) if r.start <= start < r.end]
        if start < 0 or len(found) != 1:
            raise Unsupported(f"{shown(node)} cannot be located in the query's text")
        upstream = self._spec.references[found[0]].upstream
        columns = tuple(self._columns.get(upstream, ()))
        if not columns:
            raise Unsupported(f"the columns of {upstream} are not known")
        self._read.add(found[0])
        return found[0], columns

    def query(self, node: exp.Expr, ctes: Ctes, outer: Names | None = None) -> Level | Union:
        while isinstance(node, exp.Subquery):
            check_parts(node, SUBQUERY_PARTS, "a query in parentheses")
            node = node.this
        if isinstance(node, exp.SetOperation):
            return self._union(node, ctes)
        if not isinstance(node, exp.Select):
            raise Unsupported(f"{shown(node)} is not a plain SELECT")
        check_parts(node, _SELECT_CLAUSES, "a SELECT")
        return self._select(node, self._with(node, ctes), outer)

    def _union(self, node: exp.SetOperation, ctes: Ctes) -> Union:
        check_parts(node, _SET_CLAUSES, f"a {type(node).__name__.upper()}")
        visible = self._with(node, ctes)
        branches = tuple(self.query(side, visible) for side in (node.this, node.expression))
        outputs = tuple(Output(o.name, None, o.text) for o in branches[0].outputs)
        if len(outputs) != len(branches[1].outputs):
            raise Unsupported(f"the sides of {shown(node)} are not known to have as many columns each")
        return Union(branches, outputs)

    def _with(self, node: exp.Query, ctes: Ctes) -> Ctes:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise Unsupported("a recursive CTE reads itself")
        visible = dict(ctes)
        for cte in clause.expressions:
            names = tuple(c.name for c in cte.args["alias"].columns)
            visible[cte.alias.lower()] = Cte(cte.this, names, dict(visible))
        return visible

    def _select(self, select: exp.Select, ctes: Ctes, outer: Names | None) -> Level:
        self._check_functions(select)
        names, equalities = read_from(self, select, ctes)
        outputs = read_outputs(select, names)
        equalities += read_subqueries(self, select, names, ctes, outputs)
        where = select.args.get("where")
        if where is not None:
            equalities += clauses.equalities(where.this, names, introduced=None)
        correlations = (
            clauses.correlations(where.this, names, outer) if where is not None and outer is not None else ()
        )
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
            correlations=correlations,
            merged=tuple(names.merged),
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
                    self._check_nodes(item, part)

    def _check_nodes(self, root: exp.Expr, part: str) -> None:
        for node in functions.own_nodes(root):
            relation = part in ("from_", "joins") and isinstance(node.parent, exp.From | exp.Join)
            if part in ("from_", "joins", "laterals") and isinstance(node, exp.Query) and not relation:
                raise Unsupported(
                    f"a subquery in the FROM clause's expressions is not followed: {shown(node)}"
                )
            if functions.is_volatile(node):
                raise Unsupported(f"{shown(node)} differs from run to run")
            if functions.is_unknown(node):
                raise Unsupported(f"nothing is known about the function in {shown(node)}")
