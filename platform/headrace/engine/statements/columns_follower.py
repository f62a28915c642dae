"""Lets stg tables go on after the columns of their sources have changed, as they declare."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.supervisor.failures import Failures
from headrace.engine.table.table import Registry, StgTable, is_stg
from headrace.errors import SourceChanged, TransientError
from headrace.spec.model import SourceTable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ColumnsFollower:
    """
    Args:
        failures: knows of tables that left their flow for it.
        follow: lets the tables run by the columns that a captured table has now; raises what a person is to
            decide.
        resume: lets a table go on that left its flow, unless it has gone on or may not.
    """

    registry: Registry
    failures: Failures
    follow: Callable[[SourceTable], None]
    resume: Callable[[StgTable], None]

    def look(self) -> None:
        """Follow what has changed."""
        for captured, tables in self._changed().items():
            self._follow(captured, tables)

    def _changed(self) -> dict[SourceTable, list[StgTable]]:
        found: dict[SourceTable, list[StgTable]] = {}
        for name in sorted(self.failures.changed):
            table = self.registry.tables.get(name)
            if table is None or not is_stg(table):
                self.failures.changed.discard(name)
            else:
                found.setdefault(table.source.table, []).append(table)
        return found

    def _follow(self, captured: SourceTable, tables: list[StgTable]) -> None:
        for table in tables:
            self.failures.changed.discard(table.name)
        try:
            self.follow(captured)
            for table in tables:  # of columns that were back before they were looked at
                self.resume(table)
            log.info("%s: its columns are followed", captured)
        # Those of another captured table may have changed meanwhile: it is followed by itself, then this one.
        except (TransientError, SourceChanged) as error:
            log.info("the columns of %s wait: %s", captured, error)
            self.failures.changed.update(t.name for t in tables)
        except Exception as error:
            log.warning("the columns of %s are not followed: %s", captured, error)
            for table in tables:
                self.failures.observe(table, error)
