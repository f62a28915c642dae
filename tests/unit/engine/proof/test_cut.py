"""How long a comparison waits until its position has come through a flow."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.ingest.cuts import Cut
from headrace.engine.proof import verify
from headrace.engine.proof.verify import await_cut
from headrace.errors import TransientError


class Reached(Future[Cut]):
    """Is there at a time; `passes` is told of each wait."""

    def __init__(self, at: float, clock: list[float], passes: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.at, self.clock, self.passes = at, clock, passes

    def result(self, timeout: float | None = None) -> Cut:
        assert timeout is not None
        if self.clock[0] + timeout >= self.at:
            self.clock[0] = max(self.clock[0], self.at)
            return Cut({}, {}, {})
        self.clock[0] += timeout
        self.passes()
        raise TimeoutError


NEVER = 1e9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [0.0]
    monkeypatch.setattr(verify.time, "monotonic", lambda: seconds[0])
    return seconds


@pytest.mark.parametrize(
    ("at", "goes_on", "ends"),
    [
        (0.0, False, None),
        (3 * verify.CUT_SECONDS, True, None),  # much lies before it, and the flow goes on
        (NEVER, False, verify.CUT_SECONDS),  # the flow stands still
        (NEVER, True, verify.BUSY_CUT_SECONDS),  # it goes on, and no mark comes
    ],
)
def test_a_position_is_waited_for_while_the_flow_goes_on(
    clock: list[float], at: float, goes_on: bool, ends: float | None
) -> None:
    flow = SimpleNamespace(name="f", micro_batches=0)

    def passes() -> None:
        flow.micro_batches += goes_on

    reached = Reached(at, clock, passes)
    if ends is None:
        assert await_cut(cast("Any", flow), reached, lambda: None) == Cut({}, {}, {})
        assert clock[0] == at
        return
    with pytest.raises(TransientError, match="did not come through flow f in"):
        await_cut(cast("Any", flow), reached, lambda: None)
    assert clock[0] == ends


def test_a_connector_that_stands_still_is_told_soon(clock: list[float]) -> None:
    flow = cast("Any", SimpleNamespace(name="f", micro_batches=0))
    with pytest.raises(TransientError, match="does not come: connector `shop` is FAILED: disk full"):
        await_cut(flow, Reached(NEVER, clock), lambda: "connector `shop` is FAILED: disk full")
    assert clock[0] <= verify.HALTED_SECONDS + 2 * verify.LOOK_SECONDS


def test_a_connector_that_is_started_again_is_waited_for(clock: list[float]) -> None:
    flow = cast("Any", SimpleNamespace(name="f", micro_batches=0))
    said = lambda: "it is FAILED" if clock[0] % 10 < verify.LOOK_SECONDS else None  # noqa: E731
    assert await_cut(flow, Reached(40.0, clock), said) == Cut({}, {}, {})
