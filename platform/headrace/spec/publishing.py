"""Where a table's rows are published, by the options 'publish' and 'publish.table' of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from headrace.errors import TerminalError

PUBLISH = "publish"
PUBLISH_TABLE = "publish.table"
OPTIONS = (PUBLISH, PUBLISH_TABLE)

VARIABLES = "HEADRACE_TARGET_"
"""How the variables begin that a target's URL may name."""

_PLACEHOLDER = re.compile(r"\$\{env:([^}]*)\}")
_VARIABLE = re.compile(rf"{VARIABLES}[A-Z0-9_]+")
_EXAMPLE = f"postgresql://reporting:${{env:{VARIABLES}PASSWORD}}@db.example:5432/reports"


class NoTarget(ValueError):
    """Why a text names no target.

    Args:
        reason: what is wrong.
        hint: what to write.
        option: which of the two is wrong.
    """

    def __init__(self, reason: str, hint: str = f"write e.g. '{_EXAMPLE}'", option: str = PUBLISH) -> None:
        super().__init__(reason)
        self.reason, self.hint, self.option = reason, hint, option


@dataclass(frozen=True)
class Target:
    """A table in a database that follows a table of the warehouse.

    Args:
        url: of the database, with `${env:…}` in place of what no file should hold.
        schema, table: its name there.
    """

    url: str
    schema: str
    table: str

    def __str__(self) -> str:
        """Where it is, without who enters it."""
        return f"{self.schema}.{self.table} at {self.url.rpartition('@')[2].partition('?')[0]}"

    def dsn(self, environment: Mapping[str, str]) -> str:
        """The URL with its variables replaced. Raises TerminalError where one of them is not set."""

        def value(match: re.Match[str]) -> str:
            if (found := environment.get(match[1])) is None:
                raise TerminalError(
                    f"'{PUBLISH}' needs the variable {match[1]}, which is not set. Next: set it, then "
                    "`headrace down` and `headrace up`"
                )
            return found if match[0] == self.url else quote(found, safe="")

        return _PLACEHOLDER.sub(value, self.url)


def read_target(url: str, name: str) -> Target:
    """What the two options say. Raises NoTarget.

    Args:
        name: of the table there, `schema.table`.
    """
    schema, _, table = name.partition(".")
    if not schema or not table or "." in table or len(schema) > 63 or len(table) > 63:
        raise NoTarget(f"'{name}' is no table of a database", "write 'schema.table'", PUBLISH_TABLE)
    for variable in _PLACEHOLDER.findall(url):
        if not _VARIABLE.fullmatch(variable):
            hint = f"name it {VARIABLES}…: the warehouse server is given the variables that begin so"
            raise NoTarget(f"'{variable}' is no variable of a target", hint)
    if not _PLACEHOLDER.fullmatch(url):
        _check(url)
    return Target(url, schema, table)


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("postgresql", "postgres") and parts.hostname and parts.path.strip("/")
        _ = parts.port
    except ValueError:
        known = None
    if not known:
        raise NoTarget(f"'{_without_password(url)}' is no database to publish to")
    if parts.password and not _PLACEHOLDER.fullmatch(parts.password):
        raise NoTarget(
            "a layer file holds no password: whoever reads the table reads its file, too",
            f"write '{parts.scheme}://{parts.username}:${{env:{VARIABLES}PASSWORD}}@{parts.hostname}…', and "
            "set that variable where `headrace up` runs",
        )


def _without_password(url: str) -> str:
    return re.sub(r"(//[^:/@]*):[^@]*@", r"\1:…@", url)
