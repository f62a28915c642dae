"""`( PRIMARY KEY (…), CONSTRAINT … )` after the table's name."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from headrace.errors import Location
from headrace.spec.model import NAME, Constraint, Violation
from headrace.spec.syntax.cursor import Cursor

MANY_ROWS: dict[type[exp.Expr], str] = {
    exp.Window: "a window",
    exp.AggFunc: "an aggregate",
    exp.Query: "a subquery",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a parameter",
}


@dataclass(frozen=True)
class Elements:
    primary_key: tuple[str, ...] = ()
    key_location: Location | None = None
    constraints: tuple[Constraint, ...] = ()


def read_elements(cursor: Cursor) -> Elements:
    if not cursor.accept("("):
        return Elements()
    key: tuple[str, ...] = ()
    key_location: Location | None = None
    constraints: list[Constraint] = []
    while True:
        location, start = cursor.location(), cursor.word
        name = _constraint_name(cursor, constraints) if cursor.accept("CONSTRAINT") else None
        if cursor.accept("PRIMARY", "KEY"):
            if key_location:
                raise cursor.error(
                    "PRIMARY KEY is declared twice", at=start, hint=f"the first is at {key_location}"
                )
            key, key_location = _primary_key(cursor), location
        elif name is not None:
            constraints.append(_expectation(cursor, name))
        elif cursor.word and cursor.word.text.isidentifier():
            hint = "the columns come from the query; here stand PRIMARY KEY and CONSTRAINT only"
            raise cursor.error("syntax error: a materialized table lists no columns", hint=hint)
        else:
            cursor.fail("`PRIMARY KEY` or `CONSTRAINT`")
        if cursor.accept(")"):
            return Elements(key, key_location, tuple(constraints))
        if not cursor.accept(","):
            cursor.fail("`,` or `)`")


def _primary_key(cursor: Cursor) -> tuple[str, ...]:
    words = cursor.names("a key column")
    seen: set[str] = set()
    for word in words:
        if word.value.lower() in seen:
            raise cursor.error(f"`{word.value}` stands twice in the primary key", at=word)
        seen.add(word.value.lower())
    if cursor.accept("NOT"):
        cursor.expect("ENFORCED")
    return tuple(w.value for w in words)


def _constraint_name(cursor: Cursor, known: list[Constraint]) -> str:
    word = cursor.name("a constraint's name")
    if not NAME.fullmatch(word.value):
        raise cursor.error(
            f"`{word.value}` is not a name headrace takes", at=word, hint=f"names match {NAME.pattern}"
        )
    if any(c.name == word.value for c in known):
        raise cursor.error(f"constraint `{word.value}` is declared twice", at=word)
    return word.value


def _expectation(cursor: Cursor, name: str) -> Constraint:
    if not cursor.accept("EXPECT"):
        cursor.fail(f"`EXPECT (…)` or `PRIMARY KEY (…)` after CONSTRAINT {name}")
    start, end = cursor.parenthesized()
    _check_expression(cursor, name, start, end)
    cursor.expect("ON", "VIOLATION")
    action = Violation(cursor.one_of(*Violation))
    return Constraint(name, cursor.source.text[start:end], action, cursor.source.location(start))


def _check_expression(cursor: Cursor, name: str, start: int, end: int) -> None:
    try:
        parsed = parse_expression(cursor.source.text[start:end])
    except ParseError as error:
        message = f"syntax error in constraint `{name}`: {error.errors[0]['description']}"
        raise cursor.source.error(message, start) from None
    for kind, what in MANY_ROWS.items():
        if not parsed.find(kind):
            continue
        raise cursor.source.error(
            f"constraint `{name}` uses {what}",
            start,
            "a constraint looks at one row; put rules over many in checks.yml",
        )


def parse_expression(text: str) -> exp.Expression:
    """A constraint's expression. Identifiers' positions are counted from the start of `text`."""
    prefix = "SELECT "
    (select,) = sqlglot.parse(f"{prefix}({text}\n)", dialect="spark")
    assert isinstance(select, exp.Select)
    if len(select.expressions) != 1 or len([a for a in select.args.values() if a]) != 1:
        raise ParseError("", [{"description": "not one expression"}])
    for node in select.find_all(exp.Identifier):
        node.meta["start"] -= len(prefix) + 1
    return select.expressions[0]
