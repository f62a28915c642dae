from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
from supervisor.options import ServerOptions

from headrace import java
from headrace.errors import TerminalError
from headrace.services import catalogue, health, places, processes
from headrace.services.programs import kafka
from headrace.services.programs.program import Program
from headrace.services.stack import STOP_ORDER, Stack
from headrace.services.supervisor import Supervisor
from headrace.settings import Settings


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("HEADRACE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(project=tmp_path, data=tmp_path / "da ta")


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_supervisor_reads_what_is_written_for_it(settings: Settings) -> None:
    supervisor = Supervisor(settings)
    command = ["sh", "-c", 'echo "100 %" ; # \\ €']
    program = Program(name="kafka", command=command, directory="/", environment={"A": "'\"%,="})
    file = settings.state / "services" / "kafka.json"
    supervisor.write_configuration()
    supervisor.write_program(program)

    options = ServerOptions()
    options.realize(["-c", str(settings.state / "supervisord.conf")])
    [group] = options.process_group_configs
    [process] = group.process_configs
    assert process.command.endswith(f"headrace.services.launch '{file}'")
    assert process.stdout_logfile == str(settings.logs / "kafka.log")
    assert (process.autostart, process.killasgroup, process.stopasgroup) == (False, True, False)
    written = json.loads(file.read_text())
    assert written["command"] == command
    assert written["environment"]["A"] == "'\"%,="
    assert file.stat().st_mode & 0o077 == 0  # it holds passwords


def test_launch_becomes_the_program(settings: Settings, tmp_path: Path) -> None:
    report = "import os; print(os.getcwd(), os.environ['GREETING'], os.environ['HEADRACE_SERVICE'])"
    program = Program(
        name="kafka",
        command=[sys.executable, "-c", report],
        directory=str(tmp_path),
        environment={"GREETING": "good day", "HEADRACE_STACK": "s", "HEADRACE_SERVICE": "kafka"},
    )
    file = tmp_path / "kafka.json"
    file.write_text(program.description())
    command = [sys.executable, "-m", "headrace.services.launch", str(file)]
    assert subprocess.check_output(command, text=True).strip() == f"{tmp_path} good day kafka"


def test_marked_processes_are_found_and_ended_with_what_they_started(tmp_path: Path) -> None:
    mark = {processes.STACK: str(tmp_path), processes.SERVICE: "kafka"}
    parent = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo started; wait"],
        env=os.environ | mark,
        stdout=subprocess.PIPE,
        # Dagster gives SIGTERM the handler of SIGINT, which a job in the background ignores.
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    )
    assert parent.stdout is not None and parent.stdout.readline() == b"started\n"
    try:
        found = processes.marked(tmp_path, "kafka")
        assert {parent.pid} < {process.pid for process in found}
        assert processes.marked(tmp_path, "connect") == []
        assert processes.marked(tmp_path / "other") == []
    finally:
        assert processes.end(processes.marked(tmp_path), grace=60) == []
        parent.wait(10)
        parent.stdout.close()
    assert processes.marked(tmp_path) == []


