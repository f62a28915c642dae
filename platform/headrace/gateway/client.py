"""The gateway's client: submit a statement, follow it, fetch its rows. Imports no Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx

from headrace.errors import Cancelled, HeadraceError, TerminalError
from headrace.gateway.errors import NotReachable, StatementFailed, StatementInterrupted, StatementRefused
from headrace.gateway.literals import literal
from headrace.gateway.overview import DIGEST
from headrace.results import (
    ChangePage,
    Explanation,
    JvmStatus,
    PlannedProject,
    Statement,
    TableStatus,
    WorkflowStatus,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.results import Start
    from headrace.settings import Settings

__all__ = ["GatewayClient", "NotReachable", "StatementFailed", "StatementInterrupted", "StatementRefused"]

TOKEN = "HEADRACE_TOKEN"
"""A variable with the token to present in place of that of the project's data folder."""

OnProgress = Callable[[Statement], None]

FINISHED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
_POLL_SECONDS = 5.0  # how long the server holds a poll open when nothing changes
_FIRST_POLL_SECONDS = 0.5
"""The same of the first: most statements end within it, and the others are then shown as they are."""


class GatewayClient:
    """A connection to the project's warehouse server. Use as a context manager, or call `close()`.

    Args:
        settings: the project's settings: port and token file.
        timeout: seconds to wait for one answer.
        transport: for tests: answers in place of the network.
    """

    def __init__(
        self, settings: Settings, *, timeout: float = 60.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._settings = settings
        self._http = httpx.Client(
            base_url=settings.gateway_url,
            timeout=httpx.Timeout(timeout, connect=5.0),
            transport=transport,
            verify=False,  # plain HTTP: loading the certificates alone would take 0.1 s
            trust_env=False,  # a proxy from the environment must never see a loopback call
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit(self, sql: str) -> Statement:
        """Hand in a statement; returns at once. StatementRefused where it cannot be accepted."""
        return Statement.model_validate(self._json("POST", "/statements", json={"sql": sql}))

    def get(self, id: str) -> Statement:
        """The statement as it is now."""
        return self._poll(id, 0.0)

    def wait(self, id: str, on_progress: OnProgress | None = None) -> Statement:
        """Wait until the statement has ended, however it ended; `on_progress` sees every change."""
        seen: Statement | None = None
        while True:
            statement = self._poll(id, _FIRST_POLL_SECONDS if seen is None else _POLL_SECONDS)
            if on_progress is not None and statement != seen:
                on_progress(statement)
            if statement.state in FINISHED:
                return statement
            seen = statement

    def run(self, sql: str, on_progress: OnProgress | None = None) -> Statement:
        """Submit, wait, and raise unless it succeeded: StatementFailed, StatementInterrupted or Cancelled.

        An interrupted wait (Ctrl-C, a cancelled Dagster run) cancels the statement.
        """
        submitted = self.submit(sql)
        try:
            statement = self.wait(submitted.id, on_progress)
        except BaseException:
            self._cancel_quietly(submitted.id)
            raise
        if statement.state == "FAILED":
            transient = isinstance(statement.result, dict) and statement.result.get("kind") == "transient"
            kind = StatementInterrupted if transient else StatementFailed
            raise kind(statement.error or "the statement failed")
        if statement.state == "CANCELLED":
            raise Cancelled(statement.error or "the statement was cancelled")
        return statement

    def query(self, sql: str, on_progress: OnProgress | None = None) -> pa.Table:
        """Run a SELECT and fetch its rows."""
        return self.rows(self.run(sql, on_progress).id)

    def rows(self, id: str) -> pa.Table:
        """The rows of a finished SELECT or CHANGES."""
        import pyarrow as pa

        response = self._send("GET", f"/statements/{id}/rows")
        with pa.ipc.open_stream(response.content) as reader:
            return reader.read_all()

    def changes(self, table: str, start: Start = None, *, reader: str | None = None) -> ChangePage:
        """One page of a table's changelog. With a reader's name, `start` also says what it has done."""
        clause = f" FROM VERSION {start}" if isinstance(start, int) else f" FROM {start}" if start else ""
        name = "" if reader is None else f" READER {literal(reader)}"
        statement = self.run(f"CHANGES {table}{clause}{name}")
        return ChangePage(rows=self.rows(statement.id), **statement.result)

    def workflows(self) -> list[WorkflowStatus]:
        """The refresh workflows of tables that do not stream."""
        return [WorkflowStatus.model_validate(w) for w in self.run("SHOW WORKFLOWS").result]

    def cancel(self, id: str) -> Statement:
        """Ask the statement to stop; returns at once."""
        return Statement.model_validate(self._json("DELETE", f"/statements/{id}"))

    def statements(self) -> list[Statement]:
        """The statements the server still knows, oldest first."""
        return [Statement.model_validate(s) for s in self._json("GET", "/statements")]

    def status(self) -> list[TableStatus]:
        """Every table's status."""
        return [TableStatus.model_validate(s) for s in self._json("GET", "/status")]

    def jvm(self) -> JvmStatus | None:
        """What the warehouse's JVM has spent; None before its sources were found."""
        found = self._json("GET", "/jvm")
        return None if found is None else JvmStatus.model_validate(found)

    def services(self) -> list[dict[str, Any]]:
        """Every service's state, as the server's `Overview` tells it."""
        found: list[dict[str, Any]] = self._overview("/services")
        return found

    def plan(self) -> PlannedProject:
        """What the project's files say now."""
        return PlannedProject.model_validate(self._overview("/plan"))

    def planned(self, table: str, *, history: bool = False) -> Explanation:
        """What one table's file says now."""
        return Explanation.model_validate(
            self._overview(f"/plan/{quote(table)}", params={"history": history})
        )

    def health(self) -> dict[str, Any]:
        """`{"state": …, "error": …}`, as `Service.health` tells; needs no token."""
        try:
            answer: dict[str, Any] = self._http.get("/health").json()
        except (httpx.TransportError, ValueError) as e:
            raise self._unreachable(e) from e
        return answer

    def serving_instead(self) -> str | None:
        """Who serves the warehouse, where this server only stands by for it; None also where none answers."""
        with suppress(HeadraceError):
            serving: str | None = self.health().get("serving")
            return serving
        return None

    def _poll(self, id: str, wait: float) -> Statement:
        return Statement.model_validate(self._json("GET", f"/statements/{id}", params={"wait": wait}))

    def _cancel_quietly(self, id: str) -> None:
        with suppress(HeadraceError):  # what interrupted the wait is the error worth showing
            self.cancel(id)

    def _json(self, method: str, path: str, **arguments: Any) -> Any:
        return self._send(method, path, **arguments).json()

    def _overview(self, path: str, **arguments: Any) -> Any:
        return self._json("GET", path, headers={DIGEST: self._settings.digest}, **arguments)

    def _send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **arguments: Any
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._token()}", **(headers or {})}
        try:
            response = self._http.request(method, path, headers=headers, **arguments)
        except httpx.TransportError as e:
            raise self._unreachable(e) from e
        if response.is_success:
            return response
        raise self._refusal(response)

    def _token(self) -> str:
        if given := os.environ.get(TOKEN):
            return given
        path = self._settings.gateway_token
        try:
            return path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise NotReachable(
                f"the warehouse server of {self._settings.project} was never started: run `headrace up`"
            ) from None
        except PermissionError:
            raise TerminalError(f"{path} is not readable: the server belongs to another user") from None

    def _unreachable(self, error: Exception) -> NotReachable:
        where = f"127.0.0.1:{self._settings.gateway_port}"
        if isinstance(error, httpx.ConnectError):
            return NotReachable(f"nothing listens on {where}: run `headrace up`")
        return NotReachable(
            f"the warehouse server on {where} did not answer ({type(error).__name__}): "
            f"see `headrace status` and {self._settings.logs}"
        )

    def _refusal(self, response: httpx.Response) -> HeadraceError:
        port = self._settings.gateway_port
        try:
            message = str(response.json()["error"])
        except (ValueError, KeyError, TypeError):
            return NotReachable(
                f"what answers on port {port} is not headrace (HTTP {response.status_code}): "
                "stop that program, or set another `gateway_port`"
            )
        match response.status_code:
            case 401:
                return NotReachable(f"{message}: another project's server may hold port {port}")
            case 503:
                return NotReachable(message)
            case 400 | 403 | 404 | 410 | 422:
                return StatementRefused(message)
            case _:
                return StatementFailed(message)
