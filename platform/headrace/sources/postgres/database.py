"""PostgreSQL, as `sources.database` asks it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from headrace.sources.connect import ConnectClient, ConnectorFile, ConnectorStatus
from headrace.sources.database import Capture, Check, ColumnWatch, RoleScript
from headrace.sources.health import Facts
from headrace.sources.origin import Server
from headrace.sources.postgres.access import preflight, publication, role
from headrace.sources.postgres.bulk.choice import slot_name
from headrace.sources.postgres.bulk.slot import drop_slot, exported
from headrace.sources.postgres.server import look, server
from headrace.sources.postgres.tables import connect, describe, described, fingerprints, published
from headrace.sources.schema import MessageKey, SourceSchema
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable

if TYPE_CHECKING:
    from headrace.sources.postgres.position import Position


@dataclass(frozen=True)
class PostgresDatabase:
    """See `sources.database.SourceDatabase`."""

    dsn: str

    def describe(
        self, tables: Iterable[SourceTable], declared: MessageKey
    ) -> Mapping[SourceTable, SourceSchema]:
        return describe(self.dsn, tables, declared)

    def columns(self) -> ColumnWatch[psycopg.Connection[tuple[object, ...]]]:
        return ColumnWatch(connect(self.dsn), fingerprints, described, psycopg.Error)

    def server(
        self,
        connector: Connector,
        tables: Iterable[SourceTable],
        offsets: Callable[[], Mapping[str, object]],
    ) -> Server | None:
        return server(self.dsn, slot_name(connector.config), connector.publication, tables)

    def health(self, connector: Connector, status: ConnectorStatus | None) -> Facts:
        return look(self.dsn, slot_name(connector.config), status)

    def position(
        self, connector: Connector, schemas: Collection[str], token: str, replica: str | None
    ) -> AbstractContextManager[Position]:
        from headrace.sources.postgres.position import position  # Arrow, for those that read rows

        return position(self.dsn, connector, schemas, token, replica)

    def restream(
        self,
        connector: Connector,
        tables: Sequence[SourceTable],
        client: ConnectClient,
        note: Callable[[int], None],
    ) -> None:
        """Make another replication slot in place of the connector's."""
        client.stop(connector.name)
        drop_slot(self.dsn, slot_name(connector.config))
        publication.ensure_publication(self.dsn, connector, tables)
        with exported(self.dsn, connector) as at:
            begins = at.lsn
        note(begins)
        client.resume_at(connector.name, connector.config["topic.prefix"], begins)

    def capture(self, connector: Connector) -> Capture:
        with connect(self.dsn) as connection:
            tables = publication.captured(connection, connector, partitions=False)
            return Capture(frozenset(tables), published(connection, connector.publication))

    def prepare(self, connector: Connector) -> bool:
        """Make its publication, where Debezium would."""
        here = publication.made_here(ConnectorFile(connector.name, connector.config, connector.path))
        if here:
            publication.ensure_publication(self.dsn, connector)
        return here

    def check(self, connector: Connector, tables: Iterable[SourceTable]) -> list[Check]:
        return preflight.judge(preflight.look(self.dsn, connector, tables))

    def refuse_unready(self, connector: Connector, tables: Iterable[SourceTable]) -> None:
        preflight.refuse_unready(self.dsn, connector, tables)

    def role(self, connector: Connector, name: str) -> RoleScript:
        capture = role.look(self.dsn, connector)
        return RoleScript(tuple(role.role_sql(name, capture)), tuple(role.hints(name, capture)))
