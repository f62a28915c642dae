"""One warehouse behind the gateway: started in the background, then open for statements."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Literal, Protocol

from headrace.errors import HeadraceError, TerminalError, TransientError
from headrace.gateway.execution import Outcome, WarehouseApi, check_labels, execute, only_reads
from headrace.gateway.jobs import Jobs
from headrace.gateway.parser import parse
from headrace.gateway.rows import ResultRows
from headrace.gateway.statements import ParsedStatement
from headrace.progress import Progress
from headrace.results import JvmStatus, Statement, TableStatus

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.gateway.flight.listings import ListedTable
    from headrace.spec import Project

log = logging.getLogger(__name__)

State = Literal["starting", "standby", "ready", "failed", "stopping"]


class Forbidden(TerminalError):
    """A call that wants another token."""


READING = (
    "the token is for reading: SELECT, SHOW, DESCRIBE, EXPLAIN and CHANGES. Next: present that of "
    "`gateway.token`, which the server's owner has"
)


class ManagedWarehouse(WarehouseApi, Protocol):
    """A warehouse that the server starts and stops."""

    @property
    def project(self) -> Project: ...
    @property
    def stands_by_for(self) -> str | None: ...
    def start(self) -> None: ...
    def give_up(self) -> None: ...
    def stop(self) -> None: ...


Build = Callable[[], ManagedWarehouse]


class Service:
    """A warehouse and its statements.

    Args:
        build: loads the project and makes the warehouse; called once, in the background.
        rows: where results go.
        keep: how many finished statements stay known.
    """

    def __init__(self, build: Build, rows: ResultRows, *, keep: int = 200) -> None:
        self._build = build
        self._lock = Lock()
        self._state: State = "starting"
        self._error: str | None = None
        self._built: ManagedWarehouse | None = None
        self._starter = Thread(target=self._start, name="warehouse-start", daemon=True)
        self.jobs = Jobs(self._execute, rows, keep=keep)

    def start(self) -> None:
        """Begin to start the warehouse; returns at once, `health` says when it is ready."""
        self._starter.start()

    def drain(self) -> None:
        """Say that it stops, take no more statements, let waiting clients go."""
        with self._lock:
            self._state = "stopping"
        self.jobs.drain()

    def close(self) -> None:
        """Cancel the statements and stop the warehouse, after its start where that is under way."""
        self.drain()
        if self._built is not None:
            self._built.give_up()
        if self._starter.ident is not None:
            self._starter.join()
        self.jobs.close()
        if self._built is not None:
            self._built.stop()

    def health(self) -> dict[str, str | None]:
        """`state` and, where it failed, `error`; of a standby `serving`, the one that it waits for."""
        with self._lock:
            state, error, serving = self._state, self._error, self._serving
        if state == "starting" and serving is not None:
            return {"state": "standby", "error": None, "serving": serving}
        return {"state": state, "error": error}

    @property
    def _serving(self) -> str | None:
        return self._built.stands_by_for if self._built is not None else None

    def submit(self, sql: str, *, reading: bool = False) -> Statement:
        """Check a statement and queue it. Raises what is wrong with it.

        Args:
            reading: refuse one that does more than read, with `Forbidden`.
        """
        project = self._ready().project
        parsed = self._parsed(sql)
        check_labels(parsed, project)
        if reading and not only_reads(parsed):
            raise Forbidden(READING)
        return self.jobs.submit(sql, parsed)

    def cancel(self, id: str, *, reading: bool = False) -> Statement:
        """Ask a statement to stop.

        Args:
            reading: as of `submit`.
        """
        if reading and not only_reads(self._parsed(self.jobs.get(id).text)):
            raise Forbidden(READING)
        return self.jobs.cancel(id)

    def _parsed(self, sql: str) -> ParsedStatement:
        project = self._ready().project
        tables = {str(name): spec.partition_column for name, spec in project.tables.items()}
        return parse(sql, tables, {str(name): project.why_elsewhere(name) for name in project.elsewhere})

    def status(self) -> list[TableStatus]:
        """Every table's status."""
        return self._ready().status()

    def tables(self) -> list[ListedTable]:
        """Every table, as clients list them."""
        from headrace.gateway.flight.listings import ListedTable

        warehouse = self._ready()
        return [
            ListedTable(
                name.layer,
                name.table,
                partial(_key, warehouse, str(name)),
                partial(_columns, warehouse, str(name)),
            )
            for name in warehouse.project.tables
        ]

    def jvm(self) -> JvmStatus | None:
        """What the warehouse's JVM has spent; None before its sources were found."""
        return self._ready().jvm()

    def metrics(self) -> bytes:
        """All that Prometheus is told; see `gateway.metrics`."""
        from headrace.gateway.metrics import exposition

        warehouse = self._ready()
        return exposition(warehouse.status(), warehouse.jvm(), warehouse.spent(), warehouse.sources())

    def _execute(self, parsed: ParsedStatement, progress: Progress) -> Outcome:
        return execute(self._ready(), parsed, progress)

    def _ready(self) -> ManagedWarehouse:
        with self._lock:
            state, error, built, serving = self._state, self._error, self._built, self._serving
        if state == "ready" and built is not None:
            return built
        if state == "failed":
            raise TerminalError(f"the warehouse could not start: {error}")
        if state == "starting" and serving is not None:
            raise TransientError(f"this warehouse server stands by for {serving}. Next: ask that one")
        raise TransientError(f"the warehouse server is {state}: `headrace status` shows when it is ready")

    def _start(self) -> None:
        try:
            self._built = self._build()
            self._built.start()
        except HeadraceError as error:
            log.error("the warehouse cannot start: %s", error)
            self._settle("failed", str(error))
        except BaseException as error:
            log.exception("the warehouse cannot start")
            first = (str(error).strip().splitlines() or [""])[0]
            self._settle("failed", f"{type(error).__name__}: {first} (details in the server's log)")
        else:
            log.info("the warehouse is ready")
            self._settle("ready", None)

    def _settle(self, state: State, error: str | None) -> None:
        with self._lock:
            self._error = error
            if self._state == "starting":  # not where it was told to stop meanwhile
                self._state = state


def _key(warehouse: WarehouseApi, table: str) -> list[str]:
    found: list[str] = warehouse.describe(table)["primary_key"]
    return found


def _columns(warehouse: WarehouseApi, table: str) -> pa.Schema:
    from headrace.store.schema import arrow_schema

    columns = warehouse.describe(table)["columns"]
    return arrow_schema(tuple((column["name"], column["type"]) for column in columns))
