"""A bulk snapshot: every table of one source copied at its slot's snapshot, then committed, then handed over.

Nothing is committed before the last row was read. A load that is killed leaves files that no reader sees, a
replication slot and a record that says whose it is; the next attempt begins again at a new slot.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

import pyarrow as pa

from headrace.engine.flow.flow import Flow
from headrace.engine.ingest.direct import SAMPLE_ROWS, agrees
from headrace.engine.snapshot.write import Cut, Target, commit_load, plan_query
from headrace.engine.spark.failpoints import failpoint
from headrace.engine.spark.session import use_pool
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import StgTable
from headrace.errors import TerminalError
from headrace.progress import Progress
from headrace.sources.postgres.access.publication import ensure_publication
from headrace.sources.postgres.bulk.choice import TableFacts, slot_name
from headrace.sources.postgres.bulk.columns import Inexact
from headrace.sources.postgres.bulk.facts import read_facts
from headrace.sources.postgres.bulk.ranges import ALL_PAGES, PageRange, page_ranges
from headrace.sources.postgres.bulk.reading import Reader
from headrace.sources.postgres.bulk.record import LoadRecord, forget, load_record
from headrace.sources.postgres.bulk.slot import drop_slot, exported, slot_exists
from headrace.sources.stream.topics import Topics
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable
from headrace.storage.location import Location
from headrace.store.delta.parts import remove_uncommitted

log = logging.getLogger(__name__)


class NotFirst(TerminalError):
    """The source's tables hold changes already, or somebody else made the slot."""


