"""Lets captured tables become stg tables that a source file means, also those that come later."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.engine.table.table import Registry, is_stg
from headrace.errors import HeadraceError
from headrace.sources.stg_files import new_tables
from headrace.spec.connector import Connector
from headrace.spec.model import TableName
from headrace.spec.source_file import SourceFile, source_files

log = logging.getLogger(__name__)


@dataclass
class CapturedFollower:
    """
    Args:
        project: its directory.
        connectors: those that run, by the names of their sources.
        dsn: connection string of a source by its name.
        create: lets tables run whose layer files these are.
    """

    registry: Registry
    project: Path
    connectors: Callable[[], Mapping[str, Connector]]
    dsn: Callable[[str], str]
    create: Callable[[Mapping[TableName, str]], None]
    _said: str = field(init=False, default="")

    def look(self) -> None:
        """Let new captured tables be stg tables."""
        try:
            for source in source_files(self.project):
                if source.source in self.connectors():
                    self._follow(source)
            self._said = ""
        except HeadraceError as error:
            if str(error) != self._said:
                log.warning("captured tables: %s", error)
            self._said = str(error)
        except Exception:
            log.exception("captured tables")

    def _follow(self, source: SourceFile) -> None:
        taken = {table.name: source.read_by(table.spec) for table in self.registry if is_stg(table)}
        texts = new_tables(source, self.connectors()[source.source], self.dsn(source.source), taken)
        if texts:
            log.info("%s: %s", source.path.name, ", ".join(map(str, texts)))
            self.create(texts)
