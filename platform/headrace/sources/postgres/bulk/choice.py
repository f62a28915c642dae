"""Who reads a source for the first time: its connector through Kafka, or a bulk snapshot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from headrace.spec.model import SourceTable

SnapshotBy = Literal["auto", "connector", "bulk"]

INITIAL = "initial"
"""Debezium's `snapshot.mode` that a bulk snapshot takes the place of; also its default."""

# With these the events of a row are not simply the row, or not every row has one.
_ALTERING = (
    "transforms", "converters", "message.key.columns", "column.include.list", "column.exclude.list",
    "snapshot.include.collection.list", "snapshot.select.statement.overrides", "hstore.handling.mode",
)  # fmt: skip
_ALTERING_PREFIXES = ("column.mask.", "column.truncate.", "datatype.")
_NEEDED = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "microseconds",
    "binary.handling.mode": "base64",
}
_PUBLICATIONS = ("filtered", "all_tables", "disabled", "no_tables")


@dataclass(frozen=True)
class TableFacts:
    """What the source says of one table.

    Args:
        rows: PostgreSQL's estimate.
        pages: of the table itself; 0 where they cannot be read by ranges.
        bytes: of the table with its large values (TOAST), without indexes.
        hindrance: why its rows cannot be copied as the connector would give them, or None.
    """

    table: SourceTable
    rows: int
    pages: int
    bytes: int
    hindrance: str | None = None


@dataclass(frozen=True)
class Choice:
    bulk: bool
    reason: str


def choose(
    setting: SnapshotBy,
    config: dict[str, str],
    tables: Sequence[TableFacts],
    *,
    bulk_rows: int,
    slot_exists: bool,
) -> Choice:
    """Decide for one connector that was never registered.

    Args:
        setting: what the project says; `auto` goes by size.
        config: of the connector file.
        tables: those that a stg table reads.
        bulk_rows: rows of all of them from which `auto` takes the bulk snapshot.
        slot_exists: somebody else has made the connector's replication slot.
    Raises:
        TerminalError: `bulk` is wanted and cannot be.
    """
    mode = config.get("snapshot.mode", INITIAL)
    if mode != INITIAL:
        return Choice(False, f"the connector file says snapshot.mode={mode}")
    if setting == "connector":
        return Choice(False, "`snapshot` is `connector`")
    rows = sum(t.rows for t in tables)
    if setting == "auto" and rows < bulk_rows:
        return Choice(False, f"about {rows:,} rows, fewer than {bulk_rows:,}")
    hindrance = _hindrance(config, tables, slot_exists)
    if hindrance is None:
        return Choice(True, f"about {rows:,} rows")
    if setting == "bulk":
        raise TerminalError(
            f"a bulk snapshot cannot be taken: {hindrance}. Next: mend that, or set `snapshot = "
            '"connector"` in headrace.toml, then `headrace up`'
        )
    return Choice(False, hindrance)


def _hindrance(config: dict[str, str], tables: Sequence[TableFacts], slot_exists: bool) -> str | None:
    if not tables:
        return "no stg table reads this source"
    if slot_exists:
        return f"the replication slot `{slot_name(config)}` exists already"
    if config.get("plugin.name", "decoderbufs") != "pgoutput":
        return "it needs plugin.name=pgoutput"
    for key, value in _NEEDED.items():
        if config.get(key) != value:
            return f"it needs {key}={value}"
    if (mode := config.get("publication.autocreate.mode", "all_tables")) not in _PUBLICATIONS:
        return f"publication.autocreate.mode={mode} is not known"
    for key in config:
        if key in _ALTERING or key.startswith(_ALTERING_PREFIXES):
            return f"the connector file says `{key}`"
    return next((f"`{t.table}`: {t.hindrance}" for t in tables if t.hindrance), None)


def slot_name(config: dict[str, str]) -> str:
    """The connector's replication slot, as Debezium names it."""
    return config.get("slot.name", "debezium")
