"""The registration of a project's connector files: topics, publication, the first load, the connector."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path

from headrace.errors import TerminalError, TransientError
from headrace.settings import CONNECT_USER, Settings
from headrace.sources.connect import ConnectClient, ConnectorFile
from headrace.sources.database import database
from headrace.sources.dsn import source_dsn
from headrace.sources.mysql.history import entering
from headrace.sources.postgres.access.publication import as_registered, made_here
from headrace.sources.postgres.bulk.record import LoadRecord, load_record
from headrace.sources.records import records
from headrace.sources.stream.broker import Broker
from headrace.spec.connector import Connector
from headrace.storage.location import Location

Load = Callable[[ConnectorFile], LoadRecord | None]
"""Bring a source's rows before its connector is registered; None: the connector reads them itself."""


def register_all(
    settings: Settings,
    *,
    on_progress: Callable[[str], None] = lambda message: None,
    load: Load = lambda file: None,
    only: Container[str] | None = None,
) -> list[str]:
    """Register every connector file of the project, wait until each runs. The source's tables must exist.

    An environment registers none: they are the production's.

    Args:
        load: called for a connector that Connect does not know.
        only: names of those to register; None: all.
    """
    if settings.environment:
        return []
    files, place = [f for f in _files(settings) if only is None or f.name in only], records(settings)
    create_topics(Broker.of(settings), [topic for file in files for topic in file.topics()])
    with ConnectClient(settings.connect_rest) as client:
        client.wait_ready()
        known = client.names()
        for file in files:
            record = load_record(place, file.name)
            if file.name not in known and (record is None or not record.complete):
                record = load(file)
            on_progress(f"registering connector `{file.name}`")
            connector = Connector(file.name, file.path, file.config)
            if made_here(file):
                database(source_dsn(connector, settings.source_environment())).prepare(connector)
            register(client, _registered(settings, file), record, place, settings.connect_password)
            client.wait_running(file.name)
    return [file.name for file in files]


def differing(settings: Settings) -> tuple[list[str], list[str]]:
    """The connectors whose files Connect has otherwise, and those that it does not have.

    Raises:
        TransientError: it does not answer.
    """
    with ConnectClient(settings.connect_rest) as client:
        known = client.names()
        files = _files(settings)
        changed = [f.name for f in files if f.name in known and _differs(settings, f, client.config(f.name))]
        return changed, [f.name for f in files if f.name not in known]


def _registered(settings: Settings, file: ConnectorFile) -> ConnectorFile:
    """The connector as Connect is to have it. An external worker has no variables but those of its own."""
    file = as_registered(file)
    return file if settings.connect_url is not None else entering(file, Broker.of(settings))


def _differs(settings: Settings, file: ConnectorFile, known: dict[str, str]) -> bool:
    """But for what registering itself sets."""
    ours = {k for k, v in _registered(settings, file).config.items() if file.config.get(k) != v}
    own = {"name", "snapshot.mode", *ours}
    return {k: v for k, v in file.config.items() if k not in own} != {
        k: v for k, v in known.items() if k not in own
    }


def _files(settings: Settings) -> list[ConnectorFile]:
    """Those of the sources that this server serves."""
    files = [ConnectorFile.read(path) for path in sorted(settings.connectors.glob("*.json"))]
    return [file for file in files if settings.keeps(file.name)]


def register(
    client: ConnectClient,
    file: ConnectorFile,
    record: LoadRecord | None,
    records: Location,
    password: Path,
) -> None:
    """Register one connector, after its bulk snapshot where there was one.

    Args:
        records: where its record is; see `sources.records`.
        password: file of the embedded worker's.
    Raises:
        TerminalError: it is registered though its bulk snapshot never ended.
    """
    if record is not None and not record.complete:
        raise TerminalError(
            f"the bulk snapshot of `{file.name}` did not end, and Connect has a connector of that name. "
            f"Next: DELETE /connectors/{file.name} at {client.url}, as `{CONNECT_USER}` with the password in "
            f"{password} where it is the embedded one, then `headrace up`"
        )
    if record is not None:
        file = file.streaming()
        if record.state == "LOADED":
            client.hand_over(file, record.lsn)
            replace(record, state="STREAMING").save(records)
    client.put_connector(file)
    found = client.status(file.name).state
    if found == "FAILED":
        client.restart_failed(file.name)
    elif found in ("STOPPED", "PAUSED"):
        client.resume(file.name)


def create_topics(broker: Broker, topics: list[str]) -> None:
    """One partition each, where missing: a table without rows has no topic, and its readers would fail.

    How many replicas they have is the cluster's default.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    if not topics:
        return
    client = AdminClient(broker.client())
    wanted = [NewTopic(topic, num_partitions=1, replication_factor=-1) for topic in topics]
    for topic, created in client.create_topics(wanted, operation_timeout=30).items():
        try:
            created.result(timeout=30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TransientError(f"topic `{topic}` could not be created: {error}") from error
