"""A warehouse without servers: the real engine over real Spark and Delta, fed with events by the test."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

from assembled import assembled
from comparison import differing, tuples

from headrace.engine.backfill.backfill import backfill
from headrace.engine.ingest.driver import ingest
from headrace.engine.proof.parity import verify_batch
from headrace.engine.refresh.refresh import refresh_table
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.immutable import create
from headrace.engine.table.limits import DEFAULT_LIMITS
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Delta, Table
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult
from headrace.sources.postgres.types import column
from headrace.sources.schema import SourceSchema
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.envelope import Event
from headrace.spec import load_project
from headrace.spec.model import SourceTable, TableName
from headrace.spec.partitions.label_range import LabelRange

Row = dict[str, Any]
Key = Any
"""The value of a one-column key, else the tuple of a key's values."""

HOURS = "yyyyMMddHH"


@dataclass(frozen=True)
class Captured:
    """A captured table: columns as PostgreSQL declares them, and its primary key.

    Args:
        partition: a text column with labels by which the stg table is partitioned, or None.
        labels: their format.
    """

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    partition: str | None = None
    labels: str = HOURS

    def key_of(self, row: Row) -> Key:
        values = tuple(row[c] for c in self.key)
        return values[0] if len(values) == 1 else values

    def layer(self, table: str) -> str:
        """The layer file of its stg table."""
        if self.partition is None:
            return (
                f"CREATE MATERIALIZED TABLE stg.{table} FRESHNESS = DOWNSTREAM "
                f"AS SELECT * FROM shop.public.{table}"
            )
        return (
            f"CREATE MATERIALIZED TABLE stg.{table} {partitioned_by(self.partition, self.labels)} "
            f"FRESHNESS = DOWNSTREAM AS SELECT * FROM shop.public.{table} "
            f"WHERE {self.partition} >= ${{start_date}} AND {self.partition} <= ${{end_date}}"
        )


SOURCES = {
    "orders": Captured(
        (("order_id", "bigint"), ("user_id", "bigint"), ("amount", "numeric(12,2)"), ("hour", "text")),
        ("order_id",),
        "hour",
    ),
    "users": Captured((("user_id", "bigint"), ("city", "text")), ("user_id",)),
}


def partitioned_by(column: str, labels: str = HOURS) -> str:
    """The clauses of a layer file that partition it by labels of this format."""
    return f"PARTITIONED BY ({column}) WITH ('partition.fields.{column}.date-formatter' = '{labels}')"


def layer(name: str, key: str, query: str, *, partitioned: bool = True, extra: str = "") -> str:
    """A layer file of a derived table, partitioned by `hour`."""
    clause = partitioned_by("hour") if partitioned else ""
    return (
        f"CREATE MATERIALIZED TABLE {name} (PRIMARY KEY ({key}){extra}) {clause} "
        f"FRESHNESS = INTERVAL '10' SECOND AS {query}"
    )


_EPOCH = datetime(1970, 1, 1)


def sent(kind: str, value: Any) -> Any:
    """A value as Debezium sends it. Dates and timestamps without a time zone may be given as ISO text.

    Args:
        kind: the column's type as PostgreSQL declares it.
    """
    if isinstance(value, str) and kind == "date":
        return (datetime.fromisoformat(value) - _EPOCH).days
    if isinstance(value, str) and kind == "timestamp without time zone":
        return (datetime.fromisoformat(value) - _EPOCH) // timedelta(microseconds=1)
    return value


class Source:
    """The captured tables as they are, and the Debezium events of what happens to them.

    Args:
        partitions: of each table's topic; a key's events are all in one.
    """

    def __init__(self, tables: Mapping[str, Captured] = SOURCES, partitions: int = 1) -> None:
        self.tables = tables
        self.partitions = partitions
        self.rows: dict[str, dict[Key, Row]] = defaultdict(dict)
        self.events: list[Event] = []
        self._lsn = 1000
        self._offsets: dict[tuple[str, int], int] = defaultdict(int)
        self._log: list[Event] = []

    def put(self, table: str, **row: Any) -> None:
        """Insert or update by the table's key."""
        key = self.tables[table].key_of(row)
        before = self.rows[table].get(key)
        self.rows[table][key] = row
        self._emit(table, "c" if before is None else "u", key, before, row)

    def delete(self, table: str, key: Key) -> None:
        before = self.rows[table].pop(key)
        self._emit(table, "d", key, before, None)

    def truncate(self, table: str) -> None:
        """Delete all rows by TRUNCATE: a message without a key, where there is one partition."""
        self.rows[table].clear()
        self._emit(table, "t", None, None, None)

    def repeat(self, count: int) -> None:
        """Send the last events once more, at new offsets, as a restarted connector does."""
        for event in self._log[max(len(self._log) - count, 0) :]:
            self._send(event)

    def _emit(self, table: str, op: str, key: Key, before: Row | None, after: Row | None) -> None:
        self._lsn += 8
        names = self.tables[table].key
        values = key if len(names) > 1 else (key,)
        text = json.dumps(dict(zip(names, values, strict=True))) if key is not None else None
        event = Event(
            topic=f"shop.public.{table}",
            partition=crc32((text or "").encode()) % self.partitions,
            offset=0,
            key=text,
            op=op,
            before=self._image(table, before),
            after=self._image(table, after),
            lsn=self._lsn,
            source_ms=1,
            snapshot="false",
            value=b"{}",
        )
        self._log.append(event)
        self._send(event)

    def _send(self, event: Event) -> None:
        """The event at its partition's next offset."""
        place = (event.topic, event.partition)
        self.events.append(event._replace(offset=self._offsets[place]))
        self._offsets[place] += 1

    def _image(self, table: str, row: Row | None) -> str | None:
        if row is None:
            return None
        kinds = dict(self.tables[table].columns)
        return json.dumps({name: sent(kinds[name], value) for name, value in row.items()})

    def take(self) -> list[Event]:
        """Events since the last call."""
        events, self.events = self.events, []
        return events


