"""Reads the sources of stg tables again whose connector began its first snapshot anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.supervisor.failures import Failures
from headrace.engine.table.table import Registry, Table
from headrace.errors import TransientError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadAnew:
    """
    Args:
        failures: knows of tables that left their flow for it.
        resync: reads all of a table from its source and lets it go on.
    """

    registry: Registry
    failures: Failures
    resync: Callable[[Table], object]

    def look(self) -> None:
        """Read what waits for it."""
        for name in sorted(self.failures.anew):
            self.failures.anew.discard(name)
            table = self.registry.tables.get(name)
            if table is None or self.failures.catalog.row(name).state != "NEEDS RESYNC":
                continue  # somebody was quicker
            try:
                self.resync(table)
                log.info("%s: its source was read again", name)
            except TransientError as error:  # the connector may still be reading
                log.info("%s is not read again yet: %s", name, error)
                self.failures.anew.add(name)
            except Exception as error:
                log.warning("%s is not read again: %s", name, error)
                self.failures.observe(table, error)
