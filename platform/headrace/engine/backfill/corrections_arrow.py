"""`corrections` in the driver, where a range holds and gets few rows: Spark runs the query and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.compaction.compaction import live_rows
from headrace.engine.refresh.constraints import check_constraints
from headrace.engine.rows.diff import diff
from headrace.engine.table.table import Table
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.frames import local
from headrace.store.live.head import Head
from headrace.store.live.key_joins import is_unique, semi_join, tuples
from headrace.store.schema import DELETE, INSERT, KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Few:
    """What must change.

    Args:
        changes: as `corrections` gives them, after `once`.
        rows: live rows of the whole table; 0 where nothing must change.
    """

    changes: pa.Table
    rows: int


def few_corrections(
    spark: SparkSession,
    table: Table,
    head: Head | None,
    version: int,
    expected: DataFrame,
    labels: LabelRange | None,
) -> Few | None:
    """What must change at `version` so that the range holds the expected rows.

    Args:
        head: the table's newest state, where it was warm.
    Returns:
        None where Spark must compare: many rows, an older version, rows of one key, types that Arrow does
        not compare, or a stg table, whose rows keep their sequences.
    Raises:
        ConstraintViolated: an expected row breaks a FAIL constraint or the primary key.
    """
    schema, most = table.store.schema, table.limits.range_rows
    if head is None or head.commit.version != version:
        return None
    if schema.sequenced or not (schema.joinable and schema.comparable):
        return None
    column, inside = schema.partition, None
    if column is not None and labels is not None:
        inside = labels.among(head.labels(column))
    if head.index.count(inside) > most:
        return None
    wanted = expected.select(*schema.stored_names).limit(most + 1).toArrow()
    if wanted.num_rows > most:
        return None
    held = live_rows(head, column, inside)
    if not is_unique(held, schema.key):
        return None
    changes = diff(held, wanted, schema, table=str(table.name))
    if labels is not None and column is not None and column not in schema.key:
        moved = _moved(head, table, changes, held, wanted, inside or [])
        if moved is None:
            return None
        changes = moved
    if table.spec.constraints and changes.num_rows:
        check_constraints(local(spark, changes, (*schema.stored, (KIND, "string"))), table)
    return Few(changes, head.count() if changes.num_rows else 0)


def _moved(
    head: Head, table: Table, changes: pa.Table, held: pa.Table, wanted: pa.Table, labels: list[str]
) -> pa.Table | None:
    """`changes` where rows outside the range come into it, or stay as the range loses their key."""
    schema, kinds = table.store.schema, changes.column(KIND)
    coming, leaving = (changes.filter(pc.equal(kinds, kind)) for kind in (INSERT, DELETE))
    single = pa.concat_tables([coming, leaving])
    if not single.num_rows:
        return changes
    found = head.find(schema.key, set(tuples(single, schema.key)))
    place = found.column(schema.partition)
    outside = found.filter(pc.invert(pc.is_in(place, pa.array(labels, place.type))))
    if not outside.num_rows:
        return changes
    if not is_unique(outside, schema.key):
        return None
    names = list(schema.stored_names)
    left = pa.concat_tables([held.select(names), semi_join(outside, schema.key, coming).select(names)])
    arrow = left.schema
    stay = semi_join(outside, schema.key, leaving).select(names).cast(arrow)
    return diff(
        left,
        pa.concat_tables([wanted.select(names).cast(arrow), stay]),
        schema,
        table=str(table.name),
    )
