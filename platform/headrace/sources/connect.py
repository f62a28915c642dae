"""Connector files, and Kafka Connect's REST interface as far as headrace uses it."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from headrace.errors import TerminalError, TransientError
from headrace.sources.postgres.bulk.choice import INITIAL

POLL_SECONDS = 0.1
# A restart is not seen at once: it travels through Kafka before the REST interface shows it.
RESTART_SECONDS = 2.0
STOP_SECONDS = 30.0
FAILED = "FAILED"
UNREGISTERED = {"connector": {"state": "UNREGISTERED"}, "tasks": []}


@dataclass(frozen=True)
class ConnectorFile:
    """A plain Debezium connector file: what a `POST /connectors` takes."""

    name: str
    config: dict[str, str]
    path: Path

    @classmethod
    def read(cls, path: Path) -> ConnectorFile:
        """Raises TerminalError with file and line where it is not one."""
        try:
            content = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise TerminalError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
        name, config = (
            (content.get(key) for key in ("name", "config")) if isinstance(content, dict) else (0, 0)
        )
        if not isinstance(name, str) or not isinstance(config, dict):
            raise TerminalError(f'{path}:1: a connector file reads {{"name": "…", "config": {{…}}}}')
        return cls(name, {key: str(value) for key, value in config.items()}, path)

    def streaming(self) -> ConnectorFile:
        """The same for a source whose rows a bulk snapshot brought: the connector reads none of them."""
        if self.config.get("snapshot.mode", INITIAL) != INITIAL:
            return self  # a person has chosen since
        return replace(self, config={**self.config, "snapshot.mode": "no_data"})

    def topics(self) -> list[str]:
        """The topics of tables that it names outright; a pattern's come into being with their first row."""
        prefix = self.config.get("topic.prefix")
        listed = [t.strip() for t in self.config.get("table.include.list", "").split(",")]
        return [f"{prefix}.{table}" for table in listed if prefix and re.fullmatch(r"\w+\.\w+", table)]


@dataclass(frozen=True)
class ConnectorStatus:
    """The connector's state and that of its worst task: RUNNING, PAUSED, UNASSIGNED, FAILED …"""

    name: str
    state: str
    trace: str = ""

    @property
    def running(self) -> bool:
        return self.state == "RUNNING"

    @property
    def cause(self) -> str:
        """The last `Caused by` of the trace: what a person must mend."""
        causes = [line.strip() for line in self.trace.splitlines() if line.startswith("Caused by:")]
        return (causes[-1:] or self.trace.splitlines()[:1] or [""])[0].removeprefix("Caused by: ")


