"""The sessions of one warehouse, each set for its kind of work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.engine.spark.job_group import Statements
from headrace.engine.spark.session import batch_session, flow_session, large_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Sessions:
    """Spark sessions of one warehouse.

    Args:
        flow: for micro-batches that the driver can hold.
        large: for others, and for tables that catch up.
        batch: for all that runs beside the flows.
    """

    flow: SparkSession
    large: SparkSession
    batch: SparkSession
    statements: Statements = field(default_factory=Statements)

    @classmethod
    def of(cls, spark: SparkSession) -> Sessions:
        """New ones of the application that this session belongs to."""
        return cls(flow_session(spark), large_session(spark), batch_session(spark))
