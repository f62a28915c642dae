"""psql: a session in the source database."""

from __future__ import annotations

import os
import shutil

import typer

from headrace.cli._shared.errors import UsageError
from headrace.cli._shared.options import Project, load_settings


def psql(context: typer.Context, project: Project = None) -> None:
    """Open psql in the PostgreSQL source; further arguments are its own, as in `psql -c "SELECT 1"`.

    As the role that owns the database: what is changed here arrives in the tables.
    """
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    from headrace.services.programs.postgres import client_program

    settings = load_settings(project)
    binary = shutil.which("psql") or client_program("psql")
    if binary is None:
        raise UsageError("no `psql` on the PATH: install a PostgreSQL client")
    parts = conninfo_to_dict(settings.postgres_dsn())
    password = parts.pop("password", None)
    environment = dict(os.environ) | ({} if password is None else {"PGPASSWORD": str(password)})
    # Not by its arguments: everybody on the machine can read those.
    os.execve(binary, ["psql", "--dbname", make_conninfo("", **parts), *context.args], environment)
