"""Multisets of rows, compared: NULL-safe, exact types."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
