"""The query shapes: for each operator, or operators that are hard together, random queries that have it."""

from __future__ import annotations

from collections.abc import Callable

from grammar import AVERAGE, INT, JOINED, LABEL, PLAIN, Grammar, Leaf, Relation, Selected

Shape = Callable[[Grammar], Relation]


def filter_project(g: Grammar) -> Relation:
    x = g.leaf("x")
    selected = Selected()
    key = g.keep(selected, x, x.relation.key)
    g.keep(selected, x, [c for c in g.some(x) if c not in x.relation.key])
    for _ in range(g.chance.randint(1, 2)):
        selected.add(*g.value(x))
    return _query(selected, f"FROM {x.written}{g.where(x, share=0.8)}", key, x.relation.null_key)


def _joined(g: Grammar, kind: str, *, right: Leaf | None = None, left: Leaf | None = None) -> Relation:
    """Two relations joined; the key is both keys, of which one may be padding."""
    x = left or g.leaf("x", non_null=kind == "FULL JOIN")
    y = right or g.leaf("y")
    selected = Selected()
    key = g.keep(selected, x, x.relation.key, prefix="x_") + g.keep(selected, y, y.relation.key, prefix="y_")
    g.keep(selected, x, [c for c in g.some(x) if c not in x.relation.key], prefix="x_")
    g.keep(selected, y, [c for c in g.some(y, most=2) if c not in y.relation.key], prefix="y_")
    rest = f"FROM {x.written} {kind} {y.written} ON {g.join_condition(x, y)}{g.where(x, y, share=0.25)}"
    nullable = {
        "JOIN": x.relation.null_key and y.relation.null_key,
        "LEFT JOIN": x.relation.null_key,
        "RIGHT JOIN": y.relation.null_key,
        "FULL JOIN": y.relation.null_key,  # a row of y alone
    }[kind]
    return _query(selected, rest, key, nullable)


def inner_join(g: Grammar) -> Relation:
    return _joined(g, "JOIN")


def left_join(g: Grammar) -> Relation:
    return _joined(g, "LEFT JOIN")


def right_join(g: Grammar) -> Relation:
    return _joined(g, "RIGHT JOIN")


def full_join(g: Grammar) -> Relation:
    return _joined(g, "FULL JOIN")


def self_join(g: Grammar) -> Relation:
    table = g.table()
    x, y = (Leaf(alias, f"{table.text} AS {alias}", table) for alias in "xy")
    return _joined(g, g.chance.choice(("JOIN", "JOIN", "LEFT JOIN")), left=x, right=y)


def three_way_join(g: Grammar) -> Relation:
    x, y, z = g.leaf("x"), g.leaf("y"), g.leaf("z")
    kinds = [g.chance.choice(("JOIN", "JOIN", "LEFT JOIN")) for _ in range(2)]
    selected = Selected()
    key = [
        n for leaf in (x, y, z) for n in g.keep(selected, leaf, leaf.relation.key, prefix=f"{leaf.alias}_")
    ]
    g.keep(selected, z, [c for c in g.some(z) if c not in z.relation.key], prefix="z_")
    rest = (
        f"FROM {x.written} {kinds[0]} {y.written} ON {g.join_condition(x, y)} "
        f"{kinds[1]} {z.written} ON {g.join_condition(g.chance.choice((x, y)), z)}{g.where(x, share=0.3)}"
    )
    return _query(
        selected, rest, key, all(leaf.relation.null_key for leaf in (x, y, z)) or x.relation.null_key
    )


def _kept(g: Grammar, x: Leaf, rest: str) -> Relation:
    """Rows of x that a condition keeps."""
    selected = Selected()
    key = g.keep(selected, x, x.relation.key)
    g.keep(selected, x, [c for c in g.some(x) if c not in x.relation.key])
    return _query(selected, rest, key, x.relation.null_key)


def semi_join(g: Grammar) -> Relation:
    x, y = g.leaf("x"), g.leaf("y")
    return _kept(g, x, f"FROM {x.written} LEFT SEMI JOIN {y.written} ON {g.join_condition(x, y)}")


def anti_join(g: Grammar) -> Relation:
    x, y = g.leaf("x"), g.leaf("y")
    return _kept(g, x, f"FROM {x.written} LEFT ANTI JOIN {y.written} ON {g.join_condition(x, y)}")


