"""Who reads a new source for the first time; where that is a bulk snapshot, the warehouse server does it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import HeadraceError, TerminalError, TransientError
from headrace.gateway.client import GatewayClient
from headrace.results import LoadResult, Statement
from headrace.settings import Settings
from headrace.sources.connect import ConnectorFile
from headrace.sources.dsn import source_dsn, source_scheme
from headrace.sources.postgres.bulk.choice import Choice, choose, slot_name
from headrace.sources.postgres.bulk.facts import read_facts
from headrace.sources.postgres.bulk.record import LoadRecord, load_record
from headrace.sources.postgres.bulk.slot import slot_exists
from headrace.sources.records import records
from headrace.spec import load_project

START_SECONDS, TABLE_SECONDS = 120.0, 1.0
"""How long the tables of a server that has just started may take to be there, and each of them more."""

REPORT_SECONDS = 2.0
"""Between two reports of progress."""


@dataclass(frozen=True)
class FirstLoad:
    """Called with a connector file that Connect does not know; see `sources.registration.Load`.

    Args:
        start: starts the warehouse server and waits until it answers.
        report: told what is decided and how far a load is.
    """

    settings: Settings
    start: Callable[[], object]
    report: Callable[[str], None]

    def __call__(self, file: ConnectorFile) -> LoadRecord | None:
        unfinished = load_record(records(self.settings), file.name)
        if unfinished is None:
            choice = self.choose(file)
            how = "by a bulk snapshot" if choice.bulk else "by its connector"
            self.report(f"source `{file.name}` is read {how}: {choice.reason}")
            if not choice.bulk:
                return None
        else:
            self.report(f"source `{file.name}`: the bulk snapshot that was interrupted starts again")
        self.start()
        found = self._run(file.name)
        if not found.loaded:
            self.report(f"source `{file.name}` is read by its connector: {found.reason}")
            return None
        self.report(f"loaded {found.rows:,} rows of `{file.name}` in {found.seconds:.1f} s")
        return load_record(records(self.settings), file.name)

    def choose(self, file: ConnectorFile) -> Choice:
        """By the settings, the connector file and the source's own estimates.

        Raises:
            HeadraceError: `bulk` is wanted, and the project or the source is not ready for it.
        """
        try:
            return self._choose(file)
        except HeadraceError as error:
            if self.settings.snapshot == "bulk":
                raise
            return Choice(False, str(error))

    def _choose(self, file: ConnectorFile) -> Choice:
        if self.settings.snapshot == "connector":  # without a look at the database
            return choose("connector", file.config, (), bulk_rows=0, slot_exists=False)
        project = load_project(self.settings.project)
        connector = project.connectors.get(file.name)
        if connector is None:
            return Choice(False, "it is no source of this project")
        if source_scheme(connector) != "postgresql":
            return Choice(False, "bulk snapshots are of PostgreSQL only")
        dsn = source_dsn(connector, self.settings.source_environment())
        tables = [t for t in project.sources() if t.source == file.name]
        return choose(
            self.settings.snapshot,
            file.config,
            read_facts(dsn, tables),
            bulk_rows=self.settings.bulk_snapshot_rows,
            slot_exists=slot_exists(dsn, slot_name(file.config)),
        )

    def _run(self, source: str) -> LoadResult:
        reported = 0.0

        def show(statement: Statement) -> None:
            nonlocal reported
            if statement.message and time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                self.report(statement.message)

        try:
            with GatewayClient(self.settings) as client:
                wait_for_tables(client)
                return LoadResult.model_validate(client.run(f"LOAD SOURCE {source}", show).result)
        except TransientError as error:
            raise TerminalError(
                f"`{source}` is not loaded: {error}. Next: `headrace up` starts the load again"
            ) from error


def wait_for_tables(client: GatewayClient) -> None:
    """The server answers before its tables are there. Raises TransientError with what they wait for."""
    begun = time.monotonic()
    while waiting := [t for t in client.status() if not t.mode]:
        if time.monotonic() - begun > START_SECONDS + TABLE_SECONDS * len(waiting):
            raise TransientError(f"its tables do not start: {waiting[0].last_error}")
        time.sleep(0.2)
