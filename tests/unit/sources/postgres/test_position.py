"""Which transactions a snapshot of PostgreSQL sees."""

from __future__ import annotations

import pytest

from headrace.sources.postgres.position import Seen

CYCLE = 2**32


@pytest.mark.parametrize(
    ("snapshot", "xids"),
    [
        ("100:100:", {98: True, 99: True, 100: False, 101: False}),
        ("100:105:100,103", {99: True, 100: False, 101: True, 102: True, 103: False, 104: True, 105: False}),
        # the stream has 32 bits of an id
        (
            f"{CYCLE + 5}:{CYCLE + 8}:{CYCLE + 6}",
            {CYCLE - 1: True, 4: True, 5: True, 6: False, 7: True, 8: False},
        ),
        (f"{CYCLE - 2}:{CYCLE - 1}:", {CYCLE - 3: True, CYCLE - 2: True, CYCLE - 1: False, 3: False}),
    ],
)
def test_a_snapshot_has_what_had_ended_before_it(snapshot: str, xids: dict[int, bool]) -> None:
    seen = Seen.read(snapshot)
    assert {xid: seen.has(xid) for xid in xids} == xids
