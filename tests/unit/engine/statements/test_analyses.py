"""What was found once is not looked for again, also by the next process."""

from __future__ import annotations

from pathlib import Path

from headrace.engine.statements.analyses import Analyses


def counted(found: object, calls: list[object]) -> object:
    calls.append(found)
    return found


def test_a_finding_is_made_once_and_stays_over_restarts(tmp_path: Path) -> None:
    calls: list[object] = []
    first = Analyses(tmp_path / "analyses.json")
    for _ in range(2):
        assert first.find(lambda: counted([["a", "int"]], calls), "columns", "SELECT a") == [["a", "int"]]
    first.keep()
    again = Analyses(tmp_path / "analyses.json")
    assert again.find(lambda: counted([], calls), "columns", "SELECT a") == [["a", "int"]]
    assert len(calls) == 1


def test_other_texts_are_looked_at_anew(tmp_path: Path) -> None:
    analyses = Analyses()
    assert analyses.find(lambda: 1, "columns", "SELECT a", ("a", "int")) == 1
    assert analyses.find(lambda: 2, "columns", "SELECT a", ("a", "bigint")) == 2
    assert analyses.find(lambda: 3, "weighted", "SELECT a", ("a", "int")) == 3


def test_what_nobody_asks_for_any_more_goes(tmp_path: Path) -> None:
    file, calls = tmp_path / "analyses.json", list[object]()
    first = Analyses(file)
    first.find(lambda: 1, "gone")
    first.find(lambda: 2, "stays")
    first.keep()
    first.find(lambda: 2, "stays")
    first.keep()
    again = Analyses(file)
    again.find(lambda: counted(2, calls), "stays")
    again.find(lambda: counted(1, calls), "gone")
    assert calls == [1]


def test_a_file_that_cannot_be_read_costs_time_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "analyses.json"
    file.write_text("{")
    analyses = Analyses(file)
    assert analyses.find(lambda: None, "weighted") is None
    analyses.keep()
    assert file.read_text().startswith('{"')
