"""Multisets of rows, compared: NULL-safe, exact types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Counted:
    """Rows held, those that are missing, and those that are too many."""

    rows: int
    missing: int
    extra: int

    @property
    def differs(self) -> bool:
        return bool(self.missing or self.extra)


def counted(held: pa.Table, wanted: pa.Table) -> Counted:
    """Compare rows in the driver. NULL is itself; their columns are such as Arrow groups by: no floats.

    Args:
        held, wanted: of one schema.
    """
    sides = ((held, -1), (wanted, 1))
    weighed = [
        rows.append_column("_w", pa.repeat(pa.scalar(w, pa.int64()), rows.num_rows)) for rows, w in sides
    ]
    # With threads each of them gathers groups that are gathered once more: twice the memory, no less time.
    groups = pa.concat_tables(weighed).group_by(held.column_names, use_threads=False)
    sums = groups.aggregate([("_w", "sum")]).column("_w_sum")
    missing = pc.sum(pc.max_element_wise(sums, 0)).as_py() or 0
    extra = -(pc.sum(pc.min_element_wise(sums, 0)).as_py() or 0)
    return Counted(held.num_rows, missing, extra)


def differences(actual: DataFrame, expected: DataFrame) -> DataFrame:
    """Rows whose multiplicity differs, with `_d` = times expected − times held. NULL-safe, exact types.

    The same as EXCEPT ALL both ways, in one pass.
    """
    return multiplicities(actual, expected).where("_d <> 0").drop("_n")


def multiplicities(actual: DataFrame, expected: DataFrame) -> DataFrame:
    """Every distinct row, with `_d` as `differences` has it and `_n` = times held."""
    from pyspark.sql import functions as F

    names = expected.columns
    held = actual.select(*names).withColumns({"_w": F.lit(-1), "_h": F.lit(1)})
    wanted = expected.withColumns({"_w": F.lit(1), "_h": F.lit(0)})
    both = held.unionAll(wanted).groupBy(*names)
    return both.agg(F.sum("_w").alias("_d"), F.sum("_h").alias("_n"))
