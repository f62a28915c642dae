"""Where a connector's database is, as a URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from headrace.errors import TerminalError
from headrace.spec import Connector

_PLACEHOLDER = re.compile(r"\$\{env:([A-Z0-9_]+)\}")

_SCHEMES = {
    "PostgresConnector": "postgresql",
    "MySqlConnector": "mysql",
    "MariaDbConnector": "mysql",
}
"""By the last part of `connector.class`."""


def source_scheme(connector: Connector) -> str:
    """Which kind of database the connector file names: `postgresql` or `mysql`.

    Raises:
        TerminalError: headrace does not follow databases of that kind.
    """
    named = connector.config.get("connector.class", "")
    found = _SCHEMES.get(named.rpartition(".")[2])
    if found is None:
        raise TerminalError(
            f"{connector.path}: connector.class is `{named}`, and headrace follows databases by Debezium's "
            f"{', '.join(_SCHEMES)} only. Next: take one of these, then `headrace up`"
        )
    return found


def source_dsn(connector: Connector, environment: Mapping[str, str], server: str | None = None) -> str:
    """The URL that the connector file names, with Kafka Connect's `${env:…}` placeholders resolved.

    Args:
        server: host and port to take in place of the file's.
    Raises:
        TerminalError: a placeholder has no value, a property is missing, or it is no database that headrace
            follows.
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

    scheme = source_scheme(connector)
    user, password = quote(value("database.user"), safe=""), quote(value("database.password"), safe="")
    address = server or f"{value('database.hostname')}:{value('database.port')}"
    # A connector of MySQL follows all databases of its server.
    database = quote(value("database.dbname"), safe="") if scheme == "postgresql" else ""
    return f"{scheme}://{user}:{password}@{address}/{database}"
