"""What the connector sent of the tables of `tests/scenarios/cdc`, kept for the runs in process.

`HEADRACE_RECORD=1 .venv/bin/python -m pytest --long tests/chain/test_source_data.py -k catalogue` writes the
files anew, one beside each scenario that is not about volume.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from running_shop import Shop

from headrace.sources.database import database
from headrace.sources.dsn import source_dsn
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.messages import read_once
from headrace.sources.stream.topics import Topics
from headrace.spec.connector import load_connector
from headrace.spec.model import SourceTable
from recorded import shown

VARIABLE = "HEADRACE_RECORD"
MOST_MESSAGES = 3_000

_OF_SOURCE = ("lsn", "snapshot", "ts_ms", "txId")
_OF_TRANSACTION = ("id", "total_order", "data_collection_order")


def record(shop: Shop, scenarios: Mapping[Path, list[str]]) -> None:
    """Write `<scenario>.jsonl` beside each `<scenario>.sql`: for each of its tables what headrace knows of it
    and the rows that the stg table has at the end, then the messages.

    Args:
        scenarios: their tables, by their files.
    """
    for file, names in scenarios.items():
        lines = [line for name in names for line in _of_table(shop, name)]
        if len(lines) <= MOST_MESSAGES:
            file.with_suffix(".jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))


def _of_table(shop: Shop, name: str) -> list[dict[str, Any]]:
    connector = load_connector(shop.settings.connectors / "shop.json")
    table = SourceTable("shop", "public", name)
    dsn = source_dsn(connector, shop.settings.source_environment())
    schema = database(dsn).describe([table], lambda t: connector.message_key(t.schema, t.table))[table]
    rows = shop.client.query(f"SELECT * FROM stg.{name}").to_pylist()
    topics = Topics.of(Broker.of(shop.settings))
    try:
        bounds = topics.bounds([table.topic])
    finally:
        topics.close()
    start = {t: {p: low for p, (low, _) in parts.items()} for t, parts in bounds.items()}
    end = {t: {p: high for p, (_, high) in parts.items()} for t, parts in bounds.items()}
    sent = read_once(Broker.of(shop.settings), start, end).to_pylist()
    head = {"table": name, "schema": schema.record(), "rows": sorted(map(shown, rows))}
    return [head, *({"table": name, **_message(one)} for one in sent)]


def _message(sent: dict[str, Any]) -> dict[str, Any]:
    """Key and value as texts, without what nobody reads of a value."""
    key, value = (None if sent[part] is None else sent[part].decode() for part in ("key", "value"))
    if value is not None:
        event = json.loads(value)
        event["source"] = {name: event["source"].get(name) for name in _OF_SOURCE}
        if event.get("transaction"):
            event["transaction"] = {name: event["transaction"][name] for name in _OF_TRANSACTION}
        kept = ("before", "after", "op", "source", "transaction")
        value = json.dumps({name: event[name] for name in kept if name in event})
    return {"offset": sent["offset"], "key": key, "value": value}
