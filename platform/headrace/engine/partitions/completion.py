"""Finds the partitions that have become complete, runs what their tables do then, and notes what came of it.

What a partition waits for is in the catalog before it runs and until it has run to its end: a kill in between
lets it run again, and what it does is done once, since a second run finds nothing left to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.catalog import Catalog
from headrace.catalog.completions import CompletionProgress
from headrace.engine.flow.freshness.monitor import SHARE, WINDOW_SECONDS
from headrace.engine.ingest.watermark import watermark
from headrace.engine.partitions.completion_state import CompletionState
from headrace.engine.partitions.offline import SEARCH_SECONDS, Offline, labels_by_time
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, Table
from headrace.errors import Cancelled
from headrace.planner.policy.completion import late, newest_complete, runs_of
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.spec.model import TableName
from headrace.spec.partitions.completion import LateData, RunMode, Signal
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.creation import tell_watermark
from headrace.store.record.commits import MOST_RECORDS
from headrace.ticking import Ticking

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two looks."""

AT_ONCE = 24
"""Partitions that one run takes: an outage is caught up in parts."""

COMPLETE = "COMPLETE"
"""Outcome where nothing is to run."""


@dataclass(frozen=True)
class Outcome:
    """What came of one partition: a word, and what a person should know of it."""

    word: str
    detail: str = ""


Action = Callable[[Table, LabelRange], Mapping[str, Outcome]]
"""What a run mode does with a range of complete partitions. A second run changes
nothing. Labels that the answer leaves out have the outcome COMPLETE."""


@dataclass
class _State(CompletionState):
    """
    Args:
        searched: changelog version up to which nothing is left to see.
        searched_at: when that was, seconds since 1970.
        told: the newest complete partition that the snapshot's property tells of.
    """

    searched: int = 0
    searched_at: float = 0.0
    told: str = ""


