"""The native stack of one project: every service as a supervised process on loopback."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Container, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil
from supervisor.states import ProcessStates

from headrace.engine.spark import aot_cache
from headrace.errors import HeadraceError, TerminalError, did_you_mean
from headrace.java import find_java
from headrace.services import health, kafka_caches, processes, runtime
from headrace.services.catalogue import SERVICES, Service, with_needs
from headrace.services.places import keep_private, remove_run_directory
from headrace.services.programs import kafka, postgres
from headrace.services.status import ServiceName, ServiceState, ServiceStatus
from headrace.services.supervisor import ProcessInfo, Supervisor
from headrace.settings import LOOPBACK, Settings

OnProgress = Callable[[ServiceName, str], None]

# Clients before what they are clients of: the warehouse ends its streams while the broker still answers.
SCHEDULING: tuple[ServiceName, ...] = ("dagster-code", "dagster-daemon")
"""Services without which Dagster begins no refresh."""

STOP_ORDER: tuple[tuple[ServiceName, ...], ...] = (
    ("dagster-daemon", "dagster-webserver", "dagster-code", "warehouse"),
    ("connect",),
    ("kafka", "postgres"),
)
STATES: dict[int, ServiceState] = {
    ProcessStates.STOPPED: "STOPPED",
    ProcessStates.STARTING: "STARTING",
    ProcessStates.RUNNING: "RUNNING",
    ProcessStates.BACKOFF: "STARTING",
    ProcessStates.STOPPING: "STOPPING",
    ProcessStates.EXITED: "FAILED",
    ProcessStates.FATAL: "FAILED",
    ProcessStates.UNKNOWN: "FAILED",
}
LOG_LINES = 15


class Stack:
    """Starts, stops and inspects the services of one project.

    Args:
        settings: the project's settings; two projects with different ports and data run side by side.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.supervisor = Supervisor(settings)

    def up(
        self, *, only: Collection[ServiceName] | None = None, on_progress: OnProgress | None = None
    ) -> list[ServiceStatus]:
        """Start what does not run, wait until all of it is healthy. Running services are left alone.

        Args:
            only: these services and what they need. Default: all.
            on_progress: called with (service, what happens), from several threads.

        Raises TerminalError with the next command where a port is busy, Java is missing, a service fails or
        an external one does not answer.
        """
        report = on_progress or (lambda name, message: None)
        self._refuse_unsupervised()
        chosen = self.chosen(only)
        with self._lock():
            keep_private(self.settings)
            kafka.ensure_passwords(self.settings)
            self._prerequisites(chosen, report)
            self.check_external(only)
            known = self.supervisor.processes()
            if not known and not self.supervisor.running:
                self._end_orphans()
                self.refuse_busy_ports(chosen)
                self.supervisor.start()
            else:
                self.refuse_busy_ports([n for n in chosen if n not in known or not known[n].wanted])
            self._start_all(chosen, report)
        return self.status()

    def down(self, *, on_progress: OnProgress | None = None) -> None:
        """Stop everything and wait until no process of this stack is left. Data stays."""
        report = on_progress or (lambda name, message: None)
        self._refuse_unsupervised()
        if not self.settings.state.is_dir():
            return
        with self._lock():
            running = self.supervisor.processes()

            def stop(name: ServiceName) -> None:
                report(name, "stopping")
                self.supervisor.stop(name)
                report(name, "stopped")

            with ThreadPoolExecutor() as pool:
                for names in STOP_ORDER:
                    list(pool.map(stop, [n for n in names if n in running and running[n].wanted]))
            if self.supervisor.running:
                self.supervisor.shutdown()
            self._end_orphans()
            remove_run_directory(self.settings)

    def status(self) -> list[ServiceStatus]:
        """Every service's state, with its health check where its process runs."""
        known = self.supervisor.processes()
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda service: self._status(service, known), SERVICES.values()))

    def register_connectors(
        self, *, only: Container[str] | None = None, on_progress: OnProgress | None = None
    ) -> list[str]:
        """Register `deploy/connectors/*.json` and create their topics; the source's tables must exist.

        A new source that is large is loaded by the warehouse server first, which is started for it.

        Args:
            only: names of those to register; None: all.

        Returns the connectors' names. Registering again changes nothing. An environment registers none.
        """
        from headrace.services.first_load import FirstLoad
        from headrace.sources.registration import register_all

        report = on_progress or (lambda name, message: None)
        self._refuse_unready(only)
        load = FirstLoad(
            self.settings,
            start=lambda: self.up(only=["warehouse"], on_progress=report),
            report=lambda message: report("warehouse", message),
        )
        return register_all(
            self.settings, on_progress=lambda message: report("connect", message), load=load, only=only
        )

    def _refuse_unready(self, only: Container[str] | None) -> None:
        """Raise TerminalError where a connector would fail for what its role may not publish."""
        if self.settings.environment:  # what it may publish is the production's question
            return
        from headrace.declared import load_own
        from headrace.sources.database import database
        from headrace.sources.dsn import source_dsn

        try:
            project = load_own(self.settings)
        except HeadraceError:
            return  # the warehouse server says it; connectors go on beside a wrong layer file
        for name, connector in project.connectors.items():
            if only is None or name in only:
                dsn = source_dsn(connector, self.settings.source_environment())
                read = [t for t in project.sources() if t.source == name]
                database(dsn).refuse_unready(connector, read)

    def restart(self, service: ServiceName) -> None:
        """Stop one service, start it and wait until it is healthy."""
        self._refuse_unsupervised()
        [service] = self._named([service])
        with self._lock():
            self.supervisor.stop(service)
            # A killed server's own children (the JVM under the warehouse) may hold its port still.
            processes.end(processes.marked(self.settings.state.resolve(), service), grace=10)
            self.refuse_busy_ports([service])
            self._start(SERVICES[service], lambda name, message: None)

    def chosen(self, only: Collection[ServiceName] | None) -> list[ServiceName]:
        """These services and what they need, in the order of SERVICES, without external ones. None: all."""
        return [name for name in self._wanted(only) if not SERVICES[name].replaced(self.settings)]

    def check_external(self, only: Collection[ServiceName] | None) -> None:
        """Raise TerminalError where one of the user's own, which these services need, does not answer."""
        problems = []
        for service in (SERVICES[name] for name in self._wanted(only)):
            if service.external is None or not service.replaced(self.settings):
                continue
            try:
                health.check(self.settings, service.name)
            except health.Unhealthy as error:
                setting = service.external
                problems.append(
                    f"{service.name}: what `{setting}` names does not answer: {error}; start it, or name "
                    f"another by HEADRACE_{setting.upper()}=… or `{setting} = …` in headrace.toml"
                )
        if problems:
            raise TerminalError("\n".join(problems) + "\nthen run `headrace up` again")

    def _wanted(self, only: Collection[ServiceName] | None) -> list[ServiceName]:
        wanted = with_needs(set(SERVICES if only is None else self._named(only)))
        return [name for name in SERVICES if name in wanted]

    @staticmethod
    def _named(names: Collection[ServiceName]) -> list[ServiceName]:
        for name in names:
            if name not in SERVICES:
                raise TerminalError(f"there is no service `{name}`; {did_you_mean(name, SERVICES)}")
        return list(names)

    def _prerequisites(self, chosen: Collection[ServiceName], report: OnProgress) -> None:
        find_java()
        runtime.ensure(self.settings.home, lambda message: report("kafka", message))
        if not set(kafka.CACHED).isdisjoint(chosen):
            kafka_caches.renew(self.settings, lambda message: report("kafka", message))
        if "warehouse" in chosen:
            aot_cache.renew(self.settings, lambda message: report("warehouse", message))

    def _start_all(self, chosen: Collection[ServiceName], report: OnProgress) -> None:
        """Each as soon as what it needs is healthy. What started stays up where another fails."""
        futures: dict[ServiceName, Future[None]] = {}

        def start(service: Service) -> None:
            for need in service.needs:
                if need in futures and futures[need].exception() is not None:
                    raise NotTried
            self._start(service, report)

        with ThreadPoolExecutor(max_workers=len(SERVICES)) as pool:
            for name in chosen:  # needs come first in SERVICES
                futures[name] = pool.submit(start, SERVICES[name])
        errors = [error for future in futures.values() if (error := future.exception()) is not None]
        if any(not isinstance(error, HeadraceError) for error in errors):
            raise next(error for error in errors if not isinstance(error, HeadraceError))
        if failures := [str(error) for error in errors if not isinstance(error, NotTried)]:
            raise TerminalError("\n".join(failures))

    def _start(self, service: Service, report: OnProgress) -> None:
        report(service.name, "starting")
        began = time.monotonic()
        program = service.prepare(self.settings)
        if service.name == "postgres" and (self.settings.state / "postgres").is_symlink():
            place = postgres.data_directory(self.settings)
            report(
                "postgres",
                f"its data is in {place}: user `{program.user}` cannot enter {self.settings.state}",
            )
        self.supervisor.configure(program)
        self.supervisor.launch(service.name)
        while (waited := time.monotonic() - began) < service.start_seconds:
            process = self.supervisor.process(service.name)
            if process.gave_up:
                raise TerminalError(self._failure(service.name, "does not stay up"))
            try:
                # Without a port to ask, only having stayed up for a while says anything.
                if process.state == ProcessStates.RUNNING or (service.ports and process.pid):
                    health.check(self.settings, service.name)
                    report(service.name, f"healthy after {waited:.1f} s")
                    return
            except health.Failed as error:
                raise TerminalError(self._failure(service.name, str(error))) from None
            except health.Unhealthy as error:
                last = str(error)
            else:
                last = "its process is not up"
            time.sleep(0.1)
        raise TerminalError(
            self._failure(service.name, f"not healthy after {service.start_seconds} s: {last}")
        )

    def _failure(self, name: ServiceName, what: str) -> str:
        log = self.settings.logs / f"{name}.log"
        tail = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.is_file() else []
        shown = "".join(f"\n  | {line}" for line in tail) or " nothing"
        return (
            f"{name}: {what}; the end of {log} says:{shown}\n"
            "  mend what it names, then run `headrace up` again (`headrace down` stops the rest)"
        )

    def _refuse_unsupervised(self) -> None:
        if not self.settings.supervised:
            raise TerminalError(
                "something else runs the services: `supervised` is false. Next: let that start or stop them, "
                "e.g. `docker compose -f deploy/compose.yml up --wait`"
            )

    def _answering_status(self, status: ServiceStatus) -> ServiceStatus:
        """That of a service whose process somebody else watches: whether it answers."""
        try:
            if status.name == "dagster-daemon":
                health.check_daemon(self.settings)
            else:
                health.check(self.settings, status.name)
        except Exception as error:
            status.state, status.detail = "UNHEALTHY", str(error)
        else:
            status.state = "RUNNING"
        return status

    def _status(self, service: Service, known: dict[str, ProcessInfo]) -> ServiceStatus:
        status = self._process_status(service, known)
        if service.name in SCHEDULING and self.settings.scheduler == "dagster" and status.state != "RUNNING":
            told = 'nothing refreshes tables that do not stream: scheduler = "dagster". Next: `headrace up`'
            status.detail = "; ".join(filter(None, [status.detail, told]))
        return status

    def _process_status(self, service: Service, known: dict[str, ProcessInfo]) -> ServiceStatus:
        process = known.get(service.name)
        status = ServiceStatus(name=service.name, state="STOPPED")
        status.port = getattr(self.settings, service.ports[0]) if service.ports else None
        if service.replaced(self.settings):
            return self._external_status(service)
        if not self.settings.supervised:
            return self._answering_status(status)
        if process is None:
            return status
        status.state = STATES[process.state]
        status.pid = process.pid
        if status.state == "FAILED":
            status.detail = (
                f"{process.detail}; see {self.settings.logs / service.name}.log, then `headrace up`"
            )
        elif process.pid is not None:
            status.rss_bytes = processes.resident(process.pid)
            try:
                self._check(service)
            except health.Unhealthy as error:
                status.state = "STARTING" if process.state == ProcessStates.STARTING else "UNHEALTHY"
                status.detail = str(error)
        return status

    def _external_status(self, service: Service) -> ServiceStatus:
        """That of one of the user's own: where it answers, nothing more is known of it."""
        told = f"set by {service.external}"
        try:
            self._check(service)
        except health.Unhealthy as error:
            return ServiceStatus(name=service.name, state="UNHEALTHY", detail=f"{error} ({told})")
        return ServiceStatus(name=service.name, state="EXTERNAL", detail=told)

    def _check(self, service: Service) -> None:
        health.check(self.settings, service.name)
        if service.name == "connect":
            health.check_connectors(self.settings)

    def refuse_busy_ports(self, services: Collection[ServiceName]) -> None:
        """Raise TerminalError where another program listens on a port that these services want."""
        busy = []
        wanted = {port for service in services for port in SERVICES[service].ports}
        for name in sorted(wanted & self.settings.ports.keys()):
            port = getattr(self.settings, name)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((LOOPBACK, port))
                except OSError:
                    busy.append(
                        f"port {port} is in use by {processes.listener(port) or 'another program'}: "
                        f"stop that, or choose another by HEADRACE_{name.upper()}=… or `{name} = …` "
                        "in headrace.toml"
                    )
        if busy:
            raise TerminalError("\n".join(busy) + "\nthen run `headrace up` again")

    def _end_orphans(self) -> None:
        """What a killed supervisor left, also where the pid files are stale."""
        left = processes.marked(self.settings.state.resolve())
        if (server := postgres.postmaster(self.settings)) is not None:
            with suppress(psutil.Error):
                server.send_signal(signal.SIGINT)  # its SIGTERM would wait for its clients
            left.append(server)
        processes.end(left, grace=10)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One `up` or `down` at a time."""
        state = self.settings.state
        try:
            state.mkdir(parents=True, exist_ok=True)
            handle = os.open(state / "stack.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise TerminalError(
                f"{error.filename} belongs to another user: run headrace as that user, "
                "or choose another folder by HEADRACE_DATA=…"
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


class NotTried(HeadraceError):
    """What a service needs did not start; that is the error to show."""
