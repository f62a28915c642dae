"""The Kafka broker (KRaft, one node) and Kafka Connect, both from the retrieved jars.

Each has one user with a random password, which is made at the first start and kept in files that their owner
alone reads: everybody on the machine reaches a port on loopback, and reads a command line.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from headrace.aot_caches import AotCache
from headrace.errors import TerminalError
from headrace.java import Java
from headrace.services.programs.program import Program
from headrace.services.status import ServiceName
from headrace.settings import CONNECT_USER, LOOPBACK, Settings
from headrace.sources.mysql import history
from headrace.sources.stream.broker import USER, Broker, login_module
from headrace.tokens import ensure_token

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
# Small heaps: the serial collector holds the least and pauses for milliseconds.
# The quick compiler alone: the optimizing one would work for minutes at methods that wait for messages.
JVM = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xms64m",
    "-Djava.awt.headless=true",
]
_REST = "org.apache.kafka.connect.rest.basic.auth.extension"
LARGEST_MESSAGE = 8 * 1024 * 1024

CACHED: tuple[ServiceName, ...] = ("kafka", "connect")
"""Whose JVMs read an ahead-of-time cache."""


def ensure_passwords(settings: Settings) -> None:
    """Make those of broker and worker, before anybody begins who needs one."""
    ensure_token(settings.kafka_password)
    ensure_token(settings.connect_password)


def prepare_broker(settings: Settings, java: Java) -> Program:
    """Write the broker's properties, format its storage where it is new, and say how to run it."""
    folder = settings.state / "kafka"
    ensure_passwords(settings)
    file = _write(settings.state / "kafka.properties", broker_properties(settings))
    if not (folder / "meta.properties").is_file():
        # joined with "=" below: an id may begin with "-", which the tool would take for an option
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        command = [str(java.binary), *_jvm(settings, "kafka", "128m"), "kafka.tools.StorageTool", "format"]
        made = subprocess.run(
            [*command, f"--cluster-id={cluster}", "-c", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise TerminalError(f"Kafka could not format {folder}:\n{made.stdout}{made.stderr}")
    return Program(
        name="kafka",
        command=[str(java.binary), *_jvm(settings, "kafka", settings.kafka_memory), "kafka.Kafka", str(file)],
        directory=str(settings.state),
        environment=_fingerprint(file),
        stop_seconds=60,
    )


def prepare_connect(settings: Settings, java: Java) -> Program:
    """Write the worker's properties and who may use it, and say how to run it."""
    ensure_passwords(settings)
    users = _write(settings.state / "connect.users", {CONNECT_USER: ensure_token(settings.connect_password)})
    login = settings.state / "connect.jaas"
    known = f'KafkaConnect {{ {_REST}.PropertyFileLoginModule required file="{users}"; }};\n'
    _write_private(login, known.encode())
    file = _write(settings.state / "connect.properties", connect_properties(settings))
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    jvm = [*_jvm(settings, "connect", settings.connect_memory), f"-Djava.security.auth.login.config={login}"]
    return Program(
        name="connect",
        command=[str(java.binary), *jvm, main, str(file)],
        directory=str(settings.state),
        environment=settings.source_environment()
        | history.variables(Broker.of(settings))
        | _fingerprint(file, users),
        stop_seconds=60,
    )


def broker_properties(settings: Settings) -> dict[str, str]:
    """One node that is broker and controller; every internal topic has one replica.

    Whoever comes to either of its listeners, the node itself too, has to know the password.
    """
    controller = f"{LOOPBACK}:{settings.kafka_controller_port}"
    password = settings.embedded_kafka_password
    login = login_module("PLAIN", USER, password, **{f"user_{USER}": password})
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"CLIENT://{settings.kafka_bootstrap},CONTROLLER://{controller}",
        "advertised.listeners": f"CLIENT://{settings.kafka_bootstrap}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
        "log.dirs": str(settings.state / "kafka"),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": "16777216",
        "log.segment.bytes": "134217728",
        "log.retention.hours": "336",
        "message.max.bytes": str(LARGEST_MESSAGE),
    }


def connect_properties(settings: Settings) -> dict[str, str]:
    """A distributed worker: offsets and connectors live in Kafka and survive it."""
    name = settings.connect_group
    # One node cannot hold two replicas; a cluster of one's own knows how many it wants.
    replicas = "1" if settings.kafka_bootstrap_servers is None else "-1"
    login = Broker.of(settings).security.jvm()
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        # The worker's own clients, and those that it makes for connectors.
        **{f"{of}{name}": v for of in ("", "producer.", "consumer.", "admin.") for name, v in login.items()},
        "group.id": name,
        "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets",
        "status.storage.topic": f"{name}-status",
        "config.storage.replication.factor": replicas,
        "offset.storage.replication.factor": replicas,
        "status.storage.replication.factor": replicas,
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "2000",
        # With one worker there is nobody to wait for.
        "scheduled.rebalance.max.delay.ms": "0",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "plugin.path": ",".join(map(str, filter(None, (settings.jars("plugins"), settings.connect_plugins)))),
        # Skips the scan of every class; Debezium declares its plugins, which not every plugin does.
        "plugin.discovery": "service_load" if settings.connect_plugins is None else "hybrid_warn",
        "listeners": f"http://{LOOPBACK}:{settings.connect_port}",
        "rest.extension.classes": f"{_REST}.BasicAuthSecurityRestExtension",
        "rest.advertised.host.name": LOOPBACK,
        "rest.advertised.port": str(settings.connect_port),
        # Connector files name the source through the environment, so native and compose share them.
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "^HEADRACE_SOURCE_.*",
        "connector.client.config.override.policy": "All",
        "producer.acks": "all",
        "producer.max.request.size": str(LARGEST_MESSAGE),
    }


def entry(settings: Settings) -> dict[str, str]:
    """A variable for clients that live as long as the broker does: with another password they are other
    programs, too, and restarted with it."""
    digest = hashlib.sha256(repr((Broker.of(settings).jvm_client(), settings.connect_rest)).encode())
    return {"HEADRACE_ENTRY": digest.hexdigest()}


def cache(settings: Settings, name: ServiceName) -> AotCache:
    """The ahead-of-time cache of one of `CACHED`."""
    return AotCache.of(settings, name, [settings.jars("kafka")])


def _jvm(settings: Settings, name: ServiceName, memory: str) -> list[str]:
    own = [f"-Xmx{memory}", f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}"]
    return [*JVM, *own, *cache(settings, name).reading(), "-cp", str(settings.jars("kafka") / "*")]


def _fingerprint(*files: Path) -> dict[str, str]:
    """Changed properties make a changed program, which is restarted."""
    content = b"".join(file.read_bytes() for file in (*files, LOG_CONFIGURATION))
    return {"HEADRACE_PROPERTIES": hashlib.sha256(content).hexdigest()}


def _write(file: Path, properties: Mapping[str, str]) -> Path:
    """A Java properties file; a backslash and line ends are the only characters that need care in values."""
    lines = [f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in properties.items()]
    return _write_private(file, "".join(lines).encode("latin-1", errors="backslashreplace"))


def _write_private(file: Path, content: bytes) -> Path:
    """For its owner alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.chmod(0o600)  # one of an earlier version
    file.write_bytes(content)
    return file
