from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
from chain_support import Event, Services, eventually, reader, services_of

from headrace.aot_caches import OLDEST
from headrace.errors import TerminalError
from headrace.java import find_java
from headrace.services import processes
from headrace.services.programs.kafka import CACHED, cache, prepare_broker
from headrace.services.scratch import free_ports, scratch_settings
from headrace.services.stack import Stack
from headrace.services.status import ServiceName
from headrace.settings import Settings
from headrace.sources.connect import ConnectClient, ConnectorFile
from headrace.sources.registration import create_topics
from headrace.sources.stream.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
SHOP = ConnectorFile.read(ROOT / "deploy" / "connectors" / "shop.json")


def engine_missing() -> str | None:
    """Why no containers can be started here, None where they can."""
    if shutil.which("docker") is None:
        return "no `docker` command"
    for command in (["docker", "info"], ["docker", "compose", "version"]):
        if subprocess.run(command, capture_output=True).returncode != 0:
            return f"`{' '.join(command)}` fails: no container engine answers"
    return None


@pytest.fixture(scope="module", params=["native", pytest.param("containers", marks=pytest.mark.containers)])
def services(request: pytest.FixtureRequest) -> Iterator[Services]:
    if request.param == "native":
        stack: Stack = request.getfixturevalue("stack")
        settings = stack.settings
        yield Services(settings.postgres_dsn(), Broker.of(settings), settings.connect_rest)
        return
    if reason := engine_missing():
        pytest.skip(reason)
    from testcontainers.compose import DockerCompose

    wanted = ["postgres", "kafka", "connect"]
    with DockerCompose(ROOT / "deploy", compose_file_name="compose.yml", services=wanted, wait=True):
        dsn = "postgresql://headrace:headrace@127.0.0.1:25432/shop"
        yield Services(dsn, Broker("127.0.0.1:29092"), "http://127.0.0.1:28083")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what a process has mapped")
@pytest.mark.skipif(find_java().version < OLDEST, reason="this Java makes no cache")
@pytest.mark.parametrize("name", CACHED)
def test_kafka_s_jvms_read_the_caches_that_were_made_for_them(stack: Stack, name: ServiceName) -> None:
    made = cache(stack.settings, name).path
    assert made.is_file()
    pid = stack.supervisor.process(name).pid
    assert str(made) in Path(f"/proc/{pid}/maps").read_text()


