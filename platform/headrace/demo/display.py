"""Progress of the demo on a terminal, or as plain lines where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.demo.freshness import TableFreshness
from headrace.demo.report import Report
from headrace.results import DifferingRow

_QUIET_SECONDS = 5.0  # at least, between two plain lines of one step

Say = Callable[[str], None]


WIDTH = 100
"""Columns of text that the summary's table needs."""


class Display:
    """Shows steps as they happen and keeps their times in `seconds`."""

    def __init__(self, console: Console | None = None, *, seconds: dict[str, float] | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.seconds = {} if seconds is None else seconds

    @contextmanager
    def step(self, name: str, title: str) -> Iterator[Say]:
        """One timed step; what it yields shows what is happening inside."""
        started = time.monotonic()
        note = ""

        def take_time() -> float:
            self.seconds[name] = round(time.monotonic() - started, 1)
            return self.seconds[name]

        try:
            with self._running(title) as show:

                def say(text: str) -> None:
                    nonlocal note
                    note = text
                    show(text)

                yield say
        except BaseException:
            self.console.print(f"[red]✗[/] {title} [dim]({take_time():.1f} s)[/]")
            raise
        detail = f" [dim]{escape(note)}[/]" if note else ""
        self.console.print(f"[green]✓[/] {title} [dim]({take_time():.1f} s)[/]{detail}", soft_wrap=True)

    @contextmanager
    def _running(self, title: str) -> Iterator[Say]:
        if self.console.is_terminal:
            with self.console.status(f"{title} …") as status:
                yield lambda text: status.update(f"{title} … [dim]{escape(text)}[/]")
            return
        self.console.print(f"  {title} …")
        last = 0.0

        def line(text: str) -> None:
            nonlocal last
            if text and time.monotonic() - last >= _QUIET_SECONDS:
                last = time.monotonic()
                self.console.print(f"    {escape(text)}", soft_wrap=True)

        yield line

    def differing(self, title: str, rows: list[DifferingRow]) -> None:
        self.console.print(f"[red]{escape(title)}[/]", soft_wrap=True)
        for row in rows:
            shown = ", ".join(f"{name}={value}" for name, value in row.row.items())
            self.console.print(f"    only in {row.side}: {escape(shown)}", soft_wrap=True)

    def problem(self, text: str) -> None:
        self.console.print(f"[red]✗[/] {escape(text)}", soft_wrap=True)

    def line(self, text: str) -> None:
        self.console.print(escape(text), soft_wrap=True)

    def summary(self, report: Report, dagster_url: str) -> None:
        """Rows, parity and freshness per table, then the figures of the run."""
        tables = Table(title=None, box=None, pad_edge=False, header_style="bold")
        for column in (
            "table",
            "rows",
            "= batch",
            "= source",
            "= PostgreSQL",
            "declared",
            "p50",
            "p90",
        ):
            left = column == "table" or column.startswith("=")
            tables.add_column(column, justify="left" if left else "right", no_wrap=True)
        for name, figures in report.tables.items():
            tables.add_row(
                name,
                f"{figures.rows:,}",
                _mark(figures.parity),
                _mark(figures.source_parity),
                _mark(report.postgres.get(name)),
                *_kept(report.kept.get(name)),
            )
        self.console.print()
        # Numbers that are cut off say nothing: a narrow terminal wraps the lines.
        width = max(self.console.width, WIDTH)
        Console(file=self.console.file, width=width, force_terminal=self.console.is_terminal).print(tables)
        self.console.print()
        for label, text in _figures(report):
            self.console.print(f"{label:<22}{text}", soft_wrap=True)
        self.console.print(f"{'Dagster':<22}{dagster_url}", soft_wrap=True)


def _mark(equal: bool | None) -> str:
    return "" if equal is None else "[green]equal[/]" if equal else "[red]DIFFERS[/]"


def _kept(kept: TableFreshness | None) -> tuple[str, str, str]:
    if kept is None:
        return "", "", ""
    p90 = f"{kept.p90:.1f} s"
    return f"{kept.declared:g} s", f"{kept.p50:.1f} s", f"[red]{p90}[/]" if kept.missed else p90


def _figures(report: Report) -> Iterator[tuple[str, str]]:
    if (f := report.freshness) is not None:
        yield (
            "freshness",
            f"p50 {f.p50:.2f} s, p90 {f.p90:.2f} s, p99 {f.p99:.2f} s (commit → live read of "
            f"dws.user_hour, {f.samples} samples, {f.min:.2f}–{f.max:.2f} s)",
        )
    if report.first_minutes:
        minutes = "; ".join(f"p50 {m.p50:.2f} s, p90 {m.p90:.2f} s" for m in report.first_minutes)
        yield "first minutes of load", minutes
    if (b := report.backfill) is not None:
        yield (
            "backfill",
            f"{b.partitions} hours, {b.rows:,} rows in {b.seconds:.1f} s beside the stream, "
            f"{b.corrections} corrections, stream {'went on' if b.stream_advanced else 'STOOD STILL'}"
            + (f", freshness p50 {b.freshness.p50:.2f} s" if b.freshness else ""),
        )
    if (load := report.load) is not None:
        yield "load", f"{load.changes:,} row changes in {load.seconds:.0f} s"
    if (c := report.compiler) is not None:
        yield (
            "compiled meanwhile",
            f"{c.classes} classes of expressions in {c.micro_batches} micro-batches and a backfill, "
            f"Java's compilers {100 * c.share:.0f} % of the JVM's time",
        )
    if report.snapshot_seconds is not None:
        yield "first snapshot", f"{report.snapshot_seconds:.0f} s"
    for name, equal in report.snapshot_equal.items():
        yield (
            "read by delta-rs",
            f"{name} {'equals the live rows' if equal else 'DIFFERS from the live rows'}",
        )
    if report.resident_bytes_peak:
        yield "peak resident memory", f"{report.resident_bytes_peak / 2**30:.1f} GiB, whole stack"
    yield "seconds", f"{report.seconds.get('total', 0):.0f}"
