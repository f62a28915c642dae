"""Every strategy that the planner can choose can be carried out."""

from __future__ import annotations

from typing import get_args

from headrace.engine.refresh.strategies.executors import EXECUTORS
from headrace.planner.strategies import Strategy


def test_every_strategy_has_its_executor() -> None:
    assert EXECUTORS.keys() == set(get_args(Strategy))
