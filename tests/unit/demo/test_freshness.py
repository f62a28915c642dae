from __future__ import annotations

import threading

import pytest

from headrace.demo.freshness import FreshnessProbe, TableFreshness, by_minute, delays, of_tables, summarize
from headrace.errors import TerminalError, TransientError
from headrace.percentile import percentile
from headrace.results import TableStatus


def test_a_tick_counts_from_its_commit_to_the_first_read_that_shows_it_or_a_later_one() -> None:
    ticks = [(1, 10.0), (2, 10.5), (3, 11.0), (4, 11.5)]
    reads = [(0, 10.2), (1, 11.0), (1, 11.25), (3, 12.0)]
    assert delays(ticks, reads) == {1: 1.0, 2: 1.5, 3: 1.0}


def test_a_read_that_ended_before_the_commit_shows_nothing_of_it() -> None:
    assert delays([(5, 10.0)], [(7, 9.0), (7, 10.5)]) == {5: 0.5}


def test_each_of_the_first_minutes_is_summarized_alone() -> None:
    ticks = [(1, 100.0), (2, 159.0), (3, 161.0), (4, 221.0)]
    reads = [(1, 130.0), (2, 160.0), (3, 163.0), (4, 222.5)]
    minutes = by_minute(ticks, reads, 2)
    assert [(m.samples, m.min, m.max) for m in minutes] == [(2, 1.0, 30.0), (1, 2.0, 2.0)]
    assert by_minute([], reads, 3) == []


def status(table: str, keep: float | None, p50: float | None, p90: float | None) -> TableStatus:
    return TableStatus(
        table=table,
        mode="CONTINUOUS",
        state="RUNNING",
        strategy="ROW",
        declared_freshness=None,
        measured_freshness=None,
        freshness_to_keep=keep,
        measured_p50=p50,
        measured_p90=p90,
    )


def test_tables_without_a_freshness_or_changes_missed_nothing() -> None:
    found = of_tables(
        [
            status("a", 10, 1, 10),
            status("b", 10, 2, 10.5),
            status("c", None, 1, 99),
            status("d", 5, None, None),
        ]
    )
    assert found == {
        "a": TableFreshness(declared=10, p50=1, p90=10),
        "b": TableFreshness(declared=10, p50=2, p90=10.5),
    }
    assert [table for table, kept in found.items() if kept.missed] == ["b"]


@pytest.mark.parametrize(("ticks", "reads"), [([], [(1, 1.0)]), ([(1, 1.0)], []), ([(2, 1.0)], [(1, 2.0)])])
def test_nothing_visible_gives_no_delay(
    ticks: list[tuple[int, float]], reads: list[tuple[int, float]]
) -> None:
    assert delays(ticks, reads) == {}


def test_percentiles_are_measured_values() -> None:
    ordered = [float(n) for n in range(1, 11)]
    assert [percentile(ordered, share) for share in (0.5, 0.9, 0.99, 0.0)] == [5.0, 9.0, 10.0, 1.0]
    assert percentile([3.0], 0.5) == 3.0


def test_a_summary_of_nothing_is_nothing() -> None:
    assert summarize([]) is None
    found = summarize([0.3, 0.1, 0.2])
    assert found is not None
    assert found.model_dump() == {"p50": 0.2, "p90": 0.3, "p99": 0.3, "min": 0.1, "max": 0.3, "samples": 3}


class Readings:
    """Answers in turn, then tells that they are used up and stays at the last."""

    def __init__(self, *answers: int | Exception | None) -> None:
        self.answers = list(answers)
        self.used_up = threading.Event()

    def __call__(self) -> int | None:
        if len(self.answers) == 1:
            self.used_up.set()
            answer = self.answers[0]
        else:
            answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_probe_goes_on_over_a_refused_read_and_sees_a_step_back() -> None:
    readings = Readings(None, 1, TransientError("busy"), 3, 2, 4)
    with FreshnessProbe(readings, interval=0.001) as probe:
        assert readings.used_up.wait(10)
    assert [tick for tick, _ in probe.reads][:4] == [1, 3, 2, 4]
    assert (probe.steps_back, probe.refused, probe.visible) == (1, 1, 4)


def test_a_probe_that_cannot_read_says_so() -> None:
    readings = Readings(StopIteration("broken"))
    with pytest.raises(TerminalError, match="broken"), FreshnessProbe(readings, interval=0.001):
        assert readings.used_up.wait(10)
