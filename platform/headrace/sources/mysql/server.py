"""What a MySQL or MariaDB server says of itself and of its binary log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pymysql

from headrace.errors import TransientError
from headrace.sources.connect import ConnectorStatus
from headrace.sources.health import Alert, Facts, Level, Slot
from headrace.sources.mysql.client import connect
from headrace.sources.mysql.tables import captured
from headrace.sources.origin import Server
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable


def server(
    dsn: str,
    connector: Connector,
    tables: Iterable[SourceTable],
    offsets: Callable[[], Mapping[str, object]],
) -> Server | None:
    """See `sources.database.SourceDatabase.server`.

    Only MySQL has an identifier of its data: MariaDB's is of the machine and the port.
    """
    try:
        with connect(dsn) as client:
            system = client.variables("server_uuid").get("server_uuid", "")
            lsn, logs = client.log_position(), client.logs()
            held = captured(client, connector)
    except (TransientError, pymysql.MySQLError):
        return None
    if lsn is None:
        return None
    return Server(
        system,
        0,
        lsn,
        purged(offsets(), logs),
        {},
        frozenset(t for t in tables if (t.schema, t.table) in held),
    )


def purged(offset: Mapping[str, object], logs: list[str]) -> str | None:
    """What is wrong where the log no longer has what the connector reads next; None where it has."""
    file = offset.get("file")
    if not file or file in logs:
        return None
    return f"the source has removed `{file}` of its binary log, which its connector has not read to the end"


_READERS = "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%%'"
"""Who reads the log: everybody sees his own threads, and the connector is the same user."""


def look(dsn: str, status: ConnectorStatus | None) -> Facts:
    """See `sources.database.SourceDatabase.health`."""
    try:
        with connect(dsn) as client:
            found = client.variables("binlog_format", "binlog_row_image")
            [(readers,)] = client.rows(_READERS)
    except (TransientError, pymysql.MySQLError):
        return Facts(False, None, status)
    noticed = tuple(Alert(Level.ALARM, text) for text in incomplete(found))
    return Facts(True, Slot(0, None, read=bool(readers)), status, noticed)


def incomplete(variables: Mapping[str, str]) -> list[str]:
    """What keeps rows out of the log, or columns out of them, each with the SQL that mends it."""
    found = []
    if variables.get("binlog_format", "ROW") != "ROW":
        found.append(
            f"binlog_format is {variables['binlog_format']}, so changes are not in its log: "
            "SET GLOBAL binlog_format = 'ROW'; and in its my.cnf"
        )
    if variables.get("binlog_row_image", "FULL") not in ("FULL", "FULL_NODUP"):
        found.append(
            f"binlog_row_image is {variables['binlog_row_image']}, so its log lacks columns: "
            "SET GLOBAL binlog_row_image = 'FULL'; and in its my.cnf"
        )
    return found
