"""MySQL and MariaDB, as `sources.database` asks them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pymysql

from headrace.errors import TerminalError
from headrace.sources.connect import ConnectClient, ConnectorFile, ConnectorStatus
from headrace.sources.database import Capture, Check, ColumnWatch, RoleScript
from headrace.sources.health import Facts
from headrace.sources.mysql import access
from headrace.sources.mysql.client import Client, connect
from headrace.sources.mysql.position import MysqlPosition, fixed
from headrace.sources.mysql.server import look, server
from headrace.sources.mysql.tables import captured, described, fingerprints
from headrace.sources.origin import Server
from headrace.sources.schema import MessageKey, SourceSchema
from headrace.sources.values import misread
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable


@dataclass(frozen=True)
class MysqlDatabase:
    """See `sources.database.SourceDatabase`."""

    dsn: str

    def describe(
        self, tables: Iterable[SourceTable], declared: MessageKey
    ) -> Mapping[SourceTable, SourceSchema]:
        with connect(self.dsn) as client:
            return {table: described(client, table, declared(table)) for table in tables}

    def columns(self) -> ColumnWatch[Client]:
        return ColumnWatch(connect(self.dsn), fingerprints, described, pymysql.MySQLError)

    def server(
        self,
        connector: Connector,
        tables: Iterable[SourceTable],
        offsets: Callable[[], Mapping[str, object]],
    ) -> Server | None:
        return server(self.dsn, connector, tables, offsets)

    def health(self, connector: Connector, status: ConnectorStatus | None) -> Facts:
        return look(self.dsn, status)

    def position(
        self, connector: Connector, schemas: Collection[str], token: str, replica: str | None
    ) -> AbstractContextManager[MysqlPosition]:
        return fixed(self.dsn, connector, schemas, token, replica)

    def restream(
        self,
        connector: Connector,
        tables: Sequence[SourceTable],
        client: ConnectClient,
        note: Callable[[int], None],
    ) -> None:
        """Let the connector forget where it was, and read no rows.

        It takes the tables' columns as they are now, and goes on from the end of the log.
        """
        client.stop(connector.name)
        client.forget_offset(connector.name)
        with connect(self.dsn) as found:
            begins = found.log_position()
        if begins is None:
            raise TerminalError(f"source `{connector.name}` writes no binary log. Next: `headrace doctor`")
        note(begins)
        config = {name: v for name, v in client.config(connector.name).items() if name != "name"}
        client.put_connector(ConnectorFile(connector.name, config, connector.path).streaming())
        client.resume(connector.name)

    def capture(self, connector: Connector) -> Capture:
        """The log has all changes of all tables."""
        with connect(self.dsn) as client:
            tables = frozenset(captured(client, connector))
        return Capture(tables, tables)

    def prepare(self, connector: Connector) -> bool:
        """There is nothing to make."""
        return False

    def check(self, connector: Connector, tables: Iterable[SourceTable]) -> list[Check]:
        return access.look(self.dsn, connector, tables)

    def refuse_unready(self, connector: Connector, tables: Iterable[SourceTable]) -> None:
        """Raises TerminalError where values would come in another form than they are read in."""
        for why in misread(connector, access.VALUES):
            raise TerminalError(f"{connector.path}: {why}. `headrace doctor` shows what else it lacks")

    def role(self, connector: Connector, name: str) -> RoleScript:
        return access.role(self.dsn, connector, name)
