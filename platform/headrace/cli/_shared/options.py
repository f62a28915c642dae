"""Options that commands share, and the project that a command is about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from headrace.cli._shared.errors import UsageError
from headrace.errors import TerminalError

if TYPE_CHECKING:
    from headrace.gateway.client import GatewayClient
    from headrace.settings import Settings

Project: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--project",
        metavar="DIR",
        help="The project directory. Default: this one, or its nearest parent with layers/.",
        show_default=False,
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def tables_here(ctx: typer.Context, incomplete: str) -> list[str]:
    """For the shell's completion: tables of the project by the names of their files, which is quick."""
    try:
        directory = find_project(ctx.params.get("project"))
    except UsageError:
        return []
    names = (f"{file.parent.name}.{file.stem}" for file in directory.glob("layers/*/*.sql"))
    return sorted(name for name in names if name.startswith(incomplete))


Table: TypeAlias = Annotated[
    str, typer.Argument(metavar="T", help="A table, e.g. dws.user_hour.", autocompletion=tables_here)
]
Start: TypeAlias = Annotated[
    str | None, typer.Option("--start", metavar="A", help="First partition label.", show_default=False)
]
End: TypeAlias = Annotated[
    str | None,
    typer.Option("--end", metavar="B", help="Last partition label, included.", show_default=False),
]


def find_project(project: Path | None) -> Path:
    """The named directory, or the nearest one from here upwards that has layers/."""
    if project is not None:
        if not (project / "layers").is_dir():
            raise UsageError(f"{project} has no layers/: name a project, or run `headrace init {project}`")
        return project.resolve()
    here = Path.cwd()
    for directory in (here, *here.parents):
        if (directory / "layers").is_dir():
            return directory
    raise UsageError(f"no layers/ in {here} or above: pass --project DIR, or run `headrace init DIR`")


def load_settings(project: Path | None) -> Settings:
    """The settings of the project that a command is about."""
    from headrace.settings import Settings

    directory = find_project(project)
    try:
        return Settings.load(directory)
    except TerminalError as error:
        raise UsageError(str(error)) from None


def open_client(project: Path | None) -> GatewayClient:
    """A connection to the warehouse server of the project that a command is about; a context manager."""
    from headrace.gateway.client import GatewayClient

    return GatewayClient(load_settings(project))


def partition_clause(
    directory: Path, tables: list[str], start: str | None, end: str | None, *, required: bool = False
) -> str:
    """` PARTITION (…)` for the labels, checked against the project's files; "" without labels.

    Args:
        directory: the project.
        tables: the tables it is about; none means all.
        start, end: both labels, or neither.
        required: refuse a partitioned table without labels.
    """
    if start is None and end is None and not required:
        return ""
    if (start is None) != (end is None):
        raise UsageError(
            "pass both --start and --end; they are partition labels, and the same for one partition"
        )
    from headrace.spec import load_project
    from headrace.spec.partitions.label_range import LabelRange
    from headrace.spec.partitions.labels import label_range

    project = load_project(directory)
    specs = [project.table(name) for name in tables] or list(project.tables.values())
    partitioned = [spec for spec in specs if spec.partition_column]
    columns = list(dict.fromkeys(spec.partition_column for spec in partitioned))
    if start is None or end is None:
        if columns:
            raise UsageError(f"{specs[0].name} is partitioned by {columns[0]}: pass --start and --end")
        return ""
    if not columns:
        raise UsageError(f"{', '.join(tables) or 'no table'} has no partitions: leave out --start and --end")
    if len(columns) > 1:
        raise UsageError(f"the partition columns differ ({', '.join(map(str, columns))}): name fewer tables")
    for spec in partitioned:
        label_range(spec, LabelRange(start, end))
    return f" PARTITION ({columns[0]} BETWEEN '{start}' AND '{end}')"
