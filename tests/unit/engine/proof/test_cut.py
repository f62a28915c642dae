"""How long a comparison waits until its position has come through a flow."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.ingest.cuts import Cut
from headrace.engine.proof import verify
from headrace.engine.proof.verify import await_cut
from headrace.errors import TransientError


class Reached(Future[Cut]):
    """Answers after so many waits; `meanwhile` is called at each."""

    def __init__(self, after: int, meanwhile: Any) -> None:
        super().__init__()
        self.after, self.meanwhile = after, meanwhile

    def result(self, timeout: float | None = None) -> Cut:
        self.meanwhile()
        self.after -= 1
        if self.after >= 0:
            raise TimeoutError
        return Cut({}, {}, {})


@pytest.mark.parametrize(
    ("after", "batches", "waits"),
    [
        (0, 0, 0),
        (3, 1, 3),  # much lies before it, and the flow goes on
        (9, 0, None),  # the flow stands still
        (9, 1, None),  # it goes on, and no mark comes
    ],
)
def test_a_position_is_waited_for_while_the_flow_goes_on(
    monkeypatch: pytest.MonkeyPatch, after: int, batches: int, waits: int | None
) -> None:
    clock, flow = [0.0], SimpleNamespace(name="f", micro_batches=0)

    def meanwhile() -> None:
        clock[0] += verify.CUT_SECONDS
        flow.micro_batches += batches

    monkeypatch.setattr(verify.time, "monotonic", lambda: clock[0])
    reached = Reached(after, meanwhile)
    if waits is not None:
        assert await_cut(cast("Any", flow), reached) == Cut({}, {}, {})
        assert clock[0] == (waits + 1) * verify.CUT_SECONDS
        return
    with pytest.raises(TransientError, match="did not come through flow f in"):
        await_cut(cast("Any", flow), reached)
    assert clock[0] == (verify.BUSY_CUT_SECONDS if batches else verify.CUT_SECONDS)
