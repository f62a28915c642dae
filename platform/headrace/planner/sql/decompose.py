"""Take an aggregating SELECT apart: what must be stored of each group so that a change can be added to it.

COUNT and SUM over a union of disjoint sets of rows are the sums of their values over each; all else in the
SELECT list is an expression over those values and the GROUP BY items. Where such a value is itself a column
of the table it is stored already; the others become hidden columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from headrace.planner.sql import functions
from headrace.planner.sql.clauses import Unsupported, shown
from headrace.planner.sql.facts import Level, Refusal, Union, shortened
from headrace.planner.sql.names import Names
from headrace.planner.sql.selectlist import (
    Call,
    Item,
    Piece,
    calls,
    columns,
    items,
    parsed,
    replaced,
    written,
)
from headrace.planner.sql.state import State, Sum
from headrace.spec.model import CorrectionPolicy, TableSpec

_ALL_ROWS = ("count", "*", "")
_REFUSED_CLAUSES = {
    "having": "HAVING drops groups whose state is needed later",
    "qualify": "QUALIFY reads other rows",
    "distinct": "DISTINCT makes one row of several",
    "hint": "its SELECT has a hint",
}

Key = tuple[str, str, str]
"""An additive aggregate: function, argument and condition, in canonical form."""


@dataclass
class _Value:
    """A GROUP BY item or an aggregate: its text, and the stored column that holds it, once known."""

    text: str
    column: str = ""


@dataclass
class _Reading:
    names: Names
    groups: dict[str, _Value] = field(default_factory=dict)
    aggregates: dict[Key, _Value] = field(default_factory=dict)
    sums: dict[Key, Key] = field(default_factory=dict)  # to the count of its values that are not NULL
    sources: list[Piece] = field(default_factory=list)  # GROUP BY items as written

    def canonical(self, node: exp.Expr) -> str:
        """Equal for two expressions of this SELECT only where they are equal row by row."""
        while isinstance(node, exp.Paren):
            node = node.this
        return written(node.copy().transform(self._resolved))

    def _resolved(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        origin = self.names.resolve(node)
        if origin is not None:
            return exp.column(origin.column.lower(), table=f"_{origin.source}", quoted=True)
        if node.name.lower() in self.names.generated:
            return exp.column(node.name.lower(), quoted=True)
        raise Unsupported(f"{shown(node)} is no column of the tables it reads")


def decompose(spec: TableSpec, root: Level | Union, output: tuple[str, ...]) -> State | Refusal:
    """What is stored of each group, and how each column of the table follows from it.

    Args:
        output: the table's column names, in the order of the SELECT list.
    """
    try:
        return _decompose(spec, root, output)
    except Unsupported as obstacle:
        return Refusal(str(obstacle))


def _decompose(spec: TableSpec, root: Level | Union, output: tuple[str, ...]) -> State:
    select = spec.query_ast
    _check(spec, select, root)
    assert isinstance(select, exp.Select) and isinstance(root, Level)
    listed = items(spec)
    if nested := [n for item in listed for n in item.node.walk() if isinstance(n, exp.Query)]:
        raise Unsupported(f"{shown(nested[0])} stands beside its aggregates")
    if len(listed) != len(output) or len({o.lower() for o in output}) < len(output):
        raise Unsupported("its columns and its SELECT list cannot be paired")
    if odd := [o for o in output if "`" in o]:
        raise Unsupported(f"its column {odd[0]} has a backtick in its name")
    reading = _Reading(_names(select, root))
    _read_groups(reading, select, listed)
    for item in listed:
        _read_aggregates(reading, item)
    if select.args.get("group") is not None:
        reading.aggregates.setdefault(_ALL_ROWS, _Value("COUNT(*)"))
    direct = _place(reading, listed, output)
    hidden = _hide(reading, select)
    named = list(zip(output, listed, strict=True))
    return State(
        groups=tuple(g.column for g in reading.groups.values()),
        grouped=select.args.get("group") is not None,
        rows=reading.aggregates[_ALL_ROWS].column if _ALL_ROWS in reading.aggregates else None,
        counts=tuple(a.column for key, a in reading.aggregates.items() if key[0] != "sum"),
        sums=tuple(
            Sum(
                reading.aggregates[key].column, reading.aggregates[count].column, reading.aggregates[key].text
            )
            for key, count in reading.sums.items()
        ),
        hidden=hidden,
        outputs=tuple((n, f"`{n}`" if n in direct else _computed(reading, i)) for n, i in named),
        aggregating=tuple(n for n, i in named if _has_aggregate(i.node)),
        at=listed[-1].end,
    )


def _check(spec: TableSpec, select: exp.Expr, root: Level | Union) -> None:
    if not isinstance(select, exp.Select) or not isinstance(root, Level):
        raise Unsupported("the query is not a plain SELECT")
    if root.grouping is None:
        raise Unsupported("the query does not aggregate at its top")
    for part, reason in _REFUSED_CLAUSES.items():
        if select.args.get(part):
            raise Unsupported(reason)
    if root.windows:
        raise Unsupported(f"the window function {shortened(root.windows[0].text)} reads other rows")
    if spec.correction_policy is CorrectionPolicy.SKIP:
        raise Unsupported("'correction.policy' = 'skip' leaves changes out that would have to be added")
    removing = [c.name for c in spec.constraints if c.on_violation.removes_rows]
    if removing:
        raise Unsupported(f"constraint `{removing[0]}` drops rows whose state is needed later")


def _names(select: exp.Select, root: Level) -> Names:
    """The names of the FROM clause. Columns of USING stand for themselves, as those of LATERAL VIEW do."""
    names = Names(list(root.sources))
    for join in select.args.get("joins") or ():
        names.generated |= {c.name.lower() for c in join.args.get("using") or ()}
    for lateral in select.args.get("laterals") or ():
        names.generated |= {c.name.lower() for c in lateral.args["alias"].columns}
    return names


def _read_groups(reading: _Reading, select: exp.Select, listed: tuple[Item, ...]) -> None:
    group = select.args.get("group")
    if group is None:
        return
    found = [_grouped(key, select, listed, reading) for key in group.expressions]
    if group.args.get("all"):
        found += [item for item in listed if not _has_aggregate(item.node)]
    if not found:
        raise Unsupported("its GROUP BY names nothing")
    for item in found:
        if isinstance(item.node, exp.Literal):
            raise Unsupported(f"GROUP BY {shown(item.node)} is a constant")
        reading.groups.setdefault(reading.canonical(item.node), _Value(item.value.text))
        reading.sources.append(item.value)


def _grouped(key: exp.Expr, select: exp.Select, listed: tuple[Item, ...], reading: _Reading) -> Item:
    """The item of the SELECT list that a GROUP BY item names, by position or alias or by being the same."""
    if isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
        position = int(key.name) - 1
        if not 0 <= position < len(listed):
            raise Unsupported(f"GROUP BY {key.name} is no column of the SELECT list")
        return listed[position]
    if isinstance(key, exp.Column) and not key.table and not reading.names.knows(key.name):
        aliases = [p.alias.lower() for p in select.expressions]
        if aliases.count(key.name.lower()) == 1:
            return listed[aliases.index(key.name.lower())]
    same = reading.canonical(key)
    for item in listed:
        if not _has_aggregate(item.node) and _is(reading, item.node, same):
            return item
    raise Unsupported(f"GROUP BY {shown(key)} is no column of the SELECT list")


def _is(reading: _Reading, node: exp.Expr, canonical: str) -> bool:
    try:
        return reading.canonical(node) == canonical
    except Unsupported:  # it names an alias of the same SELECT list
        return False


def _has_aggregate(node: exp.Expr) -> bool:
    return any(map(functions.is_aggregate, node.walk()))


def _read_aggregates(reading: _Reading, item: Item) -> None:
    aggregates = [n for n in item.node.walk() if functions.is_aggregate(n)]
    found = list(calls(item.value))
    if len(found) != len(aggregates):
        odd = [n for n in aggregates if not isinstance(n, exp.Sum | exp.Count | exp.CountIf)]
        raise Unsupported(f"{shown((odd or aggregates)[0])} cannot be kept by adding changes")
    for call in found:
        key = _key(reading, parsed(call.whole.text))
        reading.aggregates.setdefault(key, _Value(call.whole.text))
        if key[0] == "sum" and key not in reading.sums:
            text = _count_text(call)
            reading.sums[key] = _key(reading, parsed(text))
            reading.aggregates.setdefault(reading.sums[key], _Value(text))


def _count_text(call: Call) -> str:
    condition = f" {call.filter.text}" if call.filter is not None else ""
    return f"COUNT({call.argument.text}){condition}"


def _key(reading: _Reading, node: exp.Expr) -> Key:
    condition = ""
    if isinstance(node, exp.Filter):
        condition, node = reading.canonical(node.expression.this), node.this
    value = node.this
    if isinstance(value, exp.Distinct):
        raise Unsupported(f"{shown(node)} needs the values that the group has")
    more = [v for k, v in node.args.items() if v and k not in ("this", "big_int")]
    if more or value is None or (isinstance(value, exp.Column) and isinstance(value.this, exp.Star)):
        raise Unsupported(f"{shown(node)} cannot be kept by adding changes")
    if isinstance(node, exp.Sum):
        return "sum", reading.canonical(value), condition
    if isinstance(node, exp.CountIf):
        return "count_if", reading.canonical(value), condition
    if not isinstance(node, exp.Count):
        raise Unsupported(f"{shown(node)} cannot be kept by adding changes")
    every = isinstance(value, exp.Star | exp.Literal)
    return "count", "*" if every else reading.canonical(value), condition


def _place(reading: _Reading, listed: tuple[Item, ...], output: tuple[str, ...]) -> set[str]:
    """Give each value its visible column where one is just that. Returns the columns that are."""
    direct = set[str]()
    for name, item in zip(output, listed, strict=True):
        value = _value(reading, item.node)
        if value is not None and not value.column:
            value.column = name
            direct.add(name)
    return direct


def _value(reading: _Reading, node: exp.Expr) -> _Value | None:
    """The value that a node is, as a whole."""
    bare = node.this if isinstance(node, exp.Filter) else node
    if isinstance(bare, exp.Sum | exp.Count | exp.CountIf):
        return reading.aggregates.get(_key(reading, node))
    return None if _has_aggregate(node) else reading.groups.get(reading.canonical(node))


def _hide(reading: _Reading, select: exp.Select) -> tuple[tuple[str, str], ...]:
    """Hidden columns for the values that no visible column holds."""
    used = {i.name.lower() for i in select.find_all(exp.Identifier)}
    hidden = []
    for number, (key, value) in enumerate(reading.aggregates.items(), start=1):
        if not value.column:
            value.column = "_rows" if key == _ALL_ROWS else f"_{key[0]}_{number}"
            hidden.append((value.column, value.text))
    taken = [name for name, _ in hidden if name in used]
    if taken:
        raise Unsupported(f"the query uses the name `{taken[0]}`, which a hidden column would need")
    return tuple(hidden)


def _computed(reading: _Reading, item: Item) -> str:
    """The item over stored columns. Its text is edited by tokens and compared with the edited tree."""
    edits = [
        (c.first, c.last, f"`{reading.aggregates[_key(reading, parsed(c.whole.text))].column}`")
        for c in calls(item.value)
    ]
    words = item.value.words
    for source in sorted(reading.sources, key=lambda s: -len(s.tokens)):  # one name alone: see below
        length = len(source.tokens)
        name = f"`{reading.groups[reading.canonical(parsed(source.text))].column}`"
        edits += [
            (i, i + length, name)
            for i in range(len(words) - length + 1)
            if length > 1 and words[i : i + length] == source.words
        ]
    for first, last in columns(item.value):
        node = parsed(item.value.part(first, last).text)
        if isinstance(node, exp.Column) and reading.names.resolve(node) is not None:
            group = reading.groups.get(reading.canonical(node))
            edits += [(first, last, f"`{group.column}`")] if group is not None else []
    text = replaced(item.value, edits)
    tree = item.node.copy().transform(lambda node: _swapped(reading, node))
    stored = {v.column for v in (*reading.groups.values(), *reading.aggregates.values())}
    strange = [c for c in tree.find_all(exp.Column) if c.table or c.name not in stored]
    if strange or written(parsed(text)) != written(tree):
        raise Unsupported(f"{shown(item.node)} cannot be computed from what is stored of a group")
    return text


def _swapped(reading: _Reading, node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Paren | exp.Identifier):
        return node
    value = _value(reading, node) if not isinstance(node, exp.Star) else None
    return node if value is None else exp.column(value.column, quoted=True)
