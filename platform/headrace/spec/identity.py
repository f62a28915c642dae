"""What decides a table's rows: the one answer for APPLY, for the record in its commits and for Dagster.

What is not named here changes no row: comments and layout of the query, COMMENT, constraints that keep rows,
freshness, modes and policies.
"""

from __future__ import annotations

import hashlib
import re

from headrace.spec.model import TableSpec
from headrace.spec.sql.query import query_tokens

Identity = dict[str, object]
"""Parts of a declaration, by the name that a person knows them by."""


def rows_identity(spec: TableSpec) -> Identity:
    """What decides a table's rows, and how they are told apart."""
    removing = [c for c in spec.constraints if c.on_violation.removes_rows]
    return {
        "query": words(spec.query),
        "PRIMARY KEY": spec.primary_key,
        "PARTITIONED BY": spec.partitioned_by,
        "constraints that remove rows": tuple((c.name, c.expression, str(c.on_violation)) for c in removing),
    }


def label_identity(spec: TableSpec) -> Identity:
    """What decides which partitions by time a table has, and what their labels mean. It changes no row."""
    return {"PARTITIONED BY": spec.partitioned_by, "date-formatter": spec.partition_format}


BLANK = re.compile(
    r"""(?: [ \t\n] | --(?:[^\\\r\n]|\\(?!\r|\n))*(?:\n|\Z) | /\*(?!\+)(?:[^*/]|\*(?!/)|/(?!\*))*\*/ )*""",
    re.VERBOSE,
)
"""What Spark and sqlglot both read as nothing between two words."""

QUOTES = ("'", '"')


def words(query: str) -> tuple[str, ...]:
    """The tokens of a query as they are written, without comments and white space between them.

    Hints stay: they are no comments to Spark. So does the case of names, which columns take over. Where
    Spark may read a text otherwise than the tokenizer the text stays too, so that two queries are never taken
    for one: literals that touch (`'a''b'` is one literal with a quote in it, `'a' 'b'` is two), and what
    stands between two tokens and is not surely blank (a backslash at its end continues a comment).
    """
    found: list[str] = []
    end = 0
    for token in query_tokens(query):
        between, text = query[end : token.start], query[token.start : token.end + 1]
        if not BLANK.fullmatch(between):
            found.append(between)
        if found and not between and text.startswith(QUOTES) and found[-1].endswith(QUOTES):
            found[-1] += text
        else:
            found.append(text)
        end = max(end, token.end + 1)
    if not BLANK.fullmatch(query[end:]):
        found.append(query[end:])
    return tuple(found)


def digest(*parts: object) -> str:
    """Sixteen hexadecimal digits that stand for the parts."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
