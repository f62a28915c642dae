"""sql: statements, and their rows: one, those of a file, or as they are typed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli._shared import progress
from headrace.cli._shared.errors import FAILED, UsageError
from headrace.cli._shared.options import Json, Project, load_settings
from headrace.cli._shared.output import note, print_json, print_rows
from headrace.cli._shared.shown import show, well
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.gateway.client import GatewayClient


def sql(
    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="[STATEMENT]",
            help='E.g. "SELECT * FROM dws.user_hour". None: those of stdin, or a prompt.',
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Run its statements.", show_default=False),
    ] = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Run statements: one, those of a file or of stdin that `;` ends, or at a prompt.

    Ends with the first that fails, with 1 also after a comparison that has found a difference.

    SELECT …; SHOW MATERIALIZED TABLES; SHOW PARTITIONS T; SHOW WORKFLOWS; SHOW CHECKS [T];
    SHOW COSTS [LAST n HOURS];
    DESCRIBE MATERIALIZED TABLE T; EXPLAIN MATERIALIZED TABLE T [HISTORY];
    CREATE [OR ALTER] MATERIALIZED TABLE …; DROP MATERIALIZED TABLE [IF EXISTS] T;
    APPLY [BLUE GREEN] [DRY RUN];
    ALTER MATERIALIZED TABLE T {SUSPEND | RESUME | REFRESH PARTITION (…) [CASCADE [DRY RUN]]
    | REFRESH NEW | SET {FRESHNESS | REFRESH_MODE} = … | RESET {FRESHNESS | REFRESH_MODE | IMMUTABLE}
    | SET IMMUTABLE WHERE (column < 'label')
    | AS <query> | ROLLBACK | REWIND TO {VERSION n | TIMESTAMP '…'} [CASCADE] [DRY RUN]
    | RESYNC [DRY RUN]};
    VERIFY [T, …] [PARTITION (…)] [WITHOUT SOURCE] [REPAIR]; CHECK T [PARTITION (…)];
    CHANGES T [FROM VERSION n]; SHOW DEAD LETTERS [T]; SHOW QUARANTINE T.
    """
    if statement is not None and file is not None:
        raise UsageError("pass a statement or a file, not both")
    from headrace.gateway.client import GatewayClient

    settings = load_settings(project)
    texts = [("", statement)] if statement is not None else _read(file)
    with GatewayClient(settings) as client:
        if texts is None:
            from headrace.cli._shared.prompt import prompt

            prompt(client, settings, run)
            return
        for place, text in texts:
            try:
                equal = run(client, text, as_json=as_json)
            except HeadraceError:
                if place:
                    note(f"{place}: this statement:")
                raise
            if not equal:
                raise typer.Exit(FAILED)


def run(client: GatewayClient, text: str, *, as_json: bool = False) -> bool:
    """Run a statement and print its answer. False where what it was about is not well."""
    finished = progress.run(client, text)
    if finished.has_rows:
        print_rows(client.rows(finished.id), as_json=as_json)
    elif as_json:
        print_json(finished.result)
    else:
        show(finished)
    return well(finished)


def _read(file: Path | None) -> list[tuple[str, str]] | None:
    """Place and text of the statements of a file, or of stdin; None where somebody types there."""
    if file is None and sys.stdin.isatty():
        return None
    try:
        text = sys.stdin.read() if file is None or str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    from headrace.gateway.cursor import StatementError, split

    name = "stdin" if file is None else str(file)
    try:
        return [(f"{name}:{line}", found) for line, found in split(text)]
    except StatementError as error:
        raise UsageError(f"{name}: {error.reason}: {error.hint}") from None
