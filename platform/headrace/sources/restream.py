"""A source's stream made anew: another replication slot, from which the connector goes on.

For a slot that the database has given up, or a database that was put back to an older copy of itself. What
was changed between is in no event, so every table of the source must be read again; the record of the new
slot tells them (`sources.origin.Origin.slot`).
"""

from __future__ import annotations

import json
from pathlib import Path

from headrace.sources.access.publication import ensure_publication
from headrace.sources.bulk.choice import slot_name
from headrace.sources.bulk.slot import drop_slot, exported
from headrace.sources.connect import ConnectClient
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable


def restream(
    dsn: str, connector: Connector, tables: list[SourceTable], client: ConnectClient, state: Path
) -> int:
    """Make the connector's slot anew and let the connector stream from there; may be repeated after a kill.

    Args:
        tables: of the source, which the publication must hold.
        state: the project's state directory, where the record goes.
    Returns:
        The log position at which the slot begins.
    """
    client.stop(connector.name)
    drop_slot(dsn, slot_name(connector.config))
    ensure_publication(dsn, connector, tables)
    with exported(dsn, connector) as at:
        begins = at.lsn
    path = _path(state, connector.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"lsn": begins}), encoding="utf-8")
    new.replace(path)
    client.resume_at(connector.name, connector.config["topic.prefix"], begins)
    return begins


def slot_begins(state: Path, source: str) -> int:
    """Where the slot begins that was made anew last; 0 where none ever was."""
    try:
        return int(json.loads(_path(state, source).read_text(encoding="utf-8"))["lsn"])
    except FileNotFoundError:
        return 0


def _path(state: Path, source: str) -> Path:
    return state / "slots" / f"{source}.json"
