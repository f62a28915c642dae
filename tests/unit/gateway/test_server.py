"""The server as a process: its token, its port, its health while starting, its end."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_support import PATIENCE, free_port, wait_until, write_project

from headrace.gateway.client import GatewayClient, NotReachable
from headrace.gateway.server import main
from headrace.settings import Settings
from headrace.tokens import ensure_token

# The real server around a warehouse that tells what is done with it.
FAKE = """
import sys, threading, time
from gateway_support import FakeWarehouse
from headrace.gateway import server
from headrace.spec import load_project

class Telling(FakeWarehouse):
    def start(self):
        print("TOLD start", flush=True)
    def stop(self):
        print("TOLD stop", flush=True)

def build(settings):
    warehouse = Telling()
    warehouse.project = load_project(settings.project)
    return warehouse

server._build = build
sys.exit(server.main(sys.argv[1:]))
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(project=write_project(tmp_path / "project"), gateway_port=free_port())


@contextmanager
def process(settings: Settings, *, real: bool = False) -> Iterator[subprocess.Popen[str]]:
    command = ["-m", "headrace.server"] if real else ["-c", FAKE]
    environment = {
        **os.environ,
        "HEADRACE_GATEWAY_PORT": str(settings.gateway_port),
        "PYTHONPATH": str(Path(__file__).parents[1] / "_support"),
    }
    server = subprocess.Popen(
        [sys.executable, *command, "--project", str(settings.project)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield server
    finally:
        if server.poll() is None:
            server.kill()
        server.communicate()


def health(client: GatewayClient, server: subprocess.Popen[str]) -> str | None:
    assert server.poll() is None, server.communicate()[0]
    try:
        return str(client.health()["state"])
    except NotReachable:
        return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_warehouse_and_ends_well(settings: Settings, number: int) -> None:
    with process(settings) as server, GatewayClient(settings) as client:
        wait_until(lambda: health(client, server) == "ready")
        assert client.run("VERIFY").state == "SUCCEEDED"
        server.send_signal(number)
        output, _ = server.communicate(timeout=PATIENCE)
    assert server.returncode == 0, output
    assert output.index("TOLD start") < output.index("TOLD stop")
    assert "Traceback" not in output


def test_a_client_that_waits_is_let_go_at_the_end(settings: Settings) -> None:
    blocked = "ALTER MATERIALIZED TABLE stg.users REFRESH"
    with process(settings) as server, GatewayClient(settings) as client:
        wait_until(lambda: health(client, server) == "ready")
        id = client.submit(blocked).id
        wait_until(lambda: client.get(id).message == "recomputing")
        server.send_signal(signal.SIGTERM)
        with pytest.raises(NotReachable):
            client.wait(id)
        output, _ = server.communicate(timeout=PATIENCE)
    assert server.returncode == 0 and "TOLD stop" in output


def test_a_wrong_layer_file_is_told_by_health_and_log(settings: Settings) -> None:
    file = settings.project / "layers" / "stg" / "users.sql"
    file.write_text("CREATE MATERIALIZED TABLE stg.users\nFRESHNES = INTERVAL '10' SECOND\nAS SELECT 1\n")
    with process(settings, real=True) as server, GatewayClient(settings) as client:
        wait_until(lambda: health(client, server) == "failed")
        error = client.health()["error"]
        server.terminate()
        output, _ = server.communicate(timeout=PATIENCE)
    assert f"{file}:2:1:" in error
    assert error.splitlines()[0] in output and "Traceback" not in output
    assert server.returncode == 0


def test_the_token_is_made_once_and_is_private(settings: Settings) -> None:
    path = settings.gateway_token
    token = ensure_token(path)
    assert len(token) >= 32 and ensure_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    renewed = ensure_token(path)
    assert renewed != token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("")
    assert ensure_token(path) not in ("", renewed)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_busy_port_ends_with_advice(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        monkeypatch.setenv("HEADRACE_GATEWAY_PORT", str(port))
        assert main(["--project", str(settings.project)]) == 2
    assert f"port {port} cannot be used" in caplog.text and "gateway_port" in caplog.text
