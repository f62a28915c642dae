"""A captured database, whichever it is: what headrace asks of it beside what its connector sends.

The kind is that of its URL, which `sources.dsn` makes of the connector file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from headrace.errors import TerminalError, TransientError
from headrace.sources.connect import ConnectClient, ConnectorStatus
from headrace.sources.health import Facts
from headrace.sources.origin import Server
from headrace.sources.position import Position
from headrace.sources.schema import MessageKey, SourceSchema
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable


class Closed(Protocol):
    """A connection that can be closed."""

    def close(self) -> None: ...


Connection = TypeVar("Connection", bound=Closed)

Table = tuple[str, str]
"""Schema and name of a captured table. MySQL's schemas are its databases."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `detail` says what is wrong and the SQL that mends it."""

    ok: bool
    detail: str


@dataclass(frozen=True)
class RoleScript:
    """The SQL for a role that can follow a source and nothing else, and what a person must know beside it."""

    statements: tuple[str, ...]
    hints: tuple[str, ...]


@dataclass(frozen=True)
class ColumnWatch(Generic[Connection]):
    """A connection over which columns are looked at again and again.

    Each method raises TransientError where the database does not answer.

    Args:
        ask_fingerprints, ask_described: what the database has for the two methods.
        failure: what its client raises.
    """

    connection: Connection
    ask_fingerprints: Callable[[Connection, Iterable[SourceTable]], dict[SourceTable, str]]
    ask_described: Callable[[Connection, SourceTable, tuple[str, ...]], SourceSchema]
    failure: type[Exception]

    def fingerprints(self, tables: Iterable[SourceTable]) -> dict[SourceTable, str]:
        """A text for each captured table that is another one after its columns or key were changed.

        A change of a row is seen by nobody before the columns that it was made with: asked after a message
        was read, the answer is of the columns that the message was made with, or of later ones.
        """
        try:
            return self.ask_fingerprints(self.connection, tables)
        except self.failure as error:
            raise TransientError(str(error)) from error

    def described(self, table: SourceTable, declared: tuple[str, ...]) -> SourceSchema:
        """As `SourceDatabase.describe`, of one table."""
        try:
            return self.ask_described(self.connection, table, declared)
        except self.failure as error:
            raise TransientError(str(error)) from error

    def close(self) -> None:
        self.connection.close()


@dataclass(frozen=True)
class Capture:
    """
    Args:
        tables: those that a connector captures, partitions not among them.
        sent: tables whose changes it is sent under their names.
    """

    tables: frozenset[Table]
    sent: frozenset[Table]


class SourceDatabase(Protocol):
    """Each method raises TransientError where the database does not answer, unless it says otherwise."""

    def describe(
        self, tables: Iterable[SourceTable], declared: MessageKey
    ) -> Mapping[SourceTable, SourceSchema]:
        """The schemas of captured tables. Raises UnknownName where one does not exist."""
        ...

    def columns(self) -> ColumnWatch[Any]:
        """A connection to look at columns by."""
        ...

    def server(
        self, connector: Connector, tables: Iterable[SourceTable], offsets: Callable[[], Mapping[str, object]]
    ) -> Server | None:
        """What the server says of itself; None where it does not answer, or may not say.

        Args:
            offsets: the connector's position as Kafka Connect has it, asked where it matters; {} where it has
                none.
        """
        ...

    def health(self, connector: Connector, status: ConnectorStatus | None) -> Facts:
        """How the database is; it need not answer."""
        ...

    def position(
        self, connector: Connector, schemas: Collection[str], token: str, replica: str | None
    ) -> AbstractContextManager[Position]:
        """Fix a position of the source, marked in its stream, and keep it readable until the block ends.

        Args:
            schemas: where a marker table may be.
            token: of the mark.
            replica: URL of a standby that is read in its place.
        Raises:
            TerminalError: the source has no way to mark a position, or does not let its tables be read.
        """
        ...

    def restream(
        self,
        connector: Connector,
        tables: Sequence[SourceTable],
        client: ConnectClient,
        note: Callable[[int], None],
    ) -> None:
        """Let the connector go on from where the database's log stands now; may be repeated after a kill.

        Args:
            tables: of the source, which must be in what the connector is sent.
            note: told that position, before the connector goes on.
        """
        ...

    def capture(self, connector: Connector) -> Capture:
        """What the connector captures."""
        ...

    def prepare(self, connector: Connector) -> bool:
        """Make what the connector needs in the database before it is registered, where headrace is to.

        Returns:
            Whether it is; then all that is captured is sent.
        """
        ...

    def check(self, connector: Connector, tables: Iterable[SourceTable]) -> list[Check]:
        """What the database must have before its tables can be followed."""
        ...

    def refuse_unready(self, connector: Connector, tables: Iterable[SourceTable]) -> None:
        """Raise TerminalError where the connector would fail seconds after Kafka Connect took it.

        A database that does not answer is left to Connect.
        """
        ...

    def role(self, connector: Connector, name: str) -> RoleScript:
        """See `RoleScript`. It need not answer: then by what the connector's file names."""
        ...


def database(dsn: str) -> SourceDatabase:
    """The one at a URL.

    Raises:
        TerminalError: headrace does not follow databases of that kind.
    """
    scheme = urlsplit(dsn).scheme
    # Each brings a client that commands without a source have no use for.
    if scheme == "postgresql":
        from headrace.sources.postgres.database import PostgresDatabase

        return PostgresDatabase(dsn)
    if scheme == "mysql":
        from headrace.sources.mysql.database import MysqlDatabase

        return MysqlDatabase(dsn)
    raise TerminalError(f"`{scheme}` is no database that headrace follows")
