"""What a PostgreSQL source must have before its tables can be followed, each with the SQL that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.errors import TerminalError, TransientError
from headrace.sources.database import Check
from headrace.sources.marks import MARKER_TABLE, sends_messages
from headrace.sources.postgres.access.functions import EMIT, Refused, refused
from headrace.sources.postgres.access.publication import BY_ROOT, captured
from headrace.sources.postgres.marks import MESSAGES
from headrace.sources.postgres.server import unpublished
from headrace.sources.postgres.tables import connect, described, published, quoted
from headrace.sources.values import UNSET, misread
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable


@dataclass(frozen=True)
class TableFacts:
    """A captured table as the database has it.

    Args:
        refused: why nothing tells its rows apart, with the SQL that helps.
        identity: `pg_class.relreplident`: d, f, n or i.
        published: whether its changes come under its name.
        partitioned: whether it has partitions.
    """

    table: SourceTable
    exists: bool
    refused: str = ""
    identity: str = "f"
    readable: bool = True
    published: bool = True
    partitioned: bool = False


@dataclass(frozen=True)
class Facts:
    """
    Args:
        role: who the connector and headrace connect as; `replicates`: whether it may.
        publication: the connector's, `published` tells whether it is there.
        slots_left: replication slots that can still be made; the connector's own counts as left.
        marks: whether positions can be marked: by messages, or by a marker table that the role may write.
        writes: whether the role may write the marker table; true where none is captured.
        publishes: whether the role may make the publication, and change it, as its connector is told to.
        refused: functions that the role may not call.
        unreadable: tables, and partitions, that the role may not read, that no layer file names, and that the
            connector's patterns do: one of them stops its snapshot.
        closed: schemas that the role may not use; of the tables in them nothing is known.
        misread: what the connector's file must say, see `sources.values.misread`.
    """

    wal_level: str
    role: str
    replicates: bool
    slots_left: int
    publication: str
    published: bool
    autocreated: bool
    marks: bool
    tables: tuple[TableFacts, ...]
    writes: bool = True
    publishes: bool = True
    refused: tuple[Refused, ...] = ()
    unreadable: tuple[SourceTable, ...] = ()
    closed: tuple[str, ...] = ()
    misread: tuple[str, ...] = ()


def judge(facts: Facts) -> list[Check]:
    """What is wrong; one check that is ok where nothing is."""
    found = list(facts.misread)
    if facts.wal_level != "logical":
        found.append(
            f"wal_level is {facts.wal_level}: ALTER SYSTEM SET wal_level = logical; then restart PostgreSQL"
        )
    if not facts.replicates:
        found.append(f"`{facts.role}` may not replicate: ALTER ROLE {facts.role} REPLICATION;")
    if facts.slots_left < 1:
        found.append(
            "no replication slot is left: ALTER SYSTEM SET max_replication_slots = …; then restart PostgreSQL"
        )
    if not facts.marks:
        found.append(
            f"no position can be marked, so nothing can be verified or read again. From PostgreSQL 14 on: "
            f'"plugin.name": "pgoutput" in the connector\'s file. Else a captured table: CREATE TABLE '
            f"{MARKER_TABLE} (id text PRIMARY KEY, at timestamptz NOT NULL); "
            f"GRANT SELECT, INSERT, UPDATE ON {MARKER_TABLE} TO {facts.role};"
        )
    elif not facts.writes:
        found.append(
            f"`{facts.role}` may not write the captured marker table: "
            f"GRANT INSERT, UPDATE ON {MARKER_TABLE} TO {facts.role};"
        )
    if (missing := _not_published(facts)) is not None:
        found.append(missing)
    found += [function.says(facts.role) for function in facts.refused]
    found += [f'GRANT USAGE ON SCHEMA "{schema}" TO {facts.role};' for schema in facts.closed]
    for table in facts.tables:
        found += _of_table(table, facts)
    if facts.unreadable:
        listed = ", ".join(quoted(t) for t in facts.unreadable)
        found.append(
            f"the connector captures what `{facts.role}` may not read, and its snapshot would fail: "
            f"GRANT SELECT ON {listed} TO {facts.role};"
        )
    if not found:
        return [Check(True, f"{len(facts.tables)} tables can be followed by `{facts.role}`")]
    return [Check(False, text) for text in found]


def refuse_unready(dsn: str, connector: Connector, tables: Iterable[SourceTable]) -> None:
    """See `sources.database.SourceDatabase.refuse_unready`.

    Raises:
        TerminalError: values would come in another form than they are read in; or the connector is told to
            publish and its role may not: Kafka Connect would take it, and it would fail some seconds later.
    """
    try:
        facts = look(dsn, connector, tables)
    except TransientError:
        return
    for why in filter(None, (*facts.misread, _not_published(facts))):
        raise TerminalError(f"{connector.path}: {why}. `headrace doctor` shows what else it lacks")


def _not_published(facts: Facts) -> str | None:
    listed = ", ".join(quoted(t.table) for t in facts.tables if t.exists)
    if not listed:
        return None  # there is nothing to publish yet
    create = f"CREATE PUBLICATION {facts.publication} FOR TABLE {listed}{BY_ROOT};"
    if facts.autocreated and not facts.publishes:
        makes = "" if facts.published else f"its tables' owner publishes them: {create} Then "
        return (
            f"`{facts.role}` owns too little to publish, and its connector would fail: {makes}set "
            '"publication.autocreate.mode": "disabled" in its file, then `headrace up`'
        )
    if not facts.published and not facts.autocreated:
        return f"there is no publication: {create}"
    return None


def _of_table(table: TableFacts, facts: Facts) -> list[str]:
    name = quoted(table.table)
    if not table.exists:
        return [f"{name} does not exist: create it, or remove the layer file that reads it"]
    found = []
    if table.refused:
        found.append(f"{name} {table.refused}")
    elif table.identity in ("n", "i"):
        found.append(f"{name} sends no key of what is deleted: ALTER TABLE {name} REPLICA IDENTITY FULL;")
    if not table.readable:
        found.append(f"GRANT SELECT ON {name} TO {facts.role};")
    if facts.published and not table.published:
        found.append(unpublished(name, facts.publication, parts=table.partitioned) + ";")
    return found


VALUES = {
    "decimal.handling.mode": ("string",),
    "time.precision.mode": ("microseconds",),
    "interval.handling.mode": ("string",),
    "binary.handling.mode": ("base64", "bytes", UNSET),
}

_OF_SERVER = """
SELECT current_setting('wal_level'), current_user::text,
    (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user),
    current_setting('max_replication_slots')::int
        - (SELECT count(*) FROM pg_replication_slots WHERE slot_name <> %(slot)s)::int,
    EXISTS (SELECT FROM pg_publication WHERE pubname = %(publication)s),
    has_table_privilege(to_regclass(%(marker)s::text), 'INSERT')
        AND has_table_privilege(to_regclass(%(marker)s::text), 'UPDATE'),
    coalesce((SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = %(publication)s),
        has_database_privilege(current_database(), 'CREATE')),
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
"""
_OF_TABLES = """
SELECT n.name, c.oid IS NOT NULL, EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary),
    c.relreplident, has_table_privilege(c.oid, 'SELECT'), pg_has_role(c.relowner, 'USAGE'),
    coalesce(c.relkind = 'p', false)
