"""What a running server knows of a table."""

from __future__ import annotations

from collections import deque

import pytest

from headrace.engine.table import run as module
from headrace.engine.table.run import TableRun


def test_the_latency_that_most_commits_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    run = TableRun(latencies=deque([(0.0, 99.0), *((50.0 + n, float(n)) for n in range(10))]))
    monkeypatch.setattr(module.time, "monotonic", lambda: 100.0)
    assert run.measured(0.9, 60.0) == 8.0
    assert run.measured(1.0, 60.0) == 9.0
    assert run.measured(0.5, 60.0) == 4.0
    assert run.measured(0.9, 10.0) is None
