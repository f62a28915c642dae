"""What a batch did to each key."""

from __future__ import annotations

import pytest

from headrace.sources.stream.envelope import Event, net


def event(op: str, before: str | None, after: str | None, key: str = '{"id": 1}') -> Event:
    return Event("t", 0, 0, key, op, before, after, 10, 0, None, b"{}")


@pytest.mark.parametrize(
    ("changed", "known"),
    [
        (event("d", '{"id": 1, "a": null, "b": 2}', None), True),
        (event("d", '{"id": 1, "a": null, "b": null}', None), False),  # the key alone, or a row of NULLs
        (event("d", '{"id": 1}', None), True),  # there are no other columns
        (event("d", "[", None), False),
        (event("u", '{"id": 1, "a": 1}', '{"id": 1, "a": 2}'), True),
        (event("u", None, '{"id": 1, "a": 2}'), False),
        (event("c", None, '{"id": 1, "a": 2}'), True),
    ],
)
def test_a_row_before_is_taken_from_the_event_where_it_is_whole(changed: Event, known: bool) -> None:
    """REPLICA IDENTITY may have been set back since the table was described as having full images."""
    [found] = net([changed], generation=0, high="", full_identity=True)
    assert found.known_before is known
    [found] = net([changed], generation=0, high="", full_identity=False)
    assert found.known_before is (changed.op == "c")
