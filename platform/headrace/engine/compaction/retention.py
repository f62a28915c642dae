"""Retention: changes and snapshot files go once they are old and no reader needs them.

A reader of a table is every table that reads it, at its recorded frontier, and every registered subscriber,
at its position. Kept for them are the changes after it, and a snapshot from which the table at a frontier can
be read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.catalog import Catalog
from headrace.engine.table.records import note_reached
from headrace.engine.table.table import Registry, Table
from headrace.store.delta import logs
from headrace.store.record import versions

log = logging.getLogger(__name__)

RESTING = ("SUSPENDED", "FAILED", "NEEDS RESYNC")


@dataclass(frozen=True)
class Limits:
    """How long things are kept, hours."""

    changelog: float
    vacuum: int
    reader: float


@dataclass(frozen=True)
class Reader:
    """Who needs a table's changes after `position`, and where it is a table, its rows at `position`."""

    name: str
    position: int
    table: bool
    since: float
    """When it stopped making progress, seconds since 1970; infinite while it runs."""


def abandoned(reader: Reader, aged: int, before: float) -> bool:
    """True where it has made no progress since `before`, and a change it lacks is older than that."""
    return reader.position < aged and reader.since < before


def horizon(readers: list[Reader], *, compacted: int, aged: int) -> int:
    """The version up to which changes may go.

    Args:
        compacted: version of the oldest snapshot that is still needed.
        aged: newest version old enough.
    """
    return min([compacted, aged, *(r.position for r in readers)])


def readers(table: Table, registry: Registry, catalog: Catalog) -> list[Reader]:
    """Everybody who reads the table."""
    found = []
    for other in registry:
        if table.name not in registry.upstreams(other) or other.store.version == 0:
            continue  # a table that holds nothing yet begins with the rows as they are
        row = catalog.row(other.name)
        since = row.updated_at.timestamp() if row.state in RESTING else float("inf")
        position = other.store.commit.upstreams.get(str(table.name), 0)
        found.append(Reader(str(other.name), position, True, since))
    for named in catalog.readers.all(str(table.name)):
        since = float("-inf") if named.expired else named.progressed_at.timestamp()
        found.append(Reader(named.name, named.position, False, since))
    return found


def retain(
    table: Table,
    registry: Registry,
    catalog: Catalog,
    limits: Limits,
    *,
    now: float,
    renew: Callable[[Table], None],
) -> list[str]:
    """Remove what is old and what nobody needs.

    Args:
        now: seconds since 1970.
        renew: called before anything goes that an older view of the table may read.
    Returns:
        What `headrace status` should say of readers that hold nothing back any more.
    """
    store = table.store
    if store.version == 0:
        return []
    oldest = now - 3600 * max(limits.changelog, limits.reader)
    retained = store.retained.marked(store.version, now, oldest=oldest)
    limit = now - 3600 * limits.reader
    everybody = readers(table, registry, catalog)
    lost = [r for r in everybody if abandoned(r, retained.aged(limit), limit)]
    active = [r for r in everybody if r not in lost]
    warnings = [_warn(table, r, catalog) for r in lost]
    needed = [store.version, *(r.position for r in active if r.table)]
    with store.compacting:
        pins = {version: store.snapshot.pin_for(version) for version in set(needed)}
        compacted = pins[min(needed)].compacted
        aged = retained.aged(now - 3600 * limits.changelog)
        through = max(retained.removed, horizon(active, compacted=compacted, aged=aged))
        kept = sorted({p.delta for p in pins.values()} | {store.pin.delta})
        whole = store.snapshot.replaced_before(now - 3600 * limits.vacuum + 60)
        if through > retained.removed or whole > retained.whole_since:
            renew(table)
        if through > retained.removed and store.schema.sequenced:
            store.deletes.keep(retained.removed, through)
        retained = replace(
            retained, removed=through, whole_since=max(whole, retained.whole_since), kept=tuple(kept)
        )
        retained.save(store.root)
        store.use(retained)
        versions.forget(store.root, through)
        files = store.changelog.remove(through)
        files += store.snapshot.vacuum(limits.vacuum, kept)
        logs.clean(store.snapshot.path, needed=min(whole, *kept), seconds=logs.LOG_SECONDS)
    files += store.changelog.vacuum(limits.vacuum)
    if files:
        log.info("%s: removed changes up to version %s, %s files", table.name, through, files)
    return warnings


def _warn(table: Table, reader: Reader, catalog: Catalog) -> str:
    what = f"`{reader.name}` is abandoned at version {reader.position} and holds nothing back any more"
    if reader.table:
        text = f"{what}: it will need `headrace refresh {reader.name} --all`"
    else:
        text = f"reader {what}. Next: `headrace readers {table.name} --drop {reader.name}`"
        known = catalog.readers.find(str(table.name), reader.name)
        if known is not None and not known.expired:
            catalog.readers.expire(known.table, known.name, known.progressed_at)
            log.warning("%s: %s", table.name, text)
    return text


def record_progress(table: Table, *, run_id: str) -> bool:
    """Commit the frontier of a table that its upstreams' changes left as it was, so that it holds less back.

    Returns:
        True where it had moved.
    """
    store = table.store
    with store.writing:
        recorded = store.commit.upstreams
        if store.version == 0 or all(recorded.get(n, 0) >= v for n, v in table.reached.items()):
            return False
        note_reached(table, run_id=run_id)
    return True
