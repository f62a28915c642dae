"""Dagster's instance folder and its three processes: code server, webserver and daemon."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from headrace.services.places import make_run_directory, run_directory
from headrace.services.programs.program import Program
from headrace.services.status import ServiceName
from headrace.settings import Settings

DEFINITIONS = "headrace.orchestration.definitions"
EVENT_LOG = "headrace.orchestration.event_log"
_FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""glibc gives up to eight arenas a processor to the threads of a process, and takes nothing back from one:
here a sixth of its memory. A warehouse server is slower with few."""

INSTANCE = {
    "telemetry": {"enabled": False},
    "nux": {"enabled": False},
    "run_monitoring": {"enabled": True, "start_timeout_seconds": 180, "cancel_timeout_seconds": 60},
    "concurrency": {"runs": {"max_concurrent_runs": 4}},
    "retention": {"sensor": {"purge_after_days": {"skipped": 1, "success": 7}}},
}


def _instance(folder: Path) -> dict[str, Any]:
    """What `dagster.yaml` says. Events are where Dagster would keep them by itself."""
    events = {
        "module": EVENT_LOG,
        "class": "EventLog",
        "config": {"base_dir": str(folder / "history" / "runs")},
    }
    return INSTANCE | {"event_log_storage": events}


def home(settings: Settings) -> Path:
    """Dagster's instance folder: set `DAGSTER_HOME` to it to use Dagster's own commands."""
    return settings.state / "dagster"


def code_socket(settings: Settings) -> Path:
    """Where the code server listens; webserver and daemon share the one process that holds definitions."""
    return run_directory(settings) / "dagster.sock"


def prepare(settings: Settings, name: ServiceName) -> Program:
    """Write the instance's configuration and say how to run one of its processes."""
    folder = home(settings)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dagster.yaml").write_text(yaml.safe_dump(_instance(folder)))
    workspace = folder / "workspace.yaml"
    make_run_directory(settings)
    socket = str(code_socket(settings))
    server = {"grpc_server": {"socket": socket, "host": "localhost", "location_name": "headrace"}}
    workspace.write_text(yaml.safe_dump({"load_from": [server]}))
    return Program(
        name=name,
        command=[sys.executable, "-m", *_command(settings, name, socket, workspace)],
        directory=str(settings.project),
        environment={"DAGSTER_HOME": str(folder), "DAGSTER_DISABLE_TELEMETRY": "1", **_FEW_ARENAS},
        stop_seconds=20,
        stop_group=name == "dagster-code",  # runs are its children
    )


def _command(settings: Settings, name: ServiceName, socket: str, workspace: Path) -> list[str]:
    if name == "dagster-code":
        # Not `api grpc`, which keeps the definitions that it began with whatever the page's button says.
        code = ["dagster", "code-server", "start", "--socket", socket, "--location-name", "headrace"]
        own = ["--use-python-environment-entry-point", "--inject-env-vars-from-instance"]
        return [*code, "-m", DEFINITIONS, *own, "--log-level", "warning"]
    if name == "dagster-webserver":
        where = ["-h", settings.dagster_host, "-p", str(settings.dagster_port)]
        return ["dagster_webserver", *where, "-w", str(workspace), "--log-level", "warning"]
    return ["dagster._daemon", "run", "-w", str(workspace)]