@dataclass
class BulkLoad:
    """One load.

    Args:
        tables: the stg tables of the source.
        flows: that read them; their derived tables wait meanwhile.
        state: the project's state directory, where the record goes.
        connections: ranges that are read at the same time.
    """

    sessions: Sessions
    connector: Connector
    dsn: str
    tables: Sequence[StgTable]
    flows: Sequence[Flow]
    topics: Topics
    records: Location
    state: Path
    connections: int
    run_id: str
    message: str = ""
    _targets: list[Target] = field(default_factory=list)
    _expected: int = 0

    def run(self, progress: Progress) -> LoadRecord:
        """Load, or answer the record of the load that was done.

        Raises:
            Inexact: the connector must read this source; nothing of the load is left.
            NotFirst: so must it here; nothing was begun.
        """
        begun = time.monotonic()
        known = load_record(self.records, self.connector.name)
        if known is not None and known.complete:
            return known
        offsets = self._check(ours=known is not None)
        slot = slot_name(self.connector.config)
        LoadRecord(self.connector.name, slot, "LOADING").save(self.records)
        topics = {t.topic for t in self.tables}
        with ExitStack() as waiting:
            for flow in self.flows:  # derived tables are computed once, from all of the source
                waiting.enter_context(flow.first_load(topics))
            try:
                point = self._load(slot, offsets, progress)
                seconds = round(time.monotonic() - begun, 3)
                done = LoadRecord(self.connector.name, slot, "LOADED", point, self.rows, seconds)
                done.save(self.records)
            except BaseException:
                self._give_up(slot)
                raise
        log.info("bulk snapshot of %s: %s rows in %.1f s", done.source, f"{done.rows:,}", done.seconds)
        return done

    @property
    def rows(self) -> int:
        return sum(target.rows for target in self._targets)

    def warnings(self) -> str:
        """How far it is, in a line."""
        return f"bulk snapshot of `{self.connector.name}`: {self.message}"

    def _check(self, *, ours: bool) -> dict[str, dict[int, int]]:
        """Where the tables' topics begin. Raises NotFirst where the load would not be the first."""
        if not ours and slot_exists(self.dsn, slot_name(self.connector.config)):
            raise NotFirst(f"the replication slot `{slot_name(self.connector.config)}` exists already")
        ends = self.topics.ends([t.topic for t in self.tables])
        for table in self.tables:
            topic = table.topic
            half_loaded = ours and 0 < table.store.version == table.store.commit.loaded
            if (table.store.version and not half_loaded) or any(ends.get(topic, {}).values()):
                raise NotFirst(f"`{table.name}` has changes already, so this is not its first load")
        return ends

    def _load(self, slot: str, offsets: dict[str, dict[int, int]], progress: Progress) -> int:
        self._say(progress, "making the replication slot")
        sources = {t.source.table for t in self.tables}
        facts = {f.table: f for f in read_facts(self.dsn, sources)}
        for known in facts.values():
            if known.hindrance is not None:
                raise Inexact(f"`{known.table}`: {known.hindrance}")
        scratch = self.state / "scratch" / f"load-{self.connector.name}"
        shutil.rmtree(scratch, ignore_errors=True)
        for table in self.tables:
            if not table.store.version:
                remove_uncommitted(table.store.root)
        self._targets = [Target(t, plan_query(t), scratch / t.name.table) for t in self.tables]
        self._expected = sum(f.rows for f in facts.values())
        drop_slot(self.dsn, slot)
        ensure_publication(self.dsn, self.connector, list(facts))
        try:
            with ExitStack() as stack:
                with exported(self.dsn, self.connector) as at:
                    readers = [
                        stack.enter_context(Reader(self.dsn, at.snapshot)) for _ in range(self.connections)
                    ]
                cut = Cut(at.restart, offsets, self.run_id)
                for target in self._targets:
                    readers[0].hold(target.source)
                self._hold_against_spark(readers[0], progress)
                self._copy(readers, facts, cut, progress)
            failpoint("bulk.copied")
            for target in self._targets:
                self._say(progress, f"committing {target.table.name}")
                commit_load(self.sessions.large, target, cut)
                failpoint("bulk.committed")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return at.lsn

    def _hold_against_spark(self, reader: Reader, progress: Progress) -> None:
        """Let Spark run the query of a table whose sample Arrow would give otherwise."""
        for target in self._targets:
            if target.query is None:
                continue
            source, arrow = target.source, target.arrow
            check = progress.raise_if_cancelled
            found = list(reader.tables(source, arrow, ALL_PAGES, check, limit=SAMPLE_ROWS))
            sample = pa.concat_tables([arrow.empty_table(), *found])
            if not agrees(self.sessions.large, target.table, target.query, sample):
                log.warning("%s: Spark runs its query, Arrow gives other rows", target.table.name)
                target.query = None

    def _copy(
        self, readers: Sequence[Reader], facts: dict[SourceTable, TableFacts], cut: Cut, progress: Progress
    ) -> None:
        """Read every range of every table, each by whichever reader is free."""
        work: SimpleQueue[tuple[Target, int, PageRange]] = SimpleQueue()
        for target in self._targets:
            known = facts[target.source.table]
            for place, pages in enumerate(page_ranges(known.pages, known.bytes)):
                work.put((target, place, pages))
        failed = threading.Event()

        def check() -> None:
            progress.raise_if_cancelled()
            if failed.is_set():
                raise TerminalError("another part of the load failed")

        def read(reader: Reader) -> None:
            try:
                while True:
                    target, place, pages = work.get_nowait()
                    batches = reader.tables(target.source, target.arrow, pages, check)
                    target.take(batches, place, cut.sequence(target.table))
                    self._say(progress, f"copied {self.rows:,} of about {self._expected:,} rows")
            except Empty:
                return
            except BaseException:
                failed.set()
                raise

        self._say(progress, f"copying about {self._expected:,} rows")
        with ThreadPoolExecutor(len(readers), "bulk-copy") as pool:
            futures = [pool.submit(read, reader) for reader in readers]
        errors = [e for f in futures if (e := f.exception()) is not None]
        first = [e for e in errors if str(e) != "another part of the load failed"]
        if errors:
            raise (first or errors)[0]

    def _give_up(self, slot: str) -> None:
        """Leave the source as it was, and the record only where a table is committed already."""
        for target in self._targets:
            target.discard()
        try:
            drop_slot(self.dsn, slot)
            if not any(t.store.version for t in self.tables):
                forget(self.records, self.connector.name)
        except Exception:
            log.exception("the replication slot `%s` of an unfinished load is left", slot)

    def _say(self, progress: Progress, message: str) -> None:
        self.message = message
        progress.report(f"{self.connector.name}: {message}", min(self.rows, self._expected), self._expected)


def settle_beside(sessions: Sessions, flows: Sequence[Flow]) -> None:
    """Compute the derived tables now; whoever loaded does not wait for them."""

    def settle() -> None:
        use_pool(sessions.flow, "flow")
        for flow in flows:
            flow.settle()

    threading.Thread(target=settle, name="settle-after-load", daemon=True).start()