FROM unnest(%(names)s::text[]) AS n(name) LEFT JOIN pg_class c ON c.oid = to_regclass(n.name)
"""
_UNREADABLE = """
SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1, 2
"""
_CLOSED = "SELECT nspname FROM pg_namespace WHERE NOT has_schema_privilege(oid, 'USAGE') ORDER BY 1"


def look(dsn: str, connector: Connector, tables: Iterable[SourceTable]) -> Facts:
    """Ask the source; nothing is changed. Raises TransientError where it does not answer."""
    config = connector.config
    tables = sorted(tables)
    schema = min((table.schema for table in tables), default="public")
    marker = SourceTable(connector.name, schema, MARKER_TABLE)
    with connect(dsn) as connection:
        everything = captured(connection, connector, partitions=True)
        needed = {schema for schema, _ in everything} | {table.schema for table in tables}
        shut = [str(name) for (name,) in connection.execute(_CLOSED).fetchall() if name in needed]
        # PostgreSQL does not even tell whether there is a table in a schema that one may not use.
        names = {quoted(table): table for table in tables if table.schema not in shut}
        asked = {
            "slot": config.get("slot.name", "debezium"),
            "publication": connector.publication,
            "marker": quoted(marker)
            if schema not in shut and connector.captures(schema, MARKER_TABLE)
            else None,
            "names": list(names),
        }
        [(level, role, replicates, left, there, marks, publishes, superuser)] = connection.execute(
            _OF_SERVER, asked
        ).fetchall()
        functions = tuple(f for f in refused(connection) if f.name != EMIT or not marks)
        version = connection.info.server_version
        rows = connection.execute(_OF_TABLES, asked).fetchall()
        held = published(connection, connector.publication)
        found = [names[str(row[0])] for row in rows if row[1]]
        hidden = {(str(s), str(t)) for s, t in connection.execute(_UNREADABLE).fetchall()}
        schemas = {t: described(connection, t, connector.message_key(t.schema, t.table)) for t in found}
    mode = config.get("publication.autocreate.mode", "all_tables")
    owned = all(row[5] for row in rows if row[1])
    return Facts(
        str(level),
        str(role),
        bool(replicates),
        int(str(left)),
        connector.publication,
        bool(there),
        mode != "disabled",
        bool(marks) or (version >= MESSAGES and sends_messages(connector)),  # whether it may: `refused`
        tuple(
            TableFacts(
                names[str(name)],
                exists=bool(exists),
                refused=schemas[names[str(name)]].refused if exists else "",
                identity=str(identity) if keyed else "f",  # else its key is what its identity carries
                readable=bool(readable),
                published=(names[str(name)].schema, names[str(name)].table) in held,
                partitioned=bool(parts),
            )
            for name, exists, keyed, identity, readable, _, parts in rows
        ),
        writes=marks is not False,  # None: there is none
        # The tables of a filtered publication are set at each registration, of others nothing is changed.
        publishes=bool(superuser) or bool(publishes and owned if mode == "filtered" else there),
        refused=functions,
        unreadable=tuple(
            SourceTable(connector.name, *one)
            for one in sorted(everything & hidden - {(t.schema, t.table) for t in names.values()})
        ),
        closed=tuple(shut),
        misread=tuple(misread(connector, VALUES)),
    )
