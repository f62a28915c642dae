"""Random queries in Spark SQL: what they read, the columns they give, and a key of their rows.

Nothing here knows how a table is refreshed. Every query gives exact values (doubles are sums of a few powers
of two) and has a set of columns that is unique, NULL counting as a value, so that a table can be declared
over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

INT, DEC, TEXT, LABEL, AVERAGE = "int", "dec", "text", "label", "average"
DOUBLE, BOOL, DATE, TIMESTAMP, TIMESTAMP_NTZ = "double", "bool", "date", "timestamp", "timestamp_ntz"
"""Kinds of columns. A LABEL is a text that names an hour. An AVERAGE has another type in another engine: it
is compared with batch only, and nothing is computed from it."""

NUMBERS = (INT, DEC, DOUBLE)
PLAIN = (*NUMBERS, TEXT, LABEL, BOOL, DATE, TIMESTAMP, TIMESTAMP_NTZ)
"""Kinds whose values a query may use."""

JOINED = (INT, INT, INT, INT, *PLAIN)
"""Kinds of columns that are compared with each other, the more useful more often."""

LABELS = ("2026112010", "2026112011", "2026112012")
VALUES: dict[str, tuple[str, ...]] = {
    INT: ("0", "1", "2"),
    DEC: ("0.00", "1.50", "-2.25"),
    TEXT: ("'a'", "'b'", "''"),
    LABEL: tuple(f"'{label}'" for label in LABELS),
    DOUBLE: ("0.0D", "0.5D", "-0.25D", "1e10D"),
    BOOL: ("TRUE", "FALSE"),
    DATE: ("DATE '2026-11-20'", "DATE '2026-11-21'", "DATE '1969-12-31'"),
    TIMESTAMP: tuple(
        f"TIMESTAMP '{t}'"
        for t in ("2026-11-20 10:00:00", "2026-11-20 23:59:59.999999", "1969-12-31 23:00:00")
    ),
    TIMESTAMP_NTZ: ("TIMESTAMP_NTZ '2026-11-20 10:00:00'", "TIMESTAMP_NTZ '1969-12-31 23:59:59.5'"),
}


@dataclass(frozen=True)
class Relation:
    """Something with rows: a table, or the result of a query.

    Args:
        text: a table's name, or the text of a query.
        columns: kind of each column by name, in order.
        key: columns that are unique together; NULL is a value like any other.
        null_key: whether all of `key` may be NULL at once.
    """

    text: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    null_key: bool = False

    def of(self, *kinds: str) -> list[str]:
        """Names of the columns of these kinds."""
        return [n for n, k in self.columns.items() if k in kinds]

    @property
    def plain(self) -> list[str]:
        """Columns whose values a query may use."""
        return self.of(*PLAIN)


@dataclass(frozen=True)
class Leaf:
    """A relation in a FROM clause under an alias."""

    alias: str
    written: str
    relation: Relation

    def column(self, name: str) -> str:
        return f"{self.alias}.{name}"


@dataclass
class Selected:
    """A SELECT list that is being written: what it computes, under which names and of which kinds."""

    items: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)

    def add(self, expression: str, kind: str, name: str | None = None) -> str:
        """Add a column under a name that is still free, and return the name."""
        name = name or f"c{len(self.columns)}"
        while name in self.columns:
            name += "_"
        self.items.append(f"{expression} AS {name}")
        self.columns[name] = kind
        return name

    def __str__(self) -> str:
        return ", ".join(self.items)


class Grammar:
    """Makes the parts of a query at random.

    Args:
        tables: what queries may read; the later ones are read more often, so that tables form chains.
    """

    def __init__(self, chance: Random, tables: Sequence[Relation]) -> None:
        self.chance = chance
        self.tables = list(tables)
        self.ctes: list[str] = []

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    # relations

    def table(self, *, non_null: bool = False) -> Relation:
        found = [t for t in self.tables if not (non_null and t.null_key)]
        return self.chance.choices(found, range(2, len(found) + 2))[0]

    def leaf(self, alias: str, relation: Relation | None = None, *, non_null: bool = False) -> Leaf:
        """A table, or now and then a subquery or common table expression over one."""
        relation = relation or self.table(non_null=non_null)
        if self.maybe(0.75):
            return Leaf(alias, f"{relation.text} AS {alias}", relation)
        inner = self.chance.choice((self.filtered, self.filtered, self.latest))(relation)
        return self.nested(alias, inner)

    def nested(self, alias: str, inner: Relation) -> Leaf:
        """A query as a derived table or as a common table expression."""
        if self.maybe(0.5):
            name = f"w{len(self.ctes)}_{alias}"
            self.ctes.append(f"{name} AS ({inner.text})")
            return Leaf(alias, f"{name} AS {alias}", inner)
        return Leaf(alias, f"({inner.text}) AS {alias}", inner)

    def finish(self, query: Relation) -> Relation:
        """The query with its common table expressions in front."""
        ctes, self.ctes = self.ctes, []
        return replace(query, text=f"WITH {', '.join(ctes)} {query.text}") if ctes else query

    def filtered(self, relation: Relation) -> Relation:
        source = Leaf("f", f"{relation.text} AS f", relation)
        return replace(relation, text=f"SELECT * FROM {source.written} WHERE {self.predicate(source)}")

    def latest(self, relation: Relation) -> Relation:
        """The first row of each group by a total order."""
        by = self.chance.choice(relation.plain)
        order = self.order(Leaf("g", "", relation))
        listed = ", ".join(relation.columns)
        ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY g.{by} ORDER BY {order}) AS rn"
        text = f"SELECT {listed} FROM ({ranked} FROM {relation.text} AS g) AS r WHERE rn = 1"
        return replace(relation, text=text)

    # expressions

    def column(self, leaf: Leaf, *kinds: str) -> str | None:
        names = leaf.relation.of(*kinds) if kinds else leaf.relation.plain
        return leaf.column(self.chance.choice(names)) if names else None

    def literal(self, kind: str) -> str:
        return self.chance.choice(VALUES[kind])

    def predicate(self, leaf: Leaf) -> str:
        name = self.chance.choice(leaf.relation.plain)
        column, kind = leaf.column(name), leaf.relation.columns[name]
        value, other = self.literal(kind), self.literal(kind)
        return self.chance.choice(
            (
                f"{column} <> {value}",
                f"{column} >= {value}",
                f"{column} IS NOT NULL",
                f"({column} IS NULL OR {column} = {value})",
                f"COALESCE({column}, {other}) = {value}",
                f"{column} IN ({value}, {other})",
                f"NOT ({column} = {value})",
                f"{column} <=> {value}",
            )
        )

    def value(self, leaf: Leaf) -> tuple[str, str]:
        """An expression over one row and its kind."""
        name = self.chance.choice(leaf.relation.plain)
        column, kind = leaf.column(name), leaf.relation.columns[name]
        same = TEXT if kind == LABEL else kind
        forms = [
            (f"COALESCE({column}, {self.literal(kind)})", same),
            (f"CASE WHEN {self.predicate(leaf)} THEN {column} ELSE {self.literal(kind)} END", same),
            (f"NULLIF({column}, {self.literal(kind)})", same),
            (f"({self.predicate(leaf)})", BOOL),
        ]
        if kind in NUMBERS:
            forms.append((f"{column} + {self.literal(kind)}", kind))
        if kind == INT:
            forms.append((f"{column} * 2 - {self.column(leaf, INT)}", kind))
        if kind == TEXT:
            forms += [(f"{column} || 'x'", kind), (f"UPPER({column})", kind)]
        if kind == BOOL:
            forms += [(f"NOT {column}", kind), (f"({column} OR {self.predicate(leaf)})", kind)]
        if kind == DATE:  # cast because a date and an interval make a timestamp in DuckDB
            forms += [(f"CAST(DATE_ADD({column}, 1) AS DATE)", kind), (f"YEAR({column})", INT)]
        if kind in (TIMESTAMP, TIMESTAMP_NTZ):
            forms += [(f"CAST({column} AS DATE)", DATE), (f"{column} + INTERVAL '1' HOUR", kind)]
        return self.chance.choice(forms)

    def order(self, leaf: Leaf) -> str:
        """A total order of the leaf's rows."""
        key = [leaf.column(c) for c in leaf.relation.key]
        others = [leaf.column(c) for c in leaf.relation.plain if c not in leaf.relation.key]
        first = self.chance.sample(others, min(len(others), self.chance.choice((0, 1, 1, 2))))
        return ", ".join(c + self.chance.choice(("", "", " DESC", " ASC NULLS LAST")) for c in (*first, *key))

    def shared(self, left: Leaf, right: Leaf) -> list[str]:
        """Kinds of which both leaves have columns, some of them several times."""
        return [k for k in JOINED if left.relation.of(k) and right.relation.of(k)]

    def equalities(self, left: Leaf, right: Leaf) -> list[str]:
        """Equalities of columns of the same kind, most often one."""
        kinds = self.shared(left, right)
        found = []
        for _ in range(self.chance.choice((1, 1, 1, 2)) if kinds else 0):
            kind = self.chance.choice(kinds)
            sides = [self.column(left, kind), self.column(right, kind)]
            self.chance.shuffle(sides)
            found.append(f"{sides[0]} {'<=>' if self.maybe(0.2) else '='} {sides[1]}")
        return list(dict.fromkeys(found))

    def join_condition(self, left: Leaf, right: Leaf) -> str:
        terms = self.equalities(left, right)
        if not terms or self.maybe(0.2):
            terms.append(self.predicate(self.chance.choice((left, right))))
        if self.maybe(0.1) and left.relation.of(INT) and right.relation.of(INT):
            terms.append(f"{self.column(left, INT)} <= {self.column(right, INT)}")
        return " AND ".join(terms)

    def aggregate(self, leaf: Leaf) -> tuple[str, str]:
        """An aggregate over the leaf's rows and its kind."""
        name = self.chance.choice(leaf.relation.plain)
        column, kind = leaf.column(name), leaf.relation.columns[name]
        number, number_kind = column, kind
        if kind == DOUBLE:  # whose sum would depend on the order of the rows, which is refused
            number, number_kind = f"CAST({column} AS DECIMAL(20, 2))", DEC
        elif kind not in NUMBERS:
            number, number_kind = f"CASE WHEN {self.predicate(leaf)} THEN 1 END", INT
        forms = [
            ("COUNT(*)", INT),
            (f"COUNT({column})", INT),
            (f"COUNT(DISTINCT {column})", INT),
            (f"MIN({column})", kind),
            (f"MAX({column})", kind),
            (f"SUM({number})", number_kind),
            (f"SUM({number})", number_kind),
            (f"SUM(CASE WHEN {self.predicate(leaf)} THEN {number} ELSE {self.literal(number_kind)} END)",
             number_kind),
            (f"AVG({number})", AVERAGE),
        ]  # fmt: skip
        return self.chance.choice(forms)

    def where(self, *leaves: Leaf, share: float = 0.5) -> str:
        return f" WHERE {self.predicate(self.chance.choice(leaves))}" if self.maybe(share) else ""

    # SELECT lists

    def keep(self, selected: Selected, leaf: Leaf, names: Sequence[str], *, prefix: str = "") -> list[str]:
        """Copy columns of a leaf; returns their new names, in the same order."""
        return [
            selected.add(leaf.column(n), leaf.relation.columns[n], f"{prefix}{n}"[:24])
            for n in dict.fromkeys(names)
        ]

    def some(self, leaf: Leaf, *, most: int = 3) -> list[str]:
        """A few columns of a leaf; a label more often than not, so that tables stay partitioned."""
        names = leaf.relation.plain
        chosen = self.chance.sample(names, min(len(names), self.chance.randint(1, most)))
        labels = leaf.relation.of(LABEL)
        return [*chosen, *(labels[:1] if labels and self.maybe(0.7) else [])]
