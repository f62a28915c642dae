"""Spark Structured Streaming on plain Delta: a query and a MERGE for each table, written by hand."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.spark import SparkPeer
from headrace.settings import Settings

SETTLE_SECONDS = 60.0
"""A MERGE of a large batch takes most of it on a busy machine."""


def contender(settings: Settings) -> SparkPeer:
    """The peer, with the driver memory of headrace's own settings."""
    driver = Path(__file__).with_name("driver.py")
    return SparkPeer("spark_merge", SETTLE_SECONDS, driver, settings)
