"""START_MODE and IMMUTABLE WHERE: what they mean, and where they are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from spec_support import PARTITIONED, write

from headrace.engine.table.immutable import start_label
from headrace.errors import SpecError
from headrace.planner.policy.changes import change_of
from headrace.spec import TableSpec, load_table
from headrace.spec.ddl.start import StartMode, StartPosition
from headrace.spec.partitions.completion import RunMode
from headrace.spec.partitions.labels import label_after, label_at, label_before
from headrace.spec.project import Project
from headrace.store.record.commits import Commit

NOW = datetime(2026, 11, 22, 19, 30, tzinfo=UTC)
NOON = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)
REACHED = datetime(2026, 11, 22, 18, 59, 59, tzinfo=UTC)


def table(
    directory: Path, clauses: str, *, key: str = "a, logdate", partitioned: str = PARTITIONED
) -> TableSpec:
    text = (
        f"CREATE MATERIALIZED TABLE dws.t (PRIMARY KEY ({key}))\n{partitioned}"
        f"FRESHNESS = DOWNSTREAM\n{clauses}\nAS SELECT a, logdate FROM dwd.o"
    )
    return load_table(write(directory, "dws.t", text))


@pytest.mark.parametrize(
    ("written", "new", "there"),
    [
        ("FROM_BEGINNING", "", ""),
        ("FROM_NOW", "2026112219", "2026112219"),
        ("from_now(interval '7' days)", "2026111519", "2026111519"),
        ("FROM_TIMESTAMP('2026-11-01 12:30:00')", "2026110112", "2026110112"),
        ("FROM_TIMESTAMP(TIMESTAMP '2026-11-01')", "2026110100", "2026110100"),
        ("RESUME_OR_FROM_BEGINNING", "", "2026112218"),
        ("RESUME_OR_FROM_NOW(INTERVAL '2' HOUR)", "2026112217", "2026112218"),
        ("RESUME_OR_FROM_TIMESTAMP('2026-11-01 12:30')", "2026110112", "2026112218"),
    ],
)
def test_the_first_partition(tmp_path: Path, written: str, new: str, there: str) -> None:
    spec = table(tmp_path, f"START_MODE = {written}")
    empty = Commit("dws.t", "create", 0)
    head = Commit("dws.t", "stream", 4, source_ms=int(REACHED.timestamp() * 1000))
    assert start_label(spec, None, NOW) == new
    assert start_label(spec, empty, NOW) == new
    assert start_label(spec, head, NOW) == there


def test_a_table_that_says_nothing_starts_at_the_beginning(tmp_path: Path) -> None:
    assert start_label(table(tmp_path, ""), None, NOW) == ""


def test_labels_are_in_utc(tmp_path: Path) -> None:
    spec = table(tmp_path, "")
    assert label_at(spec, NOON.astimezone(tz=datetime.now().astimezone().tzinfo)) == "2026110112"
    assert label_before(spec, "2026110100") == "2026103123"
    assert label_after(spec, "2026103123") == "2026110100"


def test_labels_are_in_the_zone_of_the_table(tmp_path: Path) -> None:
    there = PARTITIONED.replace("WITH (", "WITH ('partition.time-zone' = 'Asia/Shanghai', ")
    spec = table(tmp_path, "START_MODE = FROM_TIMESTAMP('2026-11-01 20:00:00')", partitioned=there)
    assert start_label(spec, None, NOW) == "2026110204"


def test_it_is_shown_as_it_is_written() -> None:
    assert str(StartMode(StartPosition.FROM_NOW, resume=True)) == "RESUME_OR_FROM_NOW"
    assert str(StartMode(StartPosition.FROM_TIMESTAMP, at=NOON)) == "FROM_TIMESTAMP('2026-11-01 12:30:00')"
    assert "7 days" in str(StartMode(StartPosition.FROM_NOW, before=timedelta(days=7)))


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("START_MODE = NOW", "4:14: .*expected one of `FROM_BEGINNING`"),
        ("START_MODE = FROM_TIMESTAMP", r"expected `\(`"),
        ("START_MODE = FROM_TIMESTAMP('soon')", "`soon` is no time\n  hint: write it like"),
        ("START_MODE = FROM_TIMESTAMP('2026-02-30')", "`2026-02-30` is no time"),
        ("START_MODE = FROM_NOW(INTERVAL '0' DAY)", "cannot be met"),
        ("START_MODE = FROM_NOW(INTERVAL '1' WEEK)", "`WEEK` is no unit"),
        ("IMMUTABLE WHERE logdate < '2026110100'", r"expected `\(`"),
        ("IMMUTABLE WHERE (a < '2026110100')", "4:18: `a` is not the partition column `logdate`"),
        ("IMMUTABLE WHERE (logdate <= '2026110100')", "expected `<`"),
        ("IMMUTABLE WHERE (logdate < 'x')", "4:28: 'x' is no partition of dws.t"),
    ],
)
def test_what_is_refused(tmp_path: Path, clauses: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        table(tmp_path, clauses)


@pytest.mark.parametrize("clause", ["START_MODE = FROM_NOW", "IMMUTABLE WHERE (logdate < '2026110100')"])
def test_rows_must_stay_in_their_partition(tmp_path: Path, clause: str) -> None:
    with pytest.raises(SpecError, match=r"4:.*its key lacks the partition column `logdate`"):
        table(tmp_path, clause, key="a")
    with pytest.raises(SpecError, match="it has no partitions by time"):
        table(tmp_path, clause, partitioned="PARTITIONED BY (logdate)\n")
    assert table(tmp_path, "START_MODE = FROM_BEGINNING", key="a").start is not None


def test_both_leave_the_rows_as_they_are(tmp_path: Path) -> None:
    before = table(tmp_path, "")
    after = table(tmp_path, "START_MODE = FROM_NOW IMMUTABLE WHERE (logdate < '2026110100')")
    assert after.immutable_before == "2026110100"
    change = change_of(before, after, Project(tmp_path, {after.name: after}, {}))
    assert change is not None
    assert (change.kind, change.what) == ("PROPERTIES", ("START_MODE", "IMMUTABLE WHERE"))


def test_a_business_period_closes_so_rows_must_stay_in_it(tmp_path: Path) -> None:
    business = PARTITIONED.replace("WITH (", "WITH ('run.mode' = 'business', ")
    assert table(tmp_path, "", partitioned=business).completion.run_mode is RunMode.BUSINESS
    with pytest.raises(SpecError, match=r"1:27: dws.t cannot keep partitions as they are: its key lacks"):
        table(tmp_path, "", key="a", partitioned=business)