class ConnectClient:
    """A connection to one Connect worker. Use as a context manager, or call `close()`.

    Args:
        url: the worker's REST address. A login in it is sent, and never shown.
        timeout: seconds that an answer may take.
        transport: for tests: answers in place of the network.
    """

    def __init__(
        self, url: str, *, timeout: float = 30, transport: httpx.BaseTransport | None = None
    ) -> None:
        asked = httpx.URL(url)
        self._user = asked.username
        self._http = httpx.Client(
            base_url=asked.copy_with(userinfo=b""),
            auth=(asked.username, asked.password) if asked.userinfo else None,
            timeout=timeout,
            verify=asked.scheme == "https",  # loading the certificates takes 0.1 s of a processor
            trust_env=False,  # a proxy from the environment must not see a loopback call
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return str(self._http.base_url)

    def close(self) -> None:
        self._http.close()

    def check(self, path: str = "/") -> None:
        """Raises TransientError where it does not answer, or not well; TerminalError where it refuses us.

        Args:
            path: what is asked for. The root has always told the version, `/health` came with Kafka 3.9.
        """
        try:
            answer = self._http.get(path)
        except httpx.TransportError as error:
            raise TransientError(f"{self.url}: {error}") from error
        self._refuse_stranger(answer)
        if not answer.is_success:
            raise TransientError(f"{self.url} answers {answer.status_code}")

    def wait_ready(self, timeout: float = 60) -> None:
        """Wait until the worker has joined its group and takes requests.

        Raises:
            TransientError: it does not in that time.
            TerminalError: it wants another login.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                answer = self._http.get("/health")
                self._refuse_stranger(answer)
                # Workers before Kafka 3.9 have no health check.
                if answer.is_success or answer.status_code == httpx.codes.NOT_FOUND:
                    return
            except httpx.TransportError:
                pass
            if time.monotonic() > deadline:
                raise TransientError(
                    f"Kafka Connect at {self._http.base_url} is not ready after {timeout:.0f} s: "
                    "see `headrace status`, then run `headrace up`"
                )
            time.sleep(POLL_SECONDS)

    def names(self) -> list[str]:
        """The registered connectors."""
        return sorted(self._call("GET", "/connectors"))

    def config(self, name: str) -> dict[str, str]:
        """What it was registered with."""
        found: dict[str, str] = self._call("GET", f"/connectors/{name}/config")
        return found

    def put_connector(self, file: ConnectorFile) -> None:
        """Register it, or change it where it reads otherwise. An unchanged connector is not disturbed."""
        path = f"/connectors/{file.name}"
        known = self._call("GET", f"{path}/config", absent={})
        if known != {"name": file.name, **file.config}:
            self._call("PUT", f"{path}/config", body=file.config, file=file.path)

    def hand_over(self, file: ConnectorFile, lsn: int) -> None:
        """Register a new connector that streams from `lsn`, whatever happens meanwhile; may be repeated.

        Its position is stored before it runs: without one it would store the position at which it finds
        the database, also where it has not sent what lies before that.
        """
        path = f"/connectors/{file.name}"
        if file.name not in self.names():
            body = {"name": file.name, "config": file.config, "initial_state": "STOPPED"}
            self._call("POST", "/connectors", body=body, file=file.path)
        if self._call("GET", f"{path}/offsets")["offsets"]:
            self.resume(file.name)
            return
        self.stop(file.name)
        self.resume_at(file.name, file.config["topic.prefix"], lsn, file=file.path)

    def resume_at(self, name: str, server: str, lsn: int, *, file: Path | None = None) -> None:
        """Let a stopped connector stream from `lsn`.

        Args:
            server: its `topic.prefix`.
        """
        position = {
            "partition": {"server": server},
            "offset": {"lsn": lsn, "ts_usec": time.time_ns() // 1000},
        }
        self._call("PATCH", f"/connectors/{name}/offsets", body={"offsets": [position]}, file=file)
        self.resume(name)

    def offset(self, name: str) -> dict[str, Any]:
        """Where the connector goes on, as its database counts; {} where it has no position yet."""
        found = self._call("GET", f"/connectors/{name}/offsets", absent={"offsets": []})["offsets"]
        return next((dict(entry["offset"]) for entry in found if entry.get("offset")), {})

    def forget_offset(self, name: str) -> None:
        """Let a stopped connector have no position: it begins as a new one does."""
        self._call("DELETE", f"/connectors/{name}/offsets")

    def resume(self, name: str) -> None:
        """Let a stopped or paused connector go on from where it is."""
        self._call("PUT", f"/connectors/{name}/resume")

    def stop(self, name: str) -> None:
        """Stop it and wait until its tasks have ended: only then can a position be stored."""
        self._call("PUT", f"/connectors/{name}/stop")
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            answer = self._call("GET", f"/connectors/{name}/status", absent=UNREGISTERED)
            if answer["connector"]["state"] == "STOPPED" and not answer["tasks"]:
                return
            time.sleep(POLL_SECONDS)
        raise TransientError(f"connector `{name}` does not stop: see `headrace status`, then `headrace up`")

    def status(self, name: str) -> ConnectorStatus:
        """Its state; UNREGISTERED where Connect does not know it (yet)."""
        answer = self._call("GET", f"/connectors/{name}/status", absent=UNREGISTERED)
        parts = [answer["connector"], *answer["tasks"]]
        worst = next((part for part in parts if part["state"] != "RUNNING"), parts[-1])
        state = worst["state"]
        if state == "RUNNING" and not answer["tasks"]:  # nothing reads yet
            state = "UNASSIGNED"
        return ConnectorStatus(name, state, worst.get("trace", ""))

    def wait_running(self, name: str, timeout: float = 60) -> None:
        """Wait until the connector and its task run. Raises TerminalError with the cause where one failed."""
        deadline = time.monotonic() + timeout
        failing_since: float | None = None
        while time.monotonic() < deadline:
            status = self.status(name)
            if status.running:
                return
            if status.state != FAILED:
                failing_since = None
            elif failing_since is None:
                failing_since = time.monotonic()
            elif time.monotonic() - failing_since > RESTART_SECONDS:
                raise TerminalError(
                    f"connector `{name}` failed: {status.cause}\n"
                    "  mend it, then register it again: `headrace up`"
                )
            time.sleep(POLL_SECONDS)
        raise TransientError(
            f"connector `{name}` is {status.state} after {timeout:.0f} s: see `headrace status`"
        )

    def restart(self, name: str) -> None:
        """Let the connector and its tasks begin anew, from where they are."""
        self._call("POST", f"/connectors/{name}/restart?includeTasks=true")

    def restart_failed(self, name: str) -> None:
        """Restart the connector and its tasks where they failed; what runs goes on."""
        self._call("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")

    def delete(self, name: str) -> None:
        """Remove it. Its offsets and its replication slot stay."""
        if name in self.names():
            self._call("DELETE", f"/connectors/{name}")

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        file: Path | None = None,
        absent: Any = None,
    ) -> Any:
        where = f"{file}: " if file else ""
        for _ in range(100):
            try:
                response = self._http.request(method, path, json=body)
            except httpx.TransportError as error:
                raise TransientError(
                    f"{where}Kafka Connect at {self._http.base_url} does not answer ({error}): "
                    "run `headrace up`"
                ) from error
            if not _rebalancing(response):
                break
            time.sleep(POLL_SECONDS)
        self._refuse_stranger(response)
        if response.status_code == httpx.codes.NOT_FOUND and absent is not None:
            return absent
        if response.is_success:
            return response.json() if response.content else None
        said = response.text
        if response.headers.get("content-type", "").startswith("application/json"):
            said = response.json().get("message", said)
        kind = TransientError if response.status_code >= 500 or response.status_code == 409 else TerminalError
        raise kind(f"{where}Kafka Connect refuses {method} {path} ({response.status_code}): {said}")

    def _refuse_stranger(self, response: httpx.Response) -> None:
        if response.status_code == httpx.codes.UNAUTHORIZED:
            who = f"user `{self._user}` with this password" if self._user else "nobody without a login"
            raise TerminalError(
                f"Kafka Connect at {self.url} lets in {'not ' if self._user else ''}{who}. Next: put the "
                "worker's login into `connect_url` (http://user:password@host:port) where that is set, then "
                "`headrace up`"
            )


def _rebalancing(response: httpx.Response) -> bool:
    """Whether the workers are about to share the connectors anew: reads then fail with 500, not 409."""
    if response.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
        return "rebalance is expected" in response.text
    return bool(response.status_code == httpx.codes.CONFLICT)
