"""status: the services and the tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli._shared.errors import FAILED, UNREACHABLE
from headrace.cli._shared.options import Json, Project, load_settings
from headrace.cli._shared.output import cell, note, print_columns, print_json
from headrace.cli._shared.overview import TIMEOUT, services
from headrace.durations import duration
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.results import JvmStatus, TableStatus
    from headrace.services.status import ServiceStatus
    from headrace.settings import Settings
    from headrace.store.lease import Holder

_HALTED = ("FAILED", "NEEDS RESYNC")


def status(project: Project = None, as_json: Json = False) -> None:
    """Show services and tables.

    Of each table: mode, state, strategy, declared and measured freshness, rows, version, lag, last error.
    Ends with 1 where a service or table is not well, with 3 where the warehouse server does not answer. Of a
    standby: whom it stands by for. Where `serves` is set: who serves which sources.
    """
    seen = _look(load_settings(project), jvm=as_json)
    if as_json:
        print_json(seen.as_dict())
    else:
        _show(seen)
    if seen.tables is None and seen.serving is None:
        raise typer.Exit(UNREACHABLE)
    if not seen.well:
        raise typer.Exit(FAILED)


@dataclass(frozen=True)
class _Overview:
    """`tables` is None where the warehouse server does not answer; `error` says why. `serving`: who has the
    warehouse's lease, where this server stands by. `servers`: where several divide the project, who has which
    sources. `environment`: its name; empty for the production."""

    project: str
    environment: str
    services: list[ServiceStatus]
    tables: list[TableStatus] | None
    error: str | None
    jvm: JvmStatus | None
    serving: str | None
    servers: list[Holder]

    @property
    def well(self) -> bool:
        services = all(service.state in ("RUNNING", "EXTERNAL") for service in self.services)
        tables = self.tables or []
        return services and not any(t.state in _HALTED or t.dead_letters or t.alarms for t in tables)

    def as_dict(self) -> dict[str, Any]:
        return {
            "project": self.project,
            "environment": self.environment,
            "services": [service.model_dump() for service in self.services],
            "tables": self.tables and [table.model_dump() for table in self.tables],
            "error": self.error,
            "serving": self.serving,
            "servers": [
                {"host": s.host, "pid": s.pid, "sources": s.sources, "since": s.since} for s in self.servers
            ],
            "jvm": self.jvm and self.jvm.model_dump(),
        }


def _look(settings: Settings, *, jvm: bool) -> _Overview:
    """Ask for services and tables, at the same time.

    Args:
        jvm: also what the server's JVM has spent.
    """
    from headrace.gateway.client import GatewayClient

    with ThreadPoolExecutor(max_workers=1) as pool, GatewayClient(settings, timeout=TIMEOUT) as client:
        found = pool.submit(services, client, settings)
        tables, error, spent, serving = None, None, None, None
        try:
            tables = client.status()
            spent = client.jvm() if jvm else None
        except HeadraceError as e:
            error, serving = str(e), client.serving_instead()
        return _Overview(
            str(settings.project),
            settings.environment,
            found.result(),
            tables,
            error,
            spent,
            serving,
            _servers(settings),
        )


def _servers(settings: Settings) -> list[Holder]:
    if not settings.served:
        return []
    from headrace.store.lease import servers

    return servers(settings.warehouse)


def _show(seen: _Overview) -> None:
    """Two tables for a person."""
    if seen.environment:
        print(f"environment {seen.environment}\n")
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
    if seen.servers:
        since = {s: datetime.fromtimestamp(s.since, UTC) for s in seen.servers}
        print_columns(
            ("sources", "served by", "since"),
            [
                (
                    ", ".join(s.sources) or "all",
                    f"process {s.pid} of {s.host}",
                    f"{since[s]:%Y-%m-%d %H:%M:%S}",
                )
                for s in seen.servers
            ],
        )
        print()
    if seen.serving is not None:
        print(f"stands by: {seen.serving} serves the warehouse")
        return
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
        if (published := table.published) is not None:
            behind = f", {published.behind} behind" if published.behind else ""
            late = f", p90 {duration(published.measured_p90)}" if published.measured_p90 is not None else ""
            print(
                f"{table.table}: published as {published.target}, version {published.version}{behind}{late}"
            )
        if table.last_error:
            print(f"{table.table}: {cell(table.last_error)}")
        for alarm in table.alarms:
            print(f"{table.table}: ALARM: {cell(alarm)}")
        for warning in table.warnings:
            print(f"{table.table}: {cell(warning)}")
