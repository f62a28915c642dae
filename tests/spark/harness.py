"""A warehouse without servers: the real engine over real Spark and Delta, fed with events by the test."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.advance import Sessions, advance
from headrace.engine.assemble import assemble
from headrace.engine.backfill import backfill
from headrace.engine.ingest import ingest
from headrace.engine.parity import verify_batch
from headrace.engine.session import batch_session, flow_session
from headrace.engine.table import Delta, Table
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult
from headrace.sources.dead_letters import DeadLetters
from headrace.sources.envelope import Event
from headrace.sources.postgres import SourceSchema
from headrace.sources.types import column
from headrace.spec import load_project
from headrace.spec.model import SourceTable, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

SOURCES = {
    "orders": (("order_id", "bigint"), ("user_id", "bigint"), ("amount", "numeric(12,2)"), ("hour", "text")),
    "users": (("user_id", "bigint"), ("city", "text")),
}
ORDERS = """CREATE MATERIALIZED TABLE stg.orders
PARTITIONED BY (hour) WITH ('partition.fields.hour.date-formatter' = 'yyyyMMddHH') FRESHNESS = DOWNSTREAM
AS SELECT * FROM shop.public.orders WHERE hour >= ${start_date} AND hour <= ${end_date}"""
USERS = "CREATE MATERIALIZED TABLE stg.users FRESHNESS = DOWNSTREAM AS SELECT * FROM shop.public.users"


def layer(name: str, key: str, query: str, *, partitioned: bool = True, extra: str = "") -> str:
    """A layer file of a derived table, partitioned by `hour`."""
    clause = (
        "PARTITIONED BY (hour) WITH ('partition.fields.hour.date-formatter' = 'yyyyMMddHH')"
        if partitioned
        else ""
    )
    return (
        f"CREATE MATERIALIZED TABLE {name} (PRIMARY KEY ({key}){extra}) {clause} "
        f"FRESHNESS = INTERVAL '10' SECOND AS {query}"
    )


class Source:
    """The captured tables as they are, and the Debezium events of what happens to them."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, Row]] = defaultdict(dict)
        self.events: list[Event] = []
        self._lsn = 1000
        self._offsets: dict[str, int] = defaultdict(int)

    def put(self, table: str, **row: Any) -> None:
        """Insert or update by the table's first column."""
        key = row[SOURCES[table][0][0]]
        before = self.rows[table].get(key)
        self.rows[table][key] = row
        self._emit(table, "c" if before is None else "u", key, before, row)

    def delete(self, table: str, key: int) -> None:
        before = self.rows[table].pop(key)
        self._emit(table, "d", key, before, None)

    def _emit(self, table: str, op: str, key: int, before: Row | None, after: Row | None) -> None:
        self._lsn += 8
        self.events.append(
            Event(
                topic=f"shop.public.{table}",
                partition=0,
                offset=self._offsets[table],
                key=json.dumps({SOURCES[table][0][0]: key}),
                op=op,
                before=json.dumps(before) if before is not None else None,
                after=json.dumps(after) if after is not None else None,
                lsn=self._lsn,
                source_ms=1,
                snapshot="false",
                value="{}",
            )
        )
        self._offsets[table] += 1

    def take(self) -> list[Event]:
        """Events since the last call."""
        events, self.events = self.events, []
        return events


class Harness:
    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        layers: Mapping[str, str],
        *,
        full_identity: bool = True,
        source: Source | None = None,
    ) -> None:
        self.root = root
        self.source = source or Source()
        self.sessions = Sessions(flow_session(spark), batch_session(spark))
        files = {"stg/orders": ORDERS, "stg/users": USERS, **layers}
        for name, text in files.items():
            path = root / "project" / "layers" / f"{name}.sql"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        connector = root / "project" / "deploy" / "connectors" / "shop.json"
        connector.parent.mkdir(parents=True, exist_ok=True)
        captured = ",".join(f"public.{t}" for t in SOURCES)
        connector.write_text(
            json.dumps({"name": "shop", "config": {"topic.prefix": "shop", "table.include.list": captured}})
        )
        self.project = load_project(root / "project")
        self.schemas = {
            table: SourceSchema(
                table,
                tuple(column(n, t) for n, t in SOURCES[table.table]),
                (SOURCES[table.table][0][0],),
                full_identity,
            )
            for table in self.project.sources()
        }
        self.open()

    def open(self) -> None:
        """(Re)open the warehouse from what is on disk, as a restarted server does."""
        self.registry = assemble(
            self.sessions.batch,
            self.project,
            self.schemas,
            warehouse=self.root / "warehouse",
            threshold=timedelta(minutes=30),
        )
        self.dead_letters = DeadLetters(self.root / "warehouse" / "dead_letters")
        self.dead_letters.open()
        for table in self.registry:
            table.store.create(table.template)
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
            ends = {own[0].topic: {0: max(e.offset for e in own) + 1}}
            delta = ingest(self.sessions.flow, table, own, ends, self.dead_letters, run_id="test", batch=0)
            if delta is not None:
                known[table.name] = delta
        return known

    def advance(self, known: dict[TableName, Delta] | None = None) -> None:
        """Bring the derived tables forward, upstreams first."""
        known = dict(known or {})
        for table in self.registry:
            if table.spec.source is None:
                delta = advance(self.sessions, self.registry, table, known, run_id="test")
                if delta is not None:
                    known[table.name] = delta

    def step(self) -> None:
        self.advance(self.feed())

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The table's live rows, sorted."""
        store = self.table(name).store
        found: pa.Table = store.frame(self.sessions.batch).select(*store.schema.names).toArrow()
        return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True), key=repr)

    def verify(self, name: str) -> ParityResult:
        return verify_batch(self.sessions.batch, self.registry, self.table(name))

    def backfill(self, name: str, start: str | None = None, end: str | None = None) -> RefreshResult:
        return backfill(
            self.sessions, self.registry, self.table(name), start, end, run_id="test", progress=Progress()
        )

    def assert_parity(self) -> None:
        for table in self.registry:
            if table.spec.source is None:
                result = self.verify(str(table.name))
                assert result.equal, f"{result.table}: {result.sample}"
