"""What a commit says of rows and events, and what does not add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import TerminalError
from headrace.results import Accounting
from headrace.store.record.account import account, counted, problems
from headrace.store.record.commits import Commit

EMPTY = Commit("stg.orders", "create", 0)


def events(**what: int) -> dict[str, object]:
    """The accounting of a commit, balanced by its `events`."""
    found = Accounting(**what)
    found.leave_out({"": 1, "small": 2})
    found.events = sum(n for name, n in what.items() if name != "truncated") + 3
    assert found.balanced()
    return found.model_dump()


def chain() -> list[Commit]:
    first = counted(EMPTY, EMPTY.next("stream", "r", accounting=events(inserted=5, folded=2)), {"+I": 5})
    kinds = {"+I": 1, "-U": 2, "+U": 2, "-D": 4}
    done = events(inserted=1, updated=2, deleted=3, truncated=1, unchanged=4, dead_letters=1)
    second = counted(first, first.next("stream", "r", accounting=done), kinds)
    third = counted(second, second.next("backfill", "r"), {"+I": 2, "-D": 1}, miscounted=-1)
    return [first, second, third]


def test_a_record_carries_the_sums_since_the_first() -> None:
    first, second, third = chain()
    assert [c.rows for c in (first, second, third)] == [5, 2, 2]
    assert third.totals == {
        "since": 0,
        "began": 0,
        "inserted": 8,
        "updated": 2,
        "deleted": 5,
        "miscounted": -1,
        "applied": 11,
        "events": 24,
        "folded": 2,
        "unchanged": 4,
        "filtered": 2,
        "quarantined small": 4,
        "dead_letters": 1,
        "truncated": 1,
    }
    assert problems(third, [first, second, third], (second, 2)) == []
    assert Commit.decode(third.encode()) == third
    line = account(third)
    assert (line.before, line.miscounted, line.inserted, line.deleted, line.after) == (2, -1, 2, 1, 2)


def test_a_table_of_an_earlier_version_counts_from_where_it_is() -> None:
    old = replace(EMPTY, version=7, rows=40)
    new = counted(old, old.next("stream", "r"), {"+I": 2})
    assert new.totals == {"since": 7, "began": 40, "inserted": 2}
    assert problems(new, [old, new], None) == problems(old, [None, old], None) == []


def test_a_record_of_an_earlier_version_is_told_in_the_words_of_this_one() -> None:
    old = replace(EMPTY, accounting={"events": 3, "inserted": 1, "quarantined": 2})
    assert account(old).events == {"events": 3, "inserted": 1, "quarantined": {}, "dead_letters": 2}


@pytest.mark.parametrize(
    ("kinds", "what", "says"),
    [
        ({"-D": 6}, {}, "deletes rows that there are not: {'-D': 6} would leave -1"),
        ({"-U": 1}, {"decision": {"chosen": "ROW"}}, "an update has a row before and one after"),
        (
            {"+I": 1},
            {"accounting": events(inserted=2)},
            r"changed \(2, 0, 0\) rows, its changelog has \(1, 0, 0\)",
        ),
    ],
)
def test_what_does_not_balance_is_not_committed(
    kinds: dict[str, int], what: dict[str, object], says: str
) -> None:
    head = replace(EMPTY, version=1, rows=5)
    with pytest.raises(TerminalError, match=says) as refused:
        counted(head, head.next("stream", "r", **what), kinds)
    assert "Next: `headrace refresh stg.orders --all`" in str(refused.value)


def test_what_does_not_add_up_is_told() -> None:
    first, second, third = chain()
    wrong = replace(third, rows=9)
    assert problems(wrong, [], None) == ["0 rows at version 0 and +2 since are not 9"]
    more = replace(third, totals={**third.totals, "events": 25})
    assert problems(more, [], None) == ["25 events came in, and 24 are accounted for"]
    assert problems(third, [first, replace(second, rows=3), None, third], None) == [
        "version 1 ended with 5 rows, the next one began with 6"
    ]
    assert problems(third, [], (second, 1)) == ["version 2 has 2 rows, its snapshot's files have 1"]
