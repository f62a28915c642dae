"""Processes of a peer: started with a log each, ended by id."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from headrace.errors import TerminalError
from headrace.services.processes import end

LOG_LINES = 15


def tail(log: Path) -> str:
    """The log's last lines, indented for an error message."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    return "".join(f"\n  | {line}" for line in lines[-LOG_LINES:])


@dataclass
class Processes:
    """What one contender started, by name.

    Args:
        logs: the folder for `NAME.log`.
    """

    logs: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def start(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it and return at once.

        Args:
            environment: variables beside the inherited ones.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.logs,
                env={**os.environ, **(environment or {})},
            )

    def check(self) -> None:
        """Raise TerminalError with the end of its log where one has ended."""
        for name, process in self.running.items():
            if (code := process.poll()) is not None:
                raise TerminalError(f"{name} ended ({code}); {self.log(name)} says:{tail(self.log(name))}")

    def pids(self) -> list[int]:
        return [process.pid for process in self.running.values() if process.poll() is None]

    def stop(self) -> None:
        """End those that run, the last one first, with everything under them."""
        for process in reversed(self.running.values()):
            if process.poll() is None:
                root = psutil.Process(process.pid)
                end([root, *root.children(recursive=True)], grace=15)
                process.wait()
        self.running.clear()
