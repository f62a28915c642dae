"""Refreshing copies of a table by one way each, beside one whose way the engine chooses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.in_process.warehouse import RUN, Warehouse
from headrace.engine.refresh.decision import history
from headrace.engine.refresh.refresh import refresh_table
from headrace.engine.table.table import Delta, Table
from headrace.spec.model import TableName

Way = Literal["INCREMENTAL", "FULL"]
INCREMENTAL: Way = "INCREMENTAL"
FULL: Way = "FULL"
AUTO = "AUTO"


@dataclass(frozen=True)
class Ran:
    """One refresh: its seconds, and the way it went."""

    seconds: float
    way: Way


def refresh(warehouse: Warehouse, table: Table, known: Mapping[TableName, Delta], force: Way | None) -> Ran:
    """Bring `table` to its upstreams' present versions, timed.

    Args:
        force: the planned strategy, or FULL; the engine's own choice where None.
    """
    begun = time.monotonic()
    refresh_table(warehouse.sessions, warehouse.registry, table, known, run_id=RUN, force=force)
    seconds = time.monotonic() - begun
    return Ran(seconds, FULL if history(table)[-1].chosen == FULL else INCREMENTAL)
