"""One table's rows, carried to the table in a database that follows it: a thread and a connection of its own.

It reads the changelog as any subscriber does, so it holds up no flow. Where the changes that the target lacks
are gone, or are more than the driver takes, all rows are compared with those that are there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headrace.catalog.readers import Readers
from headrace.engine.publishing.rows import rows_at
from headrace.engine.spark.session import use_pool
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Registry, Table
from headrace.errors import HeadraceError, NeedsResync, TransientError
from headrace.percentile import percentile
from headrace.results import PublishResult, PublishStatus
from headrace.spec.model import TableName
from headrace.spec.publishing import Target
from headrace.storage.location import delta_table
from headrace.store.record.commits import MOST_RECORDS
from headrace.store.schema import ORIGIN, STREAM
from headrace.targets.postgres import Position, PublishedTable

log = logging.getLogger(__name__)

READER = "$publish"
"""The name under which the changelog is kept for it: none that a subscriber can take."""

LOOK_SECONDS = 5.0
"""Pause after which it looks whether there is a commit that it has not heard of."""

NOTE_SECONDS = 30.0
"""Between two notes of how far it is, for retention: its own database knows it exactly."""

MOST_PAUSE = 0.5
"""Seconds between two transactions, at most: a twentieth of the freshness where that is less."""

AGAIN_SECONDS = (1.0, 30.0)
"""Pause after a failure, the first and the longest."""

PAGE_ROWS = 50_000
WINDOW_SECONDS = 60.0


@dataclass
class Known:
    """What is known of a target since this server runs."""

    version: int = -1
    error: str | None = None
    delays: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=1024))


class Publisher:
    """
    Args:
        name: of the table.
        warehouse: which one this is, for the target.
        scratch: for the rows of large tables.
    """

    def __init__(
        self,
        name: TableName,
        target: Target,
        registry: Registry,
        sessions: Sessions,
        readers: Readers,
        warehouse: str,
        scratch: Path,
    ) -> None:
        self.name, self.target = name, target
        self._registry, self._sessions, self._readers = registry, sessions, readers
        self._warehouse, self._scratch = warehouse, scratch
        self._heard, self._stopping = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._published: PublishedTable | None = None
        self._table: Table | None = None
        self._position: Position | None = None
        self._changelog = ""
        self._noted = 0.0
        self._known = Known()
        self._thread = threading.Thread(target=self._run, name=f"publish {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let it end between two transactions."""
        self._stopping.set()
        self._heard.set()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def status(self) -> PublishStatus:
        table = self._registry.tables.get(self.name)
        head, done = (table.store.version if table is not None else -1), self._known.version
        return PublishStatus(
            target=str(self.target),
            version=done,
            behind=max(0, head - done),
            measured_p90=self._measured(0.9),
            error=self._known.error,
        )

    def alarms(self, keep: float | None) -> list[str]:
        """What is wrong with it.

        Args:
            keep: the freshness that the table keeps, seconds; twice that is promised of its target.
        """
        if (error := self._known.error) is not None:
            return [f"not published since version {self._known.version}: {error}"]
        measured = self._measured(0.9)
        if keep is None or measured is None or measured <= 2 * keep:
            return []
        return [
            f"{self.target} is {measured:.1f} s behind its source, more than twice the {keep:g} s that are "
            "declared. Next: `headrace status --json` tells how late the table itself is; the rest is the "
            "target's database"
        ]

    def catch_up(self) -> None:
        """Carry what the table has now. Raises as `PublishedTable` does."""
        with self._lock, self._begun_anew():
            while self._step():
                pass

    def check(self, *, dry_run: bool) -> PublishResult:
        """Compare all rows with those of the target.

        Args:
            dry_run: at the version that the target has, only to know; else at the newest, and what differs is
                mended, whatever kept it from following.
        Raises:
            TransientError, TerminalError: as `PublishedTable`.
        """
        with self._lock, self._begun_anew():
            ready = self._ready()
            if ready is None or (dry_run and self._known.version < 0):
                raise TransientError(f"`{self.name}` is not published yet. Next: `headrace status`")
            table, published = ready
            if not dry_run:
                return self._load(table, published)
            version = self._known.version
            return published.compare(rows_at(self._sessions.batch, table, version, self._scratch), version)

    @contextmanager
    def _begun_anew(self) -> Iterator[None]:
        """What fails is tried again with another connection."""
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _run(self) -> None:
        use_pool(self._sessions.batch, "batch")
        pause = AGAIN_SECONDS[0]
        while not self._stopping.is_set():
            self._heard.clear()
            try:
                with self._lock, self._begun_anew():
                    more = self._step()
                self._known.error, pause = None, AGAIN_SECONDS[0]
            except Exception as error:
                if str(error) != self._known.error:
                    told = log.warning if isinstance(error, HeadraceError) else partial(log.exception)
                    told("%s is not published: %s", self.name, error)
                self._known.error = str(error)
                self._stopping.wait(pause)
                pause = min(2 * pause, AGAIN_SECONDS[1])
                continue
            if not more:
                self._heard.wait(LOOK_SECONDS)
            self._stopping.wait(self._pause())
        with self._lock:
            self._forget()

    def _pause(self) -> float:
        freshness = self._table.freshness if self._table is not None else None
        return MOST_PAUSE if freshness is None else min(MOST_PAUSE, freshness.total_seconds() / 20)

    def _forget(self) -> None:
        """Begin anew with another connection."""
        if self._published is not None:
            self._published.close()
        self._published = self._table = self._position = None

    def _ready(self) -> tuple[Table, PublishedTable] | None:
        """The table and its target; None where the table has no rows that can be read."""
        table = self._registry.tables.get(self.name)
        if table is None or table.store.version < 0 or not table.store.fits:
            return None
        table.store.listen(self._heard)
        if table is not self._table or self._published is None:  # another definition may have other columns
            self._open(table)
        assert self._published is not None, "it was opened"
        return table, self._published

    def _step(self) -> bool:
        """One transaction, where there is something to do. Returns whether there is more."""
        if (ready := self._ready()) is None:
            return False
        table, published = ready
        position, head = self._position, table.store.version
        if position is None or not self._follows(table, position):
            self._load(table, published)
        elif position.version < head:
            self._follow(table, published, position, head)
        return self._known.version < table.store.version

    def _open(self, table: Table) -> None:
        self._forget()
        dsn = self.target.dsn(os.environ)
        published = PublishedTable(self.target, dsn, str(self.name), table.store.schema, self._warehouse)
        try:
            found = published.open()
        except BaseException:
            published.close()
            raise
        self._published, self._table = published, table
        self._changelog = str(delta_table(table.store.changelog.path).metadata().id)
        self._position = found
        follows = found is not None and self._follows(table, found)
        self._known.version = found.version if found is not None and follows else -1

    def _follows(self, table: Table, position: Position) -> bool:
        """Whether the changes that the target lacks are all there."""
        store = table.store
        return (
            position.published == str(self.name)
            and position.changelog == self._changelog
            and store.changelog.removed <= position.version <= store.version
        )

    def _at(self, version: int) -> Position:
        return Position(str(self.name), self._warehouse, self._changelog, version)

    def _load(self, table: Table, published: PublishedTable) -> PublishResult:
        commit = table.store.commit
        self._readers.done(str(self.name), READER, commit.version)  # from here on the changes are kept
        rows = rows_at(self._sessions.batch, table, commit.version, self._scratch)
        found = published.replace(rows, self._at(commit.version), commit.source_ms)
        log.info(
            "%s is published at version %d: %d rows, %d of them new or others, %d removed",
            *(self.name, commit.version, found.rows, found.missing + found.different, found.extra),
        )
        self._done(commit.version)
        return found

    def _follow(self, table: Table, published: PublishedTable, position: Position, head: int) -> None:
        store, after = table.store, position.version
        through = _page(table, after, head)
        try:
            changes = store.changelog.read(after, through) if through is not None else None
        except NeedsResync:  # retention was faster
            changes = None
        if through is None or changes is None:
            self._load(table, published)
            return
        times = [record.source_ms for record in store.records(after, through) if record is not None]
        published.apply(changes, position, self._at(through), times[-1] if times else 0)
        self._done(through)
        oldest = min((ms for ms in times if ms), default=0)
        if oldest and set(changes.column(ORIGIN).unique().to_pylist()) == {STREAM}:
            self._known.delays.append((time.monotonic(), max(0.0, time.time() - oldest / 1000)))

    def _done(self, version: int) -> None:
        self._position = self._at(version)
        self._known.version = version
        if time.monotonic() - self._noted >= NOTE_SECONDS:
            self._readers.done(str(self.name), READER, version)
            self._noted = time.monotonic()

    def _measured(self, share: float) -> float | None:
        since = time.monotonic() - WINDOW_SECONDS
        found = sorted(delay for at, delay in self._known.delays.copy() if at >= since)
        return percentile(found, share) if found else None


def _page(table: Table, after: int, head: int) -> int | None:
    """The version that the next transaction goes to; None where the driver does not take its changes."""
    store, most = table.store, table.limits.changes
    records = store.records(after, head) if head - after <= MOST_RECORDS else [None]
    kinds = [record.kinds for record in records if record is not None and record.kinds is not None]
    if len(kinds) < head - after:  # the log does not tell all of them
        through = store.changelog.page_end(after, head, PAGE_ROWS)
        return through if store.changelog.count(after, through) <= most else None
    rows = 0
    for version, counted in enumerate(kinds, after + 1):
        rows += sum(counted.values())
        if rows > PAGE_ROWS and version > after + 1:
            return version - 1
        if rows > most:
            return None
    return head