@pytest.fixture
def connector(services: Services) -> Iterator[ConnectorFile]:
    """The shop's connector over a table and a database of its own."""
    own = {
        "database.dbname": "probe",
        "topic.prefix": "probe",
        "table.include.list": "public.readings",
        "slot.name": "probe",
        "publication.name": "probe",
    }
    with psycopg.connect(services.dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS probe WITH (FORCE)")
        connection.execute("CREATE DATABASE probe")
    with psycopg.connect(in_probe(services)) as connection:
        connection.execute("CREATE TABLE readings (id int PRIMARY KEY, value numeric(10,2), note text)")
        connection.execute("ALTER TABLE readings REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO readings VALUES (1, 1.50, 'first'), (2, 'NaN', NULL)")
        connection.execute("GRANT SELECT ON readings TO PUBLIC")
        connection.execute("CREATE PUBLICATION probe FOR TABLE readings")
    yield replace(SHOP, name="probe", config=SHOP.config | own)
    with ConnectClient(services.connect_url) as client:
        client.delete("probe")
    with psycopg.connect(services.dsn, autocommit=True) as connection:
        eventually("the slot is released", lambda: dropped(connection, "probe"))
        connection.execute("DROP DATABASE probe WITH (FORCE)")


def dropped(connection: psycopg.Connection, slot: str) -> bool:
    """Raises while the connector still reads."""
    find = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    connection.execute(find, [slot])
    return True


def inserted(services: Services) -> int:
    """One more row, and its key."""
    insert = "INSERT INTO readings SELECT max(id) + 1 FROM readings RETURNING id"
    with psycopg.connect(in_probe(services)) as connection:
        return int(connection.execute(insert).fetchall()[0][0])


def in_probe(services: Services) -> str:
    return urlsplit(services.dsn)._replace(path="/probe").geturl()


def test_the_id_of_a_kafka_cluster_may_begin_with_a_dash(
    tmp_path: Path, stack_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One random id in 64 does, and Kafka's tool takes it for an option where it stands by itself."""
    dashed = uuid.UUID(bytes=b"\xf8" + bytes(15))
    monkeypatch.setattr("headrace.services.programs.kafka.uuid.uuid4", lambda: dashed)
    prepare_broker(stack_settings.model_copy(update={"data": tmp_path}), find_java())
    assert "cluster.id=-AAAA" in (tmp_path / "state/kafka/meta.properties").read_text()


def test_snapshot_and_changes_reach_the_topic(services: Services, connector: ConnectorFile) -> None:
    create_topics(services.broker, connector.topics())
    with ConnectClient(services.connect_url) as client:
        client.wait_ready()
        client.put_connector(connector)
        client.wait_running(connector.name)
    with reader(services.broker, "probe.public.readings") as events:
        # Connect may start a task again while it settles, and its snapshot is read from the beginning: what
        # was changed before it never comes as an event.
        snapshot = eventually(
            "two snapshot rows",
            lambda: {1, 2} <= (found := {e.key["id"]: e for e in events() if e.op == "r"}).keys() and found,
        )
        eventually(
            "an event of the stream",
            lambda: inserted(services) in {e.key["id"] for e in events() if e.op == "c"},
        )
        assert snapshot[1].value and snapshot[1].value["after"] == {"id": 1, "value": "1.50", "note": "first"}
        assert snapshot[2].value and snapshot[2].value["after"]["value"] == "NAN"

        with psycopg.connect(in_probe(services)) as connection:
            connection.execute("UPDATE readings SET note = 'second' WHERE id = 1")
            connection.execute("DELETE FROM readings WHERE id = 2")
        update, delete, tombstone = eventually(
            "update, delete and tombstone",
            lambda: (
                len(found := [e for e in events() if e.key and e.key["id"] in (1, 2) and e.op != "r"]) >= 3
                and found
            ),
        )
        assert update.value and (update.op, update.value["before"]["note"]) == ("u", "first")
        assert (delete.op, tombstone.value) == ("d", None)

        with psycopg.connect(in_probe(services)) as connection:
            connection.execute("TRUNCATE readings")
        eventually("the truncation", lambda: events()[-1].op == "t")


@pytest.mark.long
@pytest.mark.parametrize("killed", ["kafka", "connect", "postgres"])
def test_a_killed_service_comes_back_with_its_state(stack_to_kill: Stack, killed: str) -> None:
    stack, settings = stack_to_kill, stack_to_kill.settings
    services = Services(settings.postgres_dsn(), Broker.of(settings), settings.connect_rest)
    with psycopg.connect(services.dsn) as connection:
        if connection.execute("SELECT to_regclass('kept')").fetchone() == (None,):
            connection.execute("CREATE TABLE kept (id serial PRIMARY KEY, killed text)")
            connection.execute("CREATE PUBLICATION kept FOR TABLE kept")
    own = {"topic.prefix": "kept", "table.include.list": "public.kept", "slot.name": "kept"}
    file = replace(SHOP, name="kept", config=SHOP.config | own | {"publication.name": "kept"})
    create_topics(services.broker, file.topics())
    with ConnectClient(services.connect_url) as client:
        client.put_connector(file)
        client.wait_running(file.name)
    with reader(services.broker, "kept.public.kept") as events:
        insert(services, killed, "before")
        eventually("the row of before", lambda: (killed, "before") in rows(events()))
        pid = pid_of(stack, killed)
        psutil.Process(pid).send_signal(signal.SIGKILL)
        eventually("another process", lambda: pid_of(stack, killed) not in (None, pid))
        eventually("health", lambda: all(s.state == "RUNNING" for s in stack.status()[:3]))
        insert(services, killed, "after")
        eventually("the row of after", lambda: (killed, "after") in rows(events()))
        assert (killed, "before") in rows(events())


def insert(services: Services, killed: str, when: str) -> None:
    with psycopg.connect(services.dsn) as connection:
        connection.execute("INSERT INTO kept (killed) VALUES (%s)", [f"{killed} {when}"])


def rows(events: list[Event]) -> set[tuple[str, ...]]:
    return {tuple(event.value["after"]["killed"].split()) for event in events if event.value}


def pid_of(stack: Stack, service: str) -> int | None:
    return next(status.pid for status in stack.status() if status.name == service)


def test_up_again_leaves_running_services_alone(stack: Stack) -> None:
    before = {status.name: status.pid for status in stack.status()}
    after = {status.name: status.pid for status in stack.up(only=["connect"])}
    assert after == before


def test_another_stack_on_the_same_ports_is_refused(stack: Stack, tmp_path: Path) -> None:
    other = Stack(stack.settings.model_copy(update={"data": tmp_path}))
    with pytest.raises(TerminalError) as error:
        other.up(only=["kafka"])
    assert f"port {stack.settings.kafka_port} is in use by `java`" in str(error.value)
    assert processes.marked(tmp_path / "state") == []


def test_services_of_ones_own_are_used_and_none_is_started(stack: Stack, tmp_path: Path) -> None:
    services = stack.settings
    (tmp_path / "deploy" / "connectors").mkdir(parents=True)
    with scratch_settings(tmp_path, **services_of(services)) as settings:
        other = Stack(settings)
        try:
            statuses = {status.name: status for status in other.up(only=["connect"])}
            assert {name for name, status in statuses.items() if status.state == "EXTERNAL"} == {
                "postgres",
                "kafka",
                "connect",
            }
            assert other.register_connectors() == []
            (tmp_path / "deploy" / "connectors" / "own.json").write_text('{"name": "own", "config": {}}')
            with pytest.raises(TerminalError, match=r"own\.json: Kafka Connect refuses"):
                other.register_connectors()
        finally:
            other.down()
        assert not any(status.pid for status in other.status())


@pytest.mark.long
def test_a_service_that_does_not_stay_up_shows_its_log(stack_settings: Settings, tmp_path: Path) -> None:
    ports = dict(zip(["kafka_port", "kafka_controller_port"], free_ports(2), strict=True))
    broken = stack_settings.model_copy(update={"data": tmp_path, "kafka_memory": "1k", **ports})
    stack = Stack(broken)
    (tmp_path / "state" / "kafka").mkdir(parents=True)
    (tmp_path / "state" / "kafka" / "meta.properties").write_text("version=1\n")
    try:
        with pytest.raises(TerminalError) as error:
            stack.up(only=["kafka"])
    finally:
        stack.down()
    message = str(error.value)
    assert "kafka: does not stay up; the end of" in message
    assert "than the maximum heap size" in message
    assert "`headrace up` again" in message


@pytest.mark.long
def test_a_killed_supervisor_is_cleaned_up_after_and_down_leaves_nothing(
    stack_to_kill: Stack,
) -> None:
    stack, state = stack_to_kill, stack_to_kill.settings.state
    [supervisor] = processes.marked(state, "supervisor")
    supervisor.kill()
    statuses = stack.up(only=["connect"])
    assert [status.state for status in statuses[:3]] == ["RUNNING"] * 3
    pids = [status.pid for status in statuses[:3]]
    stack.down()
    assert processes.marked(state) == []
    assert not any(psutil.pid_exists(pid) for pid in pids if pid)
    assert stack.up(only=["connect"])[0].state == "RUNNING"  # for the tests that follow
