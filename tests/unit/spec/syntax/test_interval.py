"""Amounts of time as layer files and statements write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.spec.syntax.interval import NoInterval, in_largest_unit, interval, span, unit_of


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, (0, "SECOND")),
        (90, (90, "SECOND")),
        (120, (2, "MINUTE")),
        (5400, (90, "MINUTE")),
        (7200, (2, "HOUR")),
        (172800, (2, "DAY")),
    ],
)
def test_the_largest_whole_unit_tells_all_of_it(seconds: int, written: tuple[int, str]) -> None:
    assert in_largest_unit(timedelta(seconds=seconds)) == written
    assert span(*written) == timedelta(seconds=seconds)


def test_parts_of_a_second_have_no_unit() -> None:
    with pytest.raises(ValueError, match=r"whole seconds, not 0:00:01.5"):
        in_largest_unit(timedelta(seconds=1.5))


@pytest.mark.parametrize(
    ("word", "unit"), [("second", "SECOND"), ("DAYS", "DAY"), ("Hours", "HOUR"), ("WEEK", None), ("S", None)]
)
def test_a_unit_stands_in_the_singular_or_the_plural(word: str, unit: str | None) -> None:
    assert unit_of(word) == unit


@pytest.mark.parametrize(
    ("amount", "hint"), [("0", "the least is INTERVAL '1' SECOND"), ("-1", ""), ("1.5", "")]
)
def test_an_interval_is_a_positive_whole_number(amount: str, hint: str) -> None:
    with pytest.raises(NoInterval) as refused:
        interval(amount, "DAY")
    assert refused.value.hint == hint
