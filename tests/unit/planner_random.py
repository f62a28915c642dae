"""Random queries over three small tables full of NULLs and equal values, and random changes of them."""

from __future__ import annotations

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


def random_query(chance: Random) -> Query:
    if chance.random() < 0.1:  # the shape of most dwd tables, too rare otherwise
        table, column = chance.choice(list(COLUMNS)), chance.choice(NAMES)
        text = f"SELECT m + k AS n, p, id AS x_id FROM {table} WHERE {column} <> 1"
        return Query(text, ("n", "p", "x_id"), (chance.choice(("x_id", "x_id", "p")),), "p")
    ctes: list[str] = []
    inner, columns = _select(chance, ctes)
    for depth in range(chance.choice((0, 0, 1, 2))):
        inner, columns = _around(chance, inner, columns, depth)
    text = (f"WITH {', '.join(ctes)} " if ctes else "") + inner
    key = tuple(chance.sample(columns, min(len(columns), chance.choice((1, 1, 2)))))
    if chance.random() < 0.5:
        key = next(((c,) for c in ("x_id", "id") if c in columns), key)
    partition = chance.choice((None, *columns, *(c for c in columns if c.endswith("p"))))
    return Query(text, tuple(columns), key, partition)


def _leaf(chance: Random, alias: str, ctes: list[str]) -> tuple[str, tuple[str, ...]]:
    """A table, or a subquery or CTE over one, with the columns that it has."""
    table = chance.choice(list(COLUMNS))
    shape = chance.choice(("table",) * 6 + ("filter", "group", "latest", "distinct", "computed"))
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
    }[shape]
    if shape == "table":
        return f"{table} AS {alias}", columns
    if chance.random() < 0.5:
        ctes.append(f"with_{alias} AS ({query})")
        return f"with_{alias} AS {alias}", columns
    return f"({query}) AS {alias}", columns


def _select(chance: Random, ctes: list[str]) -> tuple[str, list[str]]:
    aliases = ["x", "y", "z"][: chance.choice((1, 1, 2, 2, 3, 3, 3))]
    first, known = _leaf(chance, "x", ctes)
    scope = {"x": known}
    text = f"FROM {first}"
    for alias in aliases[1:]:
        relation, columns = _leaf(chance, alias, ctes)
        kind = chance.choice(("JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "LEFT JOIN", "CROSS JOIN"))
        shared = [c for c in ("k", "m", "p") if c in columns and c in scope["x"]]
        using = kind != "CROSS JOIN" and len(scope) == 1 and shared and chance.random() < 0.15
        scope[alias] = columns
        text += f" {kind} {relation}"
        if using:
            text += f" USING ({chance.choice(shared)})"
        elif kind != "CROSS JOIN":
            text += f" ON {_condition(chance, scope, alias)}"
    filters = [
        _condition(chance, scope, chance.choice(list(scope)))
        for _ in range(chance.choice((0, 0, 1)) if len(scope) > 1 else 0)
    ]
    filters += [f"{_column(chance, scope)} <> 2"] if chance.random() < 0.3 else []
    text += f" WHERE {' AND '.join(filters)}" if filters else ""
    return _project(chance, text, lambda: _column(chance, scope), scope, "")


def _column(chance: Random, scope: dict[str, tuple[str, ...]], alias: str | None = None) -> str:
    alias = alias or chance.choice(list(scope))
    return f"{alias}.{chance.choice(scope[alias])}"


def _condition(chance: Random, scope: dict[str, tuple[str, ...]], alias: str) -> str:
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
    chance: Random, rest: str, pick: Callable[[], str], scope: dict[str, tuple[str, ...]] | None, tag: str
) -> tuple[str, list[str]]:
    """A SELECT list over `rest`: plain, DISTINCT, grouped, or with a window."""
    plain = list(dict.fromkeys(pick() for _ in range(chance.choice((2, 3, 4)))))
    if scope and chance.random() < 0.5 and "id" in scope["x"]:
        plain = list(dict.fromkeys(["x.id", *plain]))
    names = [f"{c.replace('.', '_')}" for c in plain]
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
