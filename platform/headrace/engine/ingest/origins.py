"""Whether stg tables still read what their frontiers count in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.engine.table.table import StgTable
from headrace.errors import HeadraceError, TerminalError
from headrace.sources.connect import ConnectClient
from headrace.sources.database import database
from headrace.sources.health import why_halted
from headrace.sources.origin import Origin, Server, went_back
from headrace.sources.postgres.bulk.record import load_record
from headrace.sources.restream import begins, note_begin
from headrace.sources.stream.topics import Topics
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable, TableName
from headrace.storage.location import Location
from headrace.store.record.commits import Commit


@dataclass(frozen=True)
class Origins:
    """
    Args:
        dsn: connection string of a source by its name.
        connector: its connector, likewise.
        connect_url: Kafka Connect's REST address.
        records: of the sources; see `sources.records`.
        environment: whose streams are another one's, and made anew there alone; "" for the production.
    """

    topics: Topics
    dsn: Callable[[str], str]
    connector: Callable[[str], Connector]
    connect_url: str
    records: Location
    environment: str = ""

    def look(self, tables: Sequence[StgTable]) -> dict[TableName, str]:
        """Tables that something else was put in front of, each with why. The others note what they read."""
        found: dict[TableName, str] = {}
        slotted = {t.source.table.source for t in tables if _known(t).slotted}
        for seen in self._now(tables):
            table, now = seen.table, seen.now
            known, missed = _known(table), table.source.table.source in slotted
            if (why := _wrong(seen, known, missed=missed)) is not None:
                found[table.name] = why
            else:
                table.run.origin = known.completed(now)
        return found

    def now(self, table: StgTable) -> Origin:
        """What a table that is read again counts in from now on."""
        [seen] = self._now([table])
        return _known(table).completed(seen.now)

    def renew(self, table: StgTable, tables: Sequence[StgTable]) -> bool:
        """Make the stream of the table's source anew, where it does not go on by itself.

        Args:
            tables: all that read the source.
        Returns:
            Whether it was; then all of them lack what was changed before.
        Raises:
            TerminalError: this is an environment.
        """
        source = table.source.table.source
        heads = {t.name: t.store.commit for t in tables}
        [seen] = self._now([table])
        at, slot = seen.at, seen.now.slot
        # A slot that was made anew since a table stopped need not be made for that table once more.
        back = [heads[t.name] for t in tables if _known(t).slot == slot]
        slotted = any(_known(t).slotted for t in tables)
        if at is None or not ((at.slot and slotted) or any(_back(head, at) for head in back)):
            return False
        if self.environment:
            raise TerminalError(
                f"the stream of `{source}` must be made anew, which the environment `{self.environment}` "
                f"may not do. Next: `headrace resync {table.name}` in the production, then here"
            )
        captured = [t.source.table for t in tables]
        with ConnectClient(self.connect_url) as client:
            database(self.dsn(source)).restream(
                self.connector(source), captured, client, lambda lsn: note_begin(self.records, source, lsn)
            )
        return True

    def _now(self, tables: Sequence[StgTable]) -> list[_Seen]:
        # A log is only behind what was applied before it was asked: answers may take seconds.
        heads = {t.name: t.store.commit for t in tables}
        ids = self.topics.ids([t.topic for t in tables])
        sources = {t.source.table.source for t in tables}
        captured = [t.source.table for t in tables]
        servers = {
            source: self._server(source, [t for t in captured if t.source == source]) for source in sources
        }
        slots = {source: begins(self.records, source) for source in sources}
        found: list[_Seen] = []
        for table in tables:
            source, topic = table.source.table.source, ids.get(table.topic, "")
            at, slot = servers[source], slots[source]
            now = Origin(topic=topic, slot=slot, columns=table.source.digest)
            if at is not None:
                now = replace(
                    now,
                    system=at.system,
                    timeline=at.timeline,
                    slotted=at.slot is None,
                    relation=at.relations.get(table.source.table, 0),
                    published=table.source.table in at.published,
                )
            found.append(_Seen(table, heads[table.name], at, now))
        return found

    def _server(self, source: str, captured: Sequence[SourceTable]) -> Server | None:
        """None also while a bulk snapshot makes its slot, perhaps once more."""
        load = load_record(self.records, source)
        if load is not None and not load.complete:
            return None
        return database(self.dsn(source)).server(
            self.connector(source), captured, lambda: self._offsets(source)
        )

    def why_halted(self, source: str) -> str | None:
        """See `sources.health.why_halted`; None also where Connect does not answer."""
        try:
            with ConnectClient(self.connect_url) as client:
                return why_halted(source, client.status(source))
        except HeadraceError:
            return None

    def _offsets(self, source: str) -> Mapping[str, object]:
        try:
            with ConnectClient(self.connect_url) as client:
                return client.offset(source)
        except HeadraceError:
            return {}


@dataclass(frozen=True)
class _Seen:
    """
    Args:
        head: the table's newest commit before anybody was asked.
        at: the source's server; None where it does not answer.
    """

    table: StgTable
    head: Commit
    at: Server | None
    now: Origin


def _back(head: Commit, at: Server) -> bool:
    return went_back(head.high, head.generation, at.lsn)


def _known(table: StgTable) -> Origin:
    """What the table counts in, as it was seen last."""
    return table.run.origin or Origin.of(table.store.commit.origin)


def _wrong(seen: _Seen, known: Origin, *, missed: bool) -> str | None:
    """Args: missed: whether the source's slot was there before, so that it counts where it is not."""
    table, at = seen.table, seen.at
    if seen.head.version == 0:  # it has nothing that could follow something else; but it had a stream
        return at.slot if at is not None and missed else None
    if (why := known.replaced(seen.now)) is not None or at is None:
        return why
    if _back(seen.head, at):
        return "its source's log stands before what was applied of it: it is an older copy of itself"
    if missed and at.slot is not None:
        return at.slot
    return at.unheard(table.source.table, known)
