"""The Kafka broker (KRaft, one node) and Kafka Connect, both from the retrieved jars."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import TerminalError
from headrace.java import Java
from headrace.services.programs.program import Program
from headrace.settings import LOOPBACK, Settings

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
# Small heaps: the serial collector holds the least and pauses for milliseconds.
JVM = ["-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Xms64m", "-Djava.awt.headless=true"]
LARGEST_MESSAGE = 8 * 1024 * 1024


def prepare_broker(settings: Settings, java: Java) -> Program:
    """Write the broker's properties, format its storage where it is new, and say how to run it."""
    folder = settings.state / "kafka"
    file = _write(settings.state / "kafka.properties", broker_properties(settings))
    if not (folder / "meta.properties").is_file():
        # joined with "=" below: an id may begin with "-", which the tool would take for an option
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        command = [str(java.binary), *_jvm(settings, "128m"), "kafka.tools.StorageTool", "format"]
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
        command=[str(java.binary), *_jvm(settings, settings.kafka_memory), "kafka.Kafka", str(file)],
        directory=str(settings.state),
        environment=_fingerprint(file),
        stop_seconds=60,
    )


def prepare_connect(settings: Settings, java: Java) -> Program:
    """Write the worker's properties and say how to run it."""
    file = _write(settings.state / "connect.properties", connect_properties(settings))
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return Program(
        name="connect",
        command=[str(java.binary), *_jvm(settings, settings.connect_memory), main, str(file)],
        directory=str(settings.state),
        environment=settings.source_environment() | _fingerprint(file),
        stop_seconds=60,
    )


def broker_properties(settings: Settings) -> dict[str, str]:
    """One node that is broker and controller; every internal topic has one replica."""
    controller = f"{LOOPBACK}:{settings.kafka_controller_port}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{settings.kafka_bootstrap},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{settings.kafka_bootstrap}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
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
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
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
        "listeners": settings.connect_rest,
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


def _jvm(settings: Settings, memory: str) -> list[str]:
    classpath = str(settings.jars("kafka") / "*")
    return [*JVM, f"-Xmx{memory}", f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}", "-cp", classpath]


def _fingerprint(file: Path) -> dict[str, str]:
    """Changed properties make a changed program, which is restarted."""
    digest = hashlib.sha256(file.read_bytes() + LOG_CONFIGURATION.read_bytes()).hexdigest()
    return {"HEADRACE_PROPERTIES": digest}


def _write(file: Path, properties: Mapping[str, str]) -> Path:
    """A Java properties file; a backslash and line ends are the only characters that need care in values."""
    lines = [f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in properties.items()]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines), encoding="latin-1", errors="backslashreplace")
    return file
