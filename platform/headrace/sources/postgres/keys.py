"""By which columns the rows of a captured table are told apart, as the database and Debezium have it.

Debezium keys its messages by `message.key.columns` where that names the table, else by the primary key, else
by the first unique index that it finds. That key must tell every row apart, and a delete must carry it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class UniqueIndex:
    """
    Args:
        identity: whether REPLICA IDENTITY USING INDEX names it.
        plain: whether it holds for every row, at once: it is neither partial nor deferrable nor over
            expressions, and none of its columns may be NULL.
    """

    name: str
    columns: tuple[str, ...]
    primary: bool = False
    identity: bool = False
    plain: bool = True


@dataclass(frozen=True)
class RowKey:
    """The key columns, or why there are none."""

    columns: tuple[str, ...] = ()
    refused: str = ""


def row_key(
    table: str, quoted: str, indexes: Sequence[UniqueIndex], *, full: bool, declared: tuple[str, ...]
) -> RowKey:
    """
    Args:
        table: its name as `message.key.columns` has it.
        quoted: its name as SQL has it.
        full: whether it has REPLICA IDENTITY FULL.
        declared: what `message.key.columns` says of it; () where it says nothing.
    """
    primary = next((index for index in indexes if index.primary), None)
    if declared and (primary is None or set(declared) != set(primary.columns)):
        return _declared(quoted, indexes, full=full, declared=declared)
    if primary is not None:
        return RowKey(primary.columns)
    sent = [index for index in indexes if index.plain and (full or index.identity)]
    if not sent:
        return RowKey(refused=f"has no primary key, so its rows cannot be told apart. Next: {_mends(quoted)}")
    if len(indexes) > 1:
        key = ",".join(sent[0].columns)
        return RowKey(
            refused="has no primary key and several unique indexes, of which Debezium takes the first. Next: "
            f'ALTER TABLE {quoted} ADD PRIMARY KEY (…); or "message.key.columns": "{table}:{key}" in the '
            "connector's file"
        )
    return RowKey(sent[0].columns)


def _declared(
    quoted: str, indexes: Sequence[UniqueIndex], *, full: bool, declared: tuple[str, ...]
) -> RowKey:
    named = ", ".join(declared)
    found = next((i for i in indexes if i.plain and set(i.columns) == set(declared)), None)
    if found is None:
        return RowKey(
            refused=f"is keyed by ({named}) in `message.key.columns`, and no unique index says that these "
            f"tell its rows apart. Next: {_mends(quoted)}"
        )
    if not (full or found.identity):
        return RowKey(
            refused=f"is keyed by ({named}) in `message.key.columns`, which its deletes do not carry. Next: "
            f'ALTER TABLE {quoted} REPLICA IDENTITY USING INDEX "{found.name}"'
        )
    return RowKey(found.columns)


def _mends(quoted: str) -> str:
    return (
        f"ALTER TABLE {quoted} ADD PRIMARY KEY (…); or, with a unique index over NOT NULL columns, "
        f"ALTER TABLE {quoted} REPLICA IDENTITY USING INDEX …"
    )
