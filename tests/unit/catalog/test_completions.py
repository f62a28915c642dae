"""The record of complete partitions: what is noted once, what waits, and that it survives the process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa

from headrace.catalog import Catalog, completions
from headrace.catalog.completions import HISTORY, CompletionProgress, Completions, Summary
from headrace.spec.model import TableName

T = TableName("dws", "user_hour")
OTHER = TableName("dws", "gmv_hour")
NEVER_RUN = TableName("dwd", "orders")


@pytest.fixture
def known(catalog: Catalog) -> Completions:
    """Two hours complete when the table was first looked at."""
    catalog.completions.begin(T, ["10", "08"], "10", 1000, 5)
    return catalog.completions


def outcomes(known: Completions) -> dict[str, str | None]:
    return {p.label: p.outcome for p in known.of(T)}


def test_what_was_complete_before_waits_for_nothing(known: Completions) -> None:
    assert known.progress(T) == CompletionProgress("10", 5, 0) and known.progress(OTHER) is None
    assert outcomes(known) == {"08": HISTORY, "10": HISTORY}
    assert known.waiting(T) == {}
    assert [p.turn for p in known.of(T)] == [1, 2]
    assert known.summaries({}) == {str(T): Summary("10", 5, 0, 2, ())}


def test_a_complete_partition_waits_until_its_run_has_ended(known: Completions) -> None:
    known.complete(T, ["11", "12"], 2000, 7)
    assert known.progress(T) == CompletionProgress("12", 7, 0)
    assert known.waiting(T) == {"11": 2000, "12": 2000}
    known.finish(T, ["11"], "EQUAL", "told", 8)
    [found] = [p for p in known.of(T) if p.label == "11"]
    assert (found.outcome, found.detail, found.version, found.runs) == ("EQUAL", "told", 8, 1)
    assert (found.watermark_ms, found.reopened, found.turn) == (2000, 0, 3)
    assert found.finished_at is not None and found.finished_at >= found.completed_at
    assert known.waiting(T) == {"12": 2000}
    known.finish(T, [], "EQUAL", "", 9)  # what ran was about none of them
    assert known.waiting(T) == {"12": 2000}


def test_it_cannot_become_complete_twice(known: Completions) -> None:
    known.complete(T, ["11"], 2000, 7)
    with pytest.raises(sa.exc.IntegrityError):
        known.complete(T, ["11"], 2000, 7)


def test_late_data_opens_it_again_once_until_it_has_run(known: Completions) -> None:
    known.complete(T, ["11"], 2000, 7)
    known.finish(T, ["11"], "EQUAL", "", 7)
    known.reopen(T, ["11", "10", "09"], due_ms=2500, version=9, looked=9)
    assert known.progress(T) == CompletionProgress("11", 9, 0)
    assert known.waiting(T) == {"09": 2500, "10": 2500, "11": 2500}
    known.reopen(T, ["11"], due_ms=9999, version=10, looked=10)
    assert known.waiting(T)["11"] == 2500
    known.finish(T, ["09", "10", "11"], "EQUAL", "", 11)
    assert {p.label: (p.reopened, p.runs) for p in known.of(T)} == {
        "08": (0, 0), "09": (1, 1), "10": (1, 1), "11": (1, 2)
    }  # fmt: skip
    assert [p.turn for p in known.of(T)] == [1, 4, 5, 6]


def test_status_asks_twice_however_many_tables_there_are(
    known: Completions, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    then, now = datetime(2026, 11, 21, 9, tzinfo=UTC), datetime(2026, 11, 22, 9, tzinfo=UTC)
    for number, table in enumerate((OTHER, NEVER_RUN, *(TableName("dws", f"t{n}") for n in range(5)))):
        known.begin(table, [], "10", 1000, number)
    for when, label, outcome in ((then, "11", "REPAIRED"), (now, "13", "REPAIRED"), (then, "12", "DIFFERS")):
        monkeypatch.setattr(completions, "utc_now", lambda when=when: when.replace(tzinfo=None))
        for table in (T, OTHER):
            known.reopen(table, [label], due_ms=1, version=9, looked=9)
        known.finish(T, [label], outcome, "", 9)
        known.finish(OTHER, [label], "EQUAL", "", 9)
    asked: list[str] = []
    sa.event.listen(sa.Engine, "before_cursor_execute", hear := lambda *said: asked.append(said[2]))
    found = known.summaries({"DIFFERS": None, "REPAIRED": then.astimezone(timezone(timedelta(hours=-8)))})
    sa.event.remove(sa.Engine, "before_cursor_execute", hear)
    assert sum(text.startswith("SELECT") for text in asked) == 2 and len(found) == 8
    own = found[str(T)]
    assert (own.through, own.looked, own.turn) == ("10", 9, 5)
    assert [p.label for p in own.partitions] == ["12", "13"]
    assert own.of("REPAIRED") == [p for p in known.of(T) if p.label == "13"]
    assert found[str(OTHER)] == Summary("10", 9, 0, 3, ())
    assert found[str(NEVER_RUN)] == Summary("10", 1, 0, 0, ())


def test_what_is_let_be_is_counted(known: Completions) -> None:
    known.ignore(T, 2, 6)
    known.ignore(T, 1, 8)
    known.look(T, 9)
    assert known.progress(T) == CompletionProgress("10", 9, 3) and known.waiting(T) == {}


def test_it_survives_the_process(known: Completions, catalog: Catalog, tmp_path: Path) -> None:
    known.complete(T, ["11"], 2000, 7)
    before = known.of(T)
    catalog.close()
    reopened = Catalog(f"sqlite:///{tmp_path / 'state' / 'catalog.db'}")
    assert reopened.completions.of(T) == before
    assert reopened.completions.waiting(T) == {"11": 2000}
    reopened.close()


def test_a_table_that_is_dropped_or_partitioned_otherwise_begins_anew(
    known: Completions, catalog: Catalog
) -> None:
    known.begin(OTHER, ["10"], "10", 1000, 5)
    known.restart(T)
    assert known.progress(T) is None and known.of(T) == [] and len(known.of(OTHER)) == 1
    catalog.drop(OTHER)
    assert known.progress(OTHER) is None and known.of(OTHER) == []


def test_the_oldest_go_but_for_those_that_wait(known: Completions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "KEPT", 3)
    known.reopen(T, ["08"], due_ms=1, version=5, looked=5)
    known.complete(T, ["11", "12", "13"], 2000, 7)
    assert list(outcomes(known)) == ["08", "11", "12", "13"]
