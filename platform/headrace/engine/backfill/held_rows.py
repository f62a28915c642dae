"""What a table's SQL reads for a range, where the driver has it: then Spark reads no files of it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headrace.engine.rows.restriction import Labelled, Times, restriction
from headrace.engine.table.table import Registry, Table
from headrace.spec.model import TableName
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.live.head import Head


def warm_heads(registry: Registry, table: Table) -> dict[TableName, Head | None]:
    """The newest state of each upstream, None where it must be compacted before rows are looked up in it."""
    return {name: upstream.warm_head() for name, upstream in registry.upstreams(table).items()}


def held_rows(
    registry: Registry,
    table: Table,
    heads: Mapping[TableName, Head | None],
    frontier: Mapping[str, int],
    labels: LabelRange | None,
) -> list[pa.Table] | None:
    """The rows of each reference that the range needs, in order of appearance.

    Args:
        heads: of the upstreams, by `warm_heads`.
        frontier: the upstream versions that are meant.
    Returns:
        None where Spark must read them: many rows, or an upstream that is not at its version of `frontier`.
    """
    found, left = list[pa.Table](), table.limits.range_rows
    for place, upstream in enumerate(registry.referenced(table)):
        head = heads.get(upstream.name)
        if head is None or head.commit.version != frontier.get(str(upstream.name), 0):
            return None
        part = restriction(table, place, upstream.store.schema, labels)
        if not _fits(head, part, upstream, left):
            return None
        rows = head.read() if part is None else head.where(part.predicate())
        if (left := left - rows.num_rows) < 0:
            return None
        found.append(rows)
    return found


def _fits(head: Head, part: Labelled | Times | None, upstream: Table, most: int) -> bool:
    """Whether the driver may look for these rows, by the statistics of the files that it must open."""
    if isinstance(part, Labelled) and part.column == upstream.store.schema.partition:
        return head.index.count(part.labels.among(head.labels(part.column))) <= most
    return head.index.count(None) <= (most if part is None else upstream.limits.rows)