def exists(g: Grammar) -> Relation:
    x = g.leaf("x")
    table = g.table()
    y = Leaf("y", f"{table.text} AS y", table)
    terms = g.equalities(x, y) + ([g.predicate(y)] if g.maybe(0.4) else [])
    condition = " AND ".join(terms) or g.predicate(y)
    sign = g.chance.choice(("", "NOT "))
    return _kept(g, x, f"FROM {x.written} WHERE {sign}EXISTS (SELECT 1 FROM {y.written} WHERE {condition})")


def _membership(g: Grammar, sign: str) -> Relation:
    x = g.leaf("x")
    table = g.table()
    y = Leaf("y", f"{table.text} AS y", table)
    kind = g.chance.choice(g.shared(x, y))
    inner = f"SELECT {g.column(y, kind)} FROM {y.written}{g.where(y)}"
    and_more = f" AND {g.predicate(x)}" if g.maybe(0.3) else ""
    return _kept(g, x, f"FROM {x.written} WHERE {g.column(x, kind)} {sign} ({inner}){and_more}")


def in_subquery(g: Grammar) -> Relation:
    return _membership(g, "IN")


def not_in(g: Grammar) -> Relation:
    return _membership(g, "NOT IN")


def _same_kinds(g: Grammar) -> tuple[Leaf, Leaf, list[tuple[str, str, str]]]:
    """Two leaves and pairs of their columns of the same kind: (left, right, kind)."""
    x, y = g.leaf("x"), g.leaf("y")
    pairs = []
    for kind in g.chance.sample((*JOINED, LABEL, LABEL), 4):
        left, right = g.column(x, kind), g.column(y, kind)
        if left and right and (left, right, kind) not in pairs:
            pairs.append((left, right, kind))
    return x, y, pairs or [("1", "1", INT)]


def _union(g: Grammar, word: str) -> Relation:
    x, y, pairs = _same_kinds(g)
    left, right = Selected(), Selected()
    for a, b, kind in pairs:
        name = left.add(a, kind, "label" if kind == LABEL else None)
        right.add(b, kind, name)
    text = f"SELECT {left} FROM {x.written}{g.where(x)} {word} SELECT {right} FROM {y.written}{g.where(y)}"
    return Relation(text, left.columns, tuple(left.columns), null_key=True)


def union(g: Grammar) -> Relation:
    return _union(g, "UNION")


def union_all(g: Grammar) -> Relation:
    """Tagged branches with their keys, where these are of the same kinds; else counts of equal rows."""
    x, y = g.leaf("x"), g.leaf("y")
    left, right = x.relation.key, y.relation.key
    kinds = [x.relation.columns[c] for c in left], [y.relation.columns[c] for c in right]
    if kinds[0] != kinds[1]:
        return union_all_grouped(g)
    first, second = Selected(), Selected()
    key = [first.add("1", INT, "branch")]
    second.add("2", INT, "branch")
    for a, b, kind in zip(left, right, kinds[0], strict=True):
        key.append(first.add(x.column(a), kind))
        second.add(y.column(b), kind)
    for kind in (INT, g.chance.choice(PLAIN), LABEL):
        a, b = g.column(x, kind), g.column(y, kind)
        if a and b:
            name = first.add(a, kind, "label" if kind == LABEL else None)
            second.add(b, kind, name)
    text = (
        f"SELECT {first} FROM {x.written}{g.where(x)} UNION ALL SELECT {second} FROM {y.written}{g.where(y)}"
    )
    return Relation(text, first.columns, tuple(key))


def union_all_grouped(g: Grammar) -> Relation:
    both = _union(g, "UNION ALL")
    u = g.nested("u", both)
    selected = Selected()
    key = g.keep(selected, u, tuple(both.columns))
    selected.add("COUNT(*)", INT, "n")
    by = ", ".join(u.column(c) for c in both.columns)
    return _query(selected, f"FROM {u.written} GROUP BY {by}", key, null_key=True)


def distinct(g: Grammar) -> Relation:
    x = g.leaf("x")
    selected = Selected()
    key = g.keep(selected, x, g.some(x))
    if g.maybe(0.4):
        key.append(selected.add(*g.value(x)))
    return _query(selected, f"FROM {x.written}{g.where(x)}", key, null_key=True, head="SELECT DISTINCT")


def _grouped(
    g: Grammar, x: Leaf, aggregates: list[tuple[str, str]], *, rest: str = "", having: str = ""
) -> Relation:
    selected = Selected()
    names = g.some(x, most=2)
    key = g.keep(selected, x, names)
    by = [x.column(n) for n in dict.fromkeys(names)]
    if g.maybe(0.2):
        expression, kind = g.value(x)
        key.append(selected.add(expression, kind))
        by.append(expression)
    for expression, kind in aggregates:
        selected.add(expression, kind)
    rest = rest or f"FROM {x.written}{g.where(x, share=0.3)}"
    return _query(selected, f"{rest} GROUP BY {', '.join(by)}{having}", key, null_key=True)