class PartitionCompletion:
    """Of all tables with partitions by time.

    Args:
        actions: by run mode; one that is not among them runs nothing.
        runs: whether a table runs now.
        loading: whether its source is being read for the first time.
        offline: writes the tables that no stream writes.
        clock: seconds since 1970.
        search_seconds: between two searches for late data: a busy source has some every second.
    """

    def __init__(
        self,
        catalog: Catalog,
        registry: Registry,
        actions: Mapping[RunMode, Action],
        *,
        runs: Callable[[Table], bool],
        loading: Callable[[Table], bool],
        offline: Offline | None = None,
        clock: Callable[[], float] = time.time,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self._catalog = catalog
        self._registry = registry
        self._actions = actions
        self._runs = runs
        self._loading = loading
        self._offline = offline
        self._clock = clock
        self._search_seconds = search_seconds
        self._states: dict[TableName, _State] = {}
        self._ticking = Ticking("completion", self.look, TICK)

    @property
    def offline(self) -> Offline:
        """What writes the tables that no stream writes."""
        assert self._offline is not None, "there are no such tables"
        return self._offline

    def start(self) -> None:
        self._ticking.start()

    def stop(self) -> None:
        """Wait for what runs; nothing follows."""
        self._ticking.stop()

    def now(self, table: Table, progress: Progress) -> RefreshResult:
        """`REFRESH NEW` of a table that no stream writes. Raises as `Offline.now`."""
        return self.offline.now(table, self.signal_ms(table), progress)

    def warnings(self, table: TableName) -> list[str]:
        """What `headrace status` says of a table whose complete partitions cannot be run."""
        state = self._states.get(table)
        warnings = state.warnings() if state else []
        return warnings + (self._offline.warnings(table) if self._offline is not None else [])

    def look(self) -> None:
        """Note what is complete, then run what is due, one table after the other."""
        for table in list(self._registry):
            if self._ticking.stopping:
                return
            watermark(
                self._registry, table
            )  # what the next tables' follow from, also of one without partitions
            if table.spec.partition_format is None:
                continue
            if offline(table):
                self._write(table)
                continue
            if not table.store.version:
                continue
            state = self._states.get(table.name)
            if state is None or state.table is not table:  # another definition has taken its place
                state = self._states[table.name] = _State(self._catalog.completions, table)
            try:
                if signal := self.signal_ms(table):
                    self._note(state, signal)
                    self._run(state, signal)
            except Exception:
                log.exception("complete partitions of %s", table.name)

    def signal_ms(self, table: Table) -> int:
        """How far a table is by the signal that it declares, milliseconds since 1970; 0 while unknown."""
        by = table.spec.completion.signal
        if offline(table):  # what it has not read yet counts: its upstreams, as they are now
            return min((self._reached(u, by) for u in self._registry.upstreams(table).values()), default=0)
        return self._reached(table, by)

    def _reached(self, table: Table, by: Signal) -> int:
        if by is Signal.WATERMARK or offline(table):
            return watermark(self._registry, table)
        latency = table.run.measured(SHARE, WINDOW_SECONDS) or table.run.latency
        if latency is None or self._loading(table) or not self._runs(table):
            return 0
        return int(1000 * (self._clock() - latency))

    def _write(self, table: Table) -> None:
        """Let the batch write what is due of a table that no stream writes."""
        if self._loading(table):
            return
        try:
            if signal := self.signal_ms(table):
                self.offline.look(table, signal)
        except Exception:
            log.exception("complete partitions of %s", table.name)

    # -- what is complete ---------------------------------------------------------------------------------

    def _note(self, state: _State, signal: int) -> None:
        known, table, spec = state.known, state.table, state.table.spec
        version, moment = table.store.version, datetime.fromtimestamp(signal / 1000, UTC)
        progress = state.progress()
        if progress is None:
            newest = newest_complete(spec, moment)
            # Which partitions a first load has brought is known once it is compacted.
            if newest is not None and self._runs(table) and not self._loading(table) and not table.store.cold:
                found = {p for p in labels_by_time(table) if p <= newest} | {newest}
                known.begin(table.name, found, newest, signal, version)
            return
        # What is noted as complete says that all before it has been searched.
        newly = state.newly(progress, signal)
        if newly or self._clock() >= state.searched_at + self._search_seconds:
            self._search(state, progress, version, signal)
        state.complete(newly, signal)

    def _search(self, state: _State, progress: CompletionProgress, version: int, signal: int) -> None:
        """Look for late data in the commits since the last look."""
        known, table = state.known, state.table
        after = max(progress.looked, state.searched)
        found = late_labels(table, after, version, progress.through) if version > after else []
        labels = sorted(set(found))
        if labels and table.spec.completion.late is LateData.REOPEN:
            state.reopen(labels, signal, version)
        elif labels:
            known.ignore(table.name, len(found), version)
            state.written()
        elif version - progress.looked > MOST_RECORDS // 2:  # a restart reads on from what the catalog has
            known.look(table.name, version)
            state.written()
        state.searched, state.searched_at = version, self._clock()

    # -- what it runs -------------------------------------------------------------------------------------

    def _run(self, state: _State, signal: int) -> None:
        table, known = state.table, state.known
        due = [label for label, ms in state.waiting().items() if ms <= signal]
        if not due or self._clock() < state.failed[0] or not self._runs(table):
            return
        action = self._actions.get(table.spec.run_mode)
        # Where nothing is to run, all of it is noted at once: an hour of late data is a hundred partitions.
        for labels in runs_of(table.spec, due, AT_ONCE) if action is not None else [due]:
            if self._ticking.stopping:
                return
            try:
                found = action(table, LabelRange(labels[0], labels[-1])) if action is not None else {}
            except Cancelled:
                return
            except Exception as error:
                log.warning("%s, %s … %s: %s", table.name, labels[0], labels[-1], error)
                state.fail(self._clock(), error)
                return
            outcomes: dict[Outcome, list[str]] = {}
            for label in labels:
                outcomes.setdefault(found.get(label, Outcome(COMPLETE)), []).append(label)
            state.written()
            for outcome, own in outcomes.items():
                known.finish(table.name, own, outcome.word, outcome.detail, table.store.version)
        state.failed = (0.0, "")
        if due[-1] > state.told:  # else late data has run again what is known as complete
            tell_watermark(table.store, signal)
            state.told = due[-1]


def late_labels(table: Table, after: int, through: int, newest: str) -> list[str]:
    """The complete partitions that the stream changed in versions `(after, through]`, once for each commit.

    Corrections are not late: they are what the batch gives.

    Args:
        newest: the newest complete partition.
    """
    changelog, found = table.store.changelog, []
    after = max(after, changelog.removed)
    known = table.store.records(after, through)
    if len(known) != through - after:  # more than are worth reading one by one
        return late(table.spec, changelog.streamed_labels(after, through), newest)
    for version, commit in enumerate(known, start=after + 1):
        if commit is None or (commit.mode == "stream" and commit.partitions is None):
            found += late(table.spec, changelog.streamed_labels(version - 1, version), newest)
        elif commit.mode == "stream":
            found += late(table.spec, commit.partitions or (), newest)
    return found
