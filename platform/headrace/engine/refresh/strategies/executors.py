"""How each strategy runs: in the driver over few changes, by Arrow over more, on Spark over any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.refresh.strategies import affected, full, row, top_n, weighted
from headrace.engine.refresh.work import Frames, Work
from headrace.engine.spark.persisted import Persisted
from headrace.engine.table.table import Table
from headrace.planner.strategies import AffectedKeys, AffectedPartitions, Full, Row, Strategy, TopN, Weighted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Executor:
    """What gives the table's net change: stored columns and `_kind`. Functions take the strategy, too.

    Args:
        on_spark: of changes and tables of any size.
        in_driver: of few changes; raises TooLarge where it needs more rows than the driver looks up.
        by_arrow: of more changes, of one upstream, for tables that it suits.
        net: whether `on_spark` takes one change per key.
    """

    on_spark: Callable[[Work, Any, Frames, Persisted], DataFrame]
    in_driver: Callable[[Work, Any], pa.Table] | None = None
    by_arrow: Callable[[Work, Any], pa.Table] | None = None
    suits_arrow: Callable[[Table, Any], bool] = lambda table, strategy: False
    net: bool = False


EXECUTORS: dict[type[Strategy], Executor] = {
    Row: Executor(row.on_spark, row.in_driver, row.by_arrow, row.suits_arrow, net=True),
    Weighted: Executor(
        weighted.on_spark, weighted.in_driver, weighted.by_arrow, weighted.suits_arrow, net=True
    ),
    AffectedKeys: Executor(affected.on_spark, affected.in_driver),
    AffectedPartitions: Executor(affected.on_spark, affected.in_driver),
    TopN: Executor(top_n.on_spark, top_n.in_driver),
    Full: Executor(full.on_spark),
}