def group_by(g: Grammar) -> Relation:
    x = g.leaf("x")
    return _grouped(g, x, [("COUNT(*)", INT), *(g.aggregate(x) for _ in range(g.chance.randint(1, 3)))])


def having(g: Grammar) -> Relation:
    x = g.leaf("x")
    number = g.column(x, INT)
    condition = g.chance.choice(
        [
            "COUNT(*) > 1",
            *([f"SUM({number}) >= 1", f"MAX({number}) IS NULL", f"MIN({number}) < 1"] if number else []),
        ]
    )
    return _grouped(g, x, [g.aggregate(x)], having=f" HAVING {condition}")


def extremes(g: Grammar) -> Relation:
    x = g.leaf("x")
    names = [x.column(c) for c in x.relation.plain]
    kinds = dict(zip(names, (x.relation.columns[c] for c in x.relation.plain), strict=True))
    first, second = g.chance.choice(names), g.chance.choice(names)
    return _grouped(g, x, [(f"MIN({first})", kinds[first]), (f"MAX({second})", kinds[second])])


def count_distinct(g: Grammar) -> Relation:
    x = g.leaf("x")
    return _grouped(g, x, [(f"COUNT(DISTINCT {g.column(x)})", INT), (f"COUNT(DISTINCT {g.column(x)})", INT)])


def group_join(g: Grammar) -> Relation:
    x, y = g.leaf("x"), g.leaf("y")
    kind = g.chance.choice(("JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"))
    aggregates = [("COUNT(*)", INT), g.aggregate(y), g.aggregate(g.chance.choice((x, y)))]
    rest = f"FROM {x.written} {kind} {y.written} ON {g.join_condition(x, y)}"
    return _grouped(g, x, aggregates, rest=rest)


def global_aggregate(g: Grammar) -> Relation:
    """One row, also over no rows; HAVING may take it away."""
    x = g.leaf("x")
    selected = Selected()
    key = [selected.add("1", INT, "one")]
    selected.add("COUNT(*)", INT, "n")
    for _ in range(g.chance.randint(1, 3)):
        selected.add(*g.aggregate(x))
    tail = " HAVING COUNT(*) > 1" if g.maybe(0.2) else ""
    return _query(selected, f"FROM {x.written}{g.where(x)}{tail}", key, null_key=False)


def _windowed(g: Grammar, x: Leaf) -> tuple[str, str]:
    by = g.chance.sample(x.relation.plain, min(len(x.relation.plain), g.chance.choice((1, 1, 2))))
    partition = f"PARTITION BY {', '.join(x.column(c) for c in by)}"
    order = f"ORDER BY {g.order(x)}"
    name = g.chance.choice(x.relation.plain)
    column, kind = x.column(name), x.relation.columns[name]
    number = g.column(x, INT) or "1"
    forms = [
        (f"ROW_NUMBER() OVER ({partition} {order})", INT),
        (f"RANK() OVER ({partition} ORDER BY {column})", INT),
        (f"DENSE_RANK() OVER ({partition} ORDER BY {column} DESC)", INT),
        (f"COUNT(*) OVER ({partition})", INT),
        (f"SUM({number}) OVER ({partition})", INT),
        (f"SUM({number}) OVER ({partition} {order} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", INT),
        (f"MAX({column}) OVER ({partition} {order})", kind),
        (f"LAG({column}) OVER ({partition} {order})", kind),
        (f"LEAD({column}, 2) OVER ({partition} {order})", kind),
    ]
    return g.chance.choice(forms)


def window(g: Grammar) -> Relation:
    x = g.leaf("x")
    selected = Selected()
    key = g.keep(selected, x, x.relation.key)
    g.keep(selected, x, [c for c in g.some(x) if c not in x.relation.key])
    for _ in range(g.chance.choice((1, 1, 2))):
        selected.add(*_windowed(g, x))
    return _query(selected, f"FROM {x.written}{g.where(x, share=0.3)}", key, x.relation.null_key)