class Harness:
    def __init__(
        self,
        sessions: Sessions,
        root: Path,
        layers: Mapping[str, str],
        *,
        full_identity: bool = True,
        source: Source | None = None,
        sources: Mapping[str, Captured] = SOURCES,
        batch_settings: bool = False,
    ) -> None:
        """
        Args:
            layers: `{"dws/x": text of the layer file}`. A source's stg table need not be among them.
            full_identity: whether the sources have REPLICA IDENTITY FULL.
            source: a source with a history; by default a new one.
            sources: the captured tables, where `source` is not given.
            batch_settings: batch work has settings of its own, as in the warehouse server. Else it runs with
                those for small batches: a few rows cost a third then.
        """
        self.root = root
        self.source = source or Source(sources)
        captured = self.source.tables
        flow = sessions.flow
        self.sessions = sessions if batch_settings else Sessions(flow, flow, flow)
        files = {**{f"stg/{t}": c.layer(t) for t, c in captured.items()}, **layers}
        for name, text in files.items():
            path = root / "project" / "layers" / f"{name}.sql"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        connector = root / "project" / "deploy" / "connectors" / "shop.json"
        connector.parent.mkdir(parents=True, exist_ok=True)
        listed = ",".join(f"public.{t}" for t in captured)
        connector.write_text(
            json.dumps({"name": "shop", "config": {"topic.prefix": "shop", "table.include.list": listed}})
        )
        self.project = load_project(root / "project")
        self.schemas = {
            table: SourceSchema(
                table,
                tuple(column(n, t) for n, t in captured[table.table].columns),
                captured[table.table].key,
                full_identity,
            )
            for table in self.project.sources()
        }
        self.limits = DEFAULT_LIMITS
        self.open()

    def open(self) -> None:
        """(Re)open the warehouse from what is on disk, as a restarted server does."""
        self.registry = assembled(
            self.sessions.batch,
            self.project,
            self.schemas,
            root=self.root,
            limits=self.limits,
            threshold=timedelta(minutes=30),
        )
        self.dead_letters = DeadLetters(self.root / "warehouse" / "dead_letters")
        self.dead_letters.open()
        for table in self.registry:
            create(table)
            table.store.open()

    def table(self, name: str) -> Table:
        return self.registry[TableName.parse(name)]

    def feed(self, events: list[Event] | None = None, *, only: str | None = None) -> dict[TableName, Delta]:
        """One micro-batch into the stg tables. Default: what the source emitted since the last time."""
        events = self.source.take() if events is None else events
        known: dict[TableName, Delta] = {}
        for table in self.registry:
            if not isinstance(table.spec.source, SourceTable) or (only and str(table.name) != only):
                continue
            own = [e for e in events if e.topic == table.spec.source.topic]
            if not own:
                continue
            ends = {own[0].topic: {e.partition: e.offset + 1 for e in sorted(own, key=lambda e: e.offset)}}
            delta = ingest(self.sessions.flow, table, own, ends, self.dead_letters, run_id="test", batch=0)
            if delta is not None:
                known[table.name] = delta
        return known

    @property
    def derived(self) -> list[Table]:
        """All tables but stg, upstreams first."""
        return [t for t in self.registry if t.spec.source is None]

    def advance(self, known: dict[TableName, Delta] | None = None, *, tables: int | None = None) -> None:
        """Bring the derived tables forward, upstreams first: all, or only the first `tables`.

        Those that the batch alone writes stay.
        """
        known = dict(known or {})
        for table in self.derived[:tables]:
            if offline(table):
                continue
            delta = refresh_table(self.sessions, self.registry, table, known, run_id="test")
            if delta is not None:
                known[table.name] = delta

    def advance_one(self, name: str, known: dict[TableName, Delta]) -> None:
        """Bring one derived table forward; those that read it stay behind."""
        refresh_table(self.sessions, self.registry, self.table(name), known, run_id="test")

    def limit(self, **values: int) -> None:
        """Let the driver do no more than this."""
        self.limits = replace(self.limits, **values)
        self.registry.limits = self.limits
        for table in self.registry:
            table.limits = self.limits

    def step(self) -> None:
        self.advance(self.feed())

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The table's live rows, sorted: those that look-ups find, where the driver holds them."""
        store = self.table(name).store
        held = store.frame(self.sessions.batch).toArrow() if store.cold else store.head().read()
        return sorted(tuples(held.select(list(store.schema.names))), key=repr)

    def verify(self, name: str) -> ParityResult:
        return verify_batch(self.sessions.batch, self.registry, self.table(name))

    def backfill(self, name: str, start: str | None = None, end: str | None = None) -> RefreshResult:
        return self.recompute(
            self.table(name), None if start is None or end is None else LabelRange(start, end)
        )

    def recompute(self, table: Table, labels: LabelRange | None) -> RefreshResult:
        return backfill(self.sessions, self.registry, table, labels, run_id="test", progress=Progress())

    def differing(self, *names: str, proof: bool = False) -> Iterator[tuple[str, str]]:
        """Derived tables, all or those named, that are not their SQL in batch: see `comparison`."""
        tables = map(self.table, names) if names else self.derived
        return differing(self.sessions, self.registry, tables, proof=proof)

    def assert_parity(self, *names: str, proof: bool = False) -> None:
        """Every derived table, or each of those named, equals its SQL in batch at its frontier."""
        for name, what in self.differing(*names, proof=proof):
            raise AssertionError(f"{name}: {what}")
