"""What every step of the demo works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import psycopg

from headrace.demo import shop
from headrace.demo.display import Display
from headrace.demo.report import Report
from headrace.errors import TerminalError
from headrace.gateway.client import GatewayClient
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.spec import load_project

WATCHED = "dws.user_hour"
"""The table whose freshness is measured, three hops from the source."""


@dataclass(frozen=True)
class Stage:
    settings: Settings
    stack: Stack
    client: GatewayClient
    display: Display
    report: Report

    @property
    def dsn(self) -> str:
        # Not cached: the embedded server's password exists only once it has been started.
        return self.settings.postgres_dsn()

    @cached_property
    def stg_tables(self) -> Mapping[str, str]:
        """stg table → the shop's table that it captures."""
        specs = load_project(self.settings.project).tables.values()
        captured = {str(s.name): s.source.table for s in specs if s.source and s.source.table in shop.TABLES}
        if set(captured.values()) != set(shop.TABLES) or WATCHED not in {str(s.name) for s in specs}:
            raise TerminalError(
                f"{self.settings.project} has not the layers of the shop that the demo runs; "
                "run `./headrace demo` in a clone of the repository"
            )
        return captured

    def source_rows(self) -> dict[str, int]:
        """Rows in the source now, by stg table."""
        counts = shop.row_counts(self.dsn)
        return {table: counts[source] for table, source in self.stg_tables.items()}

    @cached_property
    def probe_hour(self) -> datetime:
        """The hour of the probe order."""
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute(
                "SELECT created_at FROM public.orders WHERE order_id = %s", [shop.PROBE_ORDER]
            ).fetchone()
        if row is None:
            raise TerminalError(
                "the shop has lost its probe order; drop the shop's tables and run `headrace demo` again"
            )
        created: datetime = row[0]
        return created.astimezone(UTC).replace(minute=0, second=0, microsecond=0)

    def label(self, *, hours_before_probe: int = 0) -> str:
        """A partition label, counted back from the probe's hour."""
        return (self.probe_hour - timedelta(hours=hours_before_probe)).strftime("%Y%m%d%H")

    def visible_tick(self, client: GatewayClient) -> int | None:
        """The probe's amount as a live read of the watched table shows it."""
        rows = client.query(
            f"SELECT amount FROM {WATCHED} WHERE user_id = {shop.PROBE_USER} AND logdate = '{self.label()}'"
        )
        return int(rows.column("amount")[0].as_py()) if rows.num_rows else None
