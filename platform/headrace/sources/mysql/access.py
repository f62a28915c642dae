"""What a MySQL or MariaDB source must have and let its user do, and the SQL that lets it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pymysql

from headrace.errors import HeadraceError, TransientError
from headrace.sources.database import Check, RoleScript
from headrace.sources.marks import MARKER_TABLE, marker_schemas
from headrace.sources.mysql.client import Client, connect, quoted
from headrace.sources.mysql.position import marker_sql
from headrace.sources.mysql.server import incomplete
from headrace.sources.mysql.tables import captured, described
from headrace.sources.values import UNSET, misread
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable

GLOBAL = ("RELOAD", "SHOW DATABASES", "REPLICATION SLAVE", "REPLICATION CLIENT")
"""What Debezium's snapshot and stream ask for, by MySQL's names; MariaDB takes them, too."""

_SYNONYMS = {"REPLICATION CLIENT": "BINLOG MONITOR", "REPLICATION SLAVE": "REPLICATION REPLICA"}
VALUES = {
    "decimal.handling.mode": ("string",),
    "binary.handling.mode": ("base64", "bytes", UNSET),
    "enable.time.adjuster": ("false",),  # else years below 100 become others
    "provide.transaction.metadata": ("true",),  # else rows of one transaction have one place in the log
    "time.precision.mode": ("adaptive_time_microseconds", UNSET),
    "bigint.unsigned.handling.mode": ("long", UNSET),
}


def look(dsn: str, connector: Connector, tables: Iterable[SourceTable]) -> list[Check]:
    """See `sources.database.SourceDatabase.check`."""
    tables = sorted(tables)
    with connect(dsn) as client:
        found = misread(connector, VALUES)
        variables = client.variables("log_bin", "binlog_format", "binlog_row_image", "gtid_mode")
        if variables.get("log_bin") != "ON":
            found.append("there is no binary log: log_bin and server_id in its my.cnf, then restart it")
        found += incomplete(variables)
        if not client.maria and variables.get("gtid_mode") != "ON":
            found.append("gtid_mode is off: gtid_mode = ON and enforce_gtid_consistency = ON in its my.cnf")
        found += _privileges(client)
        for table in tables:
            found += _of_table(client, connector, table)
        found += _marker(client, connector, tables)
        user = client.user
    return [Check(False, text) for text in found] or [
        Check(True, f"{len(tables)} tables can be followed by {user}")
    ]


def _privileges(client: Client) -> list[str]:
    try:
        grants = " ".join(str(row[0]) for row in client.rows("SHOW GRANTS"))
    except pymysql.MySQLError:
        return []
    granted = re.search(r"GRANT (.+?) ON \*\.\*", grants)
    has = {p.strip() for p in granted[1].split(",")} if granted else set()
    if "ALL PRIVILEGES" in has:
        return []
    missing = [p for p in GLOBAL if p not in has and _SYNONYMS.get(p) not in has]
    return [f"GRANT {', '.join(missing)} ON *.* TO {client.user};"] if missing else []


def _of_table(client: Client, connector: Connector, table: SourceTable) -> list[str]:
    name = quoted(table.schema, table.table)
    try:
        refused = described(client, table, connector.message_key(table.schema, table.table)).refused
        client.rows(f"SELECT 1 FROM {name} LIMIT 0")
    except pymysql.MySQLError:
        return [f"GRANT SELECT ON {name} TO {client.user};"]
    except HeadraceError:  # a table that may not be read is not told, either
        return [
            f"{name} does not exist, or may not be read: create it, GRANT SELECT ON {name} TO {client.user}; "
            "or remove the layer file that reads it"
        ]
    return [f"{name} {refused}"] if refused else []


def _marker(client: Client, connector: Connector, tables: list[SourceTable]) -> list[str]:
    databases = sorted({t.schema for t in tables})
    if not databases:
        return []
    found = marker_schemas(connector, databases)
    database = found[0] if found else databases[0]
    grant = f"GRANT INSERT, UPDATE, DELETE ON {quoted(database, MARKER_TABLE)} TO {client.user};"
    mends = f"{marker_sql(database)} {grant}"
    if not found:
        mends += f" and `{databases[0]}.{MARKER_TABLE}` in the connector's table.include.list"
    elif (found[0], MARKER_TABLE) in captured(client, connector):
        return []
    return [f"no position can be marked, so nothing can be verified or read again: {mends}"]


def role(dsn: str, connector: Connector, name: str) -> RoleScript:
    """See `sources.database.SourceDatabase.role`."""
    hints = ["run by an administrator, with a password in place of …, and a narrower host than %"]
    try:
        with connect(dsn) as client:
            tables = captured(client, connector)
    except (TransientError, pymysql.MySQLError):
        hints.append("the database does not answer: these are the tables that the connector's file names")
        split = (entry.partition(".") for entry in connector.tables)
        tables = {(schema, table) for schema, _, table in split}
    user = f"'{name}'@'%'"
    databases = sorted({schema for schema, _ in tables})
    statements = [
        f"CREATE USER {user} IDENTIFIED BY '…';",
        f"GRANT {', '.join(GLOBAL)} ON *.* TO {user};",
    ]
    statements += [f"GRANT SELECT, LOCK TABLES ON {quoted(d)}.* TO {user};" for d in databases]
    markers = marker_schemas(connector, databases)
    if markers and (markers[0], MARKER_TABLE) not in tables:
        statements.append(marker_sql(markers[0]))
    statements += [
        f"GRANT INSERT, UPDATE, DELETE ON {quoted(d, MARKER_TABLE)} TO {user};" for d in markers[:1]
    ]
    if not markers and databases:
        hints.append(
            f"`{databases[0]}.{MARKER_TABLE}` is not captured, and nothing can be verified without it"
        )
    return RoleScript(tuple(statements), tuple(hints))
