"""What each table's work has cost, by the hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from headrace.catalog import Catalog
from headrace.catalog.costs import KEPT
from headrace.results import TableCost, Work

NOW = datetime(2026, 11, 28, 12, 59, 30)


def cost(table: str, work: Work, cores: float, changes: int = 0) -> TableCost:
    return TableCost(table=table, work=work, core_seconds=cores, seconds=2 * cores, runs=1, changes=changes)


def test_they_are_summed_by_table_and_work(tmp_path: Path) -> None:
    costs = Catalog(f"sqlite:///{tmp_path / 'catalog.db'}").costs
    costs.add([cost("dws.a", "stream", 1.0, 10), cost("dws.b", "verify", 4.0)], NOW)
    costs.add([cost("dws.a", "stream", 2.0, 5), cost("dws.a", "backfill", 3.0)], NOW + timedelta(seconds=20))
    costs.add([cost("dws.a", "stream", 8.0)], NOW + timedelta(minutes=2))  # another hour
    late = NOW + timedelta(minutes=2)
    found = {(c.table, c.work): (c.core_seconds, c.seconds, c.runs, c.changes) for c in costs.since(1, late)}
    assert found == {
        ("dws.a", "backfill"): (3.0, 6.0, 1, 0),
        ("dws.a", "stream"): (11.0, 22.0, 3, 15),
        ("dws.b", "verify"): (4.0, 8.0, 1, 0),
    }
    assert [c.core_seconds for c in costs.since(0, late)] == [8.0]
    again = Catalog(f"sqlite:///{tmp_path / 'catalog.db'}").costs
    assert again.since(1, late) == costs.since(1, late)


def test_what_is_old_goes(tmp_path: Path) -> None:
    costs = Catalog(f"sqlite:///{tmp_path / 'catalog.db'}").costs
    costs.add([cost("dws.a", "stream", 1.0)], NOW - KEPT - timedelta(hours=1))
    costs.add([cost("dws.b", "stream", 1.0)], NOW)
    assert [c.table for c in costs.since(10_000, NOW)] == ["dws.b"]
