"""One `supervisord` a stack: it runs the programs, restarts them, keeps their logs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

from supervisor.states import RUNNING_STATES, ProcessStates
from supervisor.xmlrpc import Faults, SupervisorTransport

from headrace.errors import TerminalError
from headrace.services import processes
from headrace.services.places import make_run_directory, run_directory
from headrace.services.programs.program import Program
from headrace.services.status import ServiceName
from headrace.settings import Settings

CONFIGURATION = """\
[unix_http_server]
file={run}/supervisor.sock
chmod=0700

[supervisord]
logfile={logs}/supervisor.log
pidfile={run}/supervisor.pid
childlogdir={logs}
directory={state}
umask=077
{user}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""


@dataclass(frozen=True)
class ProcessInfo:
    """What the supervisor knows of a program. `state` is one of supervisor's ProcessStates."""

    state: int
    pid: int | None
    detail: str

    @property
    def wanted(self) -> bool:
        """Runs, starts or is about to be started again."""
        return self.state in RUNNING_STATES

    @property
    def gave_up(self) -> bool:
        return self.state in (ProcessStates.FATAL, ProcessStates.UNKNOWN)


STOPPED = ProcessInfo(ProcessStates.STOPPED, None, "")


class Supervisor:
    """The stack's supervisor. Every call opens its own connection, so threads may share one object."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._state = settings.state.resolve()
        self._programs = self._state / "services"
        self._reload = threading.Lock()

    @property
    def running(self) -> bool:
        try:
            self._rpc("getState")
        except (OSError, Fault):
            return False
        return True

    def start(self) -> None:
        """Start the supervisor itself, with no program running."""
        for old in self._programs.glob("*"):
            old.unlink()
        configuration = self.write_configuration()
        mark = {processes.STACK: str(self._state), processes.SERVICE: "supervisor"}
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(configuration)]
        made = subprocess.run(command, capture_output=True, text=True, env=os.environ | mark, check=False)
        if made.returncode != 0:
            raise TerminalError(
                "the supervisor did not start; run `headrace down`, then `headrace up`\n"
                f"{made.stdout}{made.stderr}"
            )

    def write_configuration(self) -> Path:
        """The supervisor's own sections and those of every program written so far.

        One file, not an include of many: the supervisor splits include patterns at spaces.
        """
        for folder in (self._programs, self._settings.logs):
            folder.mkdir(parents=True, exist_ok=True)
        own = CONFIGURATION.format(
            run=make_run_directory(self._settings),
            logs=self._settings.logs,
            state=self._state,
            user="user=root\n" if os.geteuid() == 0 else "",
        )
        sections = [file.read_text() for file in sorted(self._programs.glob("*.conf"))]
        configuration = self._state / "supervisord.conf"
        configuration.write_text("\n".join([own, *sections]))
        return configuration

    def configure(self, program: Program) -> None:
        """Make it known. A program that runs with another configuration is stopped first."""
        with self._reload:
            self.write_program(program)
            [[added, changed, _]] = self._rpc("reloadConfig")
            if program.name in changed:
                self.stop(program.name)
                self._rpc("removeProcessGroup", program.name)
            if program.name in (*added, *changed):
                self._rpc("addProcessGroup", program.name)

    def write_program(self, program: Program) -> None:
        """Its section, and beside it the file that `launch` reads, for the owner's eyes only."""
        marks = {processes.STACK: str(self._state), processes.SERVICE: program.name}
        program = replace(program, environment={**program.environment, **marks})
        file = self._programs / f"{program.name}.json"
        file.touch(mode=0o600)
        file.write_text(program.description())
        file.with_suffix(".conf").write_text(program.section(file, self._settings.logs))
        self.write_configuration()

    def launch(self, name: ServiceName) -> None:
        """Start a configured program unless it runs. Returns at once."""
        try:
            self._rpc("startProcess", name, False)
        except Fault as fault:
            if fault.faultCode != Faults.ALREADY_STARTED:
                raise

    def stop(self, name: ServiceName) -> None:
        """Stop a program and wait for it; the supervisor kills it when its time is up."""
        try:
            self._rpc("stopProcess", name, True)
        except Fault as fault:
            if fault.faultCode not in (Faults.NOT_RUNNING, Faults.BAD_NAME):
                raise

    def shutdown(self) -> None:
        """End the supervisor and whatever still runs under it."""
        with contextlib.suppress(OSError, Fault):
            self._rpc("shutdown")
        deadline = time.monotonic() + 90
        while processes.marked(self._state, "supervisor") and time.monotonic() < deadline:
            time.sleep(0.05)

    def processes(self) -> dict[str, ProcessInfo]:
        """Every configured program. Empty where the supervisor does not run."""
        try:
            infos: list[dict[str, Any]] = self._rpc("getAllProcessInfo")
        except (OSError, Fault):
            return {}
        return {
            info["name"]: ProcessInfo(
                info["state"], info["pid"] or None, info["spawnerr"] or info["description"]
            )
            for info in infos
        }

    def process(self, name: ServiceName) -> ProcessInfo:
        return self.processes().get(name, STOPPED)

    def _rpc(self, method: str, *arguments: object) -> Any:
        socket = run_directory(self._settings) / "supervisor.sock"
        transport = SupervisorTransport(None, None, f"unix://{socket}")
        with ServerProxy("http://127.0.0.1", transport=transport) as server:
            return getattr(server.supervisor, method)(*arguments)
