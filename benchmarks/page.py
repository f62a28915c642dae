"""The page of figures: what the last run of every suite measured, from the JSON files it wrote.

`python -m benchmarks.page docs/figures` writes `docs/figures.md` from `docs/figures/*.json`. Plots are
Mermaid charts, which GitHub and most viewers of Markdown draw.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Result, Value, by_subject, plain
from benchmarks.runner import SUITES

HEAD = """# Figures

What the last run of every suite of `headrace bench` measured; [benchmarks.md](benchmarks.md) says what each
value is and how it is taken. `python -m benchmarks.page docs/figures` writes this page from the JSON
files in that folder: nothing here was typed. Bars that do not hold say so.
"""
LABEL_CHARACTERS = 14
"""Longer names of subjects do not fit below their bars."""

MOST_BARS = 24

CHARTED = ("(s)", "(GiB)", "(cores)", "(rows/s)")
"""Units of which a chart is made."""


def page(reports: Sequence[dict[str, Any]]) -> str:
    """The Markdown text.

    Args:
        reports: as the suites write them with `--json`.
    """
    order = {name: place for place, name in enumerate(SUITES)}
    chapters = [_chapter(r) for r in sorted(reports, key=lambda r: order.get(r["suite"], len(order)))]
    return "\n".join([HEAD, *chapters])


def _chapter(report: dict[str, Any]) -> str:
    results = [Result(**r) for r in report["results"]]
    machine, versions = report["machine"], report["versions"]
    about = ", ".join(f"{name} {version}" for name, version in versions.items())
    rows_asked = report.get("rows")  # reports of an older headrace have none
    title = report["suite"] + (f", {rows_asked:,} rows" if rows_asked else "")
    title += ", quick" if report.get("quick") else ""
    parts = [
        f"## {title}\n",
        f"{machine['cpus']} processors, {machine['memory_bytes'] / 2**30:.0f} GiB, "
        f"{machine['architecture']}; seed {report['seed']}; {about}.\n",
        _table(*plain(results)),
    ]
    headers, rows = by_subject(results)
    if rows:
        parts += [_table(headers, rows), *_charts(headers, rows)]
    return "\n".join(parts)


def _table(headers: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    if not rows:
        return ""
    lines = [headers, ["---"] * len(headers), *([_text(v) for v in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value).replace("|", "\\|")


def _charts(headers: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[str]:
    """A chart for each measure of time, size or rate that two subjects or more have."""
    charts = []
    for place, header in enumerate(headers):
        found = [(str(row[0]), row[place]) for row in rows]
        bars = [(n, v) for n, v in found if isinstance(v, int | float) and not isinstance(v, bool)]
        if place and header.endswith(CHARTED) and 1 < len(bars) <= MOST_BARS:
            names = ", ".join(f'"{name[:LABEL_CHARACTERS]}"' for name, _ in bars)
            values = ", ".join(f"{value:g}" for _, value in bars)
            charts.append(
                f'```mermaid\nxychart-beta\n  title "{header}"\n  x-axis [{names}]\n  bar [{values}]\n```\n'
            )
    return charts


def main(folder: Path) -> None:
    """Write the page beside the folder."""
    reports = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))]
    folder.with_suffix(".md").write_text(page(reports), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
