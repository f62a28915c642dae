"""What databases do, as the connector sent it once, by each of the three ways in which a stg table takes it.

`tests/chain/recording.py` makes the recordings; `tests/chain/test_source_data.py` runs the same scenarios
through the real connector.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from assembled import assembled

from headrace.engine.ingest import offsets
from headrace.engine.ingest.arrow import ingest_local, local_query
from headrace.engine.ingest.ingest import ingest_events
from headrace.engine.ingest.spark import ingest_frame
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.immutable import create
from headrace.engine.table.limits import DEFAULT_LIMITS
from headrace.engine.table.table import Registry, StgTable, is_stg
from headrace.sources.schema import SourceSchema
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.messages import RAW, raw
from headrace.spec import load_project
from headrace.spec.model import SourceTable, TableName
from headrace.store.frames import local
from recorded import shown

SCENARIOS = Path(__file__).parents[1] / "scenarios" / "cdc"
OF_VOLUME = {"many_rows_at_once"}
RECORDED = sorted(path.stem for path in SCENARIOS.glob("*.jsonl"))
PIECES = 2


@dataclass(frozen=True)
class Recorded:
    """A table of a scenario: what is known of it, what was sent, and what the stg table must hold."""

    name: str
    schema: SourceSchema
    messages: pa.Table
    rows: list[str]


def recorded(scenario: str) -> list[Recorded]:
    lines = [json.loads(line) for line in (SCENARIOS / f"{scenario}.jsonl").read_text().splitlines()]
    found = []
    for head in (line for line in lines if "schema" in line):
        name = head["table"]
        table = SourceTable("shop", "public", name)
        sent = [line for line in lines if line["table"] == name and "offset" in line]
        messages = raw([(table.topic, 0, m["offset"], _bytes(m["key"]), _bytes(m["value"])) for m in sent])
        found.append(Recorded(name, SourceSchema.of(table, head["schema"]), messages, head["rows"]))
    return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def opened(sessions: Sessions, root: Path, tables: Iterable[Recorded]) -> Registry:
    """A warehouse of the stg tables of all."""
    tables = list(tables)
    layers, connectors = root / "project" / "layers" / "stg", root / "project" / "deploy" / "connectors"
    layers.mkdir(parents=True)
    connectors.mkdir(parents=True)
    listed = ",".join(f"public.{table.name}" for table in tables)
    config = {"topic.prefix": "shop", "table.include.list": listed}
    (connectors / "shop.json").write_text(json.dumps({"name": "shop", "config": config}))
    for table in tables:
        (layers / f"{table.name}.sql").write_text(
            f"CREATE MATERIALIZED TABLE stg.{table.name} FRESHNESS = DOWNSTREAM "
            f"AS SELECT * FROM shop.public.{table.name}"
        )
    registry = assembled(
        sessions.batch,
        load_project(root / "project"),
        {table.schema.table: table.schema for table in tables},
        root=root,
        limits=DEFAULT_LIMITS,
        threshold=timedelta(minutes=30),
    )
    for one in registry:
        create(one)
        one.store.open()
    return registry


Ingest = Callable[[Sessions, StgTable, pa.Table, DeadLetters, int], object]


def _end(table: StgTable, messages: pa.Table) -> dict[str, dict[int, int]]:
    return {table.topic: {0: max(messages.column("offset").to_pylist()) + 1}}


def by_driver(
    sessions: Sessions, table: StgTable, messages: pa.Table, letters: DeadLetters, batch: int
) -> object:
    events = offsets.collect(sessions.flow, table.run.queries, messages)
    return ingest_events(sessions, letters, table, events, _end(table, messages), run_id="test", batch=batch)


def by_arrow(
    sessions: Sessions, table: StgTable, messages: pa.Table, letters: DeadLetters, batch: int
) -> object:
    """What Arrow does not read goes the way of all others, as in the product."""
    query = local_query(table)
    if query is not None:
        end = _end(table, messages)
        done = ingest_local(sessions.batch, table, query, iter([messages]), end, run_id="test", batch=batch)
        if done is not None:
            return done
    return by_spark(sessions, table, messages, letters, batch)


def by_spark(
    sessions: Sessions, table: StgTable, messages: pa.Table, letters: DeadLetters, batch: int
) -> object:
    frame = local(sessions.batch, messages, RAW)
    end = _end(table, messages)
    return ingest_frame(sessions.batch, table, frame, end, letters, run_id="test", batch=batch)


def test_every_scenario_is_recorded() -> None:
    assert {path.stem for path in SCENARIOS.glob("*.sql")} - OF_VOLUME == set(RECORDED)


@pytest.mark.parametrize("ingest", [by_driver, by_arrow, by_spark])
@pytest.mark.parametrize("scenario", RECORDED)
def test_a_scenario_ends_as_in_the_source(
    scenario: str, ingest: Ingest, sessions: Sessions, tmp_path: Path
) -> None:
    """In two micro-batches."""
    flow = sessions.flow
    sessions = Sessions(flow, flow, flow)  # a few rows cost a third with settings for small batches
    tables = recorded(scenario)
    registry = opened(sessions, tmp_path, tables)
    letters = DeadLetters(tmp_path / "dead_letters")
    letters.open()
    for one in tables:
        table = registry[TableName("stg", one.name)]
        assert is_stg(table)
        count = one.messages.num_rows
        size = -(-count // PIECES)
        for batch, start in enumerate(range(0, count, size)):
            ingest(sessions, table, one.messages.slice(start, size), letters, batch)
        rows = table.store.frame(sessions.batch).select(*table.store.schema.names).toArrow().to_pylist()
        assert sorted(map(shown, rows)) == one.rows, (one.name, ingest.__name__)
        assert table.store.commit.rows == len(one.rows)
    assert not letters.rows()
