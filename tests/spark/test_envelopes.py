"""Messages as Spark reads them: where they are in their source's log, and of which transaction they are."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.engine.ingest.offsets import collect
from headrace.engine.spark.prepared import Queries
from headrace.sources.stream import binlog
from headrace.sources.stream.messages import raw


def message(source: dict[str, Any], transaction: dict[str, Any] | None) -> bytes:
    return json.dumps({"op": "c", "after": {"id": 1}, "source": source, "transaction": transaction}).encode()


def test_places_and_transactions_of_either_kind_of_source(spark: SparkSession) -> None:
    file = "mysql-bin.000042"
    sent: list[tuple[dict[str, Any], dict[str, Any] | None, int, str | None]] = [
        ({"lsn": 77, "txId": 5}, {"id": "5:77", "total_order": 9}, 77, "5"),
        ({"file": file, "pos": 1000, "row": 3}, None, binlog.number(file, 1000), None),
    ]
    for order in (1, 16_383, 16_384, 16_385, 20_000, 9_000_000, 1 << 32):
        transaction = {"id": "0-7-14", "total_order": order, "data_collection_order": 1}
        place = {"file": file, "pos": 4_294_967_000, "row": 1}
        sent.append((place, transaction, binlog.number(file, 4_294_967_000, order), "0-7-14"))
    rows = [("t", 0, n, b"{}", message(s, t)) for n, (s, t, _, _) in enumerate(sent)]
    messages: pa.Table = raw(rows)
    events = collect(spark, Queries(), messages)
    assert [(e.lsn, e.transaction) for e in events] == [(lsn, name) for _, _, lsn, name in sent]
