"""The page of figures says what the suites' JSON files say."""

from __future__ import annotations

import json
from pathlib import Path

from repository import ROOT

from benchmarks.page import main, page
from benchmarks.report import Report, Result, at_most

DOCS = ROOT / "docs"


def test_a_chapter_has_bars_subjects_and_a_chart_of_each_measure(tmp_path: Path) -> None:
    results = [
        at_most("a | b", 2.0, 1),
        *(Result(f"{name}.seconds", value, "s") for name, value in (("one", 1.25), ("other", 3.0))),
        Result("one.equal", True),
        Result("one.alone", 5.0, "s"),
    ]
    Report("scale", 7, results, 10_000).write(tmp_path / "scale.json")
    main(tmp_path)
    text = tmp_path.with_suffix(".md").read_text()
    assert "## scale, 10,000 rows\n" in text
    assert "| a \\| b | 2.0 |  | ≤ 1 | NOT OK |" in text
    assert "| one | 1.25 | yes | 5.0 |" in text and "| other | 3.0 |  |  |" in text
    assert text.count("```mermaid") == 1  # only one subject has the other measure with a unit
    assert 'x-axis ["one", "other"]\n  bar [1.25, 3]' in text


def test_the_page_in_the_repository_is_what_its_files_give() -> None:
    reports = [json.loads(file.read_text("utf-8")) for file in sorted((DOCS / "figures").glob("*.json"))]
    assert page(reports) == (DOCS / "figures.md").read_text("utf-8")
