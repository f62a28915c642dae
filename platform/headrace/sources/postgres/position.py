"""Reading a captured PostgreSQL database at a position that is known in its stream, too."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
from psycopg import sql

from headrace.errors import TerminalError, TransientError
from headrace.sources.part import Part
from headrace.sources.postgres.bulk.staging import stage
from headrace.sources.postgres.marks import mark
from headrace.sources.postgres.tables import connect, quoted
from headrace.sources.schema import SourceSchema
from headrace.sources.stream.envelope import Event
from headrace.spec.connector import Connector


@dataclass(frozen=True)
class Seen:
    """Which committed transactions a snapshot sees. By PostgreSQL's `pg_snapshot`, with ids of 64 bits.

    Args:
        first: every transaction before it had ended.
        end: neither this one nor any later one had begun.
        underway: those between them that had not ended.
    """

    first: int
    end: int
    underway: frozenset[int]

    @classmethod
    def read(cls, text: str) -> Seen:
        """Of `xmin:xmax:xip_list`, as `pg_current_snapshot()` writes it."""
        first, end, underway = text.split(":")
        return cls(int(first), int(end), frozenset(int(xid) for xid in underway.split(",") if xid))

    def shows(self, event: Event) -> bool | None:
        """See `sources.position.Seen`."""
        return None if event.xid is None else self.has(event.xid)

    def has(self, xid: int) -> bool:
        """Whether the rows of a committed transaction are in the snapshot.

        Args:
            xid: 32 bits of it, as the stream has them; it is within 2^31 of the snapshot.
        """
        whole = self.end + (xid - self.end + 2**31) % 2**32 - 2**31
        return whole < self.first or (whole < self.end and whole not in self.underway)


@dataclass(frozen=True)
class Position:
    """A snapshot of the source that stays readable, with a mark committed after it.

    Args:
        lsn: where the source's log stood at the snapshot.
        floor: no transaction that the snapshot does not see has written before it; 0 where no slot tells.
        snapshot: exported: another connection to `dsn` can read at it as long as this one does.
        seen: the transactions that are in it. All of them come before the mark in the stream; what else
            comes before it was committed between the two.
    """

    token: str
    lsn: int
    floor: int
    dsn: str
    snapshot: str
    seen: Seen
    connection: psycopg.Connection[tuple[object, ...]]

    @property
    def place(self) -> str:
        return f"{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}"

    def stage(self, schema: SourceSchema, arrow: pa.Schema, path: Path, part: Part | None = None) -> None:
        """See `sources.position.Position`."""
        stage(self, schema, arrow, path, part)

    def tables(
        self, schema: SourceSchema, arrow: pa.Schema, *, chunk: int = 50_000, where: str = ""
    ) -> Iterator[pa.Table]:
        """The table's rows at the cut, whatever its columns are. Several tables may be read at the same time.

        Args:
            arrow: names and types of the source columns.
            chunk: rows at a time.
            where: a condition that they meet.
        """
        fields = sql.SQL(", ").join(
            sql.SQL(c.select.replace("{}", "{name}")).format(name=sql.Identifier(c.name))
            for c in schema.columns
        )
        query = sql.SQL("SELECT {} FROM {}").format(
            fields, sql.Identifier(schema.table.schema, schema.table.table)
        )
        text = query.as_string(self.connection) + (f" WHERE {where}" if where else "")
        with self.connection.cursor(f"headrace_{uuid.uuid4().hex}", binary=True) as cursor:
            cursor.itersize = chunk
            cursor.execute(text.encode())
            while batch := cursor.fetchmany(chunk):
                columns = zip(zip(*batch, strict=True), arrow, strict=True)
                yield pa.Table.from_arrays([pa.array(v, field.type) for v, field in columns], schema=arrow)

    def check(self, schema: SourceSchema, condition: str) -> None:
        """Raises TerminalError where the source refuses a condition over the table's rows."""
        try:
            with self.connection.transaction():
                query = f"SELECT FROM {quoted(schema.table)} WHERE {condition} LIMIT 0"
                self.connection.execute(query.encode())
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError):
                raise TransientError(
                    f"the source does not answer: {error}. Next: `headrace status`"
                ) from error
            says = str(error).strip().splitlines()[0]
            raise TerminalError(
                f"the source refuses the condition `{condition}`: {says}. Next: compare its columns with "
                "values of their types"
            ) from error

    def query(self, text: str) -> list[tuple[object, ...]]:
        """Run any query at the cut."""
        return self.connection.execute(text).fetchall()


