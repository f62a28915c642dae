"""What a table's SQL reads for a range, where the driver has it: then Spark reads no files of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from headrace.engine.backfill.overwrite import labels_between
from headrace.engine.compaction.compaction import DRIVER_ROWS
from headrace.engine.rows.restriction import Labels, Times, restriction
from headrace.engine.table.table import Registry, Table
from headrace.spec.model import TableName
from headrace.store.live.head import Head

FEW_ROWS = 250_000
"""Rows that a range may hold, or should hold, to be compared in the driver; and rows that it is made of."""


def warm_heads(registry: Registry, table: Table) -> dict[TableName, Head | None]:
    """The newest state of each upstream, None where it must be compacted before rows are looked up in it."""
    return {name: upstream.warm_head() for name, upstream in registry.upstreams(table).items()}


def held_rows(
    registry: Registry,
    table: Table,
    heads: Mapping[TableName, Head | None],
    frontier: Mapping[str, int],
    start: str | None,
    end: str | None,
    only: Collection[str] | None,
) -> list[pa.Table] | None:
    """The rows of each reference that the range needs, in order of appearance.

    Args:
        heads: of the upstreams, by `warm_heads`.
        frontier: the upstream versions that are meant.
    Returns:
        None where Spark must read them: many rows, or an upstream that is not at its version of `frontier`.
    """
    found, left = list[pa.Table](), FEW_ROWS
    for place, upstream in enumerate(registry.referenced(table)):
        head = heads.get(upstream.name)
        if head is None or head.commit.version != frontier.get(str(upstream.name), 0):
            return None
        part = restriction(table, place, upstream.store.schema, start, end, only)
        if not _fits(head, part, upstream.store.schema.partition, left):
            return None
        rows = head.read() if part is None else head.where(part.predicate())
        if (left := left - rows.num_rows) < 0:
            return None
        found.append(rows)
    return found


def _fits(head: Head, part: Labels | Times | None, partition: str | None, most: int) -> bool:
    """Whether the driver may look for these rows, by the statistics of the files that it must open."""
    if isinstance(part, Labels) and part.column == partition:
        labels = labels_between(head, part.column, part.start, part.end, part.only)
        return head.index.count(labels) <= most
    return head.index.count(None) <= (most if part is None else DRIVER_ROWS)
