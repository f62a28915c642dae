"""Reads the sources of stg tables again whose connector began its first snapshot anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.engine.ingest.first_snapshot import began_anew, from_before
from headrace.engine.supervisor.failures import Failures
from headrace.engine.table.table import Registry, StgTable, Table, is_stg
from headrace.errors import SnapshotAnew, TransientError
from headrace.spec.model import TableName

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadAnew:
    """
    Args:
        failures: knows of tables that left their flow for it.
        leave: lets a table leave its flow for it, also after a kill.
        resync: reads all of a table from its source and lets it go on.
    """

    registry: Registry
    failures: Failures
    leave: Callable[[StgTable, SnapshotAnew], None]
    resync: Callable[[Table], object]
    _read: set[tuple[TableName, int]] = field(default_factory=set)

    def look(self) -> None:
        """Read what waits for it."""
        for table, position in self._waiting():
            for other in self._silent(table, position):
                log.info("%s: its connector read the source anew, and found no row of it", other.name)
                self.leave(other, began_anew(other, position))
        for table, position in self._waiting():
            del self.failures.anew[table.name]
            try:
                self.resync(table)
                self._read.add((table.name, position))
                log.info("%s: its source was read again", table.name)
            except TransientError as error:  # the connector may still be reading
                log.info("%s is not read again yet: %s", table.name, error)
                self.failures.anew[table.name] = position
            except Exception as error:
                log.warning("%s is not read again: %s", table.name, error)
                self.failures.observe(table, error)

    def _waiting(self) -> list[tuple[Table, int]]:
        """Tables, and the position at which the connector has read them again; without those that go on."""
        found = []
        for name, position in sorted(self.failures.anew.items()):
            table = self.registry.tables.get(name)
            if table is None or self.failures.catalog.row(name).state != "NEEDS RESYNC":
                del self.failures.anew[name]  # somebody was quicker
            else:
                found.append((table, position))
        return found

    def _silent(self, table: Table, position: int) -> list[StgTable]:
        """Tables of the same source of which the connector has found no row, so that no event tells it."""
        if not position or not is_stg(table):
            return []
        same = [t for t in self.registry if is_stg(t) and t.source.table.source == table.source.table.source]
        told = {name for name, at in self._read if at == position} | {table.name, *self.failures.anew}
        return [t for t in same if t.name not in told and from_before(t, position)]