# A slot keeps the log from the first record of the oldest transaction on that it has not seen to its end. One
# that is being made waits for those that run, and confirms nothing before.
_POSITION = """
SELECT pg_export_snapshot(), pg_current_snapshot()::text, pg_current_wal_lsn() - '0/0'::pg_lsn,
    (SELECT coalesce(max(restart_lsn - '0/0'::pg_lsn), 0) FROM pg_replication_slots
     WHERE slot_type = 'logical' AND database = current_database() AND confirmed_flush_lsn IS NOT NULL)
"""


# A standby does not say which transactions are under way: `pg_current_snapshot` lists none there.
_STANDBY = """
SELECT pg_export_snapshot(), pg_snapshot_xmin(pg_current_snapshot())::text,
    pg_last_wal_replay_lsn() - '0/0'::pg_lsn
"""
_FLUSHED = "SELECT pg_current_wal_flush_lsn()::text"
_REPLAYED = (
    "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn() >= %s::pg_lsn, pg_last_wal_replay_lsn()::text"
)

REPLAY_SECONDS, ASKED = 60.0, 0.1
"""How long a standby may take to reach where its source is, and the pause between two looks."""


@contextmanager
def position(
    dsn: str, connector: Connector, schemas: Collection[str], token: str, replica: str | None = None
) -> Iterator[Position]:
    """Fix a position of the source and keep it readable until the block ends. Nothing is locked for it.

    Args:
        schemas: where a marker table may be.
        replica: a standby of the source that is read in its place. Its snapshot has at least what was
            committed when this was called. Which later transactions it has it does not say: all of them count
            as unseen, and have their images of the stream, which are those rows or newer ones.
    Raises:
        TerminalError: the source has no way to mark a position, its role may not read a table, or the
            replica is no standby.
        TransientError: a server does not answer, or the standby stays behind.
    """
    with connect(dsn) as marking, connect(replica or dsn) as reading:
        if replica is not None:
            _reach(reading, marking, connector.name)
        reading.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if replica is None:
            [(snapshot, text, lsn, floor)] = reading.execute(_POSITION).fetchall()
            seen = Seen.read(str(text))
        else:
            [(snapshot, first, lsn)] = reading.execute(_STANDBY).fetchall()
            seen, floor = Seen(int(str(first)), int(str(first)), frozenset()), 0
        mark(marking, connector, schemas, token)
        at = int(str(lsn)), int(str(floor))
        try:
            yield Position(token, *at, replica or dsn, str(snapshot), seen, reading)
        except psycopg.errors.InsufficientPrivilege as error:
            says = str(error).splitlines()[0]
            raise TerminalError(
                f"`{reading.info.user}` cannot read the source `{connector.name}`: {says}. Next: "
                f"`headrace doctor` says which GRANT helps"
            ) from error
        except psycopg.errors.SerializationFailure as error:
            raise TransientError(
                f"the standby of `{connector.name}` ended the comparison's snapshot: {error}. Next: set "
                "hot_standby_feedback = on there, or a longer max_standby_streaming_delay"
            ) from error
        reading.execute("ROLLBACK")


def _reach(
    standby: psycopg.Connection[tuple[object, ...]],
    source: psycopg.Connection[tuple[object, ...]],
    name: str,
) -> None:
    """Wait until a standby has all that its source has now."""
    [(wanted,)] = source.execute(_FLUSHED).fetchall()
    deadline = time.monotonic() + REPLAY_SECONDS
    while True:
        [(recovers, reached, at)] = standby.execute(_REPLAYED, (wanted,)).fetchall()
        if not recovers:
            raise TerminalError(
                f"the replica of `{name}` is no standby: it takes changes of its own. Next: name another one "
                "in `source_replicas`, or none"
            )
        if reached:
            return
        if time.monotonic() > deadline:
            raise TransientError(
                f"the standby of `{name}` is at {at}, and has not reached {wanted} in "
                f"{REPLAY_SECONDS:.0f} s. Next: see what its replication waits for, or take it out of "
                "`source_replicas`"
            )
        time.sleep(ASKED)
