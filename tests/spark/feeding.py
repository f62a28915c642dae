"""Events as the messages that Debezium writes, and large micro-batches of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from harness import Harness

from headrace.engine.ingest.spark import Loaded, ingest_frame
from headrace.engine.table.table import Table
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.messages import RAW
from headrace.store.frames import local
from headrace.store.record.frontier import Offsets


def message(event: Event) -> tuple[Any, ...]:
    """As Debezium writes it. Where the event's `value` is None or has text of its own, that is sent."""
    key = event.raw_key if event.key is None else event.key.encode()
    place = (event.topic, event.partition, event.offset, key)
    if event.value != b"{}":
        return (*place, event.value)
    source = {"version": "3", "lsn": event.lsn, "ts_ms": event.source_ms, "snapshot": event.snapshot}
    value = {
        "before": json.loads(event.before) if event.before else None,
        "after": json.loads(event.after) if event.after else None,
        "source": {**source, "xmin": None},
        "transaction": None,
        "op": event.op,
        "ts_ms": 5,
    }
    return (*place, json.dumps(value).encode())


def messages(events: list[Event]) -> pa.Table:
    types = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}
    columns = list(zip(*map(message, events), strict=True))
    arrays = [pa.array(c, types[kind]) for c, (_, kind) in zip(columns, RAW, strict=True)]
    return pa.table(arrays, names=[name for name, _ in RAW])


def ends_of(events: list[Event]) -> Offsets:
    """Where their topic goes on after them."""
    in_order = sorted(events, key=lambda event: event.offset)
    return {events[0].topic: {event.partition: event.offset + 1 for event in in_order}}


def feed_large(warehouse: Harness, table: Table, events: list[Event]) -> Loaded:
    spark = warehouse.sessions.batch
    frame = local(spark, messages(events), RAW)
    return ingest_frame(spark, table, frame, ends_of(events), warehouse.dead_letters, run_id="test", batch=0)


def three_users(warehouse: Harness) -> Harness:
    """With the users 1 to 3 of Oslo, applied."""
    for user in (1, 2, 3):
        warehouse.source.put("users", user_id=user, city="Oslo")
    warehouse.feed()
    return warehouse
