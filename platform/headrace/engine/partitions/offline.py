"""Tables that no stream writes: the batch writes a partition when it is complete, and again after late data.

One run is one commit: rows, the upstreams' versions that they come from, and the partition up to which they
go. It takes the versions after it has seen how far the upstreams are. Besides the partitions that are new it
runs those that its upstreams' changes since the last run are in, so the table is its query over those
versions, up to that partition. A kill leaves the run as a whole or nothing of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.catalog import Catalog
from headrace.engine.partitions.completion_state import CompletionState
from headrace.engine.table.labels import labels_of
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, Table
from headrace.errors import Cancelled, NeedsResync, TerminalError, TransientError
from headrace.locks import OrderedLock, Rank
from headrace.planner.policy.completion import end_of, late, newest_complete
from headrace.planner.policy.offline import partitions_to_run
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.spec.model import TableName
from headrace.spec.partitions.labels import is_label
from headrace.store.creation import tell_watermark

log = logging.getLogger(__name__)

WRITTEN = "WRITTEN"
"""Outcome of a partition that the batch has written."""

SEARCH_SECONDS = 10.0
"""Between two searches for late data."""


@dataclass(frozen=True)
class Run:
    """What one run writes.

    Args:
        cut: the upstreams' versions to read.
        through: the last partition that the table has then.
        labels: the partitions to run; None: all that there are.
    """

    cut: Mapping[str, int]
    through: str
    labels: frozenset[str] | None


Write = Callable[[Table, Run, Progress], RefreshResult]


@dataclass
class _State(CompletionState):
    """
    Args:
        version, searched: the upstreams' versions up to which late data was looked for, at the table's own.
        search_at: when to look next, seconds since 1970.
    """

    version: int = -1
    searched: dict[str, int] = field(default_factory=dict)
    search_at: float = 0.0


class Offline:
    """Thread-safe: one run of a table at a time.

    Args:
        write: does a run, in one commit.
        cut: the upstreams' present versions, all of one point between two micro-batches.
        runs: whether a table may be written now.
        outcome: told of each run: the table, and why it failed, None where it did not.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        catalog: Catalog,
        registry: Registry,
        *,
        write: Write,
        cut: Callable[[Table], dict[str, int]],
        runs: Callable[[Table], bool],
        outcome: Callable[[Table, Exception | None], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._known = catalog.completions
        self._registry = registry
        self._write = write
        self._cut = cut
        self._runs = runs
        self._outcome = outcome
        self._clock = clock
        self._states: dict[TableName, _State] = {}
        self._locks: dict[TableName, OrderedLock] = {}

    def alone(self, name: TableName) -> OrderedLock:
        """Held by who writes the table."""
        return self._locks.setdefault(name, OrderedLock(Rank.OFFLINE, name))

    def warnings(self, table: TableName) -> list[str]:
        """What `headrace status` says of a table whose last run failed."""
        state = self._states.get(table)
        return state.warnings() if state is not None and offline(state.table) else []

    def look(self, table: Table, signal: int) -> None:
        """Note what is complete and what is late, and run it where it is due.

        Args:
            signal: how far the upstreams are, milliseconds since 1970.
        """
        state = self._state(table)
        if self._clock() < state.failed[0] or not self._runs(table):
            return
        if not self.alone(table.name).acquire(blocking=False):
            return  # a statement writes it
        try:
            if self._due(state, signal):
                self._run(state, signal, Progress())
        except Cancelled:
            log.info("%s: cancelled", table.name)
        except Exception as error:
            log.warning("%s: %s", table.name, error)
            state.fail(self._clock(), error)
            self._outcome(table, error)
        finally:
            self.alone(table.name).release()

    def now(self, table: Table, signal: int, progress: Progress) -> RefreshResult:
        """`REFRESH NEW`: write what is complete by now, and what has changed late, without its delay.

        Raises:
            TerminalError: the table is suspended.
            TransientError: how far its upstreams are is not known yet.
        """
        if not self._runs(table):
            raise TerminalError(f"`{table.name}` does not run. Next: `headrace resume {table.name}`")
        if not signal:
            raise TransientError(
                f"`{table.name}`: how far the tables are that it reads is not known yet. "
                "Next: `headrace status` shows their watermarks"
            )
        with self.alone(table.name):
            state = self._state(table)
            self._due(state, signal)
            return self._run(state, signal, progress)

    def follow(self, table: Table, progress: Progress) -> None:
        """Bring what is written to the upstreams' present; no partition more than before."""
        with self.alone(table.name):
            if _bound(table) and self._runs(table):
                self._run(self._state(table), 0, progress)

    def _state(self, table: Table) -> _State:
        state = self._states.get(table.name)
        if state is None or state.table is not table:  # another definition has taken its place
            state = self._states[table.name] = _State(self._known, table)
        return state

    # -- what is due --------------------------------------------------------------------------------------

    def _due(self, state: _State, signal: int) -> bool:
        table, spec = state.table, state.table.spec
        moment = datetime.fromtimestamp(signal / 1000, UTC)
        if newest_complete(spec, moment) is None:
            return False
        progress = state.progress()
        if progress is None or not _bound(table):
            return True
        state.complete(state.newly(progress, signal), signal)
        self._search(state, signal)
        progress, waiting = state.progress(), state.waiting()
        assert progress is not None
        return _bound(table) < progress.through or any(ms <= signal for ms in waiting.values())

    def _search(self, state: _State, signal: int) -> None:
        """Look for late data in what the upstreams have changed since the last search."""
        table, now = state.table, self._clock()
        if state.version != table.store.version:
            state.version, state.searched = table.store.version, dict(table.reached)
        versions = self._registry.versions(table)
        if now < state.search_at or versions == state.searched:
            return
        state.search_at = now + SEARCH_SECONDS
        found = touched(self._registry, table, state.searched, versions)
        state.searched = versions
        self._reopen(state, late(table.spec, found or (), _bound(table)), signal)

    def _reopen(self, state: _State, labels: list[str], signal: int) -> None:
        if new := [label for label in labels if label not in state.waiting()]:
            state.reopen(new, signal, state.table.store.version)

    # -- the run ------------------------------------------------------------------------------------------

    def _run(self, state: _State, signal: int, progress: Progress) -> RefreshResult:
        """Args:
        signal: 0: nothing becomes complete.
        """
        table, bound, known = state.table, _bound(state.table), state.progress()
        cut = self._cut(table)  # after the signal was seen: all that it tells of is in these versions
        through = max(bound, self._through(state, signal))
        if not through:
            raise TransientError(f"`{table.name}`: no partition is complete yet. Next: `headrace status`")
        found = touched(self._registry, table, table.reached, cut) if bound else None
        if known is not None and found is not None:
            self._reopen(state, late(table.spec, found, bound), signal)
        waiting = {label for label in state.waiting() if label <= through}
        labels = None if found is None else partitions_to_run(table.spec, bound, through, found | waiting)
        done = self._write(table, Run(cut, through, labels), progress)
        detail = f"{done.inserted} inserted, {done.updated} updated, {done.deleted} deleted by the batch"
        version = table.store.version
        if known is None:
            self._known.begin(table.name, labels_by_time(table) | {through}, through, signal, version)
        else:
            if signal:
                state.complete(state.newly(known, signal), signal)
            waits = [label for label in state.waiting() if label <= through]
            self._known.finish(table.name, waits, WRITTEN, detail, version)
        state.written()
        state.failed = (0.0, "")
        tell_watermark(table.store, int(1000 * end_of(table.spec, through).timestamp()))
        self._outcome(table, None)
        return done

    def _through(self, state: _State, signal: int) -> str:
        """The newest partition that the run is to write."""
        progress = state.progress()
        if not signal:
            return ""
        if progress is not None and _bound(state.table):
            return progress.through
        return newest_complete(state.table.spec, datetime.fromtimestamp(signal / 1000, UTC)) or ""


def touched(
    registry: Registry, table: Table, after: Mapping[str, int], through: Mapping[str, int]
) -> frozenset[str | None] | None:
    """The table's partitions that its upstreams' changes of versions `(after, through]` are in.

    Returns:
        None where that is not known: by the query, or because the changes are gone.
    """
    found: set[str | None] = set()
    for number, reference in enumerate(table.spec.references):
        name = str(reference.upstream)
        begin, end = after.get(name, 0), through.get(name, 0)
        if begin == end:
            continue
        column = table.plan.partitions.column(number)
        upstream = registry[reference.upstream]  # type: ignore[index]
        if column is None or end < begin:
            return None
        own = next(n for n in upstream.store.schema.names if n.lower() == column.lower())
        try:
            found |= upstream.store.changelog.values(own, begin, end)
        except NeedsResync:  # retention has removed them, or it has begun again
            return None
    return frozenset(found)


def labels_by_time(table: Table) -> set[str]:
    """The partitions that have rows, without those whose label names no time."""
    return {label for label in labels_of(table) if is_label(table.spec, label)}


def _bound(table: Table) -> str:
    """The partition up to which the batch has written the table; "" where it never has."""
    bound = table.store.commit.complete_through
    return bound if is_label(table.spec, bound) else ""
