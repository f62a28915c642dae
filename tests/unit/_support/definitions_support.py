"""A small warehouse project, and a gateway that answers over the real client's HTTP boundary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from headrace.gateway.client import GatewayClient
from headrace.orchestration.gateway import GatewayResource
from headrace.results import Statement
from headrace.settings import Settings

HOURLY = "PARTITIONED BY (logdate)\nWITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')"
RANGE = "logdate >= ${start_date} AND logdate <= ${end_date}"

LAYERS = {
    "stg/orders": f"""
CREATE MATERIALIZED TABLE stg.orders {HOURLY} FRESHNESS = DOWNSTREAM AS
SELECT *, date_format(created_at, 'yyyyMMddHH') AS logdate FROM shop.public.orders""",
    "stg/users": """
CREATE MATERIALIZED TABLE stg.users FRESHNESS = DOWNSTREAM AS SELECT * FROM shop.public.users""",
    "stg/visits": f"""
CREATE MATERIALIZED TABLE stg.visits {HOURLY} FRESHNESS = DOWNSTREAM AS
SELECT *, date_format(at, 'yyyyMMddHH') AS logdate FROM shop.public.visits""",
    "dwd/orders": f"""
CREATE MATERIALIZED TABLE dwd.orders (
  PRIMARY KEY (order_id), CONSTRAINT named EXPECT (name IS NOT NULL) ON VIOLATION WARN
)
COMMENT 'Orders with their user' {HOURLY} FRESHNESS = DOWNSTREAM AS
SELECT o.order_id, o.user_id, u.name, v.page, CAST(o.amount AS DECIMAL(12, 2)) AS amount, o.logdate
FROM stg.orders o JOIN stg.users u ON u.user_id = o.user_id JOIN stg.visits v ON v.visit_id = o.visit_id
WHERE o.logdate >= ${{start_date}} AND o.logdate <= ${{end_date}}""",
    "dws/user_hour": f"""
CREATE MATERIALIZED TABLE dws.user_hour (
  PRIMARY KEY (user_id, logdate), CONSTRAINT counted EXPECT (cnt > 0) ON VIOLATION FAIL
)
COMMENT 'Orders per user and hour' {HOURLY} FRESHNESS = INTERVAL '10' SECOND AS
SELECT user_id, logdate, COUNT(*) AS cnt FROM dwd.orders WHERE {RANGE} GROUP BY user_id, logdate""",
    "dws/user_day": """
CREATE MATERIALIZED TABLE dws.user_day (PRIMARY KEY (user_id, day)) PARTITIONED BY (day)
WITH ('partition.fields.day.date-formatter' = 'yyyy-MM-dd') FRESHNESS = INTERVAL '1' DAY AS
SELECT user_id, substr(logdate, 1, 8) AS day, SUM(cnt) AS cnt FROM dws.user_hour
WHERE substr(logdate, 1, 8) BETWEEN ${start_date} AND ${end_date} GROUP BY user_id, substr(logdate, 1, 8)""",
    "dws/user_total": """
CREATE MATERIALIZED TABLE dws.user_total (PRIMARY KEY (user_id)) FRESHNESS = INTERVAL '1' HOUR AS
SELECT user_id, COUNT(*) AS cnt FROM dwd.orders GROUP BY user_id""",
}

CHECKS = """\
checks:
  - type: expect_column_values_to_be_between
    kwargs: {column: cnt, max_value: 1000}
    severity: warning
    name: plausible
"""

CONNECTOR = {
    "name": "shop",
    "config": {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "shop",
        "database.dbname": "shop",
        "table.include.list": "public.orders,public.users,public.visits",
    },
}


def write_project(directory: Path) -> Path:
    for name, text in LAYERS.items():
        path = directory / "layers" / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip())
    (directory / "layers/dws/user_hour.checks.yml").write_text(CHECKS)
    connectors = directory / "deploy/connectors"
    connectors.mkdir(parents=True)
    (connectors / "shop.json").write_text(json.dumps(CONNECTOR))
    return directory


class FakeGateway:
    """Answers statements by their first words. `polls` are what a statement shows before it ends."""

    def __init__(self) -> None:
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self.results: dict[str, Any] = {}
        self.tables: dict[str, pa.Table] = {}
        self.status: list[dict[str, Any]] = []
        self.polls: list[dict[str, Any]] = []
        self.error: str | None = None
        self.reachable = True
        self.serving: str | None = None
        self.on_poll: Callable[[], None] = lambda: None
        self._polled: dict[str, int] = {}

    def handle(self, request: httpx.Request) -> httpx.Response:
        if not self.reachable:
            raise httpx.ConnectError("refused")
        if self.serving is not None:
            return httpx.Response(
                503, json={"state": "standby", "serving": self.serving, "error": "stands by"}
            )
        match request.method, request.url.path.strip("/").split("/"):
            case "GET", ["status"]:
                return httpx.Response(200, json=self.status)
            case "POST", ["statements"]:
                self.submitted.append(json.loads(request.content)["sql"])
                return self._answer(str(len(self.submitted) - 1), {"state": "QUEUED"})
            case "GET", ["statements", id]:
                return self._poll(id)
            case "GET", ["statements", id, "rows"]:
                return httpx.Response(200, content=self._rows(id))
            case "DELETE", ["statements", id]:
                self.cancelled.append(self.submitted[int(id)])
                return self._answer(id, {"state": "CANCELLED"})
        return httpx.Response(404, json={"error": f"{request.method} {request.url.path}"})

    def _poll(self, id: str) -> httpx.Response:
        n = self._polled[id] = self._polled.get(id, -1) + 1
        if n < len(self.polls):
            return self._answer(id, {"state": "RUNNING", **self.polls[n]})
        self.on_poll()
        if self.error:
            return self._answer(id, {"state": "FAILED", "error": self.error})
        text = self.submitted[int(id)]
        result = next((r for start, r in self.results.items() if text.startswith(start)), None)
        return self._answer(id, {"state": "SUCCEEDED", "result": result})

    def _rows(self, id: str) -> bytes:
        table = next(t for start, t in self.tables.items() if self.submitted[int(id)].startswith(start))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def _answer(self, id: str, fields: dict[str, Any]) -> httpx.Response:
        statement = Statement(id=id, text=self.submitted[int(id)], **fields)
        return httpx.Response(200, json=statement.model_dump())


def connect(monkeypatch: pytest.MonkeyPatch, directory: Path, gateway: FakeGateway) -> None:
    """Every client that definitions open from now on talks to `gateway`."""
    settings = Settings.load(directory)
    settings.gateway_token.parent.mkdir(parents=True, exist_ok=True)
    settings.gateway_token.write_text("token")

    @contextmanager
    def client(_: GatewayResource) -> Iterator[GatewayClient]:
        with GatewayClient(settings, transport=httpx.MockTransport(gateway.handle)) as opened:
            yield opened

    monkeypatch.setattr(GatewayResource, "client", client)


def counts(rows: dict[str, int]) -> pa.Table:
    return pa.table({"label": list(rows), "n": list(rows.values())})
