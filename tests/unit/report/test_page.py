"""The report page: what it tells, and that nothing in it can do harm or needs another file."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from headrace.report.gather import Gathered, Happened
from headrace.report.page import page
from headrace.report.plots import Node, Span, freshness, graph
from headrace.results import (
    CheckEvaluation,
    CommitAccount,
    Explanation,
    ParityResult,
    RefreshDecision,
    TableStatus,
)

NOW = datetime(2026, 11, 27, 18, tzinfo=UTC)


def table(name: str, **fields: object) -> TableStatus:
    known: dict[str, object] = {
        "mode": "CONTINUOUS",
        "state": "RUNNING",
        "strategy": "ROW",
        "declared_freshness": 10,
        "freshness_to_keep": 10,
        "measured_p50": 0.4,
        "measured_p90": 0.9,
        "rows": 1234,
        "version": 7,
    }
    return TableStatus.model_validate({"table": name, **known, **fields})


def explanation(name: str, *upstreams: str, **fields: object) -> Explanation:
    known: dict[str, object] = {
        "freshness": "INTERVAL '10' SECOND",
        "freshness_origin": "its layer file",
        "refresh_mode": "CONTINUOUS",
        "mode_reason": "",
        "strategy": "ROW",
        "strategy_reason": "",
    }
    return Explanation.model_validate({"table": name, "upstreams": list(upstreams), **known, **fields})


def proof(name: str, *, equal: bool) -> CheckEvaluation:
    result = ParityResult(table=name, against="batch", equal=equal, rows=9, missing=1, extra=2, version=7)
    return CheckEvaluation.of(result)


def gathered(*tables: TableStatus, checks: list[CheckEvaluation] | None = None) -> Gathered:
    decided = RefreshDecision(
        chosen="WEIGHTED", path="driver", why="", estimates={}, seconds=0.25, rows_in=50, rows_out=2
    )
    explanations = {t.table: explanation(t.table, "shop.public.orders") for t in tables}
    explanations["dws.a"] = explanation("dws.a", "stg.orders", history=[decided])
    filled = CommitAccount(
        version=6,
        committed_at=NOW,
        mode="backfill",
        partitions=24,
        before=1,
        inserted=321,
        updated=0,
        deleted=0,
        after=9,
    )
    return Gathered("shop", NOW, list(tables), explanations, checks or [], [Happened("dws.a", filled)])


def test_a_warehouse_that_is_well() -> None:
    text = page(gathered(table("stg.orders"), table("dws.a"), checks=[proof("dws.a", equal=True)]))
    assert "All 2 tables are well." in text
    assert "9 rows, 1 missing, 2 extra" in text and "passes" in text
    assert "WEIGHTED" in text and "250 ms" in text and "5.00 ms" in text
    assert "backfill" in text and ">321<" in text


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"state": "FAILED", "last_error": "a key twice"}, "dws.a is FAILED: a key twice"),
        ({"alarms": ["the connector stands still"]}, "dws.a: the connector stands still"),
        ({"dead_letters": 3}, "dws.a: 3 messages could not be applied"),
        ({"measured_p90": 12.0}, "dws.a misses its freshness"),
    ],
)
def test_what_is_not_well_comes_first(fields: dict[str, object], says: str) -> None:
    found = gathered(table("stg.orders"), table("dws.a", **fields))
    assert found.problems == [says]
    assert f"<li>{says}</li>" in page(found)
    assert "1 to look at" in page(found)


def test_a_difference_is_a_problem() -> None:
    found = gathered(table("stg.orders"), table("dws.a"), checks=[proof("dws.a", equal=False)])
    assert found.problems == ["dws.a: the check parity fails"]


def test_names_and_reasons_are_text_and_the_file_needs_no_other() -> None:
    hostile = "<script>alert(1)</script>"
    text = page(gathered(table("stg.orders"), table("dws.a", state="FAILED", last_error=hostile)))
    assert "<script" not in text and "&lt;script&gt;" in text
    assert not re.search(r"(?:src|href)=|@import|url\(", text)


def test_the_graph_goes_from_what_is_read_to_what_reads() -> None:
    nodes = [Node("s", "source"), Node("a", "good"), Node("b", "bad"), Node("c", "good")]
    drawn = ElementTree.fromstring(graph(nodes, {"a": ["s"], "b": ["a", "s"], "c": ["s"]}))
    x = {g[0].text: float(g[1].attrib["x"]) for g in drawn.iter("g")}
    assert x["s"] < x["a"] == x["c"] < x["b"]
    assert len(list(drawn.iter("path"))) == 4
    assert [g.attrib["class"] for g in drawn.iter("g")] == [
        "node source",
        "node good",
        "node bad",
        "node good",
    ]


def test_freshness_is_drawn_to_scale() -> None:
    spans = [Span("kept", 10, 0.1, 1), Span("late", 1, 1, 10), Span("unmeasured", 60, None, None)]
    drawn = ElementTree.fromstring(freshness(spans))
    kept, late = (r.attrib for r in drawn.iter("rect"))
    assert (kept["class"], late["class"]) == ("bar good", "bar bad")
    assert float(kept["width"]) == pytest.approx(float(late["width"]), abs=0.2)  # a decade each
    marks = [float(line.attrib["x1"]) for line in drawn.iter("line") if line.attrib["class"] == "declared"]
    assert len(marks) == 3 and marks[1] < marks[0] < marks[2]
    assert float(late["x"]) == pytest.approx(marks[1])
    assert [t.text for t in drawn.iter("text") if t.get("class") == "axis"] == [
        *("100 ms", "1 s", "10 s", "1 min", "10 min"),
    ]
