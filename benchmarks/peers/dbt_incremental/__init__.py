"""Incremental models as dbt compiles them for Spark: batch runs of a MERGE for each table, over and over."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.spark import SparkPeer
from headrace.settings import Settings

SETTLE_SECONDS = 60.0


def contender(settings: Settings) -> SparkPeer:
    """The peer, with the driver memory of headrace's own settings."""
    driver = Path(__file__).with_name("driver.py")
    return SparkPeer("dbt_incremental", SETTLE_SECONDS, driver, settings)
