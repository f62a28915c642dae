"""Now and then the alternative runs beside a refresh: both must give the same change."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.rows.differences import differences
from headrace.engine.table.table import Table
from headrace.errors import TerminalError
from headrace.store.frames import local
from headrace.store.schema import KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 5
"""Differing rows that an error names."""


class StrategiesDiffer(TerminalError):
    """Two strategies gave different changes. Nothing was committed."""


def due(table: Table, one_in: int) -> bool:
    """Whether this refresh of `table` is one of those that are shadowed. Counts it."""
    table.run.refreshes += 1
    return one_in > 0 and table.run.refreshes % one_in == 0


def compare(
    spark: SparkSession,
    table: Table,
    changes: DataFrame | pa.Table,
    alternative: Callable[[], DataFrame],
    names: tuple[str, str],
) -> float:
    """Run the alternative and compare its change rows, as multisets, with those of the strategy that ran.

    Args:
        changes: stored columns and `_kind`.
        names: the strategy that ran, and the alternative.
    Returns:
        Seconds that the alternative took, comparison included.
    Raises:
        StrategiesDiffer: naming rows that only one of both gives.
    """
    begun = time.monotonic()
    columns = (*table.store.schema.stored, (KIND, "string"))
    if isinstance(changes, pa.Table):
        changes = local(spark, changes, columns)
    wanted = [name for name, _ in columns]
    found = differences(changes, alternative().select(*wanted)).limit(SHOWN).collect()
    if found:
        shown = "; ".join(
            f"only {names[1] if row['_d'] > 0 else names[0]} gives {row[KIND]} "
            f"{ {name: row[name] for name in table.store.schema.names} }"
            for row in found
        )
        raise StrategiesDiffer(
            f"`{table.name}`: its refresh by {names[0]} and by {names[1]} differ, so nothing was committed: "
            f"{shown}. Next: `headrace verify {table.name}`; where it differs `headrace refresh {table.name} "
            f"--all`, else declare REFRESH_POLICY = FULL and report it"
        )
    return time.monotonic() - begun
