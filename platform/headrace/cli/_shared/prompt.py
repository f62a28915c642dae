"""The prompt of `headrace sql`: statements over several lines, with history and completion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory

from headrace.cli._shared import errors
from headrace.cli._shared.output import note
from headrace.errors import HeadraceError
from headrace.gateway.cursor import StatementError, split
from headrace.gateway.errors import NotReachable

if TYPE_CHECKING:
    from headrace.gateway.client import GatewayClient
    from headrace.settings import Settings

WORDS = (
    *("SELECT", "FROM", "WHERE", "JOIN", "LEFT JOIN", "GROUP BY", "ORDER BY", "LIMIT"),
    *("SHOW MATERIALIZED TABLES", "SHOW PARTITIONS", "SHOW WORKFLOWS", "SHOW COSTS", "SHOW READERS"),
    "SHOW DEAD LETTERS",
    *("SHOW QUARANTINE", "SHOW ACCOUNTING", "DESCRIBE MATERIALIZED TABLE", "EXPLAIN MATERIALIZED TABLE"),
    *("HISTORY", "CREATE OR ALTER MATERIALIZED TABLE", "ALTER MATERIALIZED TABLE", "APPLY", "DRY RUN"),
    *("DROP MATERIALIZED TABLE", "BLUE GREEN", "SUSPEND", "RESUME", "REFRESH PARTITION", "REFRESH NEW"),
    *("BETWEEN", "CASCADE", "SET FRESHNESS", "SET REFRESH_MODE", "SET IMMUTABLE", "RESET", "ROLLBACK"),
    *("REWIND TO VERSION", "REWIND TO TIMESTAMP", "RESYNC", "VERIFY", "WITHOUT SOURCE", "REPAIR", "CHECK"),
    "CHANGES",
)
LEAVE = ("exit", "quit", "\\q")


def prompt(client: GatewayClient, settings: Settings, run: Callable[[GatewayClient, str], object]) -> None:
    """Read statements and run them, until Ctrl-D or `exit`. What fails is told, and the next one awaited."""
    tables = [status.table for status in client.status()]  # tells at once where no server answers
    history = settings.state / "sql_history"
    history.touch(mode=0o600)
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(history)),
        completer=completer(tables),
        complete_while_typing=False,
        multiline=Condition(lambda: not _complete(session.default_buffer.document.text)),
        prompt_continuation="      … ",
    )
    note(f"{len(tables)} tables; `;` ends a statement, Tab completes, Ctrl-D leaves")
    while True:
        try:
            text = session.prompt("headrace> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.rstrip(";").lower() in LEAVE:
            return
        try:
            for _, statement in split(text):
                run(client, statement)
        except NotReachable:
            raise
        except (HeadraceError, KeyboardInterrupt) as error:
            errors.show(error)


def completer(tables: Iterable[str]) -> WordCompleter:
    """Offers tables and the statements' words."""
    return WordCompleter([*tables, *WORDS], ignore_case=True, pattern=re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*"))


def _complete(text: str) -> bool:
    """Whether Enter sends it: it ends with `;`, or leaves."""
    stripped = text.strip()
    if not stripped or stripped.lower() in LEAVE:
        return True
    try:
        return stripped.endswith(";") and bool(split(stripped))
    except StatementError:
        return False  # a quote is open
