"""Committing a large change that Spark has planned: through the driver where its rows fit there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.compaction.compaction import DRIVER_CHANGES
from headrace.engine.refresh.strategies.cluster import check_changes, check_constraints
from headrace.engine.rows.diff import check_unique
from headrace.engine.table.table import Table
from headrace.store.schema import INSERT, KIND, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def gathered(changes: DataFrame, table: Table, count: int) -> pa.Table | DataFrame:
    """The changes, in the driver where it can hold them: its append and its compaction take less time.

    Args:
        changes: kept; stored columns and `_kind`.
        count: number of their rows.
    Raises:
        ConstraintViolated: a new row breaks a FAIL constraint or the primary key.
    """
    if count > DRIVER_CHANGES:
        check_changes(changes, table)
        return changes
    check_constraints(changes, table)
    rows = changes.toArrow()
    new = rows.filter(pc.is_in(rows.column(KIND), pa.array([INSERT, UPDATE_AFTER])))
    check_unique(new, table.store.schema, table=str(table.name))
    return rows
