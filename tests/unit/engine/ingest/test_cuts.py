"""Who waits for a marked position, and what was applied around it."""

from __future__ import annotations

import json

import pytest

from headrace.engine.ingest.cuts import Cut, CutMissed, Cuts
from headrace.engine.ingest.source_rows import last_images, offsets_after, unseen_events
from headrace.sources.marks import MARKER_TABLE
from headrace.sources.postgres.position import Seen
from headrace.sources.stream.envelope import Event
from headrace.spec.model import TableName

USERS, MARKERS = "shop.public.users", f"shop.public.{MARKER_TABLE}"
ENDS = {USERS: {0: 9}}
VERSIONS = {TableName("stg", "users"): 3}


def event(offset: int, key: str = "1", op: str = "u", *, xid: int | None = 1, topic: str = USERS) -> Event:
    image = json.dumps({"id": key})
    before, after = (image, None) if op == "d" else (None, image)
    return Event(topic, 0, offset, key, op, before, after, offset, 0, None, b"{}", xid=xid)


def truncation(offset: int, *, xid: int) -> Event:
    return Event(USERS, 0, offset, None, "t", None, None, offset, 0, None, b"{}", xid=xid)


def marker(token: str) -> Event:
    return event(0, token, "c", topic=MARKERS)


def test_the_batch_with_the_marker_ends_the_wait_and_all_since_the_announcement_is_told() -> None:
    cuts = Cuts()
    cuts.applied([event(1)], ENDS, (), lambda: VERSIONS)  # nobody waits: not kept
    reached, other = cuts.expect("a"), cuts.expect("b")
    cuts.applied([event(2)], ENDS, (), lambda: VERSIONS)
    assert cuts.awaited and not reached.done()
    cuts.applied([event(3), marker("a"), event(4)], ENDS, [event(9)], lambda: VERSIONS)
    assert reached.result(0) == Cut(
        VERSIONS,
        ENDS,
        {USERS: [event(2), event(3), event(4)], MARKERS: [marker("a")]},
        {USERS: [event(9)]},
    )
    cuts.applied([marker("b")], ENDS, (), lambda: VERSIONS)
    assert other.result(0).events[MARKERS] == [marker("a"), marker("b")] and not cuts.awaited


@pytest.mark.parametrize("content", ["YQ==", "61", "a"], ids=["base64", "hex", "a row"])
def test_a_message_in_the_log_is_a_mark_as_a_row_is(content: str) -> None:
    def message(prefix: str) -> Event:
        value = json.dumps({"op": "m", "message": {"prefix": prefix, "content": content}}).encode()
        return Event("shop.message", 0, 1, "{}", "m", None, None, 1, 0, None, value, xid=1)

    cuts = Cuts()
    reached = cuts.expect("a")
    cuts.applied([message("another's")], ENDS, (), lambda: VERSIONS)
    assert not reached.done()
    cuts.applied([message("headrace")], ENDS, (), lambda: VERSIONS)
    assert reached.done()


def test_who_waits_for_what_was_passed_unseen_is_told_and_who_left_is_not_waited_for() -> None:
    cuts = Cuts()
    reached = cuts.expect("a")
    cuts.missed()
    with pytest.raises(CutMissed):
        reached.result(0)
    cuts.expect("b")
    cuts.forget("b")
    assert not cuts.awaited


def test_of_each_key_the_last_change_counts_that_the_snapshot_lacks() -> None:
    seen = Seen.read("10:12:10")
    events = [
        event(1, "ended", xid=9),
        event(2, "under way", xid=10),
        event(3, "ended", xid=11),
        event(5, "later", "d", xid=13),
        event(4, "later", xid=12),
        event(6, "of a snapshot", "r", xid=14),
        event(7, "of no transaction", xid=None),
        Event(USERS, 0, 8, "emptied", None, None, None, 0, 0, None, None),
    ]
    last = last_images(unseen_events(events, seen))
    assert last == [event(2, "under way", xid=10), event(5, "later", "d", xid=13)]


@pytest.mark.parametrize(
    ("held", "after"),
    [
        ([], 9),
        ([event(9, xid=9), event(10, xid=9), event(11, op="r", xid=None)], 12),
        ([event(9, xid=9), event(10, xid=10), event(11, xid=9)], 10),  # the second one was under way
        ([event(9, xid=None)], 9),
        ([event(9, xid=9, topic=MARKERS)], 9),
    ],
)
def test_a_topic_goes_on_after_what_waits_and_is_in_the_rows(held: list[Event], after: int) -> None:
    """So half of a transaction that a connector has broken off does not come over rows read since."""
    cuts, found = Cuts(), Seen.read("10:12:10")
    reached = cuts.expect("a")
    cuts.applied([marker("a")], ENDS, held, lambda: VERSIONS)
    assert offsets_after(reached.result(0), USERS, found) == {0: after}


def test_what_a_truncation_deletes_that_the_snapshot_lacks_is_gone_but_for_what_follows() -> None:
    seen = Seen.read("10:12:10")
    events = [event(2, "before", xid=12), event(4, "after", xid=13), truncation(3, xid=12)]
    unseen = unseen_events(events, seen)
    assert [e.op for e in unseen] == ["u", "t", "u"]
    assert last_images(unseen) == [event(4, "after", xid=13)]
