"""demo: everything, from nothing to the proof."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._shared.options import Project, load_settings


def demo(
    project: Project = None,
    exit_at_end: Annotated[bool, typer.Option("--exit", help="Stop everything at the end.")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the figures there.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the shop and of the load.")] = 1,
    rate: Annotated[float, typer.Option(min=0.1, help="Row changes a second.")] = 40.0,
    warm_up: Annotated[float, typer.Option(min=0, help="Seconds of load before any is measured.")] = 150.0,
    seconds: Annotated[float, typer.Option(min=1, help="How long the load lasts after that.")] = 60.0,
) -> None:
    """Show everything, from nothing to the proof.

    Starts the services, a shop database under live load and all layers; backfills some hours meanwhile;
    proves every table equal. Ends with 1 on any difference.
    """
    from headrace.demo.demo import run

    code = run(
        load_settings(project),
        exit_at_end=exit_at_end,
        json_file=json_file,
        seed=seed,
        rate=rate,
        warm_up=warm_up,
        seconds=seconds,
    )
    raise typer.Exit(code)
