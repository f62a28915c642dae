"""Whether what a frontier counts in was put in another's place."""

from __future__ import annotations

import pytest

from headrace.sources.origin import Origin, went_back
from headrace.sources.stream.envelope import sequence

KNOWN = Origin("abc", "7301", 1)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (KNOWN, None),
        (Origin("abc"), None),  # the server does not answer
        (Origin(), None),
        (Origin("abc", "7301", 0), None),  # a replica does not tell its timeline
        (Origin("xyz", "7301", 1), r"its topic was deleted and made anew (id xyz, was abc)"),
        (Origin("abc", "7302", 1), "another database cluster (system identifier 7302, was 7301)"),
        (Origin("abc", "7301", 1, slot=900), "replication slot was made anew"),
        (Origin("abc", "7301", 2), "its log is on timeline 2, was on 1"),
    ],
)
def test_what_is_known_of_both_is_compared(now: Origin, says: str | None) -> None:
    found = KNOWN.replaced(now)
    assert found is None if says is None else found is not None and says in found
    assert now.replaced(now) is None


def test_what_does_not_answer_now_stays_known() -> None:
    assert KNOWN.completed(Origin("xyz")) == Origin("xyz", "7301", 1)
    assert Origin.of(KNOWN.record()) == KNOWN
    assert Origin().record() == {}


def test_a_log_that_stands_before_what_was_applied_went_back() -> None:
    assert went_back(sequence(2, 500), 2, 499)
    assert not went_back(sequence(2, 500), 2, 500)
    assert not went_back(sequence(1, 500), 2, 499)  # applied before the last resync
    assert not went_back("", 0, 0)
