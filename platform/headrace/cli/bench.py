"""bench: measure the engine, in process, against the bars it must meet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._shared.errors import FAILED
from headrace.cli._shared.options import Project, load_settings
from headrace.cli._shared.output import note, print_columns
from headrace.errors import TerminalError


def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="snapshot, freshness, chain, throughput, incremental, backfill, compaction, overhead, rows, "
            "scale, tables, tpch.",
        ),
    ],
    project: Project = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the results there.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the changes.")] = 1,
    scale: Annotated[float, typer.Option(min=0.001, help="tpch: scale factor of the data.")] = 0.1,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of changes.")] = 20,
    rows: Annotated[
        int | None,
        typer.Option(min=10_000, help="Rows of the large table. Default: the suite's.", show_default=False),
    ] = None,
    tables: Annotated[
        int | None,
        typer.Option(min=5, help="tables: how many. Default: 15, 100 and 500.", show_default=False),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="snapshot, freshness, chain, throughput: run this, too. Repeatable.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="chain: three minutes in place of the whole.")
    ] = False,
) -> None:
    """Measure the engine against the bars it must meet.

    Runs in a Spark application and a warehouse of its own; nothing else need run, and nothing else should.
    Prints a table; figures that the repository keeps of the last run stand beside the new ones. Ends with 1
    where a bar does not hold.
    """
    from headrace.settings import checkout

    settings = load_settings(project)
    root = checkout()
    if root is None or not (root / "benchmarks").is_dir():
        raise TerminalError(
            "benchmarks are part of headrace's repository, and this is an installed package. "
            f"Next, in a clone of the repository: `./headrace bench {suite}`"
        )
    from benchmarks import runner
    from headrace.services.termination import termination_as_interrupt

    cache = settings.state / "bench"
    options = runner.Options(seed, scale, rounds, rows, cache, tables, peers=tuple(peer or ()), quick=quick)
    with termination_as_interrupt():
        report = runner.run(suite, settings, options, note)
    for number, (headers, lines) in enumerate(report.tables(runner.last_run(suite, options))):
        if number:
            print()
        print_columns(headers, lines)
    if json_file is not None:
        report.write(json_file)
    if not report.holds:
        raise typer.Exit(FAILED)
