"""From a table's SQL to the way its changes are carried: pure functions, printable plans, no Spark."""

from __future__ import annotations

from headrace.planner.analyze import analyze
from headrace.planner.cells.cells import Cells, cells_below_top
from headrace.planner.cells.paths import Path, Step
from headrace.planner.plan import Plan
from headrace.planner.strategies import AffectedKeys, AffectedPartitions, Full, Row, Strategy, TopN, Weighted

__all__ = [
    "AffectedKeys",
    "AffectedPartitions",
    "Cells",
    "Full",
    "Path",
    "Plan",
    "Row",
    "Step",
    "Strategy",
    "TopN",
    "Weighted",
    "analyze",
    "cells_below_top",
]
