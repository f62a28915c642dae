"""init: a new project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._shared.errors import UsageError
from headrace.cli._shared.output import note

_SETTINGS = """\
# Settings of this project; every one can also be given as HEADRACE_<NAME> in the environment.
# gateway_port = 28080
# postgres_url = "postgresql://user:password@host:5432/database"
# kafka_bootstrap_servers = "host:9092"
# connect_url = "http://host:8083"
# catalog_url = "postgresql://user:password@host:5432/catalog"
"""


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made where it does not exist.")],
) -> None:
    """Make a new warehouse project."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file: name a directory")
    if (directory / "layers").exists():
        raise UsageError(f"{directory} is a project already: it has layers/")
    for folder in ("layers/stg", "layers/dwd", "layers/dws", "deploy/connectors"):
        (directory / folder).mkdir(parents=True, exist_ok=True)
        (directory / folder / ".gitkeep").touch()
    for name, text in (("headrace.toml", _SETTINGS), (".gitignore", ".headrace/\n")):
        if not (directory / name).exists():
            (directory / name).write_text(text, encoding="utf-8")
    note(
        f"{directory} is a project. Next: a Debezium connector as deploy/connectors/<source>.json,\n"
        "a layers/stg/<table>.sql for each of its tables, then "
        f"`headrace plan --project {directory}`"
    )
