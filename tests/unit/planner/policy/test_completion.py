"""When a partition is complete: the options that say it, labels and their zones, and what data is late."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from planner_support import write_table

from headrace.errors import SpecError
from headrace.planner.policy.changes import ChangeKind, change_of
from headrace.planner.policy.completion import (
    MOST,
    end_of,
    late,
    newest_complete,
    newly_complete,
    runs_of,
)
from headrace.spec.model import TableSpec
from headrace.spec.partitions.completion import (
    Completion,
    LateData,
    RunMode,
    Signal,
    completion_text,
    delay_text,
)

QUERY = "SELECT id, logdate FROM dwd.orders"


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    return write_table(tmp_path, QUERY, key="id")


def declared(directory: Path, options: str, **others: str) -> Completion:
    return write_table(directory, QUERY, key="id", options=options, **others).completion


def of(spec: TableSpec, pattern: str, zone: str = "UTC", delay: int = 0) -> TableSpec:
    """The table with labels of another format and zone; `delay` in seconds."""
    completion = Completion(delay=timedelta(seconds=delay), zone=ZoneInfo(zone))
    return replace(spec, partition_format=pattern, completion=completion)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# -- options ----------------------------------------------------------------------------------------------


def test_without_options_a_partition_is_complete_five_minutes_later_by_the_watermark(tmp_path: Path) -> None:
    found = declared(tmp_path, "")
    assert (found.delay, found.signal, found.zone) == (timedelta(minutes=5), Signal.WATERMARK, UTC)
    assert (found.late, found.run_mode) == (LateData.REOPEN, RunMode.REAL_TIME)


def test_options_say_when_and_what_then(tmp_path: Path) -> None:
    found = declared(
        tmp_path,
        "'partition.complete.delay' = '90 seconds', 'partition.complete.signal' = 'latency', "
        "'partition.late' = 'ignore', 'partition.time-zone' = 'Asia/Shanghai', "
        "'run.mode' = 'offline, real-time'",
    )
    assert (found.delay, found.signal) == (timedelta(seconds=90), Signal.LATENCY)
    assert (found.late, found.run_mode) == (LateData.IGNORE, RunMode.DOUBLE)
    assert found.zone == ZoneInfo("Asia/Shanghai")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("'partition.complete.delay' = '5'", r"'5' is no delay\n  hint: .*'5 MINUTE'"),
        ("'partition.complete.delay' = '-5 MINUTE'", "is no delay"),
        ("'partition.complete.delay' = '5 WEEK'", "is no delay"),
        ("'partition.complete.signal' = 'clock'", r"no signal .*\n  hint: write 'watermark' or 'latency'"),
        ("'partition.late' = 'drop'", r"no policy for late data\n  hint: write 'reopen' or 'ignore'"),
        ("'partition.time-zone' = 'Mars/Olympus'", "is no time zone"),
        (
            "'run.mode' = 'batch'",
            r"no run mode\n  hint: write 'real-time' or 'offline' or 'real-time, offline' or 'business'",
        ),
        ("'run.mode' = 'real-time, real-time'", "is no run mode"),
        (
            "'run.mode' = 'offline', 'partition.late' = 'ignore'",
            r"'partition.late' = 'ignore' has no place .* that is 'offline': .*\n  hint: .* 'business'",
        ),
        (
            "'run.mode' = 'offline', 'correction.policy' = 'skip'",
            r"'correction.policy' = 'skip' has no place in a table that is 'offline'",
        ),
        ("'partition.complete.dealy' = '5 MINUTE'", r"no option\n  hint: .*partition.complete.delay"),
    ],
)
def test_wrong_options_are_refused_with_their_place(tmp_path: Path, options: str, why: str) -> None:
    with pytest.raises(SpecError, match=why) as told:
        declared(tmp_path, options)
    assert "result.sql:3:" in str(told.value)


def test_a_table_without_partitions_by_time_has_no_complete_ones(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"'run.mode' needs partitions by time\n  hint: declare PARTITIONED BY"
    ):
        write_table(
            tmp_path,
            "SELECT id FROM dwd.orders",
            key="id",
            partition=None,
            options="'run.mode' = 'real-time'",
        )


def test_a_stg_table_is_written_by_its_stream_alone(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"a stg table runs in no mode but 'real-time'.*\n  hint: .*reads it"):
        write_table(
            tmp_path,
            "SELECT id, logdate FROM shop.public.orders",
            key="",
            name="stg.orders",
            options="'run.mode' = 'real-time, offline'",
        )


def test_another_mode_or_delay_touches_no_row(spec: TableSpec, tmp_path: Path) -> None:
    other = write_table(tmp_path, QUERY, key="id", options="'run.mode' = 'real-time, offline'")
    found = change_of(spec, other, None)  # type: ignore[arg-type]
    assert found is not None and (found.kind, found.what) == (ChangeKind.PROPERTIES, ("WITH",))


def test_a_delay_is_told_in_its_largest_unit(spec: TableSpec) -> None:
    texts = [delay_text(timedelta(seconds=s)) for s in (0, 90, 300, 7200, 172800)]
    assert texts == ["0 SECOND", "90 SECOND", "5 MINUTE", "2 HOUR", "2 DAY"]
    assert completion_text(spec) == (
        "5 MINUTE after its end in UTC, by the source's time; late data opens it again"
    )
    assert completion_text(replace(spec, partition_format=None)) == ""


# -- labels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "signal", "newest"),
    [
        ("yyyyMMddHH", "2026-11-22T10:00:00", "2026112209"),
        ("yyyyMMddHH", "2026-11-22T09:59:59.999999", "2026112208"),
        ("yyyyMMddHH", "2026-03-01T00:00:00", "2026022823"),
        ("yyyyMMddHHmm", "2026-11-22T10:00:00", "202611220959"),
        ("yyyy-MM-dd HH:mm", "2026-11-22T10:00:30", "2026-11-22 09:59"),
        ("yyyy-MM-dd", "2026-11-22T23:59:59", "2026-11-21"),
        ("yyyyMMdd", "2026-11-23T00:00:00", "20261122"),
        ("yyyy-MM", "2026-12-31T23:59:59", "2026-11"),
        ("yyyyMM", "2027-01-01T00:00:00", "202612"),
        ("yyyy", "2026-12-31T23:59:59", "2025"),
        ("yyyy", "2027-01-01T00:00:00", "2026"),
    ],
)
def test_a_partition_is_complete_at_its_end(spec: TableSpec, pattern: str, signal: str, newest: str) -> None:
    assert newest_complete(of(spec, pattern), at(signal)) == newest


def test_it_is_complete_the_delay_later(spec: TableSpec) -> None:
    assert newest_complete(spec, at("2026-11-22T10:04:59.999")) == "2026112208"
    assert newest_complete(spec, at("2026-11-22T10:05:00")) == "2026112209"


@pytest.mark.parametrize(
    ("zone", "pattern", "label", "end"),
    [
        ("Asia/Shanghai", "yyyyMMddHH", "2026112218", "2026-11-22T11:00"),
        ("Asia/Kolkata", "yyyyMMddHH", "2026112218", "2026-11-22T13:30"),
        ("America/New_York", "yyyyMMdd", "20261122", "2026-11-23T05:00"),
        # Clocks go back at 03:00 summer time: the hour from 02:00 is there twice, and over after the second.
        ("Europe/Berlin", "yyyyMMddHH", "2026102501", "2026-10-25T00:00"),
        ("Europe/Berlin", "yyyyMMddHH", "2026102502", "2026-10-25T02:00"),
        ("Europe/Berlin", "yyyyMMddHH", "2026102503", "2026-10-25T03:00"),
        ("Europe/Berlin", "yyyyMMddHHmm", "202610250230", "2026-10-25T01:31"),
        ("Europe/Berlin", "yyyyMMdd", "20261025", "2026-10-25T23:00"),
        # They go forward at 02:00: there is no such hour, and it is over when it would begin.
        ("Europe/Berlin", "yyyyMMddHH", "2026032901", "2026-03-29T01:00"),
        ("Europe/Berlin", "yyyyMMddHH", "2026032902", "2026-03-29T01:00"),
        ("Europe/Berlin", "yyyyMMddHH", "2026032903", "2026-03-29T02:00"),
    ],
)
def test_a_label_names_a_time_of_its_zone(
    spec: TableSpec, zone: str, pattern: str, label: str, end: str
) -> None:
    table = of(spec, pattern, zone)
    assert end_of(table, label) == at(end)
    assert newest_complete(table, at(end) - timedelta(microseconds=1)) < label  # type: ignore[operator]
    assert newest_complete(table, at(end)) >= label  # type: ignore[operator]


def test_every_label_becomes_complete_once(spec: TableSpec) -> None:
    """Over a day on which an hour is repeated, and one that lacks an hour, at any pace of looking."""
    for day in ("2026-10-24T20:00", "2026-03-28T20:00"):
        for pattern, step in (("yyyyMMddHH", 7), ("yyyyMMddHHmm", 11), ("yyyyMMddHH", 190)):
            table = of(spec, pattern, "Europe/Berlin", delay=300)
            moment, found = at(day), []
            through = newest_complete(table, moment)
            assert through is not None
            while moment < at(day) + timedelta(hours=12):
                moment += timedelta(minutes=step)
                for label in newly_complete(table, moment, through):
                    assert end_of(table, label) + timedelta(minutes=5) <= moment
                    found.append(label)
                    through = label
            assert found == sorted(set(found))
            assert through == newest_complete(table, moment)


def test_nothing_is_newly_complete_before_its_time_or_where_time_went_back(spec: TableSpec) -> None:
    assert newly_complete(spec, at("2026-11-22T10:04:59"), "2026112208") == []
    assert newly_complete(spec, at("2026-11-22T10:05:00"), "2026112208") == ["2026112209"]
    assert newly_complete(spec, at("2026-11-22T08:00:00"), "2026112209") == []


def test_after_an_outage_all_follow_in_parts(spec: TableSpec) -> None:
    first = newly_complete(spec, at("2026-11-22T10:05:00"), "2026010100")
    assert (first[0], len(first)) == ("2026010101", MOST)
    assert newly_complete(spec, at("2026-11-22T10:05:00"), first[-1])[0] > first[-1]


def test_no_signal_is_no_partition(spec: TableSpec) -> None:
    assert newest_complete(spec, datetime.min.replace(tzinfo=UTC)) is None
    assert newly_complete(spec, datetime.min.replace(tzinfo=UTC), "2026112209") == []


def test_late_is_what_was_complete_before(spec: TableSpec) -> None:
    changed = ["2026112210", "2026112209", None, "2026112208", "1", "2026112299", "__none"]
    assert late(spec, changed, "2026112209") == ["2026112208", "2026112209"]


def test_runs_have_no_gap_and_an_end(spec: TableSpec) -> None:
    labels = ["2026112222", "2026112223", "2026112300", "2026112302", "2026112303"]
    assert runs_of(spec, labels, 24) == [labels[:3], labels[3:]]
    assert runs_of(spec, labels, 2) == [labels[:2], labels[2:3], labels[3:]]
    assert runs_of(spec, [], 2) == []
