"""What `headrace status` sees and how it shows it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.cli.output import cell, duration, note, print_columns
from headrace.errors import HeadraceError
from headrace.gateway.client import GatewayClient
from headrace.services.stack import Stack

if TYPE_CHECKING:
    from headrace.results import TableStatus
    from headrace.services.status import ServiceStatus
    from headrace.settings import Settings

_HALTED = ("FAILED", "NEEDS RESYNC")


@dataclass(frozen=True)
class Overview:
    """`tables` is None where the warehouse server does not answer; `error` says why."""

    project: str
    services: list[ServiceStatus]
    tables: list[TableStatus] | None
    error: str | None

    @property
    def well(self) -> bool:
        services = all(service.state in ("RUNNING", "EXTERNAL") for service in self.services)
        return services and all(table.state not in _HALTED for table in self.tables or [])

    def as_dict(self) -> dict[str, Any]:
        return {
            "project": self.project,
            "services": [service.model_dump() for service in self.services],
            "tables": self.tables and [table.model_dump() for table in self.tables],
            "error": self.error,
        }


def look(settings: Settings) -> Overview:
    """Ask the supervisor and the warehouse server, at the same time."""
    with ThreadPoolExecutor(max_workers=1) as pool, GatewayClient(settings, timeout=15) as client:
        services = pool.submit(Stack(settings).status)
        tables, error = None, None
        try:
            tables = client.status()
        except HeadraceError as e:
            error = str(e)
        return Overview(str(settings.project), services.result(), tables, error)


def show(seen: Overview) -> None:
    """Two tables for a person."""
    print_columns(
        ("service", "state", "pid", "port", "memory", "detail"),
        [
            (
                s.name,
                s.state,
                s.pid,
                s.port,
                f"{s.rss_bytes / 2**20:.0f} MiB" if s.rss_bytes else None,
                s.detail,
            )
            for s in seen.services
        ],
    )
    print()
    if seen.tables is None:
        note(f"no tables: {seen.error}")
        return
    print_columns(
        (
            "table",
            "mode",
            "state",
            "strategy",
            "declared",
            "measured",
            "watermark",
            "rows",
            "version",
            "lag",
            "dead letters",
        ),
        [
            (
                t.table,
                t.mode,
                t.state,
                t.strategy,
                duration(t.declared_freshness),
                duration(t.measured_freshness),
                f"{t.watermark:%Y-%m-%d %H:%M:%S}" if t.watermark else None,
                t.rows,
                t.version,
                t.lag,
                t.dead_letters,
            )
            for t in seen.tables
        ],
    )
    for table in seen.tables:
        if table.last_error:
            print(f"{table.table}: {cell(table.last_error)}")
        for warning in table.warnings:
            print(f"{table.table}: {cell(warning)}")
