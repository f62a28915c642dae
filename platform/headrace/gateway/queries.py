"""What a SELECT may be: one query that reads materialized tables and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.errors import did_you_mean
from headrace.gateway.cursor import Cursor, error_at
from headrace.spec.model import QUARANTINE
from headrace.spec.project import ELSEWHERE_HINT
from headrace.spec.sql.programs import REFLECTION

_TABLE_FUNCTIONS = frozenset(
    {
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "json_tuple",
        "posexplode",
        "posexplode_outer",
        "range",
        "stack",
        "variant_explode",
        "variant_explode_outer",
    }
)
_PATH_HINT = "read a materialized table by its name; `SHOW MATERIALIZED TABLES` lists them"


def check_query(cursor: Cursor, tables: Collection[str], elsewhere: Mapping[str, str]) -> str:
    """The text of a SELECT that is safe to run. Raises StatementError where it is not.

    Args:
        cursor: the statement's tokens.
        tables: the materialized tables there are.
        elsewhere: those that another server keeps, and what is said of each.
    """
    sql = cursor.text
    check = _Check(sql)
    if (at := sql.find("${")) >= 0:
        # Spark would put configuration and environment variables there, also inside quotes.
        check.refuse_at(at, "`${…}` has a meaning only in layer files", "write the value itself")
    try:
        queries = sqlglot.parse(sql, dialect="spark")
    except SqlglotError as error:
        check.refuse_parse(error)
    if len(queries) != 1 or not isinstance(queries[0], exp.Query):
        check.refuse_at(cursor.tokens[0].start, "expected one SELECT", "WITH must be followed by a SELECT")
    query = queries[0]
    for node in query.walk():
        check.node(node)
    for table in query.find_all(exp.Table):
        if table.find_ancestor(exp.Hint):
            continue  # BROADCAST(alias)
        check.table(table, tables, elsewhere)
    return sql


class _Check:
    """Refusals about parts of one query."""

    def __init__(self, sql: str) -> None:
        self._sql = sql

    def node(self, node: exp.Expr) -> None:
        if isinstance(node, exp.DML | exp.DDL | exp.Command | exp.Into):
            self._refuse(node, "a SELECT must not write")
        if isinstance(node, exp.QueryTransform):
            self._refuse(node, "`TRANSFORM … USING` runs a program and is refused")
        if isinstance(node, exp.Parameter | exp.Placeholder):
            self._refuse(node, "a statement takes no parameters", "write the value itself")
        if isinstance(node, exp.Func) and (name := _function(node)) in REFLECTION:
            self._refuse(node, f"`{name}` runs Java code inside the server and is refused")

    def table(self, table: exp.Table, tables: Collection[str], elsewhere: Mapping[str, str]) -> None:
        if isinstance(table.this, exp.Func):
            if (name := _function(table.this)) not in _TABLE_FUNCTIONS:
                self._refuse(table.this, f"the table function `{name}` is refused", _PATH_HINT)
            return
        version = table.args.get("version")
        if version is not None and not isinstance(version.expression, exp.Literal):
            hint = "write VERSION AS OF 12, or TIMESTAMP AS OF '2026-11-22 19:30:00'"
            self._refuse(table, "an earlier version is named by a literal", hint)
        parts = [part.name for part in table.parts]
        if len(parts) == 1 and parts[0].lower() in _visible(table):
            return
        name = ".".join(parts).lower()
        if len(parts) == 2 and name.removesuffix(QUARANTINE) in tables:
            return
        if len(parts) == 2 and name.removesuffix(QUARANTINE) in elsewhere:
            self._refuse(table, elsewhere[name.removesuffix(QUARANTINE)], ELSEWHERE_HINT)
        if any("/" in part or ":" in part for part in parts):
            self._refuse(table, f"`{name}` is a path, not a table", _PATH_HINT)
        self._refuse(table, f"no table `{name}`", did_you_mean(name, tables))

    def refuse_at(self, at: int, message: str, hint: str = "") -> NoReturn:
        raise error_at(self._sql, at, message, hint) from None

    def refuse_parse(self, error: SqlglotError) -> NoReturn:
        found = (getattr(error, "errors", None) or [{}])[0]
        lines = self._sql.splitlines(keepends=True)
        line, column = found.get("line") or 1, found.get("col") or 1
        # sqlglot gives the column of the token's last character.
        at = sum(len(text) for text in lines[: line - 1]) + column - len(found.get("highlight") or " ")
        message = str(found.get("description") or error).split(" for <class")[0].rstrip(".")
        self.refuse_at(max(at, 0), f"the query cannot be read: {message}")

    def _refuse(self, node: exp.Expr, message: str, hint: str = "") -> NoReturn:
        start = min((n.meta["start"] for n in node.walk() if "start" in n.meta), default=0)
        self.refuse_at(start, message, hint)


def _function(node: exp.Func) -> str:
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()


def _visible(table: exp.Table) -> set[str]:
    """Names of the WITH queries around `table`."""
    found: set[str] = set()
    node: exp.Expr | None = table.parent
    while node is not None:
        if isinstance(node, exp.Query):
            found.update(cte.alias.lower() for cte in node.ctes)
        node = node.parent
    return found
