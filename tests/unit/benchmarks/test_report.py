"""What is printed of a run: every result, and of each bar whether it holds."""

from __future__ import annotations

from benchmarks.report import Result, less_than, plain


def test_a_bar_of_one_subject_is_shown_too() -> None:
    """Else a run fails and nobody sees at what."""
    results = [Result("500 tables.plan", 3.0, "s"), less_than("500 tables.idle", 0.9, 0.3, "cores")]
    _, rows = plain([*results, less_than("all", 1.0, 2.0)])
    assert rows == [["500 tables.idle", 0.9, "cores", "< 0.3", "NOT OK"], ["all", 1.0, "", "< 2", "ok"]]
