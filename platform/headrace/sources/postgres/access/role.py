"""The SQL for a role that can do what following a PostgreSQL source needs, and nothing else.

It replicates, reads the captured tables and writes the marker table where one is captured. It owns nothing:
the publication is made by the owner of the tables beforehand, and the connector is told to make none. What it
asks the server, every role may ask, unless an administrator has revoked that: then it is granted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
from psycopg import sql

from headrace.errors import TransientError
from headrace.sources.marks import MARKER_TABLE
from headrace.sources.postgres.access.functions import Refused, refused
from headrace.sources.postgres.access.publication import BY_ROOT, captured
from headrace.sources.postgres.tables import connect, published, quoted
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable


@dataclass(frozen=True)
class Capture:
    """What a connector captures.

    Args:
        tables: the captured ones, with the marker table where it is among them.
        partitions: those that the connector's patterns name beside the tables they belong to: their changes
            come as those of the table, but the connector's snapshot reads them too.
        published: what its publication holds; None where there is none.
        known: whether the database was asked; else `tables` are those that the connector's file names.
        revoked: functions that not every role may call there.
    """

    database: str
    publication: str
    tables: tuple[SourceTable, ...]
    published: frozenset[tuple[str, str]] | None = None
    known: bool = True
    partitions: tuple[SourceTable, ...] = ()
    revoked: tuple[Refused, ...] = ()


def look(dsn: str, connector: Connector) -> Capture:
    """Ask the source what the connector captures; where it does not answer, the connector's file."""
    publication = connector.publication
    try:
        with connect(dsn) as connection:
            there = sorted(captured(connection, connector, partitions=False))
            parts = sorted(captured(connection, connector, partitions=True) - set(there))
            exists = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,))
            known = exists.fetchone() is not None
            held = published(connection, publication)
            [(database,)] = connection.execute("SELECT current_database()").fetchall()
            revoked = refused(connection, "public")
    except TransientError:
        named = [entry.partition(".") for entry in connector.tables]
        tables = tuple(SourceTable(connector.name, schema, table) for schema, _, table in named)
        return Capture(connector.database, publication, tables, known=False)
    tables, partitions = (
        tuple(SourceTable(connector.name, s, t) for s, t in some) for some in (there, parts)
    )
    return Capture(
        str(database), publication, tables, held if known else None, partitions=partitions, revoked=revoked
    )


def role_sql(role: str, capture: Capture) -> list[str]:
    """Statements for the owner of the captured tables, in their database; the first one makes the role."""
    name = _name(role)
    read = capture.tables + capture.partitions
    schemas = ", ".join(dict.fromkeys(_name(t.schema) for t in read))
    listed = ", ".join(quoted(t) for t in capture.tables)
    found = [
        f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD '…';",
        f"GRANT CONNECT ON DATABASE {_name(capture.database)} TO {name};",
        f"GRANT USAGE ON SCHEMA {schemas} TO {name};",
        f"GRANT SELECT ON {', '.join(quoted(t) for t in read)} TO {name};",
    ]
    found += [
        f"GRANT INSERT, UPDATE ON {quoted(t)} TO {name};" for t in capture.tables if t.table == MARKER_TABLE
    ]
    found += [function.grant(name) for function in capture.revoked]
    if capture.published is None:
        found.append(f"CREATE PUBLICATION {_name(capture.publication)} FOR TABLE {listed}{BY_ROOT};")
    elif missing := [t for t in capture.tables if (t.schema, t.table) not in capture.published]:
        added = ", ".join(quoted(t) for t in missing)
        found.append(f"ALTER PUBLICATION {_name(capture.publication)} ADD TABLE {added};")
    return found


def make_role(dsn: str, role: str, password: str) -> None:
    """Make one that replicates, and reads what its owner has and will have in the schema `public`.

    A role that is there is left as it is. Raises psycopg.Error where the server does not answer.

    Args:
        dsn: of a superuser, to the captured database.
    """
    name = sql.Identifier(role)
    with psycopg.connect(dsn, connect_timeout=5) as connection:  # in one transaction
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone() is not None:
            return
        for statement in (
            sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD {}").format(name, sql.Literal(password)),
            sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(name),
            sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {}").format(name),
        ):
            connection.execute(statement)


def hints(role: str, capture: Capture) -> Iterable[str]:
    """What a person must know beside the statements."""
    yield f"run by the owner of the tables in database {capture.database}, with a password in place of …"
    if not capture.known:
        yield "the database does not answer: these are the tables that the connector's file names"
    if capture.revoked:
        yield "only a superuser grants EXECUTE on functions of PostgreSQL, which this server has revoked"
    yield 'only an owner can publish: the connector has "publication.autocreate.mode": "disabled"'
    for schema in dict.fromkeys(_name(t.schema) for t in capture.tables):
        yield (
            f"for tables to come: ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO "
            f"{_name(role)}; and ALTER PUBLICATION {_name(capture.publication)} ADD TABLE …;"
        )
    yield f"pg_hba.conf lets {role} connect to the database, and for replication"


def _name(text: str) -> str:
    """As SQL reads it; plain names stay plain."""
    plain = text.isascii() and text.replace("_", "a").isalnum() and text.islower() and not text[0].isdigit()
    return text if plain else '"' + text.replace('"', '""') + '"'