def test_what_does_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = subprocess.Popen(["sh", "-c", "trap '' TERM; echo ready; sleep 600"], stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    tree = [psutil.Process(stubborn.pid), *psutil.Process(stubborn.pid).children()]
    ended = processes.end(tree, grace=0.2)
    assert stubborn.pid in {process.pid for process in ended}
    assert not any(process.is_running() for process in tree)
    stubborn.stdout.close()


@pytest.fixture
def busy(settings: Settings) -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_busy_port_is_refused_before_anything_starts(tmp_path: Path, busy: int) -> None:
    settings = Settings(project=tmp_path, kafka_port=busy)
    stack = Stack(settings)
    with pytest.raises(TerminalError) as error:
        stack.refuse_busy_ports(["kafka"])
    message = str(error.value)
    assert f"port {busy} is in use by `" in message
    assert f"(pid {os.getpid()})" in message
    assert "HEADRACE_KAFKA_PORT=… or `kafka_port = …` in headrace.toml" in message
    assert "`headrace up`" in message


def test_unknown_service_is_named(settings: Settings) -> None:
    with pytest.raises(TerminalError, match="no service `kafak`; did you mean `kafka`"):
        Stack(settings).up(only=["kafak"])  # type: ignore[list-item]


def test_status_and_down_of_a_stack_that_never_ran(settings: Settings) -> None:
    stack = Stack(settings)
    assert {status.state for status in stack.status()} == {"STOPPED"}
    stack.down()
    assert not settings.data.exists()


def test_a_server_of_ones_own_replaces_the_embedded_one(tmp_path: Path) -> None:
    settings = Settings(project=tmp_path, postgres_url="postgresql://a:b@h:1/d")
    assert Stack(settings).status()[0].state == "EXTERNAL"
    assert "postgres" not in Stack(settings).chosen(None)


def test_every_service_is_stopped_after_its_clients() -> None:
    order = [name for names in STOP_ORDER for name in names]
    assert sorted(order) == sorted(catalogue.SERVICES)
    for name, service in catalogue.SERVICES.items():
        assert all(order.index(need) >= order.index(name) for need in service.needs)


def test_what_is_needed_is_listed_first() -> None:
    listed = list(catalogue.SERVICES)
    for name, service in catalogue.SERVICES.items():
        assert all(listed.index(need) < listed.index(name) for need in service.needs)


def test_what_a_service_needs_is_started_with_it(settings: Settings) -> None:
    assert Stack(settings).chosen(["connect"]) == ["postgres", "kafka", "connect"]
    assert Stack(settings).chosen(["dagster-daemon"]) == ["dagster-code", "dagster-daemon"]


def test_sockets_of_deep_folders_go_to_a_private_short_one(tmp_path: Path) -> None:
    deep = Settings(project=tmp_path, data=tmp_path / ("d" * 100))
    short = places.make_run_directory(deep)
    assert len(str(short / "supervisor.sock")) <= places.LONGEST
    assert short.stat().st_mode & 0o077 == 0
    assert places.run_directory(deep) == short
    short.chmod(0o777)
    with pytest.raises(TerminalError, match="belongs to somebody else"):
        places.make_run_directory(deep)
    places.remove_run_directory(deep)
    assert not short.exists()


def test_everything_that_kafka_opens_is_on_loopback(settings: Settings) -> None:
    listeners = kafka.broker_properties(settings)["listeners"].split(",")
    assert [listener.split("//")[1] for listener in listeners] == ["127.0.0.1:59092", "127.0.0.1:59093"]
    worker = kafka.connect_properties(settings)
    assert worker["listeners"] == "http://127.0.0.1:58083"
    assert worker["producer.acks"] == "all"


def test_java_home_comes_first_and_must_have_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match=r"no Java in `JAVA_HOME=.*install Java 17 or newer"):
        java.find_java()


def test_missing_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TerminalError, match=r"no Java in the PATH: install Java 17 or newer"):
        java.find_java()


def test_old_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = "java.home = /j\n java.specification.version = 1.8"
    executable(tmp_path / "bin" / "java", f"printf '{shown}\\n' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match=r"is Java 8: install Java 17 or newer"):
        java.find_java()


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (503, {"state": "failed", "error": "the lease is held"}, health.Failed),
        (503, {"state": "starting"}, health.Unhealthy),
        (200, {"state": "ready"}, None),
    ],
)
def test_a_warehouse_that_says_it_failed_is_not_waited_for(
    tmp_path: Path, status: int, answer: dict[str, str], kind: type[Exception] | None
) -> None:
    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        own = Settings(project=tmp_path, data=tmp_path, gateway_port=server.server_port)
        if kind is None:
            health.check(own, "warehouse")
        else:
            with pytest.raises(health.Unhealthy) as told:
                health.check(own, "warehouse")
            assert type(told.value) is kind
    finally:
        server.shutdown()
        server.server_close()
