"""Flink SQL and Paimon with four checkpoints a second: its freshest, for more work at rest."""

from __future__ import annotations

from benchmarks.peers.flink_paimon import CHAIN, SHOP, FlinkPaimon
from headrace.settings import Settings


def contender(settings: Settings) -> FlinkPaimon:
    """The peer, with four commits of each table a second."""
    return FlinkPaimon("flink_paimon_250ms", 0.25, CHAIN)


def shop_contender(settings: Settings) -> FlinkPaimon:
    """The same over the demo's tables."""
    return FlinkPaimon("flink_paimon_250ms", 0.25, SHOP)
