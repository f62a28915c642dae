"""The calendar of a freshness: which entry counts when, what is refused, and that modes follow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from planner_support import write_table

from headrace.errors import SpecError
from headrace.spec.alteration import Alteration, altered, declared
from headrace.spec.calendar import NoCalendar, freshness_at, read_calendar, read_zone

SINGLES_DAY = datetime(2026, 11, 11, tzinfo=UTC)  # a Wednesday


def at(text: str, moment: datetime, zone: str = "UTC") -> timedelta | None:
    entry = read_calendar(text, ZoneInfo(zone)).at(moment)
    return entry and entry.freshness


@pytest.mark.parametrize(
    ("text", "moment", "holds"),
    [
        ("11-11 = 10 SECOND", "2026-11-11T00:00", True),
        ("11-11 = 10 SECOND", "2027-11-11T23:59:59.999", True),
        ("11-11 = 10 SECOND", "2026-11-12T00:00", False),
        ("11-11 = 10 SECOND", "2026-11-10T23:59:59.999", False),
        ("02-29 = 10 SECOND", "2028-02-29T12:00", True),
        ("2026-11-27/2026-11-30 = 10 SECOND", "2026-11-27T00:00", True),
        ("2026-11-27/2026-11-30 = 10 SECOND", "2026-11-30T23:59", True),
        ("2026-11-27/2026-11-30 = 10 SECOND", "2027-11-28T12:00", False),
        ("12-24/01-02 = 10 seconds", "2026-12-31T12:00", True),
        ("12-24/01-02 = 10 seconds", "2027-01-02T12:00", True),
        ("12-24/01-02 = 10 seconds", "2027-01-03T00:00", False),
        ("sat/mon = 10 SECOND", "2026-11-08T12:00", True),
        ("SAT/MON = 10 SECOND", "2026-11-09T12:00", True),
        ("SAT/MON = 10 SECOND", "2026-11-10T12:00", False),
        ("08:00/18:00 = 10 SECOND", "2026-11-11T07:59:59.999", False),
        ("08:00/18:00 = 10 SECOND", "2026-11-11T08:00", True),
        ("08:00/18:00 = 10 SECOND", "2026-11-11T18:00", False),
        ("MON/FRI 20:00/24:00=10 SECOND", "2026-11-11T23:59", True),
        ("MON/FRI 20:00/24:00=10 SECOND", "2026-11-14T23:59", False),
    ],
)
def test_an_entry_holds_in_its_days_and_hours(text: str, moment: str, holds: bool) -> None:
    found = at(text, datetime.fromisoformat(moment).replace(tzinfo=UTC))
    assert found == (timedelta(seconds=10) if holds else None)


def test_the_first_entry_that_holds_counts() -> None:
    text = "11-11 20:00/24:00 = 5 SECOND, 11-11 = 1 MINUTE, MON/FRI = 1 HOUR"
    hours = [at(text, SINGLES_DAY + timedelta(hours=h)) for h in (0, 20, 24, 24 * 3)]
    assert hours == [timedelta(minutes=1), timedelta(seconds=5), timedelta(hours=1), None]


def test_days_are_those_of_the_zone() -> None:
    for zone, from_utc, until in [("Asia/Shanghai", 16, 16), ("America/New_York", 29, 29)]:
        begins = SINGLES_DAY + timedelta(hours=from_utc - 24)
        text = "11-11 = 10 SECOND"
        assert at(text, begins - timedelta(seconds=1), zone) is None
        assert at(text, begins, zone) == timedelta(seconds=10)
        assert at(text, SINGLES_DAY + timedelta(hours=until), zone) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "`` is no entry"),
        ("11-11", "`11-11` is no entry"),
        ("= 10 SECOND", "`= 10 SECOND` is no entry"),
        ("11-11 = 10 SECOND,", "`` is no entry"),
        ("11-31 = 10 SECOND", "`11-31` is no day"),
        ("2026-02-29 = 10 SECOND", "`2026-02-29` is no day"),
        ("11 = 10 SECOND", "`11` is no day"),
        ("BLACK = 10 SECOND", "`BLACK` is no day"),
        ("11-11/SUN = 10 SECOND", "both ends of a range"),
        ("2026-11-30/2026-11-27 = 10 SECOND", "ends before it begins"),
        ("18:00/08:00 = 10 SECOND", "ends before it begins"),
        ("08:60/09:00 = 10 SECOND", "`08:60` is no time"),
        ("08:00/24:01 = 10 SECOND", "`24:01` is no time"),
        ("11-11 = 0 SECOND", "zero"),
        ("11-11 = 10 FORTNIGHT", "`FORTNIGHT` is no unit"),
    ],
)
def test_what_is_no_calendar_is_refused(text: str, says: str) -> None:
    with pytest.raises(NoCalendar) as told:
        read_calendar(text)
    assert says in told.value.reason and told.value.hint


def test_a_zone_that_nobody_knows_is_refused() -> None:
    for name in ("Asia/Atlantis", "", "../etc/passwd"):
        with pytest.raises(NoCalendar, match="is no time zone"):
            read_zone(name)


SALE = """'freshness.calendar' = '11-11 = 10 SECOND', 'freshness.time-zone' = 'Asia/Shanghai'"""


def test_a_layer_file_declares_it(tmp_path: Path) -> None:
    spec = write_table(tmp_path, "SELECT id, logdate FROM stg.orders", key="id", options=SALE)
    assert freshness_at(spec, SINGLES_DAY - timedelta(hours=9)) == spec
    sale = freshness_at(spec, SINGLES_DAY)
    assert (sale.freshness, sale.calendar) == (timedelta(seconds=10), spec.calendar)
    assert sale.freshness_origin == "its calendar: 11-11 = 10 SECOND"


def test_what_a_statement_sets_counts_on_every_day(tmp_path: Path) -> None:
    spec = write_table(tmp_path, "SELECT id, logdate FROM stg.orders", key="id", options=SALE)
    over = declared(spec, "FRESHNESS")
    assert over.endswith(" (11-11 = 10 SECOND)")  # another calendar in the file is the newer word
    new = altered(spec, [Alteration(spec.name, "FRESHNESS", "INTERVAL '1' DAY", over)])
    assert freshness_at(new, SINGLES_DAY).freshness == timedelta(days=1)
    assert (new.freshness_origin, spec.freshness_origin) == ("a statement", "its layer file")


@pytest.mark.parametrize(
    ("options", "where", "says"),
    [
        ("'freshness.calendar' = '11-11 = 10 SECONDS, 13-01 = 1 DAY'", "'11-11", "`13-01` is no day"),
        (
            "'freshness.calendar' = '11-11 = 1 DAY', 'freshness.time-zone' = 'Mars'",
            "'Mars'",
            "'Mars' is no time zone",
        ),
        ("'freshness.time-zone' = 'Asia/Tokyo'", "'freshness.time-zone'", "is that of 'freshness.calendar'"),
        (
            "'freshness.calender' = '11-11 = 1 DAY'",
            "'freshness.calender'",
            "did you mean `freshness.calendar`",
        ),
    ],
)
def test_errors_name_the_place(tmp_path: Path, options: str, where: str, says: str) -> None:
    with pytest.raises(SpecError) as told:
        write_table(tmp_path, "SELECT id, logdate FROM stg.orders", key="id", options=options)
    assert says in str(told.value)
    location = told.value.location
    line = location.path.read_text().splitlines()[location.line - 1]
    assert line[location.column - 1 :].startswith(where)
