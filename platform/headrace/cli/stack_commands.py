"""demo, up, down, status, doctor: the stack as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.errors import FAILED, UNREACHABLE
from headrace.cli.options import Json, Project, load_settings
from headrace.cli.output import note, print_json
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.services.status import ServiceName


def demo(
    project: Project = None,
    exit_at_end: Annotated[bool, typer.Option("--exit", help="Stop everything at the end.")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the figures there.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the shop and of the load.")] = 1,
    rate: Annotated[float, typer.Option(min=0.1, help="Row changes a second.")] = 40.0,
    seconds: Annotated[float, typer.Option(min=1, help="How long the load lasts.")] = 60.0,
) -> None:
    """Show everything, from nothing to the proof.

    Starts the services, a shop database under live load and all layers; backfills some hours meanwhile;
    proves every table equal. Ends with 1 on any difference.
    """
    from headrace.demo import run

    code = run(
        load_settings(project),
        exit_at_end=exit_at_end,
        json_file=json_file,
        seed=seed,
        rate=rate,
        seconds=seconds,
    )
    raise typer.Exit(code)


def up(project: Project = None) -> None:
    """Start the stack, or what of it does not run."""
    from headrace.services.stack import Stack

    settings = load_settings(project)
    stack = Stack(settings)
    # The warehouse reads the topics that the registration of a connector creates.
    stack.up(only=["connect"], on_progress=_show)
    problem: HeadraceError | None = None
    try:
        stack.register_connectors(on_progress=_show)
    except HeadraceError as error:
        problem = error
    stack.up(on_progress=_show)
    if problem is not None:
        raise problem  # the rest is up: what is stored can be read while the source is being mended
    note(f"up: `headrace status` shows the tables, Dagster is at {settings.dagster_url}")


def down(project: Project = None) -> None:
    """Stop the stack.

    Data stays; `headrace up` continues where it was.
    """
    from headrace.services.stack import Stack

    Stack(load_settings(project)).down(on_progress=_show)
    note("down: no process of the stack is left")


def status(project: Project = None, as_json: Json = False) -> None:
    """Show services and tables.

    Of each table: mode, state, strategy, declared and measured freshness, rows, version, lag, last error.
    Ends with 1 where a service or table is not well, with 3 where the warehouse server does not answer.
    """
    from headrace.cli import overview

    seen = overview.look(load_settings(project))
    if as_json:
        print_json(seen.as_dict())
    else:
        overview.show(seen)
    if seen.tables is None:
        raise typer.Exit(UNREACHABLE)
    if not seen.well:
        raise typer.Exit(FAILED)


def doctor(project: Project = None, as_json: Json = False) -> None:
    """Check what the stack needs of this machine.

    Java, JVM artifacts, ports, disk, memory, layer files. Ends with 1 where something is amiss.
    """
    from headrace.cli.diagnosis import diagnose
    from headrace.cli.output import print_columns

    findings = diagnose(load_settings(project))
    if as_json:
        print_json([{"check": f.check, "ok": f.ok, "detail": f.detail} for f in findings])
    else:
        print_columns(
            ("check", "", "detail"), [(f.check, "ok" if f.ok else "NOT OK", f.detail) for f in findings]
        )
    if not all(f.ok for f in findings):
        raise typer.Exit(FAILED)


def _show(service: ServiceName, message: str) -> None:
    note(f"{service:<18} {message}")
