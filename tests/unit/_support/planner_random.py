"""Random queries over three small tables full of NULLs and equal values, and random changes of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

COLUMNS = dict.fromkeys(("dwd.a", "dwd.b", "stg.c"), ("id", "k", "m", "p"))
NAMES = COLUMNS["dwd.a"]
Row = tuple[int | None, ...]


@dataclass(frozen=True)
class Query:
    text: str
    output: tuple[str, ...]
    key: tuple[str, ...]
    partition: str | None


@dataclass(frozen=True)
class Change:
    old: dict[str, list[Row]]
    new: dict[str, list[Row]]

    def gone(self, table: str) -> list[Row]:
        return [r for r in self.old[table] if r not in self.new[table]]

    def come(self, table: str) -> list[Row]:
        return [r for r in self.new[table] if r not in self.old[table]]

    def images(self, table: str) -> list[Row]:
        return self.gone(table) + self.come(table)

    def either(self, table: str) -> list[Row]:
        return self.old[table] + self.come(table)


def random_change(chance: Random) -> Change:
    """Inserts, updates and deletes; mostly of one table, sometimes of all at once."""

    def row(key: int) -> Row:
        return key, *(chance.choice((None, 0, 0, 1, 1, 2)) for _ in NAMES[1:])

    old = {t: [row(i) for i in range(6) if chance.random() < 0.7] for t in COLUMNS}
    new = {t: list(rows) for t, rows in old.items()}
    for table in chance.sample(list(COLUMNS), chance.choice((1, 1, 2, 3))):
        for _ in range(chance.choice((1, 1, 2, 3))):
            key = chance.randrange(6)
            kept = [r for r in new[table] if r[0] != key]
            new[table] = kept if chance.random() < 0.3 else [*kept, row(key)]
    return Change(old, new)


Scope = dict[str, tuple[str, ...]]
Ctes = dict[str, tuple[str, tuple[str, ...]]]


def random_query(chance: Random) -> Query:
    if chance.random() < 0.1:  # the shape of most dwd tables, too rare otherwise
        table, column = chance.choice(list(COLUMNS)), chance.choice(NAMES)
        text = f"SELECT m + k AS n, p, id AS x_id FROM {table} WHERE {column} <> 1"
        return Query(text, ("n", "p", "x_id"), (chance.choice(("x_id", "x_id", "p")),), "p")
    ctes: Ctes = {}
    inner, columns = _select(chance, ctes)
    if chance.random() < 0.15:
        inner, columns = _union(chance, inner, columns, ctes)
    for depth in range(chance.choice((0, 0, 1, 2))):
        inner, columns = _around(chance, inner, columns, depth)
    text = _with(ctes) + inner
    key = tuple(chance.sample(columns, min(len(columns), chance.choice((1, 1, 2)))))
    if chance.random() < 0.5:
        key = next(((c,) for c in ("x_id", "id") if c in columns), key)
    partition = chance.choice((None, *columns, *(c for c in columns if c.endswith("p"))))
    return Query(text, tuple(columns), key, partition)


def random_count(chance: Random) -> Query:
    """COUNT and SUM by some columns of a random FROM clause; the key is the GROUP BY."""
    ctes: Ctes = {}
    rest, pick, _ = _from(chance, ctes)
    by = list(dict.fromkeys(pick() for _ in range(chance.choice((1, 1, 2)))))
    names = [_name(c) for c in by]
    listed = [f"{c} AS {n}" for c, n in zip(by, names, strict=True)]
    listed += ["COUNT(*) AS n", f"COUNT({pick()}) AS known", f"SUM({pick()}) AS total"]
    text = f"{_with(ctes)}SELECT {', '.join(listed)} {rest} GROUP BY {', '.join(by)}"
    return Query(text, (*names, "n", "known", "total"), tuple(names), None)


def _with(ctes: Ctes) -> str:
    return f"WITH {', '.join(f'{n} AS ({q})' for n, (q, _) in ctes.items())} " if ctes else ""


def _name(expression: str) -> str:
    return re.sub(r"\W+", "_", expression).strip("_").lower()


def _leaf(chance: Random, alias: str, ctes: Ctes) -> tuple[str, tuple[str, ...]]:
    """A table, or a subquery or CTE over one or two, with the columns that it has."""
    if ctes and chance.random() < 0.25:  # read once more
        name = chance.choice(list(ctes))
        return f"{name} AS {alias}", ctes[name][1]
    table, other = chance.choice(list(COLUMNS)), chance.choice(list(COLUMNS))
    shape = chance.choice(
        ("table",) * 9 + ("filter", "group", "latest", "distinct", "computed", "union", "joined", "tested")
    )
    query, columns = {
        "table": ("", NAMES),
        "filter": (f"SELECT * FROM {table} WHERE m >= 1", NAMES),
        "group": (
            f"SELECT k, p, COUNT(*) AS m, MAX(id) AS id FROM {table} GROUP BY k, p",
            ("k", "p", "m", "id"),
        ),
        "latest": (
            "SELECT id, k, m, p FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY m, id) AS n "
            f"FROM {table}) AS ranked WHERE n = 1",
            NAMES,
        ),
        "distinct": (f"SELECT DISTINCT k, m, p FROM {table}", ("k", "m", "p")),
        "computed": (f"SELECT id, k + 0 AS k, p AS m, m AS p FROM {table}", NAMES),
        "union": (
            f"SELECT id, k, m, p FROM {table} {chance.choice(('UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT'))} "
            f"SELECT id, k, {chance.choice(('m', 'm', 'p', '1'))}, p FROM {other}",
            NAMES,
        ),
        "joined": (
            f"SELECT a.id, a.k, b.m, b.p FROM {table} AS a {chance.choice(('LEFT', 'INNER'))} JOIN {other} "
            f"AS b ON a.k = b.{chance.choice(NAMES)}",
            NAMES,
        ),
        "tested": (
            f"SELECT id, k, m, p FROM {table} AS a WHERE {chance.choice(('', 'NOT '))}EXISTS "
            f"(SELECT 1 FROM {other} AS b WHERE b.{chance.choice(NAMES)} = a.{chance.choice(NAMES)})",
            NAMES,
        ),
    }[shape]
    if shape == "table":
        return f"{table} AS {alias}", columns
    if chance.random() < 0.5:
        name = f"with_{alias}_{len(ctes)}"
        ctes[name] = query, columns
        return f"{name} AS {alias}", columns
    return f"({query}) AS {alias}", columns


_JOINS = ("JOIN",) * 6 + ("LEFT JOIN",) * 6 + ("CROSS JOIN",) * 2 + ("RIGHT JOIN",) * 2
_JOINS += ("FULL JOIN",) * 3 + ("LEFT SEMI JOIN", "LEFT ANTI JOIN")


def _from(chance: Random, ctes: Ctes) -> tuple[str, Callable[[], str], Scope]:
    """A FROM clause with joins and WHERE, a choice of its columns, and what each alias has."""
    aliases = ["x", "y", "z"][: chance.choice((1, 1, 2, 2, 3, 3, 3))]
    first, known = _leaf(chance, "x", ctes)
    scope: Scope = {"x": known}
    merged: list[str] = []
    text = f"FROM {first}"
    for alias in aliases[1:]:
        relation, columns = _leaf(chance, alias, ctes)
        kind = chance.choice(_JOINS)
        shared = [c for c in ("k", "m", "p") if c in columns and c in scope["x"]]
        using = kind in ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN") and len(scope) == 1 and shared
        full = kind == "FULL JOIN" and shared and "y" not in scope and chance.random() < 0.8
        inner = {**scope, alias: columns}
        text += f" {kind} {relation}"
        if using and chance.random() < (0.4 if full else 0.15):
            column = chance.choice(shared)
            text += f" USING ({column})"
            if kind in ("FULL JOIN", "RIGHT JOIN"):
                merged += [column] * 4
        elif full:
            column = chance.choice(shared)
            text += f" ON x.{column} = {alias}.{column}"
            merged += [f"COALESCE({alias}.{column}, x.{column})"] * 4
        elif kind != "CROSS JOIN":
            text += f" ON {_condition(chance, inner, alias)}"
        if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
            scope = inner
    filters = [
        _condition(chance, scope, chance.choice(list(scope)))
        for _ in range(chance.choice((0, 0, 1)) if len(scope) > 1 else 0)
    ]
    filters += [f"{_column(chance, scope)} <> 2"] if chance.random() < 0.3 else []
    filters += [_test(chance, scope, ctes)] if chance.random() < 0.3 else []
    text += f" WHERE {' AND '.join(filters)}" if filters else ""

    def pick() -> str:
        return chance.choice(merged) if merged and chance.random() < 0.5 else _column(chance, scope)

    return text, pick, scope


def _test(chance: Random, scope: Scope, ctes: Ctes) -> str:
    """A condition with a subquery."""
    inner, columns = _leaf(chance, "q", ctes)
    outer, mine = _column(chance, scope), f"q.{chance.choice(columns)}"
    correlated = f" WHERE {mine} = {outer}" if chance.random() < 0.8 else ""
    if correlated and chance.random() < 0.3:
        correlated += f" AND q.{chance.choice(columns)} <> {_column(chance, scope)}"
    compared, value = _column(chance, scope), f"q.{chance.choice(columns)}"
    among = f"SELECT {value} FROM {inner}" + (correlated if chance.random() < 0.2 else "")
    if chance.random() < 0.2:
        among = f"SELECT {value} FROM {inner} GROUP BY {value} HAVING COUNT(*) >= 1"
    return chance.choice(
        (
            f"EXISTS (SELECT 1 FROM {inner}{correlated})",
            f"NOT EXISTS (SELECT 1 FROM {inner}{correlated})",
            f"{compared} IN ({among})",
            f"{compared} NOT IN ({among})",
            f"({compared} NOT IN ({among}) OR {outer} = 1)",
            f"{compared} >= (SELECT MAX({value}) FROM {inner}{correlated})",
            f"(SELECT COUNT(*) FROM {inner}{correlated}) <= 1",
        )
    )


def _select(chance: Random, ctes: Ctes) -> tuple[str, list[str]]:
    rest, pick, scope = _from(chance, ctes)
    return _project(chance, rest, pick, scope, "")


def _union(chance: Random, first: str, columns: list[str], ctes: Ctes) -> tuple[str, list[str]]:
    """Another SELECT beside it, with as many columns."""
    rest, pick, scope = _from(chance, ctes)
    same = [c.replace("_", ".", 1) for c in columns]
    known = [
        c if c.split(".")[0] in scope and c.split(".")[-1] in scope[c.split(".")[0]] else "" for c in same
    ]
    listed = ", ".join(c if c and chance.random() < 0.8 else pick() for c in known)
    kind = chance.choice(("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"))
    return f"{first} {kind} SELECT {listed} {rest}", columns


def _column(chance: Random, scope: Scope, alias: str | None = None) -> str:
    alias = alias or chance.choice(list(scope))
    return f"{alias}.{chance.choice(scope[alias])}"


def _condition(chance: Random, scope: Scope, alias: str) -> str:
    others = [a for a in scope if a != alias]
    others = others if chance.random() < 0.3 else [chance.choice(others)] * chance.choice((1, 1, 2))
    parts = []
    for other in others:
        shared = [c for c in scope[other] if c in scope[alias] and c != "id"]
        same = chance.choice(shared or ["k"])
        sides = [f"{other}.{same}", f"{alias}.{same}"] if shared and chance.random() < 0.7 else []
        sides = sides or [_column(chance, scope, other), _column(chance, scope, alias)]
        chance.shuffle(sides)
        parts.append(f" {chance.choice(('=',) * 7 + ('<=>', '<=>', '<=>', '<'))} ".join(sides))
    if chance.random() < 0.15:
        parts.append(f"{_column(chance, scope)} > 0")
    if chance.random() < 0.05:
        return "(" + " OR ".join(parts) + ")"
    return " AND ".join(parts)


def _project(
    chance: Random, rest: str, pick: Callable[[], str], scope: Scope | None, tag: str
) -> tuple[str, list[str]]:
    """A SELECT list over `rest`: plain, DISTINCT, grouped, or with a window."""
    plain = list(dict.fromkeys(pick() for _ in range(chance.choice((2, 3, 4)))))
    if scope and chance.random() < 0.5 and "id" in scope["x"]:
        plain = list(dict.fromkeys(["x.id", *plain]))
    names = [_name(c) for c in plain]
    listed = [f"{c} AS {n}" for c, n in zip(plain, names, strict=True)]
    shape = chance.choice(("plain", "plain", "distinct", "group", "group", "window", "window"))
    if shape == "distinct":
        return f"SELECT DISTINCT {', '.join(listed)} {rest}", names
    if shape == "plain":
        if scope and len(scope) == 1 and chance.random() < 0.3:
            return f"SELECT * {rest}", list(scope["x"])
        if chance.random() < 0.3:
            listed.append(f"COALESCE({pick()}, 7) + 1 AS made{tag}")
            names.append(f"made{tag}")
        return f"SELECT {', '.join(listed)} {rest}", names
    if shape == "group":
        values = [f"COUNT({pick()}) AS n{tag}", f"SUM({pick()}) AS total{tag}"]
        by = chance.choice(
            (", ".join(plain), ", ".join(str(i + 1) for i in range(len(plain))), "ALL", "names")
        )
        by = ", ".join(names) if by == "names" else by
        having = chance.choice(("", "", " HAVING COUNT(*) > 1"))
        window = chance.random() < 0.15
        if window:
            values.append(f"SUM(COUNT(*)) OVER (PARTITION BY {chance.choice(plain)}) AS share{tag}")
        if window and by == "ALL":
            by = ", ".join(plain)
        listed_names = [*names, *(v.rsplit(" ", 1)[1] for v in values)]
        return f"SELECT {', '.join([*listed, *values])} {rest} GROUP BY {by}{having}", listed_names
    parts = chance.sample(plain, min(len(plain), chance.choice((1, 1, 2))))
    function, order = chance.choice(
        (
            ("ROW_NUMBER()", f" ORDER BY {', '.join(plain)}"),
            ("RANK()", f" ORDER BY {plain[-1]}"),
            (f"SUM({plain[-1]})", ""),
        )
    )
    values = [f"{function} OVER (PARTITION BY {', '.join(parts)}{order}) AS w{tag}"]
    if chance.random() < 0.2:
        values.append(f"COUNT(*) OVER (PARTITION BY {chance.choice(plain)}) AS v{tag}")
    names = [*names, *(v.rsplit(" ", 1)[1] for v in values)]
    return f"SELECT {', '.join([*listed, *values])} {rest}", names


def _around(chance: Random, inner: str, columns: list[str], depth: int) -> tuple[str, list[str]]:
    where = f" WHERE {chance.choice(columns)} <= 1" if chance.random() < 0.4 else ""
    text, names = _project(
        chance, f"FROM ({inner}) AS s{depth}{where}", lambda: chance.choice(columns), None, str(depth)
    )
    return text, names