def top_n(g: Grammar) -> Relation:
    """The first rows of each group, keyed by group and place."""
    x = g.leaf("x")
    selected = Selected()
    by = g.some(x, most=1)
    key = g.keep(selected, x, by)
    g.keep(selected, x, [c for c in x.relation.plain if c not in by][:3])
    partition = ", ".join(x.column(c) for c in dict.fromkeys(by))
    key.append(
        selected.add(f"ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {g.order(x)})", INT, "place")
    )
    inner = _query(selected, f"FROM {x.written}", key, null_key=False)
    ranked = g.nested("r", inner)
    where = f" WHERE {ranked.column('place')} <= {g.chance.randint(1, 2)}"
    return Relation(f"SELECT * FROM {ranked.written}{where}", inner.columns, inner.key)


def group_of_groups(g: Grammar) -> Relation:
    """An aggregate, a DISTINCT or a window over an aggregate."""
    inner = g.chance.choice((group_by, extremes, distinct, union_all_grouped))(g)
    return _over(g, inner)


def _over(g: Grammar, inner: Relation) -> Relation:
    d = g.nested("d", inner)
    if g.maybe(0.3):
        selected = Selected()
        key = g.keep(selected, d, inner.key)
        selected.add(*_windowed(g, d))
        return _query(selected, f"FROM {d.written}", key, inner.null_key)
    return _grouped(g, d, [("COUNT(*)", INT), g.aggregate(d)])


def cte_twice(g: Grammar) -> Relation:
    """A common table expression that is read twice."""
    inner = g.chance.choice((group_by, distinct, filter_project))(g)
    g.ctes.append(f"twice AS ({inner.text})")
    x, y = (Leaf(alias, f"twice AS {alias}", inner) for alias in "xy")
    return _joined(g, "JOIN", left=x, right=y)


def join_groups(g: Grammar) -> Relation:
    """A table joined with an aggregate of another."""
    inner = g.chance.choice((group_by, extremes))(g)
    return _joined(g, g.chance.choice(("JOIN", "LEFT JOIN")), right=g.nested("y", inner))


def scalar_subquery(g: Grammar) -> Relation:
    """A correlated scalar subquery in the SELECT list, or compared in WHERE."""
    x = g.leaf("x")
    table = g.table()
    s = Leaf("s", f"{table.text} AS s", table)
    kind = g.chance.choice(g.shared(x, s))
    expression, result = g.aggregate(s)
    number = g.column(s, INT)
    if result == AVERAGE:
        expression, result = "COUNT(*)", INT
    inner = f"SELECT {expression} FROM {s.written} WHERE {g.column(s, kind)} = {g.column(x, kind)}"
    if g.maybe(0.3) and number and x.relation.of(INT):
        inner = f"SELECT MAX({number}) FROM {s.written} WHERE {g.column(s, kind)} = {g.column(x, kind)}"
        return _kept(g, x, f"FROM {x.written} WHERE {g.column(x, INT)} >= ({inner})")
    selected = Selected()
    key = g.keep(selected, x, x.relation.key)
    g.keep(selected, x, [c for c in x.relation.of(LABEL)[:1] if c not in x.relation.key])
    selected.add(f"({inner})", result, "sub")
    return _query(selected, f"FROM {x.written}{g.where(x, share=0.3)}", key, x.relation.null_key)


def global_subquery(g: Grammar) -> Relation:
    """Rows compared with an uncorrelated scalar subquery."""
    x = g.leaf("x")
    table = g.table()
    s = Leaf("s", f"{table.text} AS s", table)
    if not (x.relation.of(INT) and s.relation.of(INT)):
        return scalar_subquery(g)
    sign = g.chance.choice(("<", ">=", "="))
    inner = f"SELECT MAX({g.column(s, INT)}) FROM {s.written}{g.where(s)}"
    return _kept(g, x, f"FROM {x.written} WHERE {g.column(x, INT)} {sign} ({inner})")


def _query(
    selected: Selected, rest: str, key: list[str], null_key: bool, *, head: str = "SELECT"
) -> Relation:
    return Relation(f"{head} {selected} {rest}", selected.columns, tuple(key), null_key)


FAMILIES: dict[str, tuple[Shape, ...]] = {
    "rows": (filter_project, window, cte_twice),
    "joins": (inner_join, three_way_join, self_join, join_groups),
    "outer": (left_join, right_join, full_join),
    "semi": (semi_join, anti_join, exists, in_subquery, not_in),
    "sets": (union_all, union_all_grouped, union, distinct),
    "groups": (group_by, having, extremes, count_distinct),
    "nested": (group_join, group_of_groups, top_n, global_aggregate),
    "subqueries": (scalar_subquery, global_subquery, top_n),
}
"""Shapes that are tested together: a case has a table of each, in any order, and they read each other."""
SHAPES: tuple[Shape, ...] = tuple(dict.fromkeys(s for family in FAMILIES.values() for s in family))
