"""logs: the last lines of services, and what is refused."""

from __future__ import annotations

import subprocess
import sys

from cli_support import Cli


def logs(cli: Cli, *arguments: str) -> str:
    """What the command prints, in a process of its own: it becomes `tail`."""
    command = [sys.executable, "-m", "headrace.cli.main", "logs", *arguments, "--project", str(cli.project)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_last_lines_of_a_service_are_printed(stopped: Cli) -> None:
    stopped("logs", code=2)
    assert "no logs in" in stopped.stderr and "`headrace up`" in stopped.stderr
    folder = stopped.project / ".headrace/data/logs"
    folder.mkdir(parents=True)
    (folder / "warehouse.log").write_text("one\ntwo\nthree\n")
    (folder / "kafka.log").write_text("four\n")
    assert logs(stopped, "warehouse", "-n", "2") == "two\nthree\n"
    assert "four" in logs(stopped) and "kafka.log" in logs(stopped)
    stopped("logs", "warehose", code=2)
    assert "no log of a service `warehose`" in stopped.stderr and "`warehouse`" in stopped.stderr
