"""Dagster's own event log in SQLite, with connections that stay open.

Dagster makes an engine of SQLAlchemy for each look at a file, which is most of what an event costs: the
sensor reports hundreds of them where very many tables start, and a page looks dozens of times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine

RUNLESS_SHARD = ""
"""Of the events that belong to no run."""


class EventLog(SqliteEventLogStorage):
    """Keeps the two files open to which every event goes; those of runs come and go."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, Engine] = {}
        super().__init__(base_dir, inst_data)

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> EventLog:
        """As Dagster makes it from `dagster.yaml`."""
        return cls(inst_data=inst_data, **config_value)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        if shard not in (INDEX_SHARD_NAME, RUNLESS_SHARD):
            with super()._connect(shard) as connection:
                yield connection
            return
        with self._db_lock:
            if (engine := self._engines.get(shard)) is None:
                wait = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
                engine = create_engine(self.conn_string_for_shard(shard), connect_args=wait)
                self._engines[shard] = engine
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection

    def dispose(self) -> None:
        for engine in self._engines.values():
            engine.dispose()
        super().dispose()
