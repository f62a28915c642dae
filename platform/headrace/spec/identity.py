"""What decides a table's rows: the one answer for APPLY, for the record in its commits and for Dagster.

What is not named here changes no row: comments and layout of the query, COMMENT, constraints that keep rows,
freshness, modes and policies.
"""

from __future__ import annotations

import hashlib

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


def words(query: str) -> tuple[str, ...]:
    """The tokens of a query as they are written, without comments and white space between them.

    Hints stay: they are no comments to Spark. So does the case of names, which columns take over.
    """
    return tuple(query[token.start : token.end + 1] for token in query_tokens(query))


def digest(*parts: object) -> str:
    """Sixteen hexadecimal digits that stand for the parts."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
