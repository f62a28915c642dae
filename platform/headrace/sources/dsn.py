"""Where a connector's database is, as a URL for psycopg."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from headrace.errors import TerminalError
from headrace.spec import Connector

_PLACEHOLDER = re.compile(r"\$\{env:([A-Z0-9_]+)\}")


def source_dsn(connector: Connector, environment: Mapping[str, str], server: str | None = None) -> str:
    """The URL that the connector file names, with Kafka Connect's `${env:…}` placeholders resolved.

    Args:
        server: host and port to take in place of the file's.
    Raises:
        TerminalError: a placeholder has no value, or a property is missing.
    """

    def value(key: str) -> str:
        text = connector.config.get(key)
        if text is None:
            raise TerminalError(f"{connector.path}: `{key}` is missing. Next: add it, then `headrace up`")

        def resolve(match: re.Match[str]) -> str:
            if match[1] not in environment:
                raise TerminalError(
                    f"{connector.path}: `{key}` needs the variable {match[1]}, which is not set"
                )
            return environment[match[1]]

        return _PLACEHOLDER.sub(resolve, text)

    user, password = quote(value("database.user"), safe=""), quote(value("database.password"), safe="")
    address = server or f"{value('database.hostname')}:{value('database.port')}"
    return f"postgresql://{user}:{password}@{address}/{quote(value('database.dbname'), safe='')}"
