"""Older versions in a SELECT: `FROM dws.t VERSION AS OF 12`, `… TIMESTAMP AS OF '2026-11-22 19:30:00'`."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from headrace.engine.table.table import Table
from headrace.errors import TerminalError
from headrace.moment import moment
from headrace.store.record.versions import recorded

_NEXT = "Next: `headrace explain {} --history` lists versions and when they were made"


def asked_version(table: Table, node: exp.Table) -> int:
    """The changelog version that a table's clause means.

    Raises:
        TerminalError: it names none, or one that there is not, or not any more.
    """
    clause = node.args["version"]
    kind, value = str(clause.this).upper(), clause.expression
    name, store = table.name, table.store
    if not isinstance(value, exp.Literal):
        raise TerminalError(f"`{name}` {kind} AS OF: give a literal, such as 12 or '2026-11-22 19:30:00'")
    if kind == "TIMESTAMP":
        version = _at_time(table, value.this)
    elif not value.this.isdecimal():
        raise TerminalError(f"`{name}` VERSION AS OF '{value.this}': versions are whole numbers")
    else:
        version = int(value.this)
    if version > store.version:
        raise TerminalError(f"`{name}` is at version {store.version}, there is no version {version}")
    if version < (oldest := store.snapshot.oldest_readable()):
        raise TerminalError(
            f"`{name}` has no version {version} any more: those before {oldest} are gone, by `vacuum_hours` "
            f"and `changelog_retention_hours`. {_NEXT.format(name)}"
        )
    return version


def _at_time(table: Table, text: str) -> int:
    try:
        wanted = moment(text)
    except ValueError as error:
        raise TerminalError(f"`{table.name}` TIMESTAMP AS OF: {error}; write '2026-11-22 19:30:00'") from None
    known = recorded(table.store.root)
    before = [entry.commit.version for entry in known if entry.at <= wanted]
    if not before:
        first = f"the first is of {known[0].at:%Y-%m-%d %H:%M:%S}" if known else "there is none yet"
        raise TerminalError(
            f"`{table.name}` has no version on record at {wanted:%Y-%m-%d %H:%M:%S} UTC: {first}. "
            f"{_NEXT.format(table.name)}"
        )
    return before[-1]


def clause_end(text: str, name_end: int) -> int:
    """Where a query's text goes on after `[FOR] VERSION AS OF 12` that follows a table's name.

    Args:
        name_end: where the name ends.
    """
    tokens = [token for token in sqlglot.tokenize(text, dialect="spark") if token.start >= name_end]
    words = 0 if tokens[0].text.upper() != "FOR" else 1
    return tokens[words + 3].end + 1  # VERSION, AS, OF, and the literal
