"""A micro-batch as an OpenTelemetry trace: from the commits at its source to those of its tables.

Nothing is told of before it has happened, and nothing waits for who gathers traces: what cannot be sent in
time is left out by the SDK, which says so in the log.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

    from headrace.engine.table.table import Delta, Table

SEND_SECONDS = 5.0
"""How long one sending may take."""

_MILLISECOND = 1_000_000


@dataclass(frozen=True)
class Refreshed:
    """One table's part of a micro-batch.

    Args:
        begun, ended: nanoseconds since 1970.
        changes: rows.
        source_ms: commit time at the source of the newest event in it, milliseconds since 1970; 0: unknown.
        strategy: empty for a stg table.
    """

    table: str
    begun: int
    ended: int
    changes: int
    version: int
    source_ms: int
    strategy: str

    @classmethod
    def of(cls, table: Table, delta: Delta, begun: int) -> Refreshed:
        """What a table has just been brought to."""
        commit = table.store.commit
        return cls(
            str(table.name),
            begun,
            time.time_ns(),
            delta.count,
            commit.version,
            commit.source_ms,
            str(commit.decision.get("chosen", "")),
        )


class Traces:
    """Those of one server. Until it is started nothing is told."""

    def __init__(self) -> None:
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def start(self, endpoint: str, project: str) -> None:
        """Send traces from now on.

        Args:
            endpoint: who gathers them, by OTLP over HTTP: `http://host:4318`.
        """
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        told = {
            "service.name": "headrace",
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
            "headrace.project": project,
        }
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=SEND_SECONDS)
        self._provider = TracerProvider(resource=Resource.create(told), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("headrace")

    def stop(self) -> None:
        """Send what is left."""
        if self._provider is not None:
            self._provider.shutdown()
        self._provider = self._tracer = None

    @property
    def active(self) -> bool:
        return self._tracer is not None

    def micro_batch(self, flow: str, run: str, step: int, begun: int, tables: Sequence[Refreshed]) -> None:
        """Tell of a micro-batch that has changed these tables.

        Args:
            step: its number, as its commits have it; -1 of a table that is refreshed beside its flow.
            begun: nanoseconds since 1970.
        """
        if self._tracer is None or not tables:
            return
        from opentelemetry import trace

        committed = [t.source_ms for t in tables if t.source_ms]
        first = min(begun, min(committed, default=begun // _MILLISECOND) * _MILLISECOND)
        known: dict[str, str | int] = {"headrace.flow": flow, "headrace.run": run, "headrace.step": step}
        root = self._tracer.start_span("micro-batch", start_time=first, attributes=known)
        within = trace.set_span_in_context(root)
        self._span(within, "source to server", first, begun)
        for table in tables:
            self._table(within, table)
        root.end(max(table.ended for table in tables))

    def _table(self, within: Context, table: Refreshed) -> None:
        told: dict[str, str | int] = {
            "headrace.table": table.table,
            "headrace.version": table.version,
            "headrace.changes": table.changes,
        }
        if table.strategy:
            told["headrace.strategy"] = table.strategy
        self._span(within, f"refresh {table.table}", table.begun, table.ended, told)

    def _span(
        self, within: Context, name: str, begun: int, ended: int, told: dict[str, str | int] | None = None
    ) -> None:
        assert self._tracer is not None
        self._tracer.start_span(name, within, start_time=begun, attributes=told).end(ended)


TRACES = Traces()
"""Of this server."""
